"""The ends that a spec declares (B2), and the nudge (B6), over turns folded from events."""

from datetime import UTC, datetime

import pytest

from daemon.agent.termination.conditions import describe_condition, find_declared_stop, render_nudge
from daemon.core.events import (
    CallJudged,
    ModelReplied,
    Outcome,
    Stop,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from daemon.core.messages import ToolCall, Usage
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn import Turn
from daemon.core.turn_spec import (
    BudgetExhausted,
    Condition,
    Limits,
    TextIncludes,
    ToolResult,
    TurnSpec,
)
from tests.fakes.turns import Nowhere

AT = datetime(2026, 1, 1, tzinfo=UTC)
DONE = TextIncludes("<task-complete>")
TSC = ToolResult("shell", 0, "tsc")
BROKE = BudgetExhausted(0.5)


def begun(*conditions: Condition, cycles: int = 30) -> Turn:
    turn = Turn(id="t", session="web:test", sink=Nowhere())
    terms, limits = TurnSpec(cycles=True, conditions=conditions), Limits(max_iterations=cycles)
    turn.record(UserSaid("go", "owner", "i", Label.TRUSTED, 0.5, limits, terms=terms), AT)
    return turn


def replied(turn: Turn, text: str, *tools: str) -> Turn:
    calls = tuple(ToolCall(f"p{index}", tool, "{}") for index, tool in enumerate(tools))
    turn.record(ModelReplied(text, calls, Usage(), "fake", "scripted", "stop", 0.5, cycle=True), AT)
    return turn


def returned(
    turn: Turn,
    text: str,
    *,
    exit_code: int | None = None,
    ran: bool = True,
    outcome: Outcome = Outcome.OK,
) -> Turn:
    """A result for the first call that has none."""
    state = turn.pending[0]
    turn.record(CallJudged(state.call_id, state.call.name, Effect.READ, Decision.ALLOW, ""), AT)
    if ran:
        turn.record(ToolStarted(state.call_id, state.call.name, Effect.READ), AT)
    result = ToolFinished(
        state.call_id, state.call.name, outcome, text, Effect.READ, 0.5, exit_code=exit_code
    )
    turn.record(result, AT)
    return turn


def end(turn: Turn, usd: float = 0.0) -> str:
    halt = find_declared_stop(turn, usd)
    assert halt is None or halt.reason is Stop.CONDITION
    return halt.detail if halt else ""


def test_text_includes_looks_for_a_substring_of_the_assistant_s_text():
    """B2"""
    assert (
        end(replied(begun(DONE), "All done. <task-complete> Bye."))
        == "text-includes: <task-complete>"
    )
    assert end(replied(begun(DONE), "All done. <TASK-complete>")) == ""


def test_only_the_latest_text_counts_not_what_the_user_or_an_earlier_cycle_said():
    """B2"""
    turn = replied(begun(DONE), "<task-complete>", "shell")
    returned(turn, "x", exit_code=0)
    assert end(replied(turn, "there is more to do")) == ""


@pytest.mark.parametrize(
    ("condition", "exit_code", "text", "holds"),
    [
        (TSC, 0, "tsc: no errors", True),
        (TSC, 1, "tsc: no errors", False),
        (TSC, 0, "eslint: no errors", False),
        (TSC, None, "tsc: no errors", False),
        (ToolResult("shell", 0), 0, "anything", True),
        (ToolResult("shell", 0), 1, "anything", False),
        (ToolResult("shell", 1), 1, "anything", True),
        (ToolResult("shell", None, "tsc"), 1, "tsc failed", True),
        (ToolResult("shell", None, "tsc"), None, "no", False),
        (ToolResult("read_file", None, "tsc"), None, "tsc", False),
    ],
)
def test_tool_result_is_that_tool_with_that_exit_code_and_that_text_b2(
    condition: ToolResult, exit_code: int | None, text: str, holds: bool
):
    turn = returned(replied(begun(condition), "", "shell"), text, exit_code=exit_code)
    assert bool(end(turn)) is holds


def test_exit_code_and_text_must_be_of_the_same_result():
    """B2: AND over one result, not over two of them."""
    turn = replied(begun(TSC), "", "shell", "shell")
    returned(returned(turn, "tsc", exit_code=2), "eslint", exit_code=0)
    assert end(turn) == ""


def test_any_of_the_cycle_s_results_will_do():
    """B2"""
    turn = replied(begun(TSC), "", "read_file", "shell")
    assert (
        end(returned(returned(turn, "tsc"), "tsc ok", exit_code=0))
        == "tool-result: shell with exit code 0 and 'tsc' in it"
    )


def test_a_result_of_an_earlier_cycle_does_not_count_again():
    """B2"""
    turn = returned(replied(begun(ToolResult("shell", 0)), "", "shell"), "ok", exit_code=0)
    assert end(turn)
    assert end(replied(turn, "", "read_file")) == "" and end(returned(turn, "text")) == ""


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.NOT_RUN, Outcome.UNKNOWN])
def test_a_call_that_gave_nothing_back_is_no_tool_result(outcome: Outcome):
    """B2: the words of a refusal are not the tool's."""
    turn = replied(begun(ToolResult("shell", None, "tsc")), "", "shell")
    assert end(returned(turn, "rejected: not tsc, please", ran=False, outcome=outcome)) == ""


def test_a_tool_that_failed_has_returned_all_the_same():
    """B2, B7"""
    turn = replied(begun(ToolResult("shell", 2)), "", "shell")
    assert end(returned(turn, "error", exit_code=2, outcome=Outcome.ERROR))


def test_nothing_is_checked_before_the_tools_of_the_cycle_are_all_back():
    """B2: after each iteration's tools."""
    turn = replied(begun(DONE, BROKE), "<task-complete>", "shell", "shell")
    returned(turn, "x")
    assert end(turn, usd=9.0) == ""
    assert end(returned(turn, "x"), usd=9.0) == "text-includes: <task-complete>"


def test_nothing_holds_before_the_first_cycle():
    assert end(begun(BROKE), usd=9.0) == ""


@pytest.mark.parametrize(("usd", "holds"), [(0.49, False), (0.5, True), (0.51, True)])
def test_budget_exhausted_is_usd_at_or_over_usd_per_run_b2(usd: float, holds: bool):
    assert bool(end(replied(begun(BROKE), "hm"), usd)) is holds


@pytest.mark.parametrize("order", [(DONE, TSC, BROKE), (BROKE, TSC, DONE), (TSC, DONE, BROKE)])
def test_of_several_that_hold_the_first_in_the_spec_s_order_fires_b2(order: tuple[Condition, ...]):
    turn = returned(replied(begun(*order), "<task-complete>", "shell"), "tsc", exit_code=0)
    assert end(turn, usd=1.0) == f"{order[0].kind}: {describe_condition(order[0])[0]}"


def test_without_conditions_nothing_is_declared():
    assert end(replied(begun(), "<task-complete>"), usd=99.0) == ""


def test_the_nudge_tells_what_ends_the_run_and_how_many_cycles_there_are():
    """B6"""
    told = render_nudge(replied(begun(DONE, TSC, BROKE, cycles=3), "Let me think."))
    assert "- your text contains <task-complete>" in told
    assert "- shell gives a result with exit code 0 and 'tsc' in it" in told
    assert "- it has cost $0.5" in told
    assert " of 3 cycles are used" in told


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (ToolResult("shell", 0), "tool-result: shell with exit code 0"),
        (ToolResult("shell", None, "ok"), "tool-result: shell with 'ok' in it"),
        (BROKE, "budget-exhausted: $0.5"),
    ],
)
def test_each_condition_has_its_words(condition: Condition, told: str):
    assert f"{condition.kind}: {describe_condition(condition)[0]}" == told
