"""The ends that a spec declares for its runs (B2), and the word to a model that heads for none of them (B6)."""

from collections.abc import Iterator
from typing import assert_never

from daemon.agent.termination.halt import Halt
from daemon.core.budget import Shortage
from daemon.core.events import Outcome, Stop, ToolFinished
from daemon.core.turn import Turn
from daemon.core.turn_spec import BudgetExhausted, Condition, TextIncludes, ToolResult

RAN = (Outcome.OK, Outcome.ERROR)
NUDGE = """You made no tool call, and nothing that ends this run has happened yet. It ends when:
{ends}
{used} of {cycles} cycles are used. Take the next step, or bring one of these about if the work is done."""


def find_declared_stop(turn: Turn, usd: float) -> Halt | None:
    """The first that holds after an iteration, in the order of the spec; `usd` is what the run has cost, children included."""
    if turn.reply is None or turn.pending:
        return None
    met = (condition for condition in turn.spec.conditions if _holds(condition, turn, usd))
    return next((Halt(Stop.CONDITION, describe_condition(condition)) for condition in met), None)


def ends_by_condition(turn: Turn, short: Shortage) -> bool:
    """The run's own money is used up and a condition says that this is its end: the cycle's tools still run, and where several
    conditions hold now, the first of them is it (B2).
    """
    spent = short.kind == "usd" and short.budget == turn.id and turn.reply is not None
    return spent and any(
        isinstance(one, BudgetExhausted) and short.used >= one.usd for one in turn.spec.conditions
    )


def is_budget_condition(halt: Halt) -> bool:
    """It ends because nothing more can be paid, not because the work is done."""
    return halt.reason is Stop.CONDITION and halt.detail.startswith("budget-exhausted")


def describe_condition(condition: Condition) -> str:
    """As it is told: "text-includes: <task-complete>"."""
    match condition:
        case TextIncludes():
            return f"{condition.kind}: {condition.text}"
        case ToolResult():
            return f"{condition.kind}: {condition.tool}{_asked(condition)}"
        case BudgetExhausted():
            return f"{condition.kind}: ${condition.usd:g}"
        case _:
            assert_never(condition)


def render_nudge(turn: Turn) -> str:
    """For an iteration without a tool call after which no condition held (B6)."""
    ends = "\n".join(f"- {end}" for end in _ends(turn))
    return NUDGE.format(ends=ends, used=turn.iterations, cycles=turn.max_iterations)


def _holds(condition: Condition, turn: Turn, usd: float) -> bool:
    match condition:
        case TextIncludes():
            return turn.reply is not None and condition.text in turn.reply.text
        case ToolResult():
            return any(_fits(condition, result) for result in _results(turn))
        case BudgetExhausted():
            return usd >= condition.usd
        case _:
            assert_never(condition)


def _results(turn: Turn) -> Iterator[ToolFinished]:
    """What the latest iteration's tools gave back; a call that was refused or never ran gave nothing back."""
    for state in turn.calls:
        if (
            state.result
            and state.result.outcome in RAN
            and (state.starts or state.result.repeat_of)
        ):
            yield state.result


def _fits(condition: ToolResult, result: ToolFinished) -> bool:
    """Exit code AND text, where both are asked for."""
    coded = condition.exit_code is None or result.exit_code == condition.exit_code
    return result.tool == condition.tool and coded and condition.contains in result.text


def _asked(condition: ToolResult) -> str:
    code = "" if condition.exit_code is None else f" with exit code {condition.exit_code}"
    text = f" and {condition.contains!r} in it" if code else f" with {condition.contains!r} in it"
    return code + (text if condition.contains else "")


def _ends(turn: Turn) -> Iterator[str]:
    for condition in turn.spec.conditions:
        match condition:
            case TextIncludes():
                yield f"your text contains {condition.text}"
            case ToolResult():
                yield f"{condition.tool} gives a result{_asked(condition)}"
            case BudgetExhausted():
                yield f"it has cost ${condition.usd:g}"
            case _:
                assert_never(condition)
