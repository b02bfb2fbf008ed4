"""The ends that a spec declares for its runs (B2), and the word to a model that heads for none of
them (B6).
"""

from typing import assert_never

from daemon.agent.termination.halt import Halt
from daemon.core.budget import Shortage
from daemon.core.events import Outcome, Stop
from daemon.core.turn import CallState, Turn
from daemon.core.turn_spec import BudgetExhausted, Condition, TextIncludes, ToolResult

RAN = (Outcome.OK, Outcome.ERROR)
NUDGE = """You made no tool call, and nothing that ends this run has happened yet. It ends when:
{ends}
{used} of {cycles} cycles are used. Take the next step, or bring one of these about if the work \
is done."""


def find_declared_stop(turn: Turn, usd: float) -> Halt | None:
    """The first that holds after an iteration, in the order of the spec; `usd` is what the run has
    cost, children included.
    """
    if turn.reply is None or turn.pending:
        return None
    for condition in turn.spec.conditions:
        match condition:
            case TextIncludes(text=text):
                holds = text in turn.reply.text
            case ToolResult():
                holds = any(_has_result(condition, state) for state in turn.calls)
            case BudgetExhausted():
                holds = usd >= condition.usd
            case _:
                assert_never(condition)
        if holds:
            return Halt(Stop.CONDITION, f"{condition.kind}: {describe_condition(condition)[0]}")
    return None


def ends_by_condition(turn: Turn, short: Shortage) -> bool:
    """The run's own money is used up and a condition says that this is its end: the cycle's tools
    still run, and where several conditions hold now, the first of them counts (B2).
    """
    if short.kind != "usd" or short.budget != turn.id or turn.reply is None:
        return False
    ends = (one.usd for one in turn.spec.conditions if isinstance(one, BudgetExhausted))
    return any(short.used >= usd for usd in ends)


def is_budget_condition(halt: Halt) -> bool:
    """It ends because nothing more can be paid, not because the work is done."""
    return halt.reason is Stop.CONDITION and halt.detail.startswith("budget-exhausted")


def describe_condition(condition: Condition) -> tuple[str, str]:
    """For a person, and for the model."""
    match condition:
        case TextIncludes(text=text):
            return text, f"your text contains {text}"
        case ToolResult(tool=tool, exit_code=exit_code, contains=contains):
            code = "" if exit_code is None else f" with exit code {exit_code}"
            text = f" {'and' if code else 'with'} {contains!r} in it" if contains else ""
            return f"{tool}{code}{text}", f"{tool} gives a result{code}{text}"
        case BudgetExhausted(usd=usd):
            return f"${usd:g}", f"it has cost ${usd:g}"
        case _:
            assert_never(condition)


def render_nudge(turn: Turn) -> str:
    """For an iteration without a tool call after which no condition held (B6)."""
    ends = "\n".join(f"- {describe_condition(one)[1]}" for one in turn.spec.conditions)
    return NUDGE.format(ends=ends, used=turn.iterations, cycles=turn.max_iterations)


def _has_result(condition: ToolResult, state: CallState) -> bool:
    """Exit code AND text, where both are asked for; a call that was refused or never ran has no
    result.
    """
    result = state.result
    if result is None or result.outcome not in RAN or not (state.starts or result.repeat_of):
        return False
    coded = condition.exit_code in (None, result.exit_code)
    return result.tool == condition.tool and coded and condition.contains in result.text
