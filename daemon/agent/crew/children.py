"""Agents at work for other agents: set to work with the event that says so, waited for, stopped with their parent (A17)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import NAMESPACE_URL, uuid5

from daemon.agent.composite import WELL
from daemon.agent.config import AgentConfig, SubagentsConfig
from daemon.agent.lanes.control import Control
from daemon.agent.specs.registry import Specs
from daemon.core.budget import Caps
from daemon.core.errors import AidaemonError
from daemon.core.events import ChildSpawned, Event, Limits, UserSaid
from daemon.core.label import Label
from daemon.core.live import Glimpse, Live, Over, SetAside
from daemon.core.rows import InboxRow, SessionRow, TurnRow
from daemon.core.turn import Turn
from daemon.store.protocol import ReadTx, Store

CUT = "\n[... the rest of the answer was left out ...]"
Wake = Callable[[SessionRow, InboxRow], None]
Stop = Callable[[SessionRow, str, str], None]
Write = Callable[[Event], Awaitable[None]]


class TooMany(AidaemonError):
    """No more agents may work in the background of this conversation now."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What a child gave back: why it ended, its answer cut to measure, the label of what it has read."""

    turn: str
    stop: str
    text: str
    label: Label

    @property
    def well(self) -> bool:
        """It came to an end that is no failure."""
        return self.stop in WELL


@dataclass(slots=True)
class Children:
    """One for the whole house. `wake` hands a message to its lane, `stop` stops a turn; both are the sessions', which come later
    than this. The clock of a running turn stands still while a child that it waits for waits for a person: `_awaited` says who
    waits for whom.
    """

    store: Store
    live: Live
    config: SubagentsConfig
    defaults: AgentConfig
    specs: Specs
    new_id: Callable[[], str]
    wake: Wake | None = None
    stop: Stop | None = None
    _running: dict[str, Control] = field(default_factory=dict)
    _awaited: dict[str, str] = field(default_factory=dict)
    _beginning: asyncio.Lock = field(default_factory=asyncio.Lock)

    def spawned(
        self, turn: Turn, key: str, task: str, *, agent: str, background: bool = False, room: Caps | None = None
    ) -> ChildSpawned:
        """The event of a new child of this turn; nothing has happened yet. Its id follows from the call, so it cannot be two.

        `room` is the child's own slice of its parent's budget; without it, all that the parent has left of its own.
        """
        depth = turn.terms.depth + 1
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
            limits=self._limits(turn, agent, room or room_of(turn.limits, turn.spent.input_tokens, turn.spent.charged_usd)),
            depth=depth,
            max_chars=self.config.max_response_chars,
            report=self.new_id() if background else "",
        )

    def _limits(self, turn: Turn, agent: str, room: Caps) -> Limits:
        """Its own spec's limits, within what sub-agents may, within what the parent has left; iterations are its own."""
        own = self.specs.get(agent).limits(self.defaults)
        cycles = min(own.max_iterations, self.config.max_iterations)
        return Limits(
            max_iterations=cycles,
            max_iterations_cap=min(own.max_iterations_cap, max(cycles, self.config.max_iterations)),
            max_seconds=min(own.max_seconds, self.config.timeout_s, max(1.0, turn.limits.max_seconds - self.worked(turn))),
            max_input_tokens=min((n for n in (own.max_input_tokens, room.sent) if n is not None), default=None),
            max_usd=min((n for n in (own.max_usd, room.usd) if n is not None), default=None),
        )

    async def begin(self, turn: Turn, event: ChildSpawned, write: Write) -> None:
        """Write it down, with everything that makes the child; then its lane may begin. Raises TooMany."""
        if event.background:
            async with self._beginning:
                await self._make_room(turn.session)
                await write(event)
        else:
            await write(event)
        await self.rouse(event.child)

    async def _make_room(self, session: str) -> None:
        busy = await self.store.read(lambda tx: sum(bool(row.report) for row in tx.busy_children(session)))
        if busy >= self.config.max_background:
            raise TooMany(f"{busy} agents are at work in the background already, and that is the most; wait for their results")

    async def rouse(self, child: str) -> None:
        """Hand the child's message to its lane, if it has not begun; the same one twice is one."""

        def look(tx: ReadTx) -> tuple[SessionRow | None, InboxRow | None]:
            row = tx.input_of(child)
            return (tx.session(row.session), row) if row and row.state == "new" else (None, None)

        session, row = await self.store.read(look)
        if session and row and self.wake:
            self.wake(session, row)

    async def returned(self, turn: Turn, event: ChildSpawned) -> Returned:
        """Wait for the child's end, as long as it takes; its own limits see to it that this is not for ever."""
        with self.live.watch(event.child, _is_over) as glimpses, self._waiting(turn.id, event.child):
            row, done, waits = await self.store.read(lambda tx: _known(tx, event))
            if waits or self._stands(event.child):
                self.waits(event.child)
            if not done:
                await anext(glimpses)
                row, _, _ = await self.store.read(lambda tx: _known(tx, event))
        return _returned(event, row)

    def runs(self, turn: Turn, control: Control) -> None:
        """A worker has taken this turn up: who waits for it is at work again, too."""
        self._running[turn.id] = control
        self.changed(turn.id)

    def changed(self, turn_id: str) -> None:
        """It is paused, or works."""
        (self.waits if self._stands(turn_id) else self.goes_on)(turn_id)

    def worked(self, turn: Turn) -> float:
        """How many seconds the turn has worked so far."""
        control = self._running.get(turn.id)
        return control.seconds if control else turn.spent.seconds

    def waits(self, turn_id: str) -> None:
        """This turn waits for a person: the clock of who waits for it stands still meanwhile, and so on upwards."""
        above = self._awaited.get(turn_id, "")
        if control := self._running.get(above):
            control.hold(turn_id)
            self.waits(above)

    def goes_on(self, turn_id: str) -> None:
        """It waits no more."""
        above = self._awaited.get(turn_id, "")
        if control := self._running.get(above):
            control.release(turn_id)
            if not control.stands:
                self.goes_on(above)

    async def ended(self, turn_id: str, *, alone: bool = False) -> None:
        """The turn is over, and that is on disk: what was at work for it is stopped now, its report is taken up. One that is
        `alone` has neither.
        """
        self._running.pop(turn_id, None)
        if alone:
            return
        stopped, row = await self.store.read(lambda tx: (_stopped(tx, turn_id), tx.child(turn_id)))
        for session, child in stopped:
            if self.stop:
                self.stop(session, child, "its parent has ended")
        if row and row.report:
            await self.rouse(row.report)

    @contextmanager
    def _waiting(self, turn_id: str, child: str) -> Iterator[None]:
        self._awaited[child] = turn_id
        try:
            yield
        finally:
            self.goes_on(child)
            del self._awaited[child]

    def _stands(self, turn_id: str) -> bool:
        control = self._running.get(turn_id)
        return control is not None and (control.stands or control.held)


def room_of(limits: Limits, sent: int, usd: float, share: float = 1.0) -> Caps:
    """A part of what is left of these limits when so much is used up."""
    return Caps(
        sent=None if limits.max_input_tokens is None else int(max(0, limits.max_input_tokens - sent) * share),
        usd=None if limits.max_usd is None else max(0.0, limits.max_usd - usd) * share,
    )


def _known(tx: ReadTx, event: ChildSpawned) -> tuple[TurnRow | None, bool, bool]:
    """Its turn, where it has begun; whether it is over, for it may have been set aside before it began; whether it waits."""
    row, kin, session = tx.turn(event.child), tx.child(event.child), tx.session(event.session)
    waits = (row is not None and row.state == "suspended") or (session is not None and session.paused)
    return row, bool(kin and kin.done), waits


def _stopped(tx: ReadTx, turn_id: str) -> list[tuple[SessionRow, str]]:
    """The children that the journal says are to stop."""
    below = [row for row in tx.children(turn_id) if not row.done and tx.cancelled(row.turn)]
    return [(session, row.turn) for row in below if (session := tx.session(row.session))]


def _is_over(item: Glimpse) -> bool:
    return isinstance(item, Over | SetAside)


def _returned(event: ChildSpawned, row: TurnRow | None) -> Returned:
    if row is None or row.state == "quarantined":
        return Returned(event.child, "quarantined", "It was set aside: working on it broke off again and again.", event.label)
    text, most = row.reply, event.max_chars
    shown = text if len(text) <= most else text[: most - len(CUT)] + CUT
    return Returned(event.child, row.stop_reason.value if row.stop_reason else "failed", shown, row.label)


def told(returned: Returned) -> str:
    """What the parent's model is told."""
    head = {"turn": returned.turn, "stop_reason": returned.stop}
    return f"{json.dumps(head)}\n{returned.text}"
