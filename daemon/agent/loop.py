"""The agent loop: look at the turn, do the one thing it needs next, record it, look again."""

import logging
from dataclasses import replace
from functools import partial

from daemon.agent.answer_checks import AnswerChecker, is_sent_back
from daemon.agent.budgets import Budgets
from daemon.agent.context.builder import CLOSING, SHRINK, ContextBuilder, TurnContext
from daemon.agent.final_messages import (
    BY_STOP,
    render_failure,
    render_final_reply,
    render_stop,
)
from daemon.agent.models import ModelCaller
from daemon.agent.pre_call import prepare, shrink
from daemon.agent.subagents.composite import advance, render_partial_answers
from daemon.agent.subagents.manager import SubagentManager
from daemon.agent.termination.conditions import (
    Halt,
    StopStats,
    check_iterations,
    ends_by_condition,
    find_declared_stop,
    halt_over_budget,
    iterate_since_reply,
    render_nudge,
)
from daemon.agent.termination.loop_detection import HOUSEKEEPING, find_halt
from daemon.agent.turn_control import TurnControl
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import BudgetExceeded, ErrorClass, ProviderError, Shortage
from daemon.core.events import (
    ChildSpawned,
    Coached,
    Event,
    HistoryCompressed,
    IterationRefunded,
    ModelAsked,
    ModelFailed,
    Steered,
    Stop,
    Suspended,
    TurnEnded,
)
from daemon.core.messages import MessageRole, defuse, score_importance
from daemon.core.trust import Label
from daemon.core.turn import Turn
from daemon.tools.executor import ToolExecutor

log = logging.getLogger(__name__)
MAX_REFUNDS = 5


@value(kw_only=True)
class AgentLoop:
    """Drives a turn to its end, or to where it waits for a person. A turn that was cut short goes
    on when run again.
    """

    builder: ContextBuilder
    models: ModelCaller
    tools: ToolExecutor
    budgets: Budgets
    answer_checker: AnswerChecker
    subagents: SubagentManager
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
            self.budgets.daily.roll_over()
            halt = self._find_cut(turn, control)
            if halt and halt.reason is Stop.CANCELLED:
                await self._end_cut(turn, halt)
            elif any(question.answered is None for question in turn.questions.values()):
                self._suspend(turn, control)
            elif turn.questions and (raised := self.budgets.apply_answer(turn, context)):
                self._record(turn, raised)
            elif halt:
                await self._handle_deadline(turn, context, control, halt)
            elif (  # an answer that is complete needs nothing more
                not turn.awaiting_verdict
                and (short := context.account.find_shortage())
                and not ends_by_condition(turn, short)
            ):
                await self._handle_shortage(turn, context, short)
            else:
                await self._step(turn, context, control)
        control.accepts_steers = False
        await turn.commit()
        if end := turn.ended:  # a line in the log, every time (D6)
            detail = f" ({end.detail})" if end.detail else ""
            text = "turn %s of %s ended: %s%s, after %d iterations"
            log.info(text, turn.id, turn.session, end.reason.value, detail, turn.iterations)

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
        elif turn.reply and (halt := find_halt(turn)) and not (control.steers and halt.coachable):
            await self._halt(turn, context, control, halt)
        else:
            await self._call_model(turn, context, control)

    def _find_cut(self, turn: Turn, control: TurnControl) -> Halt | None:
        if control.cancel_reason:
            return Halt(Stop.CANCELLED, control.cancel_reason)
        limit = turn.limits.max_seconds
        if control.active_seconds < limit:
            return None
        return Halt(Stop.DEADLINE, f"the time for one turn is used up ({limit:g} s)")

    async def _end_cut(self, turn: Turn, halt: Halt) -> None:
        """Unstarted calls are not run. A complete answer is delivered all the same, unless the
        user said stop.
        """
        if turn.pending:
            self.tools.settle_cut(turn, halt.detail)
        answer = turn.answer if turn.awaiting_verdict and halt.reason is not Stop.CANCELLED else ""
        parts = (
            answer or await self._render_stop(turn, halt),
            render_partial_answers(turn),
        )
        begun = any(isinstance(one.event, ModelAsked | ChildSpawned) for one in turn.events)
        # who said /stop knows already of a message that had not been begun
        quiet = halt.detail == BY_STOP and not begun
        self._end(turn, halt, "\n\n".join(filter(None, parts)), quiet)

    async def _render_stop(self, turn: Turn, halt: Halt) -> str:
        """With what sub-agents did whose result is not in this turn (promise 3)."""
        return render_stop(turn, halt, await self.subagents.list_unreported_work(turn))

    async def _handle_shortage(self, turn: Turn, context: TurnContext, short: Shortage) -> None:
        """Ask for more, where somebody may say yes; else stop (F2)."""
        if question := self.budgets.build_question(turn, context, short):
            self._record(turn, question)
        else:
            await self._end_cut(turn, halt_over_budget(turn, short))

    async def _handle_deadline(
        self, turn: Turn, context: TurnContext, control: TurnControl, halt: Halt
    ) -> None:
        """As `_handle_shortage`, for time; what runs is cut off while somebody is asked. A turn
        that has done nothing yet has nothing to go on with.
        """
        limit = turn.limits.max_seconds
        short = Shortage(turn.id, "seconds", control.active_seconds, limit)
        question = self.budgets.build_question(turn, context, short)
        if question and turn.iterations and not turn.awaiting_verdict:
            self._record(turn, question)
        else:
            await self._end_cut(turn, halt)

    def _suspend(self, turn: Turn, control: TurnControl) -> None:
        control.stop_clock()
        self._record(turn, Suspended(turn.waiting, round(control.active_seconds, 4)))

    async def _run_tools(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        async with control.time_limit(turn.limits.max_seconds):
            consult = partial(self.models.consult, turn, context)
            await self.tools.run_pending(turn, replace(context.trust, consult=consult))
        if turn.waiting and not self._find_cut(turn, control):
            self._suspend(turn, control)
        elif (
            not (turn.pending or turn.spec.cycles)
            and turn.refunds < MAX_REFUNDS
            and all(state.call.name in HOUSEKEEPING for state in turn.calls)
        ):
            self._record(turn, IterationRefunded(tuple(state.call_id for state in turn.calls)))

    async def _run_composite(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        """What the user says meanwhile is for the next turn."""
        control.accepts_steers = False
        async with control.time_limit(turn.limits.max_seconds):
            end = await advance(turn, context, self.subagents, self.clock.now)
            if end and end.reason is Stop.DONE:
                self._record(turn, *await self.answer_checker.check(turn, context, end))
            elif end:
                self._record(turn, end)

    async def _end_declared(
        self, turn: Turn, context: TurnContext, control: TurnControl, halt: Halt
    ) -> None:
        """An end that says that the goal is reached must pass the author's checks, too (D2)."""
        end = TurnEnded(
            halt.reason, halt.detail, turn.answer or await self._render_stop(turn, halt)
        )
        if not (turn.spec.checks or turn.spec.output_schema) or (
            halt.detail.startswith("budget-exhausted")
        ):
            self._record(turn, end)
            return
        async with control.time_limit(turn.limits.max_seconds):
            self._record(turn, *await self.answer_checker.check(turn, context, end))

    async def _check_answer(self, turn: Turn, context: TurnContext, control: TurnControl) -> None:
        """The turn does not end when the user has just said something more."""
        async with control.time_limit(turn.limits.max_seconds):
            *found, last = await self.answer_checker.check(turn, context)
            if not isinstance(last, TurnEnded):
                self._record(turn, *found, last)
            elif await control.has_steers():
                self._record(turn, *found)
            else:
                control.accepts_steers = False
                self._record(turn, *found, last)

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
            self._end(turn, halt, turn.answer or await self._render_stop(turn, halt))
        else:
            if "closing" not in turn.coached:
                self._record(turn, Coached("closing", CLOSING.format(detail=halt.detail)))
            await self._call_model(turn, context, control, halt)

    async def _call_model(
        self, turn: Turn, context: TurnContext, control: TurnControl, closing: Halt | None = None
    ) -> None:
        """After what is due before it; what the user said by then is in it (E7)."""
        if control.steers:
            self._record_steers(turn, control)
        try:
            async with control.time_limit(turn.limits.max_seconds):
                prompt = self.builder.build_prompt(turn, context, tools_allowed=not closing)
                if not closing and await prepare(turn, context, prompt, self.builder, self.models):
                    self._record_steers(turn, control)
                    prompt = self.builder.build_prompt(turn, context)
                await self.models.call(turn, context, prompt)
                if closing:
                    if turn.pending:
                        self.tools.settle_cut(turn, closing.detail)
                    stop = await self._render_stop(turn, closing)
                    self._end(turn, closing, render_final_reply(turn, stop))
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
        """A history that the provider finds too long gets shorter, once for each reply (B4)."""
        shrunk = any(
            isinstance(event, HistoryCompressed) and event.strategy == SHRINK
            for event in iterate_since_reply(turn)
        )
        if error.kind is ErrorClass.CONTEXT_TOO_LONG and not shrunk:
            prompt = self.builder.build_prompt(turn, context)
            if shorter := shrink(turn, context, prompt):
                self._record(turn, shorter)
                return
        self._record(turn, ModelFailed(error.kind.value, str(error)))
        if closing:
            self._end(turn, closing, await self._render_stop(turn, closing))
        else:
            self._end(turn, Halt(Stop.FAILED, error.kind.value), render_failure(turn, error))

    def _record_steers(self, turn: Turn, control: TurnControl) -> None:
        while control.steers:
            row = control.steers.popleft()
            score = score_importance(MessageRole.USER, row.body)
            said = Steered(row.body, row.sender, row.id, row.label, score, row.role, row.quoted)
            self._record(turn, said)

    def _end(self, turn: Turn, halt: Halt, reply: str, quiet: bool = False) -> None:
        self._record(turn, TurnEnded(halt.reason, halt.detail, reply, quiet))

    def _record(self, turn: Turn, *events: Event) -> None:
        for event in events:
            if isinstance(event, TurnEnded):
                if alarm := self.stop_stats.record_stop(turn.spec.agent, event.reason):
                    turn.record(alarm, self.clock.now())
                event = self.answer_checker.annotate(turn, event)
                has_read = turn.private or turn.label is Label.UNTRUSTED
                if has_read and not turn.spec.output_schema:
                    event = replace(event, reply=defuse(event.reply))
            log.debug("turn %s: %s", turn.id, type(event).__name__)
            turn.record(event, self.clock.now())
