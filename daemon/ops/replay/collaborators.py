"""What the loop works with in a replay: the answers of models, tools, sub-agents and accounts as
they were recorded. None of them has a network, a journal, a tool or a process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from daemon.agent.answer_checks import UNMADE
from daemon.agent.budget_tree import Budget, Cost
from daemon.agent.budgets import Budgets, DailyUsage, compute_spent
from daemon.agent.config import BudgetConfig
from daemon.agent.context.builder import SHRINK, ContextBuilder, Prompt, ToolList, TurnContext
from daemon.agent.context.history import HistoryWindow, TurnMessages
from daemon.agent.models import EMBEDDED, ModelCaller, ModelChoice, ModelRouting
from daemon.agent.termination.conditions import StopStats
from daemon.core import value
from daemon.core.errors import BudgetExceeded, ErrorClass, ProviderError, Shortage
from daemon.core.events import (
    Alarm,
    ApprovalAsked,
    BudgetExtended,
    CallJudged,
    ChildSpawned,
    Consulted,
    Consulting,
    Event,
    HistoryCompressed,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    TodosSet,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    Verified,
)
from daemon.core.messages import (
    Message,
    MessageQueued,
    MessageRole,
    ModelReply,
    ModelRequest,
    RequestAdapted,
    score_importance,
)
from daemon.core.provenance import TrustContext
from daemon.core.trust import AnswerTimes, Label, Stop
from daemon.core.turn import Turn
from daemon.ops.replay.cuts import (
    find_seconds_asked,
    parse_shortage,
    read_question,
    read_shortage,
)
from daemon.ops.replay.record import Differs, ReplayedTurn, StepCut
from daemon.ops.replay.subagents import ChildRecords
from daemon.providers.base import TextCallback
from daemon.store.journal import Tx
from daemon.tools.calls import make_cut_result
from daemon.tools.criteria_checks import CriteriaChecker, CriterionResult
from daemon.tools.executor import ToolExecutor

BIG = 10**9
DUMMIES = 3
SUMMARY = "summary"
TOOL_EVENTS = (
    CallJudged,
    ToolStarted,
    ToolRetried,
    ToolFinished,
    MessageQueued,
    BudgetExtended,
    TodosSet,
    ChildSpawned,
    Consulting,
    Consulted,
)


@value
class RecordedClock:
    """The times of the record."""

    turn: ReplayedTurn

    def now(self) -> datetime:
        """When the next event was recorded."""
        return (self.turn.next or self.turn.record_[-1]).at

    def monotonic(self) -> float:
        """Durations are not measured."""
        return 0.0


@value
class NoProvider:
    """Stands for a provider by its name."""

    name: str

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """Nothing is asked in a replay."""
        raise ProviderError(ErrorClass.NETWORK, "a replay asks no model")

    async def aclose(self) -> None:
        """Nothing is open."""


class RecordedRouting(ModelRouting):
    """A model for small work, beside the one that answers: whether it was asked is recorded."""

    def __init__(self, choice: ModelChoice) -> None:
        self.choice = choice


class RecordedModels(ModelCaller):
    """The replies that were recorded."""

    def __init__(self, turn: ReplayedTurn, clock: RecordedClock, routing: RecordedRouting) -> None:
        self.turn, self.clock, self.routing = turn, clock, routing

    async def call(self, turn: Turn, context: TurnContext, prompt: Prompt) -> None:
        """All that was recorded of one call. Raises ProviderError, BudgetExceeded."""
        replayed, closing, asked = self.turn, not prompt.request.tools_allowed, False
        while True:
            event, now = replayed.expect(), self.clock.now()
            match event:
                case ModelAsked():
                    asked, parts = True, (replayed.iterations + 1, replayed.memory_ids)
                    number, hits = parts
                    again = replace(event, iteration=number, memory_hits=hits, closing=closing)
                    replayed.record(again, now)
                case ModelRetried() | RequestAdapted() if asked:
                    replayed.take()
                case ModelReplied(text=text) if asked:
                    score = score_importance(MessageRole.ASSISTANT, text)
                    cycle = replayed.spec.cycles
                    again = replace(event, closing=closing, cycle=cycle, importance=score)
                    replayed.record(again, now)
                    return
                case ModelFailed(error=kind, message=message):
                    known = ErrorClass(kind) if kind in {*ErrorClass} else ErrorClass.UNKNOWN
                    raise ProviderError(known, message)
                case HistoryCompressed(strategy="shrink") if asked:
                    raise ProviderError(ErrorClass.CONTEXT_TOO_LONG, SHRINK)
                case _:
                    raise self._find_reason(context, event, closing)

    def _find_reason(self, context: TurnContext, event: Event, closing: bool) -> Exception:
        """Why no reply is recorded."""
        turn = self.turn
        if short := context.account.find_shortage():
            return BudgetExceeded(short)
        if turn.is_cut or find_seconds_asked(event) is not None:
            return StepCut()
        ends = isinstance(event, Alarm | TurnEnded)
        if closing and ends:  # no money for it
            return BudgetExceeded(Shortage(turn.id, "sent", 1.0, 1.0))
        return Differs(turn.differ_from("ModelAsked"))

    async def ask(
        self,
        turn: Turn,
        context: TurnContext,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
    ) -> str | None:
        """The recorded answer to such a question; None where none was asked or answered."""
        event = self.turn.peek()
        if not isinstance(event, Consulting) or event.purpose != purpose:
            return None
        self.turn.take()
        event = self.turn.expect()
        if not isinstance(event, Consulted):
            raise StepCut()
        self.turn.take()
        return None if event.error else event.text

    def is_embedded(self, turn: Turn, context: TurnContext) -> bool:
        """The recorded calls went to the embedded model."""
        asked = (one.event for one in self.turn.record_ if isinstance(one.event, ModelAsked))
        return any(event.provider == EMBEDDED for event in asked)


class RecordedTools(ToolExecutor):
    """What was recorded of the calls: verdicts, questions, starts, results."""

    def __init__(self, turn: ReplayedTurn, clock: RecordedClock) -> None:
        self.turn, self.clock = turn, clock

    async def run_pending(self, turn: Turn, setting: TrustContext) -> None:
        """Until every call has its result or waits, or where they were left."""
        replayed = self.turn
        while replayed.pending:
            event = replayed.peek()
            is_call = isinstance(event, ApprovalAsked) and event.call_id[:1].isdigit()
            if (isinstance(event, TOOL_EVENTS) or is_call) and not replayed.is_cut:
                replayed.take()
            elif replayed.waiting and event is not None:
                return
            else:
                replayed.expect()
                raise StepCut()

    def settle_cut(self, turn: Turn, why: str) -> None:
        """A result for every pending call of a turn that is cut."""
        for state in turn.pending:
            turn.record(make_cut_result(turn, state, why), self.clock.now())


@dataclass(slots=True, eq=False)
class RecordedAccount(Budget):
    """Short where the record says so."""

    turn: ReplayedTurn | None = None
    children: ChildRecords | None = None

    def find_shortage(self, cost: Cost | None = None) -> Shortage | None:
        """What was used up when the next event was recorded."""
        turn = self.turn
        if turn is None:
            return None
        if self.children and turn.next:
            self.spent = compute_spent(turn) + self.children.sum_spent(turn, turn.next.at)
        if turn.cut and turn.is_cut and turn.cut.is_short:
            return parse_shortage(turn.cut, turn.id, turn.session)
        return read_shortage(turn.peek(), turn.id)


def _is_nobodys(tx: Tx, session: str) -> bool:
    return False


class RecordedBudgets(Budgets):
    """Whether a person could be asked is recorded; what they are asked is computed."""

    def __init__(self, turn: ReplayedTurn, clock: RecordedClock) -> None:
        self.turn, self.times = turn, AnswerTimes()
        self.daily = DailyUsage(clock, BudgetConfig(), _is_nobodys)

    def build_question(
        self, turn: Turn, context: TurnContext, short: Shortage
    ) -> ApprovalAsked | None:
        """None where the session was a stranger's."""
        if question := super().build_question(turn, context, short):
            return question if read_question(self.turn.peek()) else None
        return None


class RecordedStops(StopStats):
    """Alarms count the ends of other turns."""

    def __init__(self, turn: ReplayedTurn) -> None:
        self.turn = turn

    def record_stop(self, agent: str, reason: Stop) -> Alarm | None:
        """The recorded one."""
        event = self.turn.peek()
        return event if isinstance(event, Alarm) else None


class RecordedCriteria(CriteriaChecker):
    """Results of patterns and commands."""

    turn: ReplayedTurn

    def __init__(self, turn: ReplayedTurn) -> None:
        object.__setattr__(self, "turn", turn)  # it has no sandbox

    async def match_pattern(self, pattern: str, text: str) -> CriterionResult:
        """The recorded result of `regex`."""
        return self._find_result(f"regex: {pattern}", pattern)

    async def run_command(
        self, command: str, turn: str = "", *, tainted: bool = False
    ) -> CriterionResult:
        """The recorded result of `test_pass`."""
        return self._find_result(f"test_pass: {command}", command)

    def _find_result(self, name: str, asked: str) -> CriterionResult:
        """Raises StepCut where the check was left."""
        for one in self.turn.record_[self.turn.seq :]:
            event = one.event
            if isinstance(event, ModelReplied):
                break
            if isinstance(event, Verified) and event.check == name:
                return _as_result(event, asked)
        self.turn.expect()
        raise StepCut()


def _as_result(event: Verified, asked: str) -> CriterionResult:
    """The result that leads to this event; its first line names what was asked."""
    if event.note:
        head, _, tail = UNMADE.format(check=event.check, why="\0").partition("\0")
        why = event.note.removeprefix(head).removesuffix(tail)
        return CriterionResult(False, warning=why, not_checked=True)
    lines = event.feedback.split("\n")
    return CriterionResult(event.passed, warning="\n".join(lines[1 + asked.count("\n") :]))


@value
class RecordedHistory(HistoryWindow):
    """Stands for the turns before: how much of them is left out is recorded."""

    def after_compaction(self, turn: Turn) -> HistoryWindow:
        """There is always something to leave out."""
        return self


def make_history(messages: tuple[Message, ...]) -> RecordedHistory:
    """With the words of the conversation that other agents were told."""
    dummy = TurnMessages((), BIG, b"", Label.TRUSTED)
    return RecordedHistory((dummy,) * DUMMIES, messages=messages)


@value(kw_only=True)
class RecordedBuilder(ContextBuilder):
    """Builds no request, for the replies are recorded: its sizes say whether the history was too
    long.
    """

    turn: ReplayedTurn

    def build_prompt(
        self, turn: Turn, context: TurnContext, *, tools_allowed: bool = True
    ) -> Prompt:
        """What the loop asks of a prompt."""
        event = self.turn.peek()
        pressed = isinstance(event, HistoryCompressed) or (
            isinstance(event, Consulting) and event.purpose == SUMMARY
        )
        size = BIG if pressed else 0
        tools = ToolList((), (), "", 0, Label.TRUSTED)
        request = ModelRequest((), tools_allowed=tools_allowed)
        return Prompt(request, "", tools, 0, size, size, BIG)
