"""Low confidence is what it says: the model cannot go on, or nearly nothing works (D4)."""

from dataclasses import replace
from time import process_time

import pytest

from daemon.agent.termination.conditions import check_confidence, find_low_confidence
from daemon.core.events import Stop
from tests.fakes.turns import Story, did, failed, story
from tests.unit.halting_cases import (
    CAN_GO_ON,
    CANNOT_GO_ON,
    MOSTLY_FAILING,
    WORKING_WELL_ENOUGH,
    Work,
)


@pytest.mark.parametrize("text", CANNOT_GO_ON)
def test_d4_words_that_mean_i_cannot_go_on_are_low_confidence(text: str) -> None:
    assert find_low_confidence(text)
    assert find_low_confidence(f"I looked at the file.\n\n{text.upper()}")


@pytest.mark.parametrize("text", CAN_GO_ON)
def test_d4_politeness_doubt_about_facts_and_other_peoples_words_are_not(text: str) -> None:
    assert find_low_confidence(text) == ""


@pytest.mark.parametrize(
    "filling", ["“", "'", "a", "I am unsure about it and ", "ich bin nicht sicher, wie ich "]
)
def test_d4_a_very_long_reply_is_read_at_both_ends(filling: str) -> None:
    assert find_low_confidence(f"I'm stuck.\n{filling * 100_000}")
    assert find_low_confidence(f"{filling * 100_000}.\nSo it is. I'm stuck.")
    assert find_low_confidence(filling * 100_000) == ""


def test_d4_a_reply_of_nothing_but_new_lines_holds_nobody_up() -> None:
    began = process_time()
    assert find_low_confidence("\n" * 8000) == ""
    assert process_time() - began < 1


def test_d4_the_reason_names_the_sentence_and_nothing_is_coached() -> None:
    halt = check_confidence(
        Story().does(did("read"), text="I read it. I'm not sure how to proceed. Sorry.").turn
    )
    assert halt and (halt.reason, halt.coach) == (Stop.LOW_CONFIDENCE, "")
    assert halt.detail == 'the model sees no way to go on ("I\'m not sure how to proceed.")'


def test_d4_only_the_latest_reply_counts() -> None:
    told = Story().does(did("read"), text="I'm stuck.").does(did("read", "b"), text="Now I see.")
    assert check_confidence(told.turn) is None


def test_d4_what_the_user_says_after_it_is_a_new_chance() -> None:
    assert check_confidence(Story().says("I'm stuck.").steered("try the other file").turn) is None


def test_d4_a_turn_without_a_reply_is_confident() -> None:
    assert check_confidence(Story().turn) is None


@pytest.mark.parametrize("work", MOSTLY_FAILING.values(), ids=MOSTLY_FAILING.keys())
def test_d4_a_success_rate_under_a_quarter_is_low_confidence(work: Work) -> None:
    halt = check_confidence(story(*work).turn)
    assert halt and halt.reason is Stop.LOW_CONFIDENCE and "tool calls failed" in halt.detail


@pytest.mark.parametrize("work", WORKING_WELL_ENOUGH.values(), ids=WORKING_WELL_ENOUGH.keys())
def test_d4_refusals_and_calls_that_were_not_run_are_no_failures(work: Work) -> None:
    assert check_confidence(story(*work).turn) is None


def test_d4_failures_before_the_user_spoke_do_not_count() -> None:
    told = (
        story(*(failed(f"tool_{n}") for n in range(6)))
        .steered("use the other one")
        .does(failed("another"))
    )
    assert check_confidence(told.turn) is None


def test_d4_results_that_are_shown_again_are_no_successes() -> None:
    told = story(did("read", "a"))
    first = told.last_call
    for n in range(7):
        told.does(failed(f"tool_{n}"), replace(did("read", "a"), again=first))
    halt = check_confidence(told.turn)
    assert halt and halt.detail == "7 of the last 8 tool calls failed"
