"""What the agents of a composite do next, from what is known (B11): pure, so that a restart changes nothing."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.subagents.composite import (
    CompositePlan,
    CompositeStep,
)
from daemon.core.events import ChildReturned, TurnEnded
from daemon.core.trust import Label, Stop
from daemon.core.turn_spec import Composite, Composition, Member

STOPS = (
    "done",
    "condition",
    "max_iterations",
    "failed",
    "over_budget",
    "deadline",
    "cancelled",
    "rejected",
    "quarantined",
)
WELL = ("done", "condition", "max_iterations")


def team(
    strategy: Composition, *agents: str, rounds: int = 1, judge: str = "", until: str = ""
) -> Composite:
    return Composite(strategy, tuple(Member(agent) for agent in agents), rounds, judge, until)


def gave(key: str, text: str, stop: str = "done") -> ChildReturned:
    return ChildReturned(key, f"turn of {key}", stop, text, Label.TRUSTED)


def play(
    composite: Composite, answers: Mapping[str, str | tuple[str, str]]
) -> tuple[list[list[CompositeStep]], TurnEnded]:
    """All stages up to the end; each agent answers by its key, "said KEY" without one."""
    results: dict[str, ChildReturned] = {}
    stages: list[list[CompositeStep]] = []
    while True:
        steps = CompositePlan(composite, "the task", results).next_steps()
        if isinstance(steps, TurnEnded):
            return stages, steps
        stages.append(list(steps))
        for step in steps:
            said = answers.get(step.key, f"said {step.key}")
            text, stop = said if isinstance(said, tuple) else (said, "done")
            results[step.key] = gave(step.key, text, stop)


@st.composite
def teams(draw: st.DrawFn) -> Composite:
    strategy: Composition = draw(st.sampled_from(("sequential", "parallel", "debate", "iterative")))
    agents = draw(
        st.lists(
            st.sampled_from(("a", "b", "c")), min_size=2 if strategy == "debate" else 1, max_size=4
        )
    )
    judge = draw(st.sampled_from(("", "j"))) if strategy == "debate" else ""
    until = draw(st.sampled_from(("", "OK"))) if strategy == "iterative" else ""
    return team(strategy, *agents, rounds=draw(st.integers(0, 4)), judge=judge, until=until)


@st.composite
def half_done(draw: st.DrawFn) -> tuple[Composite, dict[str, ChildReturned]]:
    """Any subset of the results that there can be."""
    composite = draw(teams())
    known = draw(st.sets(st.sampled_from(CompositePlan(composite, "", {}).list_keys())))
    texts, stops = st.sampled_from(("x", "OK", "y")), st.sampled_from(STOPS)
    return composite, {key: gave(key, draw(texts), draw(stops)) for key in sorted(known)}


def inputs(composite: Composite, key: str) -> set[str]:
    """The steps whose answers a step could need: all of earlier stages."""
    every = CompositePlan(composite, "", {}).list_keys()
    if composite.strategy == "parallel":
        return set()
    if composite.strategy == "debate" and key != "judge":
        return {
            one
            for one in every
            if one != "judge" and int(one.split(".")[1]) < int(key.split(".")[1])
        }
    return set(every[: every.index(key)])


@given(half_done())
def test_whatever_is_known_only_what_is_missing_and_has_its_inputs_comes_next_b11(
    state: tuple[Composite, dict[str, ChildReturned]],
) -> None:
    composite, results = state
    steps = CompositePlan(composite, "the task", results).next_steps()
    assert (
        steps == CompositePlan(composite, "the task", dict(reversed(results.items()))).next_steps()
    )
    if isinstance(steps, TurnEnded):
        return
    assert steps
    assert len({step.key for step in steps}) == len(steps)
    for step in steps:
        assert step.key not in results and step.key in CompositePlan(composite, "", {}).list_keys()
        failed = any(one.stop not in WELL for one in results.values())
        assert (
            failed
            or composite.strategy == "debate"
            or inputs(composite, step.key).issubset(results)
        )


@given(teams(), st.data())
def test_it_comes_to_an_end_and_nobody_works_twice_b11(
    composite: Composite, data: st.DataObject
) -> None:
    answer = st.tuples(st.sampled_from(("x", "OK", "y")), st.sampled_from(STOPS))
    answers = {key: data.draw(answer) for key in CompositePlan(composite, "", {}).list_keys()}
    stages, end = play(composite, answers)
    worked = [step.key for stage in stages for step in stage]
    assert len(set(worked)) == len(worked) <= len(CompositePlan(composite, "", {}).list_keys())
    assert end.reply and end.reason in (Stop.DONE, Stop.FAILED, Stop.MAX_ITERATIONS)
    assert (end.reason is Stop.FAILED) <= any(answers[key][1] not in WELL for key in worked)


@given(teams(), st.data())
def test_all_slices_together_never_come_to_more_than_there_is_b11(
    composite: Composite, data: st.DataObject
) -> None:
    """F2: whoever takes all of its slice leaves enough for those who come after."""
    results: dict[str, ChildReturned] = {}
    left = 1.0
    while not isinstance(
        steps := CompositePlan(composite, "the task", results).next_steps(), TurnEnded
    ):
        slices = [left * CompositePlan(composite, "", results).budget_share() for _ in steps]
        assert 0 < sum(slices) <= left + 1e-9
        left -= sum(slices) * data.draw(st.sampled_from((0.5, 0.99)))
        results |= {step.key: gave(step.key, "x") for step in steps}


def test_in_a_row_each_is_given_what_the_one_before_answered_b11() -> None:
    stages, end = play(team("sequential", "a", "b", "c"), {})
    assert [[step.agent for step in stage] for stage in stages] == [["a"], ["b"], ["c"]]
    assert stages[0][0].task == "the task"
    assert "said round.0.agent.0" in stages[1][0].task and stages[1][0].task.startswith("the task")
    assert (
        "said round.0.agent.1" in stages[2][0].task
        and "said round.0.agent.0" not in stages[2][0].task
    )
    assert (end.reason, end.reply) == (Stop.DONE, "said round.0.agent.2")


def test_a_brief_stands_before_the_task_b11() -> None:
    [[step]], _ = play(Composite("sequential", (Member("a", "Be short."),)), {})
    assert step.task == "Be short.\n\nthe task"


def test_at_once_all_begin_together_and_their_answers_stand_in_their_order_b11() -> None:
    stages, end = play(team("parallel", "a", "b", "a"), {})
    assert [[step.agent for step in stage] for stage in stages] == [["a", "b", "a"]]
    assert {step.task for step in stages[0]} == {"the task"}
    heads = [line for line in end.reply.splitlines() if line.startswith("##")]
    assert heads == ["## What a 1 answered", "## What b answered", "## What a 2 answered"]


@pytest.mark.parametrize("strategy", ["sequential", "iterative"])
def test_in_a_row_a_failed_step_is_the_end_with_its_text_b11(strategy: Composition) -> None:
    composite = team(strategy, "a", "b", "c", rounds=2)
    stages, end = play(composite, {"round.0.agent.1": ("no money left", "over_budget")})
    assert len(stages) == 2
    assert (end.reason, end.detail) == (Stop.FAILED, "b ended over_budget")
    assert "no money left" in end.reply


def test_at_once_the_others_go_on_and_who_failed_is_said_b11() -> None:
    key = CompositePlan(team("parallel", "a", "b"), "", {}).list_keys()[1]
    _, end = play(team("parallel", "a", "b"), {key: ("too slow", "deadline")})
    assert (end.reason, end.detail) == (Stop.DONE, "b ended deadline")
    assert (
        "## What a answered" in end.reply
        and "## What b ended deadline and said\ntoo slow" in end.reply
    )


@pytest.mark.parametrize("strategy", ["parallel", "debate"])
def test_when_all_fail_so_does_the_whole_b11(strategy: Composition) -> None:
    composite = team(strategy, "a", "b", rounds=3, judge="j" if strategy == "debate" else "")
    stages, end = play(
        composite,
        {key: (f"{key} broke", "failed") for key in CompositePlan(composite, "", {}).list_keys()},
    )
    assert len(stages) == 1  # no further rounds, no judge
    assert end.reason is Stop.FAILED and end.reply.count("broke") == 2


def test_in_a_debate_each_sees_what_the_others_say_and_a_judge_sums_up_b11() -> None:
    stages, end = play(
        team("debate", "pro", "con", rounds=2, judge="wise"), {"judge": "both are right"}
    )
    assert [[step.agent for step in stage] for stage in stages] == [
        ["pro", "con"],
        ["pro", "con"],
        ["wise"],
    ]
    assert [step.task for step in stages[0]] == ["the task", "the task"]
    pro = stages[1][0].task
    assert (
        "## What you answered\nsaid round.0.agent.0" in pro
        and "## What con answered\nsaid round.0.agent.1" in pro
    )
    assert "said round.1.agent.0" in stages[2][0].task and "said round.0" not in stages[2][0].task
    assert (end.reason, end.reply) == (Stop.DONE, "both are right")


def test_a_debate_without_a_judge_ends_with_everybodys_last_word_b11() -> None:
    _, end = play(team("debate", "pro", "con", rounds=2), {})
    assert (
        end.reply
        == "## What pro answered\nsaid round.1.agent.0\n\n## What con answered\nsaid round.1.agent.1"
    )


def test_who_fails_in_a_debate_is_left_out_from_then_on_and_that_is_said_b11() -> None:
    answers = {"round.0.agent.1": ("gone", "failed"), "judge": "a and c agree"}
    stages, end = play(team("debate", "a", "b", "c", rounds=2, judge="j"), answers)
    assert [[step.agent for step in stage] for stage in stages] == [
        ["a", "b", "c"],
        ["a", "c"],
        ["j"],
    ]
    assert "gone" not in stages[1][0].task
    assert (end.reason, end.detail) == (Stop.DONE, "b ended failed")
    assert end.reply == "a and c agree\n\n(b ended failed: gone)"


def test_a_debate_goes_on_with_what_somebody_said_before_failing_b11() -> None:
    stages, end = play(
        team("debate", "a", "b", rounds=3), {"round.1.agent.1": ("gone", "deadline")}
    )
    assert len(stages) == 2  # nobody is left to argue with
    assert "said round.0.agent.1" in end.reply and "(b ended deadline: gone)" in end.reply


def test_when_the_judge_fails_the_answers_are_given_and_that_is_said_b11() -> None:
    _, end = play(team("debate", "a", "b", judge="j"), {"judge": ("no idea", "low_confidence")})
    assert end.reason is Stop.DONE and "said round.0.agent.0" in end.reply
    assert (
        "(the judge, j, ended low_confidence: no idea)" in end.reply
        and "low_confidence" in end.detail
    )


def test_rounds_go_on_until_the_text_is_there_b11() -> None:
    stages, end = play(
        team("iterative", "a", rounds=5, until="OK"), {"round.2.agent.0": "it is OK now"}
    )
    assert len(stages) == 3
    assert (end.reason, end.reply) == (Stop.DONE, "it is OK now")
    assert "said round.0.agent.0" in stages[1][0].task


def test_in_rounds_each_is_shown_its_own_last_answer_and_those_of_the_others_b11() -> None:
    stages, _ = play(team("iterative", "writer", "critic", rounds=2, until="OK"), {})
    writer = stages[2][0].task
    assert (
        "## What writer answered\nsaid round.0.agent.0" in writer
        and "## What critic answered\nsaid round.0.agent.1" in writer
    )
    assert (
        "said round.0.agent.0" not in stages[3][0].task
    )  # the critic is shown what the writer makes of it now


def test_who_only_approves_means_the_answer_before_b11() -> None:
    stages, end = play(
        team("iterative", "writer", "critic", rounds=5, until="APPROVED"),
        {"round.1.agent.1": "**APPROVED.**"},
    )
    assert len(stages) == 4
    assert (end.reason, end.reply) == (Stop.DONE, "said round.1.agent.0")


def test_rounds_without_the_text_end_at_their_number_and_say_so_b11() -> None:
    stages, end = play(team("iterative", "a", rounds=2, until="OK"), {})
    assert len(stages) == 2
    assert end.reason is Stop.MAX_ITERATIONS
    assert end.reply == "said round.1.agent.0\n\n(Not finished: 2 rounds, and nobody said 'OK'.)"


def test_rounds_that_look_for_nothing_are_simply_done_b11() -> None:
    stages, end = play(team("iterative", "a", rounds=3), {})
    assert (len(stages), end.reason, end.reply) == (3, Stop.DONE, "said round.2.agent.0")


def test_of_one_that_is_cut_the_good_answers_are_shown_b11() -> None:
    composite = team("parallel", "a", "b", "c")
    first, second, _ = CompositePlan(composite, "", {}).list_keys()
    assert (
        CompositePlan(
            composite, "", {first: gave(first, "gold"), second: gave(second, "no", "failed")}
        ).partial_answers()
        == "## What a answered\ngold"
    )
