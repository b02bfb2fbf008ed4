"""The agent loop: look at the turn, do the one thing it needs next, record it, look again."""

import logging
from collections.abc import Sequence

from daemon.agent.answer_checks import AnswerChecker, is_sent_back
from daemon.agent.budgets import BudgetExceeded, BudgetExtension, Budgets
from daemon.agent.context.builder import CLOSING, PromptPlan, TurnContext
from daemon.agent.final_messages import (
    StopStats,
    render_failure,
    render_final_reply,
    render_stop,
    user_knows_stop,
)
from daemon.agent.model_call import ModelCaller
from daemon.agent.pre_call import PreCall
from daemon.agent.subagents.composite import CompositeRunner
from daemon.agent.termination.declared import (
    ends_by_condition,
    find_declared_stop,
    is_budget_condition,
    render_nudge,
)
from daemon.agent.termination.default_conditions import find_halt
from daemon.agent.termination.halt import Halt, check_iterations, halt_over_budget
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
from daemon.tools.executor import ToolExecutor

log = logging.getLogger(__name__)
HOUSEKEEPING = ("todo", "find_tools")
MAX_REFUNDS = 5


@value(kw_only=True)
class AgentLoop:
    """Drives a turn to its end, or to where it waits for a person. A turn that was cut short goes
    on when run again.
    """

    model_caller: ModelCaller
    tools: ToolExecutor
    budgets: Budgets
    pre_call: PreCall
    answer_checker: AnswerChecker
    budget_extension: BudgetExtension
    composite: CompositeRunner
    stop_stats: StopStats
    clock: Clock

    async def run(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        """Everything that was recorded is on disk when this returns. Raises Fenced when another
        worker took the session over.
        """
        while not turn.ended and not turn.suspended:
            if control.is_paused:
                await turn.commit()
                await control.wait_while_paused()
            if halt := self._find_cut(turn, control):
                await self._end_cut(turn, halt)
            elif turn.has_open_question:
                self._suspend(turn, control)
            elif turn.questions and (raised := self.budget_extension.apply_answer(turn, context)):
                self._record(turn, raised)
            elif (short := self._find_shortage(turn, context)) and not ends_by_condition(
                turn, short
            ):
                await self._handle_shortage(turn, context, short)
            else:
                await self._step(turn, context, control)
        control.accepts_steers = False
        await turn.commit()

    async def _step(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        """One thing, when nothing stands in the way."""
        log.debug("turn %s: looking at %d events", turn.id, turn.seq)
        spec = turn.spec
        if turn.pending:
            await self._run_tools(turn, context, control)
        elif spec.composite:
            await self._run_composite(turn, context, control)
        elif (
            spec.conditions
            and (halt := find_declared_stop(turn, context.account.spent.usd))
            and not is_sent_back(turn)
        ):
            await self._end_declared(turn, context, control, halt)
        elif turn.awaiting_verdict and spec.conditions and not check_iterations(turn):
            self._record(turn, Coached("nudge", render_nudge(turn)))
        elif turn.awaiting_verdict and not spec.conditions and not await control.has_steers():
            await self._check_answer(turn, context, control)
        elif (halt := find_halt(turn)) and not (control.steers and halt.coachable):
            await self._halt(turn, context, control, halt)
        else:
            await self._continue(turn, context, control)

    def _find_cut(self, turn: Turn, control: TurnControl) -> Halt | None:
        if control.cancel_reason:
            return Halt(Stop.CANCELLED, control.cancel_reason)
        limit = turn.limits.max_seconds
        if control.active_seconds < limit:
            return None
        return Halt(Stop.DEADLINE, f"the time for one turn is used up ({limit:g} s)")

    def _find_shortage(self, turn: Turn, context: TurnContext) -> Shortage | None:
        """What has nothing left; for an answer that is complete nothing more is needed."""
        return None if turn.awaiting_verdict else self.budgets.find_shortage(context.account)

    async def _end_cut(self, turn: Turn, halt: Halt) -> None:
        """Unstarted calls are not run. A complete answer is delivered all the same, unless the
        user said stop.
        """
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        answer = turn.answer if turn.awaiting_verdict and halt.reason is not Stop.CANCELLED else ""
        if not answer:
            answer = await self._render_stop(turn, halt)
        text = "\n\n".join(part for part in (answer, self.composite.partial_answers(turn)) if part)
        self._end(turn, halt.reason, halt.detail, text, quiet=user_knows_stop(turn, halt))

    async def _render_stop(self, turn: Turn, halt: Halt) -> str:
        """With what sub-agents did whose result is not in this turn (promise 3)."""
        work = await self.composite.subagents.list_unreported_work(turn) if turn.children else []
        return render_stop(turn, halt, work)

    async def _handle_shortage(self, turn: Turn, context: TurnContext, short: Shortage) -> None:
        """Ask for more, where somebody may say yes; else stop (F2)."""
        if question := self.budget_extension.build_question(turn, context, short):
            self._record(turn, question)
        else:
            await self._end_cut(turn, halt_over_budget(turn, short))

    def _suspend(self, turn: Turn, control: TurnControl) -> None:
        control.stop_clock()
        self._record(turn, Suspended(turn.waiting, round(control.active_seconds, 4)))

    async def _run_tools(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        async with control.time_limit(turn.limits.max_seconds):
            await self.tools.run_pending(turn, context.trust)
        if turn.waiting and not self._find_cut(turn, control):
            self._suspend(turn, control)
        elif not turn.pending and not turn.spec.cycles and turn.refunds < MAX_REFUNDS:
            names = {state.call.name for state in turn.calls}
            if names and names.issubset(HOUSEKEEPING):
                self._record(turn, IterationRefunded(tuple(state.call_id for state in turn.calls)))

    async def _run_composite(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        """What the user says meanwhile is for the next turn."""
        control.accepts_steers = False
        async with control.time_limit(turn.limits.max_seconds):
            events = await self.composite.advance(turn, context)
            ends = [one for one in events if isinstance(one, TurnEnded) and one.reason is Stop.DONE]
            if ends:
                events = await self.answer_checker.check(turn, context, ends[0])
            self._record_all(turn, events)

    async def _end_declared(
        self, turn: Turn, context: TurnContext, control: TurnControl, halt: Halt
    ) -> None:
        """An end that says that the goal is reached must pass the author's checks, too (D2)."""
        text = turn.answer or await self._render_stop(turn, halt)
        end = TurnEnded(halt.reason, halt.detail, text)
        if not (turn.spec.checks or turn.spec.output_schema) or is_budget_condition(halt):
            self._record_all(turn, [end])
            return
        async with control.time_limit(turn.limits.max_seconds):
            self._record_all(turn, await self.answer_checker.check(turn, context, end))

    async def _check_answer(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        """The turn does not end when the user has just said something more."""
        async with control.time_limit(turn.limits.max_seconds):
            events = await self.answer_checker.check(turn, context)
            if control.steers or await control.has_steers():
                events = [event for event in events if not isinstance(event, TurnEnded)]
            control.accepts_steers = not any(isinstance(event, TurnEnded) for event in events)
            self._record_all(turn, events)

    def _record_all(self, turn: Turn, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, TurnEnded):
                self._end(turn, event.reason, event.detail, event.reply)
            else:
                self._record(turn, event)

    async def _halt(
        self, turn: Turn, context: TurnContext, control: TurnControl, halt: Halt
    ) -> None:
        """Coach where the condition gives another chance; else one closing call without tools, so
        that there is an answer.
        """
        self._record_steers(turn, control)
        if halt.coach:
            self._record(turn, Coached(halt.reason.value, halt.coach))
        elif turn.spec.cycles and halt.reason is Stop.MAX_ITERATIONS:
            text = turn.answer or await self._render_stop(turn, halt)
            self._end(turn, halt.reason, halt.detail, text)
        else:
            if "closing" not in turn.coached:
                self._record(turn, Coached("closing", CLOSING.format(detail=halt.detail)))
            await self._call_model(turn, context, control, closing=halt)

    async def _continue(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        self._record_steers(turn, control)
        plan = self.model_caller.context.plan(turn, context)
        if self.pre_call.is_due(turn, context, plan):
            async with control.time_limit(turn.limits.max_seconds):
                await self.pre_call.prepare(turn, context)
            self._record_steers(turn, control)  # what was said meanwhile, too (E7)
            plan = None
            if self._find_cut(turn, control):
                return
        await self._call_model(turn, context, control, plan)

    async def _call_model(
        self,
        turn: Turn,
        context: TurnContext,
        control: TurnControl,
        plan: PromptPlan | None = None,
        closing: Halt | None = None,
    ) -> None:
        try:
            async with control.time_limit(turn.limits.max_seconds):
                await self.model_caller.call(turn, context, plan, closing=closing is not None)
                if closing:
                    if turn.pending:
                        self.tools.settle_cut(turn, closing.detail)
                    stop = await self._render_stop(turn, closing)
                    reply = render_final_reply(turn, stop)
                    self._end(turn, closing.reason, closing.detail, reply)
        except BudgetExceeded as error:
            if closing:
                await self._end_cut(turn, closing)
            else:
                await self._handle_shortage(turn, context, error.shortage)
        except ProviderError as error:
            await self._handle_failure(turn, context, error, closing)

    async def _handle_failure(
        self, turn: Turn, context: TurnContext, error: ProviderError, closing: Halt | None
    ) -> None:
        if error.kind is ErrorClass.CONTEXT_TOO_LONG and (
            shorter := self.pre_call.shrink(turn, context)
        ):
            self._record(turn, shorter)
            return
        self._record(turn, ModelFailed(error.kind.value, str(error)))
        if closing:
            text = await self._render_stop(turn, closing)
            self._end(turn, closing.reason, closing.detail, text)
        else:
            self._end(turn, Stop.FAILED, error.kind.value, render_failure(turn, error))

    def _record_steers(self, turn: Turn, control: TurnControl) -> None:
        for row in control.take_steers() if control.steers else ():
            score = score_importance(MessageRole.USER, row.body)
            self._record(turn, Steered(row.body, row.sender, row.id, row.label, score, row.role))

    def _end(
        self, turn: Turn, reason: Stop, detail: str, reply: str, *, quiet: bool = False
    ) -> None:
        if alarm := self.stop_stats.record_stop(turn.spec.agent, reason):
            self._record(turn, alarm)
        end = TurnEnded(reason, detail, reply, quiet)
        self._record(turn, self.answer_checker.annotate(turn, end))

    def _record(self, turn: Turn, event: Event) -> None:
        log.debug("turn %s: %s", turn.id, type(event).__name__)
        turn.record(event, self.clock.now())
