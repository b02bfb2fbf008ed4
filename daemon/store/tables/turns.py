"""Turns at a glance, their events, which agents they set to work; attempts without progress; which
turns were stopped; what days cost: model calls that were settled, what people allowed beyond the
limit, reservations of calls that were cut off.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from itertools import takewhile
from typing import Any

from daemon.core.clock import EPOCH, number_day
from daemon.core.events import RecordedEvent, Steered, UserSaid
from daemon.core.messages import Usage
from daemon.core.rows import ChildRow, SessionRow, TurnRow, UsageRow
from daemon.core.trust import Stop
from daemon.store.codec import UnreadableEvent, decode, encode
from daemon.store.tables.base import Get, List, RowMapper, Run, Table, Value, from_db, to_db

TURNS = RowMapper(TurnRow, "turns")
TURN_FILTERS = {
    "session": "session = ?{0}",
    "agent": "agent = ?{0}",
    "state": "(state = ?{0} OR stop_reason = ?{0})",
    "prefix": "id >= ?{0} AND id < ?{0} || char(1114111)",
    "after": "n < (SELECT n FROM turns WHERE id = ?{0})",
}
ENDED = TURNS.select.replace("SELECT", "SELECT ended_n,", 1)
BY_PEOPLE = "kind IN ('UserSaid', 'Steered')"
SAID_IN = f"""SELECT kind, version, payload FROM events WHERE turn = ? AND {BY_PEOPLE}
    ORDER BY seq"""
SAID = f"""SELECT turns.id, seq, at, kind, version, payload FROM turns
    CROSS JOIN events ON events.turn = turns.id AND {BY_PEOPLE}
    WHERE ended_n > ? AND ended_n <= ? ORDER BY ended_n, seq"""
SUM_TURNS = """SELECT COUNT(*) FILTER (WHERE session = ?1), CASE WHEN COUNT(*) FILTER (WHERE
    ended_at IS NOT NULL AND usd IS NULL) = 0 THEN TOTAL(usd) FILTER (WHERE ended_at IS NOT NULL)
    END FROM turns WHERE session IN (SELECT id FROM sessions WHERE id = ?1 OR (root = ?1 AND
    root <> ''))"""
SUM_TREE = """WITH RECURSIVE below(id) AS (SELECT ?1
    UNION SELECT children.turn FROM children JOIN below ON children.parent = below.id)
    SELECT TOTAL(input_tokens), TOTAL(output_tokens), TOTAL(cached_tokens),
    CASE WHEN COUNT(*) = COUNT(usd) THEN TOTAL(usd) END FROM turns JOIN below USING (id)"""
UNFINISHED_SESSIONS = """SELECT session FROM inbox WHERE state IN ('new', 'ordered') AND state =
    'new'
    UNION SELECT session FROM turns WHERE ended_at IS NULL ORDER BY session"""
PRIVATE_EVENTS = """SELECT EXISTS (SELECT 1 FROM turns JOIN events ON events.turn = turns.id
    WHERE turns.session IN (SELECT id FROM sessions WHERE id = ?1 OR (root = ?1 AND root <> ''))
    AND CASE events.kind
        WHEN 'ChildReturned' THEN 1
        WHEN 'ToolFinished' THEN payload ->> '$.public' IS NOT 1
            OR payload ->> '$.tool' IN ('remember', 'mail_send', 'mail_draft')
        WHEN 'UserSaid' THEN EXISTS (SELECT 1 FROM json_each(payload, '$.memories')
            WHERE value ->> '$.private' IS NOT 0)
            OR payload ->> '$.outcomes' <> '' END)"""
SALIENT_EVENTS = """SELECT kind, version, payload FROM
    (SELECT n, id FROM turns WHERE session = ? AND started_at > ?
    ORDER BY n DESC LIMIT ? OFFSET ?) AS older JOIN events ON events.turn = older.id
    WHERE kind IN ('UserSaid', 'Steered') AND json_valid(payload)
    AND payload ->> '$.importance' >= ? ORDER BY n, seq"""
COUNT_STOPS = """WITH RECURSIVE agents(agent) AS (
        SELECT MIN(agent) FROM turns WHERE stop_reason IS NOT NULL
        UNION ALL SELECT (SELECT MIN(t.agent) FROM turns AS t WHERE t.stop_reason IS NOT NULL AND
        t.agent > agents.agent)
        FROM agents WHERE agents.agent IS NOT NULL)
    SELECT stop_reason, COUNT(*) FROM agents JOIN turns USING (agent)
    WHERE stop_reason IS NOT NULL AND ended_at >= ? GROUP BY stop_reason"""
RECENT_STOPS = """SELECT stop_reason, EXISTS (SELECT 1 FROM events WHERE turn = id AND kind =
    'Alarm') FROM turns
    WHERE agent = ? AND stop_reason IS NOT NULL ORDER BY ended_at DESC, n DESC LIMIT ?"""
END = """UPDATE turns SET state = ?, stop_reason = ?, detail = ?, reply = ?, ended_at = ?,
    ended_n = (SELECT COALESCE(MAX(ended_n), 0) + 1 FROM turns) WHERE id = ?"""
ATTEMPT = """attempts = CASE WHEN progress = ?2 THEN attempts + ?3 ELSE 1 END, progress = ?2"""
ADD_ATTEMPT = f"UPDATE inbox SET {ATTEMPT} WHERE turn = ?1 RETURNING attempts"
TAKE_INPUT = f"""UPDATE inbox SET state = iif(state = 'new', 'taken', state), {ATTEMPT}
    WHERE id = ?1"""

COPY_EVENTS = """INSERT INTO events (turn, seq, at, kind, version, payload)
    SELECT ?, seq, at, kind, version, payload FROM events WHERE turn = ?"""
INSERT_EVENT = "INSERT INTO events (turn, seq, at, kind, version, payload) VALUES (?,?,?,?,?,?)"
EVENTS_AFTER = (
    "SELECT seq, at, kind, version, payload FROM events WHERE turn = ? AND seq > ? ORDER BY seq"
)

CHILDREN = RowMapper(ChildRow, "children")
OF_AGENT = "WHERE turn = (SELECT id FROM turns WHERE session = ? ORDER BY n LIMIT 1)"
END_INPUT = "UPDATE inbox SET state = ?, attempts = 0, progress = NULL WHERE turn = ?"
ADD_USAGE = """INSERT INTO daily_usage VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?) ON CONFLICT (day,
    session, provider, model) DO UPDATE SET calls = calls + 1, input_tokens = input_tokens +
    excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens, cached_tokens =
    cached_tokens + excluded.cached_tokens, usd = usd + excluded.usd, unpriced = unpriced +
    excluded.unpriced"""
SUM_USAGE = """SELECT provider, model, SUM(calls), SUM(input_tokens), SUM(output_tokens),
    SUM(cached_tokens), CASE WHEN SUM(unpriced) = 0 THEN SUM(usd) END FROM daily_usage WHERE day
    >= ?1 AND (?2 IS NULL OR session IN (SELECT id FROM sessions WHERE id = ?2 OR (root = ?2 AND
    root <> ''))) GROUP BY provider, model ORDER BY provider, model"""
SESSION_USAGE = """SELECT session, input_tokens, output_tokens, CASE WHEN unpriced = 0 THEN usd END
    FROM daily_usage WHERE day >= ?"""
DAY_COSTS = """SELECT day, SUM(input_tokens + output_tokens), CASE WHEN SUM(unpriced) = 0 THEN
    SUM(usd) END, SUM(calls) FROM daily_usage WHERE day >= ? GROUP BY day ORDER BY day"""
SESSION_COSTS = """SELECT CASE WHEN session LIKE 'memory:%' THEN session ELSE
    coalesce(sessions.id, '') END, SUM(input_tokens + output_tokens), CASE WHEN
    SUM(unpriced) = 0 THEN SUM(usd) END, SUM(calls) FROM daily_usage LEFT JOIN sessions ON
    sessions.id = session WHERE day >= ? GROUP BY 1 ORDER BY SUM(usd) DESC, 2 DESC LIMIT ?"""
ADD_RAISE = """INSERT INTO daily_totals (day, raised_tokens, raised_usd) VALUES (?, ?, ?) ON
    CONFLICT (day) DO UPDATE SET raised_tokens = raised_tokens + excluded.raised_tokens,
    raised_usd = raised_usd + excluded.raised_usd"""
SUM_RAISES = """SELECT COALESCE(SUM(raised_tokens), 0), COALESCE(SUM(raised_usd), 0.0) FROM
    daily_totals WHERE day >= ?"""
ADD_LOST = """INSERT INTO daily_totals (day, lost_tokens, lost_usd) SELECT ?, reserved_tokens,
    reserved_usd FROM turns WHERE id = ? AND (reserved_tokens OR reserved_usd) ON CONFLICT (day)
    DO UPDATE SET lost_tokens = lost_tokens + excluded.lost_tokens, lost_usd = lost_usd +
    excluded.lost_usd"""
KEEP_LOST = """UPDATE turns SET lost_usd = lost_usd + reserved_usd, reserved_tokens = 0,
    reserved_usd = 0 WHERE id = ?"""
SUM_LOST = """SELECT COALESCE(SUM(tokens), 0), COALESCE(SUM(usd), 0.0) FROM (
    SELECT lost_tokens AS tokens, lost_usd AS usd FROM daily_totals WHERE day >= ?
    UNION ALL SELECT reserved_tokens, reserved_usd FROM turns WHERE ended_at IS NULL)"""


class TurnTables(Table):
    """The turns, cancels, events, children, daily_usage and daily_totals tables; attempts are
    counted beside the message that began the turn. Days are the owner's; a span counts from the
    beginning of its first day.
    """

    get_turn = Get[[str], TurnRow](TURNS, "WHERE id = ?")
    """One turn that has begun."""

    list_turns = List[[str, int], TurnRow](TURNS, "WHERE session = ? ORDER BY n DESC LIMIT ?")
    """Turns of a session, newest first; -1 is no limit."""

    def list_all_turns(self, limit: int, **filters: str | None) -> list[TurnRow]:
        """Turns of all sessions, newest first; those that fit the filters (TURN_FILTERS): `state`
        is a state or a stop reason, `prefix` the begin of an id, `after` the last id of the page
        before.
        """
        given = {name: value for name, value in filters.items() if value}
        parts = [TURN_FILTERS[name].format(at) for at, name in enumerate(given, 2)]
        where = f"WHERE {' AND '.join(parts)} " if parts else ""
        return self._all(TURNS, f"{where}ORDER BY n DESC LIMIT ?1", limit, *given.values())

    def list_said(self, turn_id: str) -> list[UserSaid | Steered]:
        """What people said in the turn; unreadable ones are left out."""
        said: list[Any] = []
        for stored in self._do(SAID_IN, turn_id):
            with suppress(UnreadableEvent):
                said.append(decode(*stored))
        return said

    def add_turn(self, row: TurnRow, recorded: Sequence[RecordedEvent]) -> None:
        """A turn with events of another one: nothing follows from them a second time."""
        self._insert(TURNS, "", row)
        rows = [(row.id, one.seq, to_db(one.at), *encode(one.event)) for one in recorded]
        self._db.executemany(INSERT_EVENT, rows)

    def copy_turn(self, row: TurnRow, source: str) -> None:
        """A turn with all the events of another one, beside the order in which turns ended."""
        self._insert(TURNS, "", row)
        self._run(COPY_EVENTS, row.id, source)

    def sum_turns(self, session: str) -> tuple[int, float | None]:
        """How many turns the session has, and what they and those for it cost that have ended;
        None with an unknown price among them.
        """
        return self._do(SUM_TURNS, session).fetchone()

    def sum_tree(self, turn: str) -> Usage:
        """What a turn and all agents below it have used."""
        *tokens, usd = self._do(SUM_TREE, turn).fetchone()
        return Usage(*map(int, tokens), usd=usd)

    has_private_events = Value[[str], bool](PRIVATE_EVENTS)
    """Something of the owner's was shown in a turn of the session, or kept: see
    core.provenance.list_private_sources.
    """

    def list_ended(self, after: int, limit: int) -> list[tuple[int, TurnRow]]:
        """In the order in which they ended: the number of each, from 1, and itself."""
        found = self._do(f"{ENDED} WHERE ended_n > ? ORDER BY ended_n LIMIT ?", after, limit)
        return [(number, TURNS.load(turn)) for number, *turn in found]

    def list_said_events(self, after: int, last: int) -> dict[str, list[Sequence[Any]]]:
        """What people said, by the turns that ended after this number and up to the last; each for
        `read_events`.
        """
        said = defaultdict[str, list[Sequence[Any]]](list)
        for turn, *stored in self._do(SAID, after, last):
            said[turn].append(stored)
        return said

    count_ended = Value[[], int]("SELECT COALESCE(MAX(ended_n), 0) FROM turns")
    """The number of the turn that ended last, 0 for none."""

    find_ended = Value[[int], str]("SELECT COALESCE(MAX(id), '') FROM turns WHERE ended_n = ?")
    """The turn with this number; "" for none."""

    list_unfinished_turns = List[[str], TurnRow](
        TURNS, "WHERE ended_at IS NULL AND session = ? ORDER BY n"
    )
    """Turns of the session that run or are suspended, oldest first."""

    list_running_turns = List[[int], TurnRow](TURNS, "WHERE ended_at IS NULL ORDER BY n LIMIT ?")
    """Turns of all sessions that run or are suspended, so many, oldest first."""

    def list_unfinished_sessions(self) -> list[str]:
        """Sessions with a message in state new, or a turn that has not ended: what a start has to
        take up again.
        """
        return [session for (session,) in self._do(UNFINISHED_SESSIONS)]

    def count_stops(self, since: datetime) -> dict[str, int]:
        """How many turns ended since then, by stop reason (D6)."""
        return dict(self._do(COUNT_STOPS, since).fetchall())

    def list_recent_stops(self, agent: str, limit: int) -> list[Stop]:
        """Why the latest turns of this agent ended, newest first, back to the one that raised an
        alarm (D6).
        """
        found = self._do(RECENT_STOPS, agent, limit)
        return [Stop(reason) for reason, _ in takewhile(lambda row: not row[1], found)]

    get_cancel_reason = Value[[str], str](
        "SELECT COALESCE(MAX(why), '') FROM cancels WHERE turn = ?"
    )
    """Why somebody stopped this turn, which has not ended yet; "" when nobody did."""

    request_cancel = Run[[str, str]](
        "INSERT INTO cancels (turn, why) VALUES (?, ?) ON CONFLICT (turn) DO NOTHING"
    )
    """Somebody stopped the turn, begun or not; the first word stands until it ends or is set
    aside.
    """

    count_attempts = Value[[str], float](
        "SELECT COALESCE(MAX(attempts), 0.0) FROM inbox WHERE turn = ?"
    )
    """How often it was taken up without progress since it made some last; 0 for never."""

    def add_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """A worker takes the turn up at this progress; gives how often that happened at the same
        one: 1, then `blame` more.
        """
        return self._value(ADD_ATTEMPT, turn_id, progress, blame) or 0.0

    reset_attempts = Run[[str]](
        "UPDATE inbox SET attempts = 0, progress = NULL WHERE turn = ? AND attempts > 0"
    )
    """The worker let go in good order: start counting anew."""

    def list_events(self, turn_id: str, after: int = 0) -> list[RecordedEvent]:
        """The events of a turn with seq greater than `after`, in order."""
        return read_events(self._do(EVENTS_AFTER, turn_id, after))

    def list_salient(
        self, session: SessionRow, least: float, *, shown: int, limit: int
    ) -> list[UserSaid | Steered]:
        """What people said in so many turns before the shown ones, since the session was last
        cleared, of at least this importance, oldest first; unreadable ones are left out.
        """
        since, said = to_db(session.cleared_at) if session.cleared_at else 0, []
        for stored in self._do(SALIENT_EVENTS, session.id, since, limit, shown, least):
            with suppress(UnreadableEvent):
                said.append(decode(*stored))
        return said

    get_child = Get[[str], ChildRow](CHILDREN, "WHERE turn = ?")
    """Whose child this turn is, begun or not; None for one that nobody set to work."""

    def find_top_session(self, session: str) -> str:
        """Where the work began that this session's agent was set to; else itself."""
        while child := self._one(CHILDREN, OF_AGENT, session):
            session = child.parent_session
        return session

    list_children = List[[str], ChildRow](CHILDREN, "WHERE parent = ? ORDER BY n")
    """The agents that this turn set to work, oldest first."""

    list_running_children = List[[str], ChildRow](
        CHILDREN, "WHERE parent_session = ? AND NOT done ORDER BY n"
    )
    """The agents at work for turns of this session, oldest first."""

    def list_session_usage(self, since: datetime) -> list[tuple[str, Usage]]:
        """What each session used since then."""
        found = self._do(SESSION_USAGE, number_day(since))
        return [(session, Usage(sent, got, usd=usd)) for session, sent, got, usd in found]

    def sum_usage(self, since: datetime, session: str | None = None) -> list[UsageRow]:
        """What was used since then, a row per provider and model; a sum with an unknown price in it
        is unknown. `session`: there, and by all that works for it.
        """
        return [UsageRow(*found) for found in self._do(SUM_USAGE, number_day(since), session)]

    def list_day_costs(self, since: datetime) -> list[tuple[date, int, float | None, int]]:
        """Tokens, USD and calls of each day since then on which there were any, oldest first."""
        found = self._do(DAY_COSTS, number_day(since)).fetchall()
        return [(EPOCH.date() + timedelta(days=day), *used) for day, *used in found]

    def list_session_costs(
        self, since: datetime, limit: int
    ) -> list[tuple[str, int, float | None, int]]:
        """The sessions that have cost most since then, with their tokens, USD and calls; "" are all
        that are not there any more.
        """
        return self._do(SESSION_COSTS, number_day(since), limit).fetchall()

    def add_usage(
        self, session: str, provider: str, model: str, usage: Usage, at: datetime
    ) -> None:
        """Count a model call, of a turn or of none."""
        tokens = usage.input_tokens, usage.output_tokens, usage.cached_tokens
        price = usage.usd or 0.0, usage.usd is None
        self._run(ADD_USAGE, number_day(at), session, provider, model, *tokens, *price)

    def sum_day_raises(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD that people let the day cost beyond its limit since then (F2)."""
        return self._do(SUM_RAISES, number_day(since)).fetchone()

    def sum_unsettled(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD reserved since then for model calls that were cut off: they count as spent
        (F2).
        """
        return self._do(SUM_LOST, number_day(since)).fetchone()


def read_events(found: Iterable[Sequence[Any]]) -> list[RecordedEvent]:
    """Of rows with seq, at, kind, version and payload. Raises UnreadableEvent."""
    return [RecordedEvent(seq, from_db(at), decode(*stored)) for seq, at, *stored in found]
