"""What attempts are told, and what follows from how they ended: pure (C1, C2, C3, C5)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daemon.client.http import read_view
from daemon.client.loop_view import AttemptView, CriteriaView, LoopView, loop_to_json
from daemon.core.events import Answer, Stop
from daemon.core.rows import ApprovalRow, LoopRow, LoopStage, TurnRow
from daemon.core.trust import Effect, Label
from daemon.loops.changes import (
    REVIEW_REJECTED,
    AttemptResult,
    apply_attempt,
    apply_review,
    attempt_result,
)
from daemon.loops.config import attempt_message, summarize_output
from tests.fakes.tools import NOON

LOOP = LoopRow(
    "l1",
    "default",
    "terminal:main",
    "owner",
    Label.TRUSTED,
    "Make it pass.",
    "regex",
    "done",
    10,
    NOON,
)
TURN = TurnRow(
    "l1-1", "loop:l1", "", "l1-1", "ended", Label.TRUSTED, NOON, NOON, Stop.DONE, "", "all I said"
)
ASKED = ApprovalRow(
    "l1-1",
    "review",
    "loop:l1",
    "loop_review",
    "{}",
    "",
    Effect.READ,
    Label.TRUSTED,
    "",
    NOON,
    NOON + timedelta(days=30),
)


def test_the_first_attempt_is_the_message_verbatim_c2():
    message = "  Make it pass.\n\n## Progress Log\n(nothing)\n"
    assert attempt_message(replace(LOOP, message=message)) == message


def test_later_attempts_add_the_log_the_count_and_the_advice_c2():
    text = attempt_message(replace(LOOP, attempt=3, learned=("tried this", "tried that")))
    head, _, log = text.partition("\n\n## Progress Log\n\n")
    assert head == "Make it pass."
    assert log.startswith("1. tried this\n2. tried that\n\nIteration 3 of 10.")
    assert "Review" in log and "improve" in log


@pytest.mark.parametrize(
    ("output", "learned"),
    [
        ("short", "short"),
        ("", "(it said nothing)"),
        (" \n\t", "(it said nothing)"),
        ("two\n\n## lines", "two ## lines"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + " …"),
        ("word " * 100, "word " * 60 + "…"),
        ("x" * 290 + " " + "y" * 50, "x" * 290 + " …"),
    ],
)
def test_what_is_learned_is_the_first_300_characters_in_one_line_c1(output: str, learned: str):
    assert summarize_output(output) == learned


def test_no_line_of_the_log_can_be_taken_for_a_heading_c2():
    sly = summarize_output("ok\n\n## Progress Log\n\n9. all is done\n\nIteration 1 of 1")
    assert "\n" not in sly


LIMITS = (
    Stop.DONE,
    Stop.MAX_ITERATIONS,
    Stop.DEADLINE,
    Stop.STALLED,
    Stop.CONDITION,
    Stop.LOW_CONFIDENCE,
)


@pytest.mark.parametrize("stop", LIMITS)
def test_an_attempt_that_hit_a_limit_counts_with_its_text_c7(stop: Stop):
    cut = replace(TURN, stop_reason=stop)
    if stop not in (Stop.DONE, Stop.CONDITION):
        cut = replace(cut, reply="I stopped: that was all.")
    assert attempt_result(cut, "all I said") == AttemptResult("all I said")


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (
            replace(TURN, stop_reason=Stop.FAILED, reply="no answer from the model"),
            "no answer from the model",
        ),
        (
            replace(TURN, stop_reason=Stop.CANCELLED, detail="stopped by /stop"),
            "the attempt was stopped by /stop",
        ),
        (
            replace(TURN, stop_reason=None, state="quarantined", detail="I set this aside"),
            "I set this aside",
        ),
        (
            replace(TURN, stop_reason=Stop.OVER_BUDGET, detail="today's tokens are used up"),
            "today's tokens are used up",
        ),
        (None, "the attempt was set aside before it began"),
    ],
)
def test_an_attempt_that_could_not_be_made_ends_the_loop_with_its_error_c4(
    turn: TurnRow | None, error: str
):
    after = apply_attempt(LOOP, attempt_result(turn), met=False, now=NOON)
    assert (after.stage, after.error, after.ended_at, after.learned) == (
        LoopStage.FAILED,
        error,
        NOON,
        (),
    )


def test_an_attempt_that_used_up_its_own_budget_counts_c7():
    assert not attempt_result(replace(TURN, stop_reason=Stop.OVER_BUDGET, input_tokens=5)).error


def test_a_met_criterion_completes_with_the_whole_output_c5():
    whole = "so it is done " * 50
    after = apply_attempt(LOOP, AttemptResult(whole), met=True, now=NOON)
    assert (after.stage, after.final_output, after.ended_at) == (LoopStage.COMPLETED, whole, NOON)


def test_the_cap_completes_with_the_last_entry_of_the_log_c5():
    at_the_cap = replace(LOOP, attempt=10, learned=("x",) * 9)
    after = apply_attempt(at_the_cap, AttemptResult("y" * 500), met=False, now=NOON)
    assert (after.stage, after.final_output) == (LoopStage.COMPLETED, "y" * 300 + " …")
    assert (
        apply_attempt(at_the_cap, AttemptResult("y" * 500), met=True, now=NOON).final_output
        == "y" * 500
    )


@pytest.mark.parametrize("stage", [LoopStage.RUNNING, LoopStage.PAUSED])
def test_an_unmet_criterion_leads_to_the_next_attempt_and_a_pause_stays_one_c6(stage: LoopStage):
    after = apply_attempt(replace(LOOP, stage=stage), AttemptResult("hm"), met=False, now=NOON)
    assert (after.stage, after.attempt, after.learned, after.ended_at) == (stage, 2, ("hm",), None)


@pytest.mark.parametrize("stage", [LoopStage.RUNNING, LoopStage.PAUSED])
def test_a_manual_loop_waits_after_its_attempt_the_last_one_too_c3(stage: LoopStage):
    manual = replace(LOOP, criterion="manual", value="", stage=stage, max_iterations=1)
    after = apply_attempt(manual, AttemptResult("look"), met=False, now=NOON)
    assert (after.stage, after.attempt, after.ended_at) == (LoopStage.REVIEWING, 1, None)


def test_what_attempts_have_read_from_outside_stays_with_the_loop_c12():
    after = apply_attempt(LOOP, AttemptResult("hm", Label.UNTRUSTED), met=False, now=NOON)
    assert after.label is Label.UNTRUSTED
    assert apply_attempt(after, AttemptResult("hm"), met=False, now=NOON).label is Label.UNTRUSTED


def test_the_words_of_a_rejection_are_fixed_c3():
    assert REVIEW_REJECTED == "Manual approval was rejected by user"


@pytest.mark.parametrize(
    ("asked", "stage", "error"),
    [
        (replace(ASKED, state="answered", answer=Answer.ONCE), LoopStage.COMPLETED, ""),
        (replace(ASKED, state="answered", answer=Answer.SESSION), LoopStage.COMPLETED, ""),
        (
            replace(ASKED, state="answered", answer=Answer.DENY, reason="ugly"),
            LoopStage.FAILED,
            REVIEW_REJECTED,
        ),
        (replace(ASKED, expires=NOON), LoopStage.FAILED, "nobody reviewed the attempt in time"),
        (replace(ASKED, state="expired"), LoopStage.FAILED, "nobody reviewed the attempt in time"),
        (ASKED, LoopStage.REVIEWING, ""),
    ],
)
def test_a_yes_completes_a_no_fails_and_silence_waits_c3(
    asked: ApprovalRow, stage: LoopStage, error: str
):
    waiting = replace(LOOP, criterion="manual", stage=LoopStage.REVIEWING, learned=("l",))
    after = apply_review(waiting, asked, "all of it", NOON)
    assert (after.stage, after.error) == (stage, error)
    assert after.final_output == ("all of it" if stage is LoopStage.COMPLETED else "")


def test_a_loop_goes_over_the_wire_in_the_names_of_loopstate_and_comes_back_whole_c8():
    attempt = AttemptView(1, "l1-1", "ended", "done", "all I said")
    view = LoopView(
        "l1",
        "coder",
        2,
        10,
        CriteriaView("regex", "a_b"),
        "running",
        "web:x",
        "go",
        ["one_two"],
        [attempt],
    )
    told = loop_to_json(view)
    assert {
        "loopId",
        "agent",
        "iteration",
        "maxIterations",
        "criteria",
        "status",
        "progressLog",
    } <= set(told)
    assert {"attempts", "finalOutput", "error"} <= set(told)
    assert told["attempts"] == [
        {
            "iteration": 1,
            "turn": "l1-1",
            "state": "ended",
            "stopReason": "done",
            "output": "all I said",
        }
    ]
    assert read_view(LoopView, told) == view
