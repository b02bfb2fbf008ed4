"""Agents at work for other agents: set to work with the event that says so, waited for, stopped with their parent (A17)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from daemon.agent.config import AgentConfig, SubagentsConfig
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.subagents.composite import SUCCESSFUL_STOPS
from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.budget import Caps
from daemon.core.errors import AidaemonError
from daemon.core.event_bus import EventBus, LiveItem, Quarantined, TurnFinished
from daemon.core.events import ChildSpawned, Event, Limits, UserSaid
from daemon.core.journal import ReadTx, Store
from daemon.core.rows import InboxRow, SessionRow, TurnRow
from daemon.core.trust import Label
from daemon.core.turn import Turn

TRUNCATION_NOTE = "\n[... the rest of the answer was left out ...]"
WakeSession = Callable[[SessionRow, InboxRow], None]
StopTurn = Callable[[SessionRow, str, str], None]
WriteEvent = Callable[[Event], Awaitable[None]]


class TooManySubagents(AidaemonError):
    """No more agents may work in the background of this conversation now."""


@value
class SubagentResult:
    """What a child gave back: why it ended, its answer cut to measure, the label of what it has read."""

    turn: str
    stop_reason: str
    text: str
    label: Label

    @property
    def succeeded(self) -> bool:
        """It came to an end that is no failure."""
        return self.stop_reason in SUCCESSFUL_STOPS


@dataclass(slots=True)
class SubagentManager:
    """One for the whole house. `wake` hands a message to its lane, `stop` stops a turn; both are the sessions', which come later
    than this. The clock of a running turn stands still while a child that it waits for waits for a person: `_awaited` says who
    waits for whom.
    """

    store: Store
    live: EventBus
    config: SubagentsConfig
    defaults: AgentConfig
    specs: AgentRegistry
    new_id: Callable[[], str]
    wake_session: WakeSession | None = None
    stop_turn: StopTurn | None = None
    _running: dict[str, TurnControl] = field(default_factory=dict)
    _parent_of: dict[str, str] = field(default_factory=dict)
    _start_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def spawn_event(
        self,
        turn: Turn,
        key: str,
        task: str,
        *,
        agent: str,
        background: bool = False,
        room: Caps | None = None,
    ) -> ChildSpawned:
        """The event of a new child of this turn; nothing has happened yet. Its id follows from the call, so it cannot be two.

        `room` is the child's own slice of its parent's budget; without it, all that the parent has left of its own.
        """
        depth = turn.spec.depth + 1
        name = uuid5(NAMESPACE_URL, f"{turn.id}/{key}")
        said = turn.events[0].event
        return ChildSpawned(
            key=key,
            child=f"{name.hex[:20]}",
            session=f"sub-{depth}-{name}",
            input_id=f"{name.hex[:20]}.in",
            agent=agent,
            task=task,
            sender=said.sender if isinstance(said, UserSaid) else "",
            label=turn.label,
            limits=self._child_limits(
                turn,
                agent,
                room
                or remaining_caps(turn.limits, turn.spent.input_tokens, turn.spent.charged_usd),
            ),
            depth=depth,
            max_chars=self.config.max_response_chars,
            report=self.new_id() if background else "",
        )

    def _child_limits(self, turn: Turn, agent: str, room: Caps) -> Limits:
        """Its own spec's limits, within what sub-agents may, within what the parent has left; iterations are its own."""
        own = self.specs.get(agent).limits(self.defaults)
        cycles = min(own.max_iterations, self.config.max_iterations)
        return Limits(
            max_iterations=cycles,
            max_iterations_cap=min(own.max_iterations_cap, max(cycles, self.config.max_iterations)),
            max_seconds=min(
                own.max_seconds,
                self.config.timeout_s,
                max(1.0, turn.limits.max_seconds - self.active_seconds_of(turn)),
            ),
            max_input_tokens=min(
                (n for n in (own.max_input_tokens, room.input_tokens) if n is not None),
                default=None,
            ),
            max_usd=min((n for n in (own.max_usd, room.usd) if n is not None), default=None),
        )

    async def start(self, turn: Turn, event: ChildSpawned, write: WriteEvent) -> None:
        """Write it down, with everything that makes the child; then its lane may begin. Raises TooMany."""
        if event.background:
            async with self._start_lock:
                await self._check_capacity(turn.session)
                await write(event)
        else:
            await write(event)
        await self.deliver_input(event.child)

    async def _check_capacity(self, session: str) -> None:
        busy = await self.store.read(
            lambda tx: sum(bool(row.report) for row in tx.list_running_children(session))
        )
        if busy >= self.config.max_background:
            raise TooManySubagents(
                f"{busy} agents are at work in the background already, and that is the most; wait for their results"
            )

    async def deliver_input(self, child: str) -> None:
        """Hand the child's message to its lane, if it has not begun; the same one twice is one."""

        def look(tx: ReadTx) -> tuple[SessionRow | None, InboxRow | None]:
            row = tx.get_turn_input(child)
            return (
                (tx.get_session(row.session), row) if row and row.state == "new" else (None, None)
            )

        session, row = await self.store.read(look)
        if session and row and self.wake_session:
            self.wake_session(session, row)

    async def wait_for_result(self, turn: Turn, event: ChildSpawned) -> SubagentResult:
        """Wait for the child's end, as long as it takes; its own limits see to it that this is not for ever."""
        with (
            self.live.subscribe(event.child, _is_final) as glimpses,
            self._awaiting(turn.id, event.child),
        ):
            row, done, waits = await self.store.read(lambda tx: _load_state(tx, event))
            if waits or self._is_waiting(event.child):
                self.hold_ancestors(event.child)
            if not done:
                await anext(glimpses)
                row, _, _ = await self.store.read(lambda tx: _load_state(tx, event))
        return _make_result(event, row)

    def register_running(self, turn: Turn, control: TurnControl) -> None:
        """A worker has taken this turn up: who waits for it is at work again, too."""
        self._running[turn.id] = control
        self.update_waiting(turn.id)

    def update_waiting(self, turn_id: str) -> None:
        """It is paused, or works."""
        (self.hold_ancestors if self._is_waiting(turn_id) else self.release_ancestors)(turn_id)

    def active_seconds_of(self, turn: Turn) -> float:
        """How many seconds the turn has worked so far."""
        control = self._running.get(turn.id)
        return control.active_seconds if control else turn.spent.seconds

    def hold_ancestors(self, turn_id: str) -> None:
        """This turn waits for a person: the clock of who waits for it stands still meanwhile, and so on upwards."""
        above = self._parent_of.get(turn_id, "")
        if control := self._running.get(above):
            control.hold_clock(turn_id)
            self.hold_ancestors(above)

    def release_ancestors(self, turn_id: str) -> None:
        """It waits no more."""
        above = self._parent_of.get(turn_id, "")
        if control := self._running.get(above):
            control.release_clock(turn_id)
            if not control.is_waiting:
                self.release_ancestors(above)

    async def finish_turn(self, turn_id: str, *, alone: bool = False) -> None:
        """The turn is over, and that is on disk: what was at work for it is stopped now, its report is taken up. One that is
        `alone` has neither.
        """
        self._running.pop(turn_id, None)
        if alone:
            return
        stopped, row = await self.store.read(
            lambda tx: (_load_cancelled(tx, turn_id), tx.get_child(turn_id))
        )
        for session, child in stopped:
            if self.stop_turn:
                self.stop_turn(session, child, "its parent has ended")
        if row and row.report:
            await self.deliver_input(row.report)

    @contextmanager
    def _awaiting(self, turn_id: str, child: str) -> Iterator[None]:
        self._parent_of[child] = turn_id
        try:
            yield
        finally:
            self.release_ancestors(child)
            del self._parent_of[child]

    def _is_waiting(self, turn_id: str) -> bool:
        control = self._running.get(turn_id)
        return control is not None and (control.is_waiting or control.is_paused)


def remaining_caps(limits: Limits, sent: int, usd: float, share: float = 1.0) -> Caps:
    """A part of what is left of these limits when so much is used up."""
    return Caps(
        input_tokens=None
        if limits.max_input_tokens is None
        else int(max(0, limits.max_input_tokens - sent) * share),
        usd=None if limits.max_usd is None else max(0.0, limits.max_usd - usd) * share,
    )


def _load_state(tx: ReadTx, event: ChildSpawned) -> tuple[TurnRow | None, bool, bool]:
    """Its turn, where it has begun; whether it is over, for it may have been set aside before it began; whether it waits."""
    row, kin, session = (
        tx.get_turn(event.child),
        tx.get_child(event.child),
        tx.get_session(event.session),
    )
    waits = (row is not None and row.state == "suspended") or (
        session is not None and session.paused
    )
    return row, bool(kin and kin.done), waits


def _load_cancelled(tx: ReadTx, turn_id: str) -> list[tuple[SessionRow, str]]:
    """The children that the journal says are to stop."""
    below = [
        row for row in tx.list_children(turn_id) if not row.done and tx.get_cancel_reason(row.turn)
    ]
    return [(session, row.turn) for row in below if (session := tx.get_session(row.session))]


def _is_final(item: LiveItem) -> bool:
    return isinstance(item, TurnFinished | Quarantined)


def _make_result(event: ChildSpawned, row: TurnRow | None) -> SubagentResult:
    if row is None or row.state == "quarantined":
        return SubagentResult(
            event.child,
            "quarantined",
            "It was set aside: working on it broke off again and again.",
            event.label,
        )
    text, most = row.reply, event.max_chars
    shown = text if len(text) <= most else text[: most - len(TRUNCATION_NOTE)] + TRUNCATION_NOTE
    return SubagentResult(
        event.child, row.stop_reason.value if row.stop_reason else "failed", shown, row.label
    )


def render_result(returned: SubagentResult) -> str:
    """What the parent's model is told."""
    head = {"turn": returned.turn, "stop_reason": returned.stop_reason}
    return f"{json.dumps(head)}\n{returned.text}"
