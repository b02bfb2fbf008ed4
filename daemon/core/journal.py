"""The seam between the daemon and its journal: one `Store`, whose work is done in functions over a
`Tx`.

A function given to `write` runs as ONE atomic unit, in the order given, in the writer's own thread;
it may run together with others in one disk commit (group commit), and has been flushed to disk when
`write` returns. It must be quick, must not call back into the event loop, and is rolled back alone
when it raises. Functions given to `read` see what is committed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from daemon.core.errors import AidaemonError
from daemon.core.events import ApprovalAsked, RecordedEvent
from daemon.core.messages import Usage
from daemon.core.rows import (
    ApprovalRow,
    ChildRow,
    FileLabel,
    FileVersion,
    GrantRow,
    InboxRow,
    LoopRow,
    OutboxRow,
    OwnerChat,
    PairingCode,
    PersonRow,
    RuleRow,
    RunningCommand,
    SessionRow,
    TurnRow,
    UsageRow,
)
from daemon.core.trust import Answer, Stop

T = TypeVar("T")


class Conflict(AidaemonError):
    """A row of this id stands in the journal already; nothing was written."""


class UnknownTurn(AidaemonError):
    """This turn has not begun in this session; nothing was written."""


class ReadTx(Protocol):
    """Looking."""

    def get_session(self, session: str) -> SessionRow | None:
        """One session."""

    def list_sessions(self, limit: int = -1, after: str | None = None) -> list[SessionRow]:
        """Sessions, newest first; -1 is no limit. `after`: those older than this one."""

    def list_subsessions(self, root: str) -> list[SessionRow]:
        """Sessions of agents, loops and events that work for this conversation, oldest first."""

    def list_channel_sessions(self, channel: str, limit: int) -> list[SessionRow]:
        """The conversations of this channel, those with the latest message first; those that work
        for others left out.
        """

    def get_input(self, input_id: str) -> InboxRow | None:
        """One accepted message."""

    def get_turn_input(self, turn_id: str) -> InboxRow | None:
        """The message that began, or will begin, this turn."""

    def list_waiting_inputs(self, session: str) -> list[InboxRow]:
        """Messages in state new, oldest first; those that steer a turn included."""

    def list_inputs(self, state: str) -> list[InboxRow]:
        """Messages in this state, in order of acceptance."""

    def get_turn(self, turn_id: str) -> TurnRow | None:
        """One turn that has begun."""

    def list_turns(self, session: str | None, limit: int) -> list[TurnRow]:
        """Turns, newest first; of one session, or of all."""

    def list_unfinished_turns(self, session: str) -> list[TurnRow]:
        """Turns running or suspended, oldest first."""

    def list_unfinished_sessions(self) -> list[str]:
        """Sessions with a message in state new, or a turn that has not ended: what a start has to
        take up again.
        """

    def get_cancel_reason(self, turn_id: str) -> str:
        """Why somebody stopped this turn, which has not ended yet; "" when nobody did."""

    def count_attempts(self, turn_id: str) -> float:
        """How often it was taken up without progress since it made some last; 0 for never."""

    def list_events(self, turn_id: str, after: int = 0) -> list[RecordedEvent]:
        """The events of a turn with seq greater than `after`, in order."""

    def get_child(self, turn_id: str) -> ChildRow | None:
        """Whose child this turn is, begun or not; None for one that nobody set to work."""

    def list_children(self, turn_id: str) -> list[ChildRow]:
        """The agents that this turn set to work, oldest first."""

    def list_running_children(self, session: str) -> list[ChildRow]:
        """The agents at work for turns of this session, oldest first."""

    def list_recent_stops(self, agent: str, limit: int) -> list[Stop]:
        """Why the latest turns of this agent ended, newest first, back to the one that raised an
        alarm (D6).
        """

    def sum_unsettled(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD reserved since then for model calls that were cut off: they count as spent
        (F2).
        """

    def sum_day_raises(self, since: datetime) -> tuple[int, float]:
        """Tokens and USD that people let the day cost beyond its limit since then (F2)."""

    def list_approvals(
        self, state: str | None = None, session: str | None = None
    ) -> list[ApprovalRow]:
        """Questions, oldest first, filtered by state and session where given; those of agents that
        work for it included.
        """

    def get_approval(self, turn_id: str, call_id: str) -> ApprovalRow | None:
        """The question about one call."""

    def find_approval(self, prefix: str) -> ApprovalRow | None:
        """The question whose token's hash starts like this; None for less than 32 hexadecimal
        digits.
        """

    def list_grants(self, session: str) -> list[GrantRow]:
        """Standing permissions that hold in this session: its own and those for everywhere; all of
        them for session "*".
        """

    def is_grant_used(self, call: str) -> bool:
        """This call has used a standing permission that nobody has revoked since."""

    def get_loop(self, loop_id: str) -> LoopRow | None:
        """One loop."""

    def list_loops(self, agent: str | None = None, limit: int = 50) -> list[LoopRow]:
        """Loops, newest first; of one agent, or of all."""

    def list_running_loops(self, agent: str | None = None) -> list[LoopRow]:
        """Loops that have not ended, oldest first; of one agent, or of all."""

    def list_outbox(
        self, state: str, channel: str | None = None, session: str | None = None
    ) -> list[OutboxRow]:
        """Deliveries in this state, in order of creation."""

    def list_turn_outbox(self, turn_id: str) -> list[OutboxRow]:
        """All deliveries of one turn, in order of part."""

    def get_delivery(self, turn_id: str, part: int) -> OutboxRow | None:
        """One delivery."""

    def list_unsent(self, channel: str) -> list[OutboxRow]:
        """What this channel still has to deliver or to make sure of (new, sending, uncertain), in
        order of creation.
        """

    def find_delivery(self, channel: str, chat: str, message_id: str) -> OutboxRow | None:
        """The latest delivery that became this message of the chat, or of a thread in it, for
        platforms do not always say which; None for a message of somebody else's.
        """

    def sum_usage(self, since: datetime, session: str | None = None) -> list[UsageRow]:
        """What was used since then, a row per provider and model."""

    def count_stops(self, since: datetime) -> dict[str, int]:
        """How many turns ended since then, by stop reason (D6)."""

    def list_prunable(self, before: datetime, cited: Collection[str], limit: int) -> list[str]:
        """Turns that ended before and whose texts nothing needs any more, oldest first; see
        store/pruning.py.
        """

    def list_with_buttons(self) -> list[OutboxRow]:
        """Questions that stand in a chat with buttons, in order of creation."""

    def get_cursor(self, channel: str) -> str:
        """How far the channel has been read; "" for never."""

    def list_unreadable(self) -> list[tuple[str, str, str]]:
        """(name, why, raw) of the updates that could not be read, oldest first."""

    def get_draft(self, turn_id: str) -> str | None:
        """The message that shows the draft of this turn's reply; None when nothing was noted."""

    def list_drafts(self) -> dict[str, str]:
        """All of them, by turn."""

    def get_shown_questions(self, session: str, person: str) -> str | None:
        """JSON of the questions that this person was last shown."""

    def list_reactions(self, turn_id: str) -> list[str]:
        """What people reacted with to this turn's reply, oldest first."""

    def get_person(self, name: str) -> PersonRow | None:
        """Somebody who was let in by a code."""

    def list_people(self) -> list[PersonRow]:
        """All of them, by name."""

    def list_pairing_codes(self) -> list[PairingCode]:
        """Codes that nobody has used yet."""

    def count_wrong_codes(self, person: str) -> int:
        """How many wrong codes this person has sent of late."""

    def is_known_stranger(self, name: str, now: datetime, within: timedelta) -> bool:
        """This stranger has had an answer, less than `within` from now."""

    def list_owner_chats(self) -> list[OwnerChat]:
        """Where owners were met, the latest first."""

    def get_display_name(self, person: str) -> str:
        """What they call themselves; their own name where that is not known."""

    def list_file_labels(self) -> list[FileLabel]:
        """Labels of places in the workspace."""

    def list_file_versions(self) -> list[FileVersion]:
        """Changes of files, oldest first."""

    def list_running_commands(self) -> list[RunningCommand]:
        """Commands whose changes nobody has looked at yet."""

    def list_rules(self) -> list[RuleRow]:
        """Pinned rules, by number."""

    def get_pins(self, server: str) -> str | None:
        """JSON of the tools that this MCP server may offer; None for one that was never met."""

    def list_pins(self) -> dict[str, str]:
        """All of them, by server."""


class Tx(ReadTx, Protocol):
    """Writing, as one atomic unit."""

    def add_usage(
        self, session: str, provider: str, model: str, usage: Usage, at: datetime
    ) -> None:
        """Count a model call that belongs to no turn."""

    def put_session(self, row: SessionRow) -> None:
        """Insert, or replace what stands there."""

    def accept_input(self, row: InboxRow) -> InboxRow:
        """Insert the message. The same (channel, account, external_id) again changes nothing and
        gives the first one's row.
        """

    def set_input_state(self, input_id: str, state: str) -> None:
        """The message has come to this state; `steers` is emptied when the state is new again."""

    def claim_session(self, session: str, owner: str) -> int:
        """Become the one worker of the session. Gives the new epoch, one more than the last; the
        former owner is fenced.
        """

    def begin_turn(self, row: TurnRow, epoch: int) -> None:
        """A new turn; its input becomes taken. Raises Fenced, Conflict."""

    def add_attempt(self, turn_id: str, progress: int, blame: float = 1.0) -> float:
        """A worker takes the turn up at this progress; gives how often that happened at the same
        one: 1, then `blame` more.
        """

    def reset_attempts(self, turn_id: str) -> None:
        """The worker let go in good order: start counting anew."""

    def request_cancel(self, turn_id: str, why: str) -> None:
        """Somebody stopped the turn, begun or not; the first word stands until it ends or is set
        aside.
        """

    def append_events(
        self, session: str, epoch: int, turn_id: str, recorded: Sequence[RecordedEvent]
    ) -> None:
        """Write events, and what follows from them in the other tables (see store/project.py).
        Raises Fenced, UnknownTurn.
        """

    def quarantine(self, turn_id: str, at: datetime, notice: str) -> None:
        """Set the turn and its message aside for good; `notice` goes to the session's outbox."""

    def answer_approval(
        self, turn_id: str, call_id: str, answer: Answer, by: str, reason: str, now: datetime
    ) -> ApprovalRow | None:
        """Answer once: None when it is not pending any more or has expired (the row then turns
        expired).
        """

    def open_question(self, turn_id: str, asked: ApprovalAsked, at: datetime) -> None:
        """A question about a turn that has ended (C3); put to people like one of a turn. Raises
        UnknownTurn.
        """

    def set_approval_state(self, turn_id: str, call_id: str, state: str) -> None:
        """The question has come to this state."""

    def put_loop(self, row: LoopRow) -> None:
        """Insert, or bring up what stands there. Raises Conflict where the agent is at another loop
        (C7).
        """

    def add_grant(self, row: GrantRow) -> None:
        """A standing permission."""

    def revoke_grant(self, grant_id: str) -> bool:
        """Take it back; False when there is none of that id."""

    def use_grant(self, grant_id: str, call: str, now: datetime) -> bool:
        """Count one use of it, by this call; False when none is left, it has lapsed, or the call
        has used one already.
        """

    def post_delivery(self, row: OutboxRow) -> None:
        """Something to deliver that is not the outcome of an event; the part is chosen by the store
        when negative.
        """

    def mark_delivery(
        self, turn_id: str, part: int, state: str, platform_message_id: str = "", error: str = ""
    ) -> None:
        """Set the state of a delivery; `error` says why. `sending` counts one more attempt."""

    def post_to_session(
        self, session: str, turn_id: str, kind: str, body: str, at: datetime
    ) -> None:
        """Something to deliver to the people of a session, or of the one that it works for."""

    def prune_turns(self, turns: Iterable[str]) -> None:
        """Remove what these turns said; their ids and keys stay."""

    def set_buttons(self, turn_id: str, part: int, shown: bool) -> None:
        """Whether the delivered question stands in the chat with buttons."""

    def put_cursor(self, channel: str, cursor: str) -> None:
        """How far the channel has been read."""

    def add_unreadable(self, name: str, at: datetime, why: str, raw: str, limit: int) -> None:
        """An update that could not be read; only the latest `limit` are kept."""

    def put_draft(self, turn_id: str, message: str) -> None:
        """The message that shows the draft of this turn's reply."""

    def remove_draft(self, turn_id: str) -> None:
        """The draft is gone, or has become the reply."""

    def put_shown_questions(self, session: str, person: str, shown: str) -> None:
        """JSON of the questions that this person was shown."""

    def put_reaction(self, turn_id: str, sender: str, emoji: str) -> None:
        """The sender's only reaction to this turn's reply; "" takes it away."""

    def put_person(self, row: PersonRow) -> None:
        """Insert, or replace."""

    def remove_person(self, name: str) -> bool:
        """False when nobody is known by this name."""

    def add_pairing_code(self, row: PairingCode) -> None:
        """A code that somebody may use."""

    def remove_pairing_code(self, digest: str) -> None:
        """It was used."""

    def remove_stale_pairing(self, now: datetime, wrong_before: datetime) -> None:
        """Delete codes that have expired, and wrong codes that count no longer."""

    def add_wrong_code(self, person: str, at: datetime) -> None:
        """This person has sent a wrong code."""

    def remove_wrong_codes(self, person: str) -> None:
        """They have sent the right one."""

    def add_stranger(self, name: str, now: datetime, within: timedelta, limit: int) -> bool:
        """This stranger gets an answer; False when `limit` others have had one, less than `within`
        from now.
        """

    def put_owner_chat(self, row: OwnerChat) -> None:
        """An owner was met there."""

    def remove_owner_chat(self, channel: str) -> None:
        """No owner is there any more."""

    def put_display_name(self, person: str, name: str) -> None:
        """What they call themselves."""

    def put_file_labels(self, rows: Iterable[FileLabel]) -> None:
        """Insert, or replace."""

    def remove_file_labels(self, paths: Iterable[str]) -> None:
        """Delete the labels of these places."""

    def put_file_versions(self, rows: Iterable[FileVersion]) -> None:
        """Insert; of a known one only `undone` changes."""

    def remove_file_versions(self, names: Iterable[str]) -> None:
        """Delete these changes."""

    def add_running_command(self, row: RunningCommand) -> None:
        """A command starts."""

    def remove_running_commands(self, names: Iterable[str]) -> None:
        """Their changes have been looked at."""

    def add_rule(self, said: str, matcher: str, session: str, sender: str) -> int:
        """A pinned rule; gives its number."""

    def confirm_rule(self, number: int) -> bool:
        """Its owner says that it was read rightly; False when there is none."""

    def remove_rule(self, number: int) -> bool:
        """False when there is none."""

    def put_pins(self, server: str, pins: str) -> None:
        """JSON of the tools that this MCP server may offer."""


class Store(Protocol):
    """The journal."""

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run as one atomic unit; on disk when this returns. Raises what `work` raised, or
        StoreUnavailable.
        """

    async def read(self, look: Callable[[ReadTx], T]) -> T:
        """Run over what is committed."""

    def watch_outbox(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after each commit that holds something new to deliver, in the event
        loop; gives what ends that.
        """

    @property
    def healthy(self) -> bool:
        """The last commit worked."""

    async def aclose(self) -> None:
        """Finish what is queued, then close."""
