"""Conversations, what was set for them, who may write for them; and loops (C1)."""

from datetime import datetime

from daemon.core.errors import Fenced, UnknownTurn
from daemon.core.ids import parse_session_id
from daemon.core.rows import HTTP_ROOT, LoopRow, SessionRow
from daemon.core.trust import Label
from daemon.store.tables.base import Get, Insert, List, RowMapper, Table, Value

SESSIONS = RowMapper(SessionRow, "sessions")
REPLACE = """ON CONFLICT (id) DO UPDATE SET channel = excluded.channel, chat = excluded.chat, label
    = excluded.label, created_at = excluded.created_at, agent = excluded.agent, model =
    excluded.model, effort = excluded.effort, paused = excluded.paused, cleared_at =
    excluded.cleared_at, root = excluded.root"""
LATEST_FIRST = """WHERE channel = ? AND root = '' ORDER BY COALESCE((SELECT MAX(n) FROM turns WHERE
    session = sessions.id), 0) DESC, n DESC LIMIT ?"""
PAGE = "WHERE ?1 IS NULL OR n < (SELECT n FROM sessions WHERE id = ?1) ORDER BY n DESC LIMIT ?2"
CLAIM = """INSERT INTO leases (session, owner, epoch) VALUES (?, ?, 1)
    ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, epoch = epoch + 1 RETURNING epoch"""
LEASE = """SELECT epoch, turns.n FROM leases LEFT JOIN turns ON turns.id = ?2 AND turns.session = ?1
    WHERE leases.session = ?1"""
SHOWN_TURNS = 30  # of a session, to its model
LOOPS = RowMapper(LoopRow, "loops")
UPDATE = """ON CONFLICT (id) DO UPDATE SET label = excluded.label, stage = excluded.stage, attempt
    = excluded.attempt, learned = excluded.learned, final_output = excluded.final_output, error =
    excluded.error, ended_at = excluded.ended_at"""


def is_cleared(began: datetime, session: SessionRow) -> bool:
    """A turn that began then is from before the session was last cleared."""
    return session.cleared_at is not None and began <= session.cleared_at


class SessionTables(Table):
    """The sessions, leases and loops tables. A lease's epoch rises with every claim and fences
    former owners (K19).
    """

    get_session = Get[[str], SessionRow](SESSIONS, "WHERE id = ?")

    def list_sessions(self, limit: int = -1, after: str | None = None) -> list[SessionRow]:
        """Sessions, newest first; -1 is no limit. `after`: those older than this one."""
        return self._all(SESSIONS, PAGE, after, limit)

    list_channel_sessions = List[[str, int], SessionRow](SESSIONS, LATEST_FIRST)
    """So many conversations of this channel, those with the latest message first; those that work
    for others left out.
    """

    list_subsessions = List[[str], SessionRow](SESSIONS, "WHERE root = ? AND root <> '' ORDER BY n")
    """Sessions of agents, loops and events that work for this conversation, oldest first."""

    put_session = Insert(SESSIONS, REPLACE)

    def open_session(self, session: str, at: datetime) -> None:
        """A conversation of people that is to be told of something; it is made where nothing was
        said in it yet.
        """
        if session not in ("", HTTP_ROOT) and self.get_session(session) is None:
            self.put_session(SessionRow(session, *parse_session_id(session), Label.TRUSTED, at))

    claim_session = Value[[str, str], int](CLAIM)
    """Become the one worker of the session. Gives the new epoch, one more than the last; the
    former owner is fenced.
    """

    def check_lease(self, session: str, epoch: int, turn_id: str = "") -> None:
        """Raises Fenced when another worker has claimed the session since, UnknownTurn for a turn
        that has not begun in it.
        """
        found = self._do(LEASE, session, turn_id).fetchone()
        if found is None or found[0] != epoch:
            raise Fenced()
        if turn_id and found[1] is None:
            raise UnknownTurn(
                f"turn {turn_id} has not begun in session {session}; nothing was written"
            )

    get_loop = Get[[str], LoopRow](LOOPS, "WHERE id = ?")

    def list_loops(self, agent: str | None = None, limit: int = 50) -> list[LoopRow]:
        """Loops, newest first; of one agent, or of all."""
        where = "WHERE ?1 IS NULL OR agent = ?1 ORDER BY n DESC LIMIT ?2"
        return self._all(LOOPS, where, agent, limit)

    def list_running_loops(self, agent: str | None = None) -> list[LoopRow]:
        """Loops that have not ended, oldest first; of one agent, or of all."""
        where = "WHERE ended_at IS NULL AND (?1 IS NULL OR agent = ?1) ORDER BY n"
        return self._all(LOOPS, where, agent)

    put_loop = Insert(LOOPS, UPDATE)
    """Insert, or bring up what stands there. Raises Conflict where the agent is at another loop
    (C7).
    """
