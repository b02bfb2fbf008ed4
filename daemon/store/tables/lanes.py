"""Who may write for a session: the epoch rises with every claim and fences former owners (B5 #19)."""

from daemon.core.errors import Fenced
from daemon.store.protocol import UnknownTurn
from daemon.store.tables.rows import Rows

CLAIM = """INSERT INTO lanes (session, owner, epoch) VALUES (?, ?, 1)
    ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, epoch = epoch + 1"""
OF_TURN = """SELECT epoch, turns.n FROM lanes LEFT JOIN turns ON turns.id = ?2 AND turns.session = ?1
    WHERE lanes.session = ?1"""
EPOCH = "SELECT epoch FROM lanes WHERE session = ?"


class Lanes(Rows):
    """The lanes table."""

    def claim(self, session: str, owner: str) -> int:
        """Become the one worker of the session; gives the new epoch."""
        self._db.execute(CLAIM, (session, owner))
        return int(self._db.execute(EPOCH, (session,)).fetchone()[0])

    def check_epoch(self, session: str, epoch: int) -> None:
        """Raises Fenced when another worker has claimed the session since."""
        if self._db.execute(EPOCH, (session,)).fetchone() != (epoch,):
            raise Fenced()

    def check_turn(self, session: str, epoch: int, turn_id: str) -> None:
        """The same for a turn of the session. Raises Fenced, UnknownTurn."""
        found = self._db.execute(OF_TURN, (session, turn_id)).fetchone()
        if found is None or found[0] != epoch:
            raise Fenced()
        if found[1] is None:
            raise UnknownTurn(f"turn {turn_id} has not begun in session {session}; nothing was written")
