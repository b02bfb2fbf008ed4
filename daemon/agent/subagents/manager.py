"""Sub-agents: started by a recorded event, waited for, and reported when their parent ends early;
the tool spawn_agent (A17).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from uuid import NAMESPACE_URL, uuid5

from daemon.agent.budget_tree import Caps
from daemon.agent.config import AgentConfig, SubagentsConfig
from daemon.agent.context.history import rebuild_turn
from daemon.agent.spec.registry import AgentRegistry
from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.event_bus import EventBus, is_turn_over
from daemon.core.events import ChildReturned, ChildSpawned, Event, Limits, Steered, UserSaid
from daemon.core.rows import REPORT_SUFFIX
from daemon.core.trust import Effect, Outcome, Stop
from daemon.core.turn import Turn
from daemon.store.journal import Store, Tx
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.signature import tool

SPAWN_TOOL = "spawn_agent"
SUCCESSFUL_STOPS = (Stop.DONE.value, Stop.CONDITION.value, Stop.MAX_ITERATIONS.value)
TRUNCATION_NOTE = "\n[... the rest of the answer was left out ...]"
QUARANTINED_TEXT = "It was set aside: it failed again and again."
NO_LIMIT_S = 86_400.0
MOST_CHARS = 1_000_000  # the child's own limit holds
WriteEvent = Callable[[Event], Awaitable[None]]
N = TypeVar("N", int, float)


@dataclass(slots=True)
class SubagentManager:
    """For all sessions. The clock of a running turn stops while a child that it waits for waits
    for a person.

    `running`: the control of each turn that a worker runs. `_parent_of`: the turns that wait, by
    the child that they wait for.
    """

    store: Store
    live: EventBus
    config: SubagentsConfig
    defaults: AgentConfig
    specs: AgentRegistry
    new_id: Callable[[], str]
    running: dict[str, TurnControl] = field(default_factory=dict)
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
        caps: Caps | None = None,
    ) -> ChildSpawned:
        """The event of a new child. Its id follows from the key, so that there cannot be two.

        `caps`: its share of the parent's budget; without it, all that the parent has left.
        Raises ConfigError.
        """
        spent, config = turn.spent, self.config
        caps = caps or remaining_caps(turn.limits, spent.input_tokens, spent.charged_usd)
        spec = self.specs.get(agent)
        own, most = spec.limits(self.defaults), config.max_iterations
        if spec.iteration:  # its own number, within a bound
            most = config.max_cycles
        cycles = min(own.max_iterations, most)
        left_s = max(1.0, turn.limits.max_seconds - self.active_seconds_of(turn))
        limits = Limits(
            max_iterations=cycles,
            max_iterations_cap=min(own.max_iterations_cap, max(cycles, most)),
            max_seconds=min(own.max_seconds, config.timeout_s, left_s),
            max_input_tokens=_least(own.max_input_tokens, caps.input_tokens),
            max_usd=_least(own.max_usd, caps.usd),
        )
        depth, first = turn.spec.depth + 1, turn.events[0].event
        name = uuid5(NAMESPACE_URL, f"{turn.id}/{key}")
        return ChildSpawned(
            key=key,
            child=name.hex[:20],
            session=f"sub-{depth}-{name}",
            input_id=f"{name.hex[:20]}.in",
            agent=agent,
            task=task,
            sender=first.sender if isinstance(first, UserSaid) else "",
            label=turn.label,
            limits=limits,
            depth=depth,
            max_chars=config.max_response_chars,
            report=self.new_id() if background else "",
        )

    async def start(self, turn: Turn, event: ChildSpawned, write: WriteEvent) -> None:
        """Record the event; its session then starts the child. Raises ToolError."""
        if not event.background:
            await write(event)
            return
        async with self._start_lock:
            rows = await self.store.read(lambda tx: tx.list_running_children(turn.session))
            running = sum(bool(row.report) for row in rows)
            if running >= self.config.max_background:
                raise ToolError(
                    f"{running} agents run in the background already, which is the most; wait"
                    " for their results"
                )
            await write(event)

    async def wait_for_result(self, turn: Turn, event: ChildSpawned) -> ChildReturned:
        """Wait for the child's end; its own limits bound the time."""
        with self.live.subscribe(event.child, is_turn_over) as ends:
            self._parent_of[event.child] = turn.id
            try:
                row, child, session = await self.store.read(
                    lambda tx: (
                        tx.get_turn(event.child),
                        tx.get_child(event.child),
                        tx.get_session(event.session),
                    )
                )
                suspended = row is not None and row.state == "suspended"
                if suspended or (session and session.paused) or self._is_waiting(event.child):
                    self.hold_ancestors(event.child)
                if not (child and child.done):  # it may be set aside before it begins
                    await ends.get()
                    row = await self.store.read(lambda tx: tx.get_turn(event.child))
            finally:
                self.release_ancestors(event.child)
                del self._parent_of[event.child]
        if row is None or row.state == "quarantined":
            return ChildReturned(
                event.key, event.child, "quarantined", QUARANTINED_TEXT, event.label
            )
        text, stop = row.reply, row.stop_reason.value if row.stop_reason else "failed"
        if len(text) > event.max_chars:
            text = text[: event.max_chars - len(TRUNCATION_NOTE)] + TRUNCATION_NOTE
        return ChildReturned(event.key, event.child, stop, text, row.label, row.private)

    async def list_unreported_work(self, turn: Turn) -> list[tuple[str, Outcome]]:
        """What the sub-agents whose result is missing have done, for a turn that ends before them
        (A17): (tool, outcome) of their calls, `unknown` for running ones and for a sub-agent that
        may still do something.
        """
        if not any(child.returned is None for child in turn.children.values()):
            return []
        return await self.store.read(
            lambda tx: list_unreported_work(turn, partial(_load_child, tx))
        )

    def update_waiting(self, turn_id: str) -> None:
        """It was paused or resumed, or a worker runs it now: so do the clocks of turns that wait
        for it.
        """
        if self._is_waiting(turn_id):
            self.hold_ancestors(turn_id)
        else:
            self.release_ancestors(turn_id)

    def active_seconds_of(self, turn: Turn) -> float:
        """How long the turn has worked so far."""
        control = self.running.get(turn.id)
        return control.active_seconds if control else turn.spent.seconds

    def hold_ancestors(self, turn_id: str) -> None:
        """It waits for a person: the clocks of all that wait for it stop."""
        parent = self._parent_of.get(turn_id, "")
        if control := self.running.get(parent):
            control.hold_clock(turn_id)
            self.hold_ancestors(parent)

    def release_ancestors(self, turn_id: str) -> None:
        """It does not wait any more."""
        parent = self._parent_of.get(turn_id, "")
        if control := self.running.get(parent):
            control.release_clock(turn_id)
            if not control.waiting_children:
                self.release_ancestors(parent)

    def _is_waiting(self, turn_id: str) -> bool:
        control = self.running.get(turn_id)
        return control is not None and bool(control.waiting_children or control.is_paused)


def has_succeeded(returned: ChildReturned) -> bool:
    """It came to an end that is no failure."""
    return returned.stop in SUCCESSFUL_STOPS


def remaining_caps(limits: Limits, sent: int, usd: float, share: float = 1.0) -> Caps:
    """A share of what is left of these limits."""
    tokens, money = limits.max_input_tokens, limits.max_usd
    return Caps(
        input_tokens=None if tokens is None else int(max(0, tokens - sent) * share),
        usd=None if money is None else max(0.0, money - usd) * share,
    )


def _least(own: N | None, cap: N | None) -> N | None:
    return cap if own is None else own if cap is None else min(own, cap)


@value
class ChildWork:
    """A sub-agent's turn, None before it has begun; `ended`: it does nothing more."""

    turn: Turn | None
    ended: bool


def list_unreported_work(turn: Turn, load: Callable[[str], ChildWork]) -> list[tuple[str, Outcome]]:
    """(tool, outcome) of the calls of sub-agents whose result is missing."""
    settled = {
        result.call_id
        for result, _ in turn.settled_calls
        if result.outcome in (Outcome.OK, Outcome.ERROR)
    }
    missing = [
        child.spawned.child
        for key, child in turn.children.items()
        if child.returned is None and key not in settled
    ]
    return [work for one in missing for work in _list_work(load, one)]


def _load_child(tx: Tx, turn_id: str) -> ChildWork:
    row = tx.get_turn(turn_id)
    if row is None:
        return ChildWork(None, False)
    turn = rebuild_turn(turn_id, row.session, tx.list_events(turn_id))
    return ChildWork(turn, row.ended_at is not None)


def _list_work(load: Callable[[str], ChildWork], turn_id: str) -> list[tuple[str, Outcome]]:
    loaded = load(turn_id)
    turn = loaded.turn
    work = [] if loaded.ended else [(SPAWN_TOOL, Outcome.UNKNOWN)]
    if turn is None:
        return work
    settled, children = turn.settled_calls, turn.children
    work += [(one.tool, one.outcome) for one, _ in settled if one.call_id not in children]
    work += [
        (state.call.name, Outcome.UNKNOWN)
        for state in turn.pending
        if state.starts and state.call_id not in children
    ]
    for child in children.values():
        work += _list_work(load, child.spawned.child)
    return work


@tool(
    effect=Effect.READ, parallel=True, timeout_s=NO_LIMIT_S, max_chars=MOST_CHARS, public=True
)  # but for what the agent was shown
async def spawn_agent(
    context: ToolContext,
    children: SubagentManager,
    task: str,
    agent: str = "default",
    background: bool = False,
) -> ToolOutput:
    """Give a task of its own to a sub-agent, which knows nothing of this conversation but the
    task. Returns its answer; in the background, returns at once and the answer comes as a
    message later.
    """
    turn = context.turn
    known = turn.children.get(context.call_id)
    if known is None:
        _check(children, turn, task, background)
        try:
            event = children.spawn_event(
                turn, context.call_id, task.strip(), agent=agent, background=background
            )
            await children.start(turn, event, context.record_event)
        except ConfigError as error:
            raise ToolError(str(error)) from error
    else:
        event = known.spawned
    if event.background:
        return ToolOutput(
            f"started as turn {event.child}; its result will come as a message when it is done",
            public=True,
        )
    before = children.active_seconds_of(turn)
    returned = await children.wait_for_result(turn, event)
    seconds = children.active_seconds_of(turn) - before
    head = json.dumps({"turn": returned.child, "stop_reason": returned.stop})
    return ToolOutput(
        f"{head}\n{returned.text}",
        is_error=not has_succeeded(returned),
        error_class=returned.stop,
        label=returned.label,
        seconds=seconds,
        from_owner=False,
        public=not returned.private,
        holds=returned.private,
    )


def _check(children: SubagentManager, turn: Turn, task: str, background: bool) -> None:
    most, depth, said = children.config.max_depth, turn.spec.depth, turn.events[0].event
    # each report begins a turn with a budget of its own: one must not lead to the next (F2)
    reported = isinstance(said, UserSaid) and said.input_id.endswith(REPORT_SUFFIX)
    if turn.assumes:
        fault = "nobody answered your question: what rests on it is for the user to say"
    elif not task.strip():
        fault = "task is empty; say what the sub-agent is to do, with everything it needs to know"
    elif depth >= most:
        fault = f"sub-agents may be nested {most} deep, and this one is: do the task yourself"
    elif background and (depth or turn.session.startswith("loop:")):
        fault = (
            "nobody would hear of it: only the agent that the user talks to can work in the"
            " background"
        )
    elif background and reported and not any(isinstance(e.event, Steered) for e in turn.events):
        fault = (
            "this turn was begun by a report, and the user has not spoken since: do it without"
            " background"
        )
    else:
        return
    raise ToolError(fault)
