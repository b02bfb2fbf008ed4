"""The agent loop: look at the turn, do the one thing it needs next, write it down, look again (DESIGN 1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from daemon.agent.asking import Asking
from daemon.agent.closing import closing_text, failure_text
from daemon.agent.context import Scene
from daemon.agent.control import Control
from daemon.agent.halting import Halt, HaltCondition, Today, first, over_budget, past_deadline
from daemon.agent.prompt import CLOSING
from daemon.core.clock import Clock
from daemon.core.errors import ProviderError
from daemon.core.events import Coached, Event, ModelFailed, Steered, Stop, Suspended, TurnEnded
from daemon.core.importance import importance
from daemon.core.label import Label
from daemon.core.messages import Role
from daemon.core.turn import Turn


class Dispatcher(Protocol):
    """Runs the tool calls of a turn."""

    async def dispatch(self, turn: Turn, session_label: Label) -> None:
        """Give every pending call its result, but for those that wait for a person."""
        ...

    def settle_cut(self, turn: Turn, why: str) -> None:
        """Record a result for every pending call of a turn that is cut: not run, or outcome unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Agent:
    """Drives a turn to its end, or to where it waits for a person. Call it again on a turn that was cut short: it goes on."""

    asking: Asking
    tools: Dispatcher
    halting: Sequence[HaltCondition]
    today: Callable[[], Today]
    clock: Clock

    async def run(self, turn: Turn, scene: Scene, control: Control) -> None:
        """Everything that was recorded is on disk when this returns. Raises Fenced when another worker took the session over."""
        while not turn.ended and not turn.suspended:
            if control.held:
                await turn.commit()
                await control.going()
            await self._advance(turn, scene, control)
        control.open = False
        await turn.commit()

    async def _advance(self, turn: Turn, scene: Scene, control: Control) -> None:
        if halt := self._cut(turn, control):
            self._end_cut(turn, halt)
        elif turn.pending:
            await self._dispatch(turn, scene, control)
        elif turn.awaiting_verdict and not await control.steered():
            control.open = False
            self._record(turn, TurnEnded(Stop.DONE, "", turn.answer))
        elif (halt := first(self.halting, turn)) and not (control.steers and halt.coachable):
            await self._halt(turn, scene, control, halt)
        else:
            self._fold_in(turn, control)
            await self._ask(turn, scene, control)

    def _cut(self, turn: Turn, control: Control) -> Halt | None:
        if control.cancelled:
            return Halt(Stop.CANCELLED, control.cancelled)
        return past_deadline(turn, control.seconds) or over_budget(turn, self.today())

    def _end_cut(self, turn: Turn, halt: Halt) -> None:
        """Unstarted calls are not run. An answer that is complete is delivered all the same, unless the user said stop."""
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        answer = turn.answer if turn.awaiting_verdict and halt.reason is not Stop.CANCELLED else ""
        self._record(turn, TurnEnded(halt.reason, halt.detail, answer or closing_text(turn, halt)))

    async def _dispatch(self, turn: Turn, scene: Scene, control: Control) -> None:
        async with control.within(turn.limits.max_seconds):
            await self.tools.dispatch(turn, scene.session_label)
        waiting = tuple(state.call_id for state in turn.pending if state.waits)
        if waiting and not self._cut(turn, control):
            control.stand_still()
            self._record(turn, Suspended(waiting, round(control.seconds, 4)))

    async def _halt(self, turn: Turn, scene: Scene, control: Control, halt: Halt) -> None:
        """Coach where the condition gives another chance; else one closing call without tools, so that there is an answer."""
        self._fold_in(turn, control)
        if halt.coach:
            self._record(turn, Coached(halt.reason.value, halt.coach))
            return
        if "closing" not in turn.coached:
            self._record(turn, Coached("closing", CLOSING.format(detail=halt.detail)))
        await self._ask(turn, scene, control, closing=halt)

    async def _ask(self, turn: Turn, scene: Scene, control: Control, closing: Halt | None = None) -> None:
        try:
            async with control.within(turn.limits.max_seconds):
                await self.asking.ask(turn, scene, closing=closing is not None)
                if closing:
                    self._close(turn, closing)
        except ProviderError as error:
            self._record(turn, ModelFailed(error.kind.value, str(error)))
            if closing:
                self._record(turn, TurnEnded(closing.reason, closing.detail, closing_text(turn, closing)))
            else:
                self._record(turn, TurnEnded(Stop.FAILED, error.kind.value, failure_text(error)))

    def _close(self, turn: Turn, halt: Halt) -> None:
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        text = turn.answer if turn.reply and turn.reply.text else ""
        self._record(turn, TurnEnded(halt.reason, halt.detail, text or closing_text(turn, halt)))

    def _fold_in(self, turn: Turn, control: Control) -> None:
        for row in control.take_steers():
            score = importance(Role.USER, row.body)
            self._record(turn, Steered(row.body, row.sender, row.id, row.label, score))

    def _record(self, turn: Turn, event: Event) -> None:
        turn.record(event, self.clock.now())
