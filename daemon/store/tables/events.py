"""The events themselves: the checkpoint, the audit trail and the replay tape."""

from collections.abc import Sequence

from daemon.core.codec import decode, encode
from daemon.core.events import Recorded
from daemon.store.instants import from_db, to_db
from daemon.store.tables.rows import Rows

INSERT = "INSERT INTO events (turn, seq, at, kind, version, payload) VALUES (?,?,?,?,?,?)"
AFTER = "SELECT seq, at, kind, version, payload FROM events WHERE turn = ? AND seq > ? ORDER BY seq"


class Events(Rows):
    """The events table."""

    def events(self, turn_id: str, after: int = 0) -> list[Recorded]:
        """The events of a turn with seq greater than `after`, in order."""
        found = self._db.execute(AFTER, (turn_id, after))
        return [Recorded(seq, from_db(at), decode(kind, version, payload)) for seq, at, kind, version, payload in found]

    def insert_events(self, turn_id: str, recorded: Sequence[Recorded]) -> None:
        """Write them; each payload carries its schema version."""
        for one in recorded:
            self._db.execute(INSERT, (turn_id, one.seq, to_db(one.at), *encode(one.event)))
