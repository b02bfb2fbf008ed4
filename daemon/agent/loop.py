"""The agent loop: look at the turn, do the one thing it needs next, write it down, look again (DESIGN 1)."""

import logging
from collections.abc import Sequence

from daemon.agent.answer_checks import is_sent_back
from daemon.agent.budgets import BudgetExceeded, Budgets
from daemon.agent.context.builder import CLOSING, TurnContext
from daemon.agent.final_messages import (
    render_failure,
    render_final_reply,
    render_stop,
    user_knows_stop,
)
from daemon.agent.model_call import ModelCaller
from daemon.agent.parts import Crew, Dispatcher, Extending, Preparing, Verdicts, Watch
from daemon.agent.termination.declared import (
    ends_by_condition,
    find_declared_stop,
    is_budget_condition,
    render_nudge,
)
from daemon.agent.termination.default_conditions import list_conditions
from daemon.agent.termination.halt import (
    Halt,
    check_deadline,
    check_iterations,
    find_halt,
    halt_over_budget,
)
from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.budget import Shortage
from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import (
    Coached,
    Event,
    IterationRefunded,
    ModelFailed,
    Steered,
    Stop,
    Suspended,
    TurnEnded,
)
from daemon.core.messages import MessageRole, score_importance
from daemon.core.turn import Turn

log = logging.getLogger(__name__)
HOUSEKEEPING = ("todo", "find_tools")
MOST_REFUNDS = 5


@value
class AgentLoop:
    """Drives a turn to its end, or to where it waits for a person. Call it again on a turn that was cut short: it goes on."""

    model_caller: ModelCaller
    tools: Dispatcher
    budgets: Budgets
    pre_call: Preparing
    answer_checker: Verdicts
    budget_extension: Extending
    crew: Crew
    stop_stats: Watch
    clock: Clock

    async def run(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        """Everything that was recorded is on disk when this returns. Raises Fenced when another worker took the session over."""
        while not turn.ended and not turn.suspended:
            if control.is_paused:
                await turn.commit()
                await control.wait_while_paused()
            await self._advance(turn, scene, control)
        control.accepts_steers = False
        await turn.commit()

    async def _advance(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        log.debug("turn %s at event %d: looking", turn.id, turn.seq)
        if halt := self._cut(turn, control):
            self._end_cut(turn, halt)
        elif turn.has_open_question:
            self._suspend(turn, control)
        elif raised := self.budget_extension.apply_answer(turn, scene):
            self._record(turn, raised)
        elif (short := self._short(turn, scene)) and not ends_by_condition(turn, short):
            self._over(turn, scene, short)
        else:
            await self._step(turn, scene, control)

    async def _step(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        """One thing, when nothing stands in the way."""
        if turn.pending:
            await self._dispatch(turn, scene, control)
        elif turn.spec.composite:
            await self._delegate(turn, scene, control)
        elif (halt := find_declared_stop(turn, scene.account.spent.usd)) and not is_sent_back(turn):
            await self._declared(turn, scene, control, halt)
        elif turn.awaiting_verdict and turn.spec.conditions and not check_iterations(turn):
            self._record(turn, Coached("nudge", render_nudge(turn)))
        elif turn.awaiting_verdict and not turn.spec.conditions and not await control.has_steers():
            await self._judge(turn, scene, control)
        elif (halt := find_halt(list_conditions(turn.spec), turn)) and not (
            control.steers and halt.coachable
        ):
            await self._halt(turn, scene, control, halt)
        else:
            await self._go_on(turn, scene, control)

    def _cut(self, turn: Turn, control: TurnControl) -> Halt | None:
        if control.cancel_reason:
            return Halt(Stop.CANCELLED, control.cancel_reason)
        return check_deadline(turn, control.active_seconds)

    def _short(self, turn: Turn, scene: TurnContext) -> Shortage | None:
        """What has nothing left; for an answer that is complete nothing more is needed."""
        return None if turn.awaiting_verdict else self.budgets.find_shortage(scene.account)

    def _end_cut(self, turn: Turn, halt: Halt) -> None:
        """Unstarted calls are not run. An answer that is complete is delivered all the same, unless the user said stop."""
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        answer = turn.answer if turn.awaiting_verdict and halt.reason is not Stop.CANCELLED else ""
        told = (answer or render_stop(turn, halt), self.crew.partial_answers(turn))
        self._end(
            turn,
            halt.reason,
            halt.detail,
            "\n\n".join(part for part in told if part),
            quiet=user_knows_stop(turn, halt),
        )

    def _over(self, turn: Turn, scene: TurnContext, short: Shortage) -> None:
        """Ask for more, where somebody may say yes; else stop (F2)."""
        asked = self.budget_extension.build_question(turn, scene, short)
        if asked:
            self._record(turn, asked)
        else:
            self._end_cut(turn, halt_over_budget(turn, short))

    def _suspend(self, turn: Turn, control: TurnControl) -> None:
        control.stop_clock()
        self._record(turn, Suspended(turn.waiting, round(control.active_seconds, 4)))

    async def _dispatch(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        async with control.time_limit(turn.limits.max_seconds):
            await self.tools.run_pending(turn, scene.trust)
        if turn.waiting and not self._cut(turn, control):
            self._suspend(turn, control)
        elif not turn.pending and not turn.spec.cycles and turn.refunds < MOST_REFUNDS:
            names = {state.call.name for state in turn.calls}
            if names and names.issubset(HOUSEKEEPING):
                self._record(turn, IterationRefunded(tuple(state.call_id for state in turn.calls)))

    async def _delegate(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        """Nobody here reads what the user says meanwhile: it is the next turn's."""
        control.accepts_steers = False
        async with control.time_limit(turn.limits.max_seconds):
            events = await self.crew.advance(turn, scene)
            done = next(
                (
                    event
                    for event in events
                    if isinstance(event, TurnEnded) and event.reason is Stop.DONE
                ),
                None,
            )
            self._record_all(
                turn, await self.answer_checker.check(turn, scene, done) if done else events
            )

    async def _declared(
        self, turn: Turn, scene: TurnContext, control: TurnControl, halt: Halt
    ) -> None:
        """What says that the goal is reached is held against the author's checks, too (D2)."""
        end = TurnEnded(halt.reason, halt.detail, turn.answer or render_stop(turn, halt))
        if not (turn.spec.checks or turn.spec.output_schema) or is_budget_condition(halt):
            self._record_all(turn, [end])
            return
        async with control.time_limit(turn.limits.max_seconds):
            self._record_all(turn, await self.answer_checker.check(turn, scene, end))

    async def _judge(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        """But an end is none when the user has just said something more."""
        async with control.time_limit(turn.limits.max_seconds):
            events = await self.answer_checker.check(turn, scene)
            if await control.has_steers():
                events = [event for event in events if not isinstance(event, TurnEnded)]
            control.accepts_steers = not any(isinstance(event, TurnEnded) for event in events)
            self._record_all(turn, events)

    def _record_all(self, turn: Turn, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, TurnEnded):
                self._end(turn, event.reason, event.detail, event.reply)
            else:
                self._record(turn, event)

    async def _halt(self, turn: Turn, scene: TurnContext, control: TurnControl, halt: Halt) -> None:
        """Coach where the condition gives another chance; else one closing call without tools, so that there is an answer."""
        self._fold_in(turn, control)
        if halt.coach:
            self._record(turn, Coached(halt.reason.value, halt.coach))
        elif turn.spec.cycles and halt.reason is Stop.MAX_ITERATIONS:
            self._end(turn, halt.reason, halt.detail, turn.answer or render_stop(turn, halt))
        else:
            if "closing" not in turn.coached:
                self._record(turn, Coached("closing", CLOSING.format(detail=halt.detail)))
            await self._ask(turn, scene, control, closing=halt)

    async def _go_on(self, turn: Turn, scene: TurnContext, control: TurnControl) -> None:
        self._fold_in(turn, control)
        if self.pre_call.is_due(turn, scene):
            async with control.time_limit(turn.limits.max_seconds):
                await self.pre_call.prepare(turn, scene)
            self._fold_in(turn, control)  # what was said meanwhile, too (E7)
        if not self._cut(turn, control):
            await self._ask(turn, scene, control)

    async def _ask(
        self, turn: Turn, scene: TurnContext, control: TurnControl, closing: Halt | None = None
    ) -> None:
        try:
            async with control.time_limit(turn.limits.max_seconds):
                await self.model_caller.call(turn, scene, closing=closing is not None)
                if closing:
                    self._close(turn, closing)
        except BudgetExceeded as error:
            if closing:
                self._end_cut(turn, closing)
            else:
                self._over(turn, scene, error.shortage)
        except ProviderError as error:
            self._failed(turn, scene, error, closing)

    def _failed(
        self, turn: Turn, scene: TurnContext, error: ProviderError, closing: Halt | None
    ) -> None:
        shorter = (
            self.pre_call.shrink(turn, scene) if error.kind is ErrorClass.CONTEXT_TOO_LONG else None
        )
        if shorter:
            self._record(turn, shorter)
            return
        self._record(turn, ModelFailed(error.kind.value, str(error)))
        if closing:
            self._end(turn, closing.reason, closing.detail, render_stop(turn, closing))
        else:
            self._end(turn, Stop.FAILED, error.kind.value, render_failure(turn, error))

    def _close(self, turn: Turn, halt: Halt) -> None:
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        self._end(turn, halt.reason, halt.detail, render_final_reply(turn, halt))

    def _fold_in(self, turn: Turn, control: TurnControl) -> None:
        for row in control.take_steers():
            score = score_importance(MessageRole.USER, row.body)
            self._record(turn, Steered(row.body, row.sender, row.id, row.label, score, row.role))

    def _end(
        self, turn: Turn, reason: Stop, detail: str, reply: str, *, quiet: bool = False
    ) -> None:
        if alarm := self.stop_stats.record_stop(turn.spec.agent, reason):
            self._record(turn, alarm)
        self._record(
            turn, self.answer_checker.annotate(turn, TurnEnded(reason, detail, reply, quiet))
        )

    def _record(self, turn: Turn, event: Event) -> None:
        log.debug("turn %s: %s", turn.id, type(event).__name__)
        turn.record(event, self.clock.now())
