"""Looking into the in-memory journal."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import takewhile, zip_longest

from daemon.core.errors import UNBILLED
from daemon.core.events import (
    Alarm,
    Consulted,
    Consulting,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    RecordedEvent,
)
from daemon.core.rows import (
    UNSENT_STATES,
    ApprovalRow,
    ChildRow,
    GrantRow,
    InboxRow,
    LoopRow,
    OutboxRow,
    SessionRow,
    TurnRow,
    UsageRow,
)
from daemon.core.trust import Stop
from daemon.store.memory_table import MemoryTable, Undo
from daemon.store.projections import DayLimitRaised
from daemon.store.tables.approvals import EVERYWHERE, is_token_prefix

Charge = tuple[str, datetime, UsageRow]
CALLS, SETTLED = (ModelAsked, Consulting), (ModelReplied, Consulted)


class MemoryReadTx:
    """`ReadTx` over dicts."""

    def __init__(self, undo: Undo) -> None:
        self._inbox: MemoryTable[str, InboxRow] = MemoryTable(undo)
        self._sessions: MemoryTable[str, SessionRow] = MemoryTable(undo)
        self._turns: MemoryTable[str, TurnRow] = MemoryTable(undo)
        self._cancels: MemoryTable[str, str] = MemoryTable(undo)
        self._children: MemoryTable[str, ChildRow] = MemoryTable(undo)
        self._events: MemoryTable[str, tuple[RecordedEvent, ...]] = MemoryTable(undo)
        self._approvals: MemoryTable[tuple[str, str], ApprovalRow] = MemoryTable(undo)
        self._grants: MemoryTable[str, GrantRow] = MemoryTable(undo)
        self._grant_uses: MemoryTable[str, str] = MemoryTable(undo)
        self._outbox: MemoryTable[tuple[str, int], OutboxRow] = MemoryTable(undo)
        self._charges: MemoryTable[int, Charge] = MemoryTable(undo)
        self._loops: MemoryTable[str, LoopRow] = MemoryTable(undo)
        self._raises: MemoryTable[int, DayLimitRaised] = MemoryTable(undo)
        self._kept: MemoryTable[tuple[str, str], str] = MemoryTable(undo)

    def get_session(self, session: str) -> SessionRow | None:
        """One session."""
        return self._sessions.get(session)

    def list_sessions(self) -> list[SessionRow]:
        """All sessions, newest first."""
        return list(self._sessions)[::-1]

    def list_channel_sessions(self, channel: str, limit: int) -> list[SessionRow]:
        """The conversations of this channel, those with the latest message first."""
        latest = {row.session: n for n, row in enumerate(self._inbox)}
        rows = [row for row in self.list_sessions() if row.channel == channel and not row.root]
        return sorted(rows, key=lambda row: latest.get(row.id, -1), reverse=True)[:limit]

    def get_input(self, input_id: str) -> InboxRow | None:
        """One accepted message."""
        return self._inbox.get(input_id)

    def get_turn_input(self, turn_id: str) -> InboxRow | None:
        """The message that began, or will begin, this turn."""
        return next((row for row in self._inbox if row.turn == turn_id), None)

    def list_waiting_inputs(self, session: str) -> list[InboxRow]:
        """Messages in state new, oldest first; those that steer a turn included."""
        return [row for row in self._inbox if row.session == session and row.state == "new"]

    def list_inputs(self, state: str) -> list[InboxRow]:
        """Messages in this state, in order of acceptance."""
        return [row for row in self._inbox if row.state == state]

    def get_turn(self, turn_id: str) -> TurnRow | None:
        """One turn that has begun."""
        return self._turns.get(turn_id)

    def list_turns(self, session: str | None, limit: int) -> list[TurnRow]:
        """Turns, newest first; of one session, or of all."""
        return [row for row in self._turns if session in (None, row.session)][::-1][:limit]

    def list_unfinished_turns(self, session: str) -> list[TurnRow]:
        """Turns running or suspended, oldest first."""
        return [row for row in self._turns if row.session == session and row.ended_at is None]

    def list_unfinished_sessions(self) -> list[str]:
        """Sessions with a message in state new, or a turn that has not ended."""
        waiting = {row.session for row in self._inbox if row.state == "new"}
        return sorted(waiting | {row.session for row in self._turns if row.ended_at is None})

    def get_cancel_reason(self, turn_id: str) -> str:
        """Why somebody stopped this turn; "" when nobody did."""
        return self._cancels.get(turn_id) or ""

    def list_events(self, turn_id: str, after: int = 0) -> list[RecordedEvent]:
        """The events of a turn with seq greater than `after`, in order."""
        return [one for one in self._events.get(turn_id) or () if one.seq > after]

    def get_child(self, turn_id: str) -> ChildRow | None:
        """Whose child this turn is, begun or not; None for one that nobody set to work."""
        return self._children.get(turn_id)

    def list_children(self, turn_id: str) -> list[ChildRow]:
        """The agents that this turn set to work, oldest first."""
        return [row for row in self._children if row.parent == turn_id]

    def list_running_children(self, session: str) -> list[ChildRow]:
        """The agents at work for turns of this session, oldest first."""
        return [row for row in self._children if row.parent_session == session and not row.done]

    def list_approvals(
        self, state: str | None = None, session: str | None = None
    ) -> list[ApprovalRow]:
        """Questions, oldest first, filtered by state and session where given; those of agents that work for it included."""
        wanted = {row.id for row in self._sessions if session and row.root == session} | {session}
        return [
            row
            for row in self._approvals
            if state in (None, row.state) and (session is None or row.session in wanted)
        ]

    def get_approval(self, turn_id: str, call_id: str) -> ApprovalRow | None:
        """The question about one call."""
        return self._approvals.get((turn_id, call_id))

    def find_approval(self, prefix: str) -> ApprovalRow | None:
        """The question whose token's hash starts like this; None for less than 32 hexadecimal digits."""
        if not is_token_prefix(prefix):
            return None
        return next(
            (row for row in [*self._approvals][::-1] if row.token_hash.startswith(prefix)), None
        )

    def kept(self, kind: str, name: str) -> str | None:
        """What is kept under this name; None when nothing is."""
        return self._kept.get((kind, name))

    def all_kept(self, kind: str) -> dict[str, str]:
        """Everything of this kind, by name, in order of the names."""
        return {
            name: self._kept[(kind, name)]
            for name in sorted(name for one, name in self._kept.names() if one == kind)
        }

    def list_grants(self, session: str) -> list[GrantRow]:
        """Standing permissions that hold in this session; all of them for session "*"."""
        return [
            row for row in self._grants if session == EVERYWHERE or row.session in ("", session)
        ]

    def is_grant_used(self, call: str) -> bool:
        """This call has used a permission that still stands."""
        return self._grant_uses.get(call) is not None

    def get_loop(self, loop_id: str) -> LoopRow | None:
        """One loop."""
        return self._loops.get(loop_id)

    def list_loops(self, agent: str | None = None, limit: int = 50) -> list[LoopRow]:
        """Loops, newest first; of one agent, or of all."""
        return [row for row in self._loops if agent in (None, row.agent)][::-1][:limit]

    def list_running_loops(self, agent: str | None = None) -> list[LoopRow]:
        """Loops that have not ended, oldest first; of one agent, or of all."""
        return [row for row in self._loops if row.ended_at is None and agent in (None, row.agent)]

    def list_outbox(
        self, state: str, channel: str | None = None, session: str | None = None
    ) -> list[OutboxRow]:
        """Deliveries in this state, in order of creation."""
        rows = [row for row in self._outbox if row.state == state]
        return [
            row for row in rows if channel in (None, row.channel) and session in (None, row.session)
        ]

    def list_turn_outbox(self, turn_id: str) -> list[OutboxRow]:
        """All deliveries of one turn, in order of part."""
        return sorted(
            (row for row in self._outbox if row.turn == turn_id), key=lambda row: row.part
        )

    def get_delivery(self, turn_id: str, part: int) -> OutboxRow | None:
        """One delivery."""
        return self._outbox.get((turn_id, part))

    def list_unsent(self, channel: str) -> list[OutboxRow]:
        """What this channel still has to deliver or to make sure of, in order of creation."""
        return [
            row for row in self._outbox if row.channel == channel and row.state in UNSENT_STATES
        ]

    def find_delivery(self, channel: str, chat: str, message_id: str) -> OutboxRow | None:
        """The latest delivery that became this message of the chat, or of a thread in it."""
        rows = [
            row
            for row in self._outbox
            if row.channel == channel and (row.chat == chat or row.chat.startswith(f"{chat}:"))
        ]
        return next(
            (
                row
                for row in rows[::-1]
                if message_id and message_id in row.platform_message_id.split(" ")
            ),
            None,
        )

    def sum_usage(self, since: datetime, session: str | None = None) -> list[UsageRow]:
        """What was used since then, a row per provider and model."""
        sums: dict[tuple[str, str], UsageRow] = {}
        for owner, at, row in self._charges:
            if at >= since and session in (None, owner):
                known = sums.get((row.provider, row.model))
                sums[row.provider, row.model] = _sum(known, row) if known else row
        return [sums[key] for key in sorted(sums)]

    def list_recent_stops(self, agent: str, limit: int) -> list[Stop]:
        """Why the latest turns of this agent ended, newest first, back to the one that raised an alarm (D6)."""
        ended = [
            (row.ended_at, n, row)
            for n, row in enumerate(self._turns)
            if row.agent == agent and row.ended_at
        ]
        newest = [
            row
            for _, _, row in sorted(ended, key=lambda one: one[:2], reverse=True)
            if row.stop_reason
        ][:limit]
        since = takewhile(
            lambda row: not any(isinstance(one.event, Alarm) for one in self.list_events(row.id)),
            newest,
        )
        return [row.stop_reason for row in since if row.stop_reason]

    def sum_unsettled(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD reserved since then for model calls that were cut off: they count as spent (F2)."""
        lost = [call for row in self._turns for call in _cut_off(self.list_events(row.id), since)]
        return sum(call.reserved_tokens for call in lost), sum(
            (call.reserved_usd or 0.0 for call in lost), 0.0
        )

    def sum_day_raises(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD that people let the day cost beyond its limit since then."""
        raises = [raised for raised in self._raises if raised.at >= since]
        return sum(raised.tokens for raised in raises), sum((raised.usd for raised in raises), 0.0)

    def count_stops(self, since: datetime) -> dict[str, int]:
        """How many turns ended since then, by stop reason (D6)."""
        counts: dict[str, int] = {}
        for row in self._turns:
            if row.ended_at and row.ended_at >= since and row.stop_reason:
                counts[row.stop_reason.value] = counts.get(row.stop_reason.value, 0) + 1
        return counts


def _cut_off(
    recorded: Sequence[RecordedEvent], since: datetime
) -> Iterator[ModelAsked | Consulting]:
    told = [
        one.event
        for one in recorded
        if one.at >= since and isinstance(one.event, (*CALLS, *SETTLED, ModelFailed))
    ]
    for event, following in zip_longest(told, told[1:]):
        refused = isinstance(following, ModelFailed) and following.error in UNBILLED
        if isinstance(event, CALLS) and not (refused or isinstance(following, SETTLED)):
            yield event


def _sum(one: UsageRow, other: UsageRow) -> UsageRow:
    return UsageRow(
        one.provider,
        one.model,
        one.calls + other.calls,
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cached_tokens + other.cached_tokens,
        None if one.usd is None or other.usd is None else one.usd + other.usd,
    )
