"""Going in circles is seen, and healthy work never is taken for it (A11, E9, D7)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.termination.loop_detection import (
    check_loops,
    find_ping_pong,
    find_repeated_call,
    find_repeated_failure,
    list_outcomes,
)
from daemon.core.events import Stop
from tests.fakes.turns import Deed, Story, did, failed, story, under
from tests.unit.halting_cases import ALIKE, HEALTHY, ROUNDS, STUCK, Work


@pytest.mark.parametrize("work", HEALTHY.values(), ids=HEALTHY.keys())
def test_a11_healthy_work_never_looks_like_a_circle(work: Work) -> None:
    told = Story()
    for deeds in work:
        turn = told.does(*deeds).turn
        assert (
            find_repeated_call(list_outcomes(turn)),
            find_ping_pong(list_outcomes(turn)),
            find_repeated_failure(list_outcomes(turn)),
        ) == (
            "",
            "",
            "",
        )


@pytest.mark.parametrize(("tool", "work"), STUCK.values(), ids=STUCK.keys())
def test_a11_e9_the_same_call_with_the_same_outcome_three_iterations_running_is_a_stall(
    tool: str, work: Work
) -> None:
    assert find_repeated_call(list_outcomes(story(*work[:-1]).turn)) == ""
    assert find_repeated_call(list_outcomes(story(*work).turn)) == tool


@pytest.mark.parametrize(("tools", "work"), ROUNDS.values(), ids=ROUNDS.keys())
def test_a11_a_round_of_steps_gone_three_times_is_ping_pong(tools: str, work: Work) -> None:
    assert find_ping_pong(list_outcomes(story(*work[:-1]).turn)) == ""
    assert find_ping_pong(list_outcomes(story(*work).turn)) == tools


@pytest.mark.parametrize(("tool", "work"), ALIKE.values(), ids=ALIKE.keys())
def test_e9_a_tool_that_fails_in_the_same_way_whatever_it_is_given_is_a_stall(
    tool: str, work: Work
) -> None:
    assert find_repeated_failure(list_outcomes(story(*work[:-1]).turn)) == ""
    assert find_repeated_failure(list_outcomes(story(*work).turn)) == tool


def test_a11_a_result_that_is_shown_again_is_the_same_outcome_as_the_first_time() -> None:
    told = story(did("read", "a", "the text"))
    first = told.last_call
    told.does(replace(did("read", "a", "the text (shown again)"), again=first))
    told.does(replace(did("read", "a", "the text (shown again and again)"), again=told.last_call))
    assert find_repeated_call(list_outcomes(told.turn)) == "read"


def test_a11_what_is_shown_again_of_a_call_that_nobody_knows_stands_for_itself() -> None:
    shown = replace(did("read", "a"), again="99.0")
    assert find_repeated_call(list_outcomes(story(shown, shown, shown).turn)) == "read"


def test_a11_a_word_of_the_user_is_a_new_chance() -> None:
    told = (
        story(did("read"), did("read"))
        .steered("once more, please")
        .does(did("read"))
        .does(did("read"))
    )
    assert find_repeated_call(list_outcomes(told.turn)) == ""
    assert find_repeated_call(list_outcomes(told.does(did("read")).turn)) == "read"


ROUND = ROUNDS["A-B-A-B"][1]
FAILING = [failed("fetch", n, "TimedOut") for n in range(5)]


def test_a11_going_back_and_forth_is_coached_first_and_stopped_when_it_goes_on() -> None:
    check, told = under(check_loops, on_stall="coach"), story(*ROUND)
    halt = check(told.turn)
    assert halt and (halt.reason, halt.coachable) == (Stop.STALLED, True)
    assert "list and read" in halt.detail and "list and read" in halt.coach
    assert check(told.coached("stalled").turn) is None, "the model has not answered yet"
    halt = check(told.does(did("list")).turn)
    assert halt and (halt.reason, halt.coach) == (Stop.STALLED, "")


def test_a11_what_changes_after_coaching_goes_on() -> None:
    told = story(*ROUND).coached("stalled").does(did("search", "elsewhere", "found"))
    assert under(check_loops, on_stall="coach")(told.turn) is None


def test_e9_a_failing_tool_is_coached_first_and_stopped_when_it_goes_on() -> None:
    check, told = under(check_loops, on_stall="coach"), story(*FAILING)
    halt = check(told.turn)
    assert (
        halt
        and halt.coach.startswith("fetch has now failed 5 times")
        and "fetch failed 5 times" in halt.detail
    )
    halt = check(told.coached("stalled").does(failed("fetch", "another", "TimedOut")).turn)
    assert halt and not halt.coach


def test_a11_coached_once_for_either_kind_of_circle_the_next_one_stops() -> None:
    told = story(*FAILING).coached("stalled")
    for deeds in ROUND:
        told.does(*deeds)
    halt = under(check_loops, on_stall="coach")(told.turn)
    assert halt and not halt.coach


def test_a11_no_second_coaching_on_top_of_one_that_is_not_answered() -> None:
    told = Story()
    for deeds in ROUND:
        told.does(*deeds, text="I look again.")
    told.coached("repeating")
    assert under(check_loops, on_stall="coach")(told.turn) is None
    assert under(check_loops, on_stall="stop")(told.turn) is None


@pytest.mark.parametrize("work", [ROUND, [[deed] for deed in FAILING]], ids=["round", "failing"])
def test_a11_on_stall_stop_gives_no_second_chance(work: Work) -> None:
    halts = [under(check_loops, on_stall="stop")(story(*work).turn)]
    assert [(halt.reason, halt.coach) for halt in halts if halt] == [(Stop.STALLED, "")]


TOOLS = st.sampled_from(["read", "list", "send", "edit"])
OLD = st.builds(did, TOOLS, st.integers(0, 2), st.sampled_from(["fine", "empty"]))
BAD = st.builds(failed, TOOLS, st.integers(0, 2), st.just("TimedOut"))


@given(
    st.lists(
        st.tuples(TOOLS, st.lists(OLD, max_size=3), st.sampled_from(["", "Next one.", "I go on."])),
        max_size=14,
    )
)
def test_d7_a_turn_in_which_every_iteration_brings_a_new_result_never_trips(
    work: list[tuple[str, list[Deed], str]],
) -> None:
    told, conditions = (
        Story(),
        [
            under(check_loops, on_stall="stop"),
        ],
    )
    for number, (tool, others, text) in enumerate(work):
        turn = told.does(did(tool, "it", f"result {'x' * number}"), *others, text=text).turn
        assert find_repeated_call(list_outcomes(turn)) == ""
        assert [check(turn) for check in conditions] == [None]


@given(
    st.lists(st.lists(OLD | BAD, min_size=1, max_size=3), min_size=1, max_size=3), st.integers(4, 6)
)
def test_d7_a_turn_that_only_repeats_itself_always_trips(
    work: list[list[Deed]], times: int
) -> None:
    told = story(*work * times)
    check, back_and_forth = (
        find_repeated_call(list_outcomes(told.turn)),
        find_ping_pong(list_outcomes(told.turn)),
    )
    assert check or back_and_forth or find_repeated_failure(list_outcomes(told.turn))
