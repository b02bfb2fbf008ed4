"""The agent loop: look at the turn, do the one thing it needs next, write it down, look again (DESIGN 1)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.agent.asking import Asking
from daemon.agent.closing import closing_text, failure_text, is_told, last_word
from daemon.agent.context import Scene
from daemon.agent.halting import Halt, first, out_of_iterations, over_budget, past_deadline
from daemon.agent.halts.conditions import declared, ends_by_condition, nudge, out_of_money
from daemon.agent.halts.standing import standing
from daemon.agent.lanes.control import Control
from daemon.agent.money.budgets import Budgets, OverBudget
from daemon.agent.parts import Crew, Dispatcher, Extending, Preparing, Verdicts, Watch
from daemon.agent.prompt import CLOSING
from daemon.agent.verdicts import sent_back
from daemon.core.budget import Shortage
from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import Coached, Event, IterationRefunded, ModelFailed, Steered, Stop, Suspended, TurnEnded
from daemon.core.importance import importance
from daemon.core.messages import Role
from daemon.core.turn import Turn

log = logging.getLogger(__name__)
HOUSEKEEPING = ("todo", "find_tools")
MOST_REFUNDS = 5


@dataclass(frozen=True, slots=True)
class Agent:
    """Drives a turn to its end, or to where it waits for a person. Call it again on a turn that was cut short: it goes on."""

    asking: Asking
    tools: Dispatcher
    budgets: Budgets
    preparing: Preparing
    verdicts: Verdicts
    extending: Extending
    crew: Crew
    watch: Watch
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
        log.debug("turn %s at event %d: looking", turn.id, turn.seq)
        if halt := self._cut(turn, control):
            self._end_cut(turn, halt)
        elif turn.in_question:
            self._suspend(turn, control)
        elif raised := self.extending.raised(turn, scene):
            self._record(turn, raised)
        elif (short := self._short(turn, scene)) and not ends_by_condition(turn, short):
            self._over(turn, scene, short)
        else:
            await self._step(turn, scene, control)

    async def _step(self, turn: Turn, scene: Scene, control: Control) -> None:
        """One thing, when nothing stands in the way."""
        if turn.pending:
            await self._dispatch(turn, scene, control)
        elif turn.terms.composite:
            await self._delegate(turn, scene, control)
        elif (halt := declared(turn, scene.account.spent.usd)) and not sent_back(turn):
            await self._declared(turn, scene, control, halt)
        elif turn.awaiting_verdict and turn.terms.conditions and not out_of_iterations(turn):
            self._record(turn, Coached("nudge", nudge(turn)))
        elif turn.awaiting_verdict and not turn.terms.conditions and not await control.steered():
            await self._judge(turn, scene, control)
        elif (halt := first(standing(turn.terms), turn)) and not (control.steers and halt.coachable):
            await self._halt(turn, scene, control, halt)
        else:
            await self._go_on(turn, scene, control)

    def _cut(self, turn: Turn, control: Control) -> Halt | None:
        if control.cancelled:
            return Halt(Stop.CANCELLED, control.cancelled)
        return past_deadline(turn, control.seconds)

    def _short(self, turn: Turn, scene: Scene) -> Shortage | None:
        """What has nothing left; for an answer that is complete nothing more is needed."""
        return None if turn.awaiting_verdict else self.budgets.over(scene.account)

    def _end_cut(self, turn: Turn, halt: Halt) -> None:
        """Unstarted calls are not run. An answer that is complete is delivered all the same, unless the user said stop."""
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        answer = turn.answer if turn.awaiting_verdict and halt.reason is not Stop.CANCELLED else ""
        told = (answer or closing_text(turn, halt), self.crew.so_far(turn))
        self._end(turn, halt.reason, halt.detail, "\n\n".join(part for part in told if part), quiet=is_told(turn, halt))

    def _over(self, turn: Turn, scene: Scene, short: Shortage) -> None:
        """Ask for more, where somebody may say yes; else stop (F2)."""
        asked = self.extending.question(turn, scene, short)
        if asked:
            self._record(turn, asked)
        else:
            self._end_cut(turn, over_budget(turn, short))

    def _suspend(self, turn: Turn, control: Control) -> None:
        control.stand_still()
        self._record(turn, Suspended(turn.waiting, round(control.seconds, 4)))

    async def _dispatch(self, turn: Turn, scene: Scene, control: Control) -> None:
        async with control.within(turn.limits.max_seconds):
            await self.tools.dispatch(turn, scene.setting)
        if turn.waiting and not self._cut(turn, control):
            self._suspend(turn, control)
        elif not turn.pending and not turn.terms.cycles and turn.refunds < MOST_REFUNDS:
            names = {state.call.name for state in turn.calls}
            if names and names.issubset(HOUSEKEEPING):
                self._record(turn, IterationRefunded(tuple(state.call_id for state in turn.calls)))

    async def _delegate(self, turn: Turn, scene: Scene, control: Control) -> None:
        """Nobody here reads what the user says meanwhile: it is the next turn's."""
        control.open = False
        async with control.within(turn.limits.max_seconds):
            events = await self.crew.advance(turn, scene)
            done = next((event for event in events if isinstance(event, TurnEnded) and event.reason is Stop.DONE), None)
            self._record_all(turn, await self.verdicts.judge(turn, scene, done) if done else events)

    async def _declared(self, turn: Turn, scene: Scene, control: Control, halt: Halt) -> None:
        """What says that the goal is reached is held against the author's checks, too (D2)."""
        end = TurnEnded(halt.reason, halt.detail, turn.answer or closing_text(turn, halt))
        if not (turn.terms.checks or turn.terms.output_schema) or out_of_money(halt):
            self._record_all(turn, [end])
            return
        async with control.within(turn.limits.max_seconds):
            self._record_all(turn, await self.verdicts.judge(turn, scene, end))

    async def _judge(self, turn: Turn, scene: Scene, control: Control) -> None:
        """But an end is none when the user has just said something more."""
        async with control.within(turn.limits.max_seconds):
            events = await self.verdicts.judge(turn, scene)
            if await control.steered():
                events = [event for event in events if not isinstance(event, TurnEnded)]
            control.open = not any(isinstance(event, TurnEnded) for event in events)
            self._record_all(turn, events)

    def _record_all(self, turn: Turn, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, TurnEnded):
                self._end(turn, event.reason, event.detail, event.reply)
            else:
                self._record(turn, event)

    async def _halt(self, turn: Turn, scene: Scene, control: Control, halt: Halt) -> None:
        """Coach where the condition gives another chance; else one closing call without tools, so that there is an answer."""
        self._fold_in(turn, control)
        if halt.coach:
            self._record(turn, Coached(halt.reason.value, halt.coach))
        elif turn.terms.cycles and halt.reason is Stop.MAX_ITERATIONS:
            self._end(turn, halt.reason, halt.detail, turn.answer or closing_text(turn, halt))
        else:
            if "closing" not in turn.coached:
                self._record(turn, Coached("closing", CLOSING.format(detail=halt.detail)))
            await self._ask(turn, scene, control, closing=halt)

    async def _go_on(self, turn: Turn, scene: Scene, control: Control) -> None:
        self._fold_in(turn, control)
        if self.preparing.due(turn, scene):
            async with control.within(turn.limits.max_seconds):
                await self.preparing.ready(turn, scene)
            self._fold_in(turn, control)  # what was said meanwhile, too (E7)
        if not self._cut(turn, control):
            await self._ask(turn, scene, control)

    async def _ask(self, turn: Turn, scene: Scene, control: Control, closing: Halt | None = None) -> None:
        try:
            async with control.within(turn.limits.max_seconds):
                await self.asking.ask(turn, scene, closing=closing is not None)
                if closing:
                    self._close(turn, closing)
        except OverBudget as error:
            if closing:
                self._end_cut(turn, closing)
            else:
                self._over(turn, scene, error.shortage)
        except ProviderError as error:
            self._failed(turn, scene, error, closing)

    def _failed(self, turn: Turn, scene: Scene, error: ProviderError, closing: Halt | None) -> None:
        shorter = self.preparing.shrunk(turn, scene) if error.kind is ErrorClass.CONTEXT_TOO_LONG else None
        if shorter:
            self._record(turn, shorter)
            return
        self._record(turn, ModelFailed(error.kind.value, str(error)))
        if closing:
            self._end(turn, closing.reason, closing.detail, closing_text(turn, closing))
        else:
            self._end(turn, Stop.FAILED, error.kind.value, failure_text(turn, error))

    def _close(self, turn: Turn, halt: Halt) -> None:
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        self._end(turn, halt.reason, halt.detail, last_word(turn, halt))

    def _fold_in(self, turn: Turn, control: Control) -> None:
        for row in control.take_steers():
            score = importance(Role.USER, row.body)
            self._record(turn, Steered(row.body, row.sender, row.id, row.label, score, row.role))

    def _end(self, turn: Turn, reason: Stop, detail: str, reply: str, *, quiet: bool = False) -> None:
        if alarm := self.watch.ended(turn.terms.agent, reason):
            self._record(turn, alarm)
        self._record(turn, self.verdicts.honest(turn, TurnEnded(reason, detail, reply, quiet)))

    def _record(self, turn: Turn, event: Event) -> None:
        log.debug("turn %s: %s", turn.id, type(event).__name__)
        turn.record(event, self.clock.now())
