"""Several agents at one task: in a row, at once, against each other, or round after round until it is done (B11).

Pure: the same results give the same next steps, before a crash and after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from daemon.core import value
from daemon.core.events import ChildReturned, TurnEnded
from daemon.core.trust import Stop
from daemon.core.turn_spec import Composite, Member

JUDGE = "judge"
SUCCESSFUL_STOPS = (Stop.DONE.value, Stop.CONDITION.value, Stop.MAX_ITERATIONS.value)
JUDGE_PROMPT = "Weigh these answers against each other and give the one final answer to the task."
REVISE_PROMPT = (
    "Answer again in the light of what the others say: keep what is right, put right what is not."
)
DECORATION = " \t\r\n.!:*_`\"'()[]<>-"

StepResults = Mapping[str, ChildReturned]


@value
class CompositeStep:
    """A child to set to work: its key in the turn, who it is, what it is told."""

    key: str
    agent: str
    task: str


def next_steps(
    composite: Composite, task: str, results: StepResults
) -> Sequence[CompositeStep] | TurnEnded:
    """What comes next, all of it at once, or the end. Only what is not known yet, and only once all that it builds on is."""
    match composite.strategy:
        case "parallel":
            return _next_parallel(composite, task, results)
        case "debate":
            return _next_debate(composite, task, results)
        case "sequential" | "iterative":
            return _next_sequential(composite, task, results)
        case _:
            assert_never(composite.strategy)


def step_keys(composite: Composite) -> list[str]:
    """Of all steps that there can be, in order."""
    rounds = [
        key
        for number in range(_round_count(composite))
        for key, _ in _round_steps(composite, number)
    ]
    return [*rounds, JUDGE] if composite.strategy == "debate" and composite.judge else rounds


def budget_share(composite: Composite, results: StepResults) -> float:
    """What each of the next steps may use of what is left, so that something is left for all that may still come."""
    return 1 / max(1, sum(key not in results for key in step_keys(composite)))


def partial_answers(composite: Composite, results: StepResults) -> str:
    """The answers there are, for one that was cut."""
    names = dict(_display_names(composite))
    done = [(key, results[key]) for key in step_keys(composite) if key in results]
    return "\n\n".join(_render_answer(names[key], one) for key, one in done if _succeeded(one))


def _next_parallel(
    composite: Composite, task: str, results: StepResults
) -> Sequence[CompositeStep] | TurnEnded:
    stage = [
        CompositeStep(key, member.agent, _join_task(member, task))
        for key, member in _round_steps(composite, 0)
    ]
    if missing := [step for step in stage if step.key not in results]:
        return missing
    names = dict(_display_names(composite))
    done = [(names[step.key], results[step.key]) for step in stage]
    if not any(_succeeded(one) for _, one in done):
        return _end_without_answer(done)
    return TurnEnded(
        Stop.DONE,
        _list_failures(done),
        "\n\n".join(_render_answer(name, one) for name, one in done),
    )


def _next_sequential(
    composite: Composite, task: str, results: StepResults
) -> Sequence[CompositeStep] | TurnEnded:
    """Each is given the one before; in rounds, what everybody said last, its own answer too."""
    names, most = (
        dict(_display_names(composite)),
        len(composite.members) if composite.strategy == "iterative" else 1,
    )
    done: list[tuple[str, ChildReturned]] = []
    for number in range(_round_count(composite)):
        for key, member in _round_steps(composite, number):
            if key not in results:
                return [
                    CompositeStep(
                        key,
                        member.agent,
                        _join_task(
                            member, task, *(_render_answer(name, one) for name, one in done[-most:])
                        ),
                    )
                ]
            done.append((names[key], results[key]))
            if not _succeeded(results[key]):
                return _end_failed(*done[-1])
            if composite.until and composite.until in results[key].text:
                return TurnEnded(Stop.DONE, "", _final_text(composite.until, done))
    if composite.until:
        return _end_unfinished(composite, done[-most:])
    return TurnEnded(Stop.DONE, "", done[-1][1].text)


def _next_debate(
    composite: Composite, task: str, results: StepResults
) -> Sequence[CompositeStep] | TurnEnded:
    """Who fails is left out from then on; the last good answer of everybody counts."""
    names, alive = dict(_display_names(composite)), list(range(len(composite.members)))
    latest: dict[str, ChildReturned] = {}
    failed: list[tuple[str, ChildReturned]] = []
    for number in range(_round_count(composite)):
        stage = [(n, *_round_steps(composite, number)[n]) for n in alive]
        steps = [
            CompositeStep(key, member.agent, _debate_task(member, task, names[key], latest))
            for _, key, member in stage
        ]
        if missing := [step for step in steps if step.key not in results]:
            return missing
        failed += [
            (names[key], results[key]) for _, key, _ in stage if not _succeeded(results[key])
        ]
        latest |= {names[key]: results[key] for _, key, _ in stage if _succeeded(results[key])}
        alive = [n for n, key, _ in stage if _succeeded(results[key])]
        if len(alive) < 2:
            break
    return (
        _judge_debate(composite, task, results, latest, failed)
        if latest
        else _end_without_answer(failed)
    )


def _judge_debate(
    composite: Composite,
    task: str,
    results: StepResults,
    latest: StepResults,
    failed: Sequence[tuple[str, ChildReturned]],
) -> Sequence[CompositeStep] | TurnEnded:
    """The judge has the last word, where there is one and it comes to one."""
    said = "\n\n".join(_render_answer(name, one) for name, one in latest.items())
    if composite.judge and JUDGE not in results:
        return [CompositeStep(JUDGE, composite.judge, "\n\n".join((task, said, JUDGE_PROMPT)))]
    if composite.judge:
        verdict = results[JUDGE]
        failed = (
            failed
            if _succeeded(verdict)
            else [*failed, (f"the judge, {composite.judge},", verdict)]
        )
        said = verdict.text if _succeeded(verdict) else said
    notes = [f"({name} ended {one.stop}: {one.text})" for name, one in failed]
    return TurnEnded(Stop.DONE, _list_failures(failed), "\n\n".join((said, *notes)))


def _final_text(until: str, done: Sequence[tuple[str, ChildReturned]]) -> str:
    """Whoever says nothing else means what was said before."""
    last = done[-1][1].text
    bare = not last.replace(until, "").strip(DECORATION)
    return done[-2][1].text if bare and len(done) > 1 else last


def _end_unfinished(composite: Composite, last: Sequence[tuple[str, ChildReturned]]) -> TurnEnded:
    why = f"{_round_count(composite)} rounds, and nobody said {composite.until!r}"
    said = (
        last[-1][1].text
        if len(last) == 1
        else "\n\n".join(_render_answer(name, one) for name, one in last)
    )
    return TurnEnded(Stop.MAX_ITERATIONS, why, f"{said}\n\n(Not finished: {why}.)")


def _end_failed(name: str, one: ChildReturned) -> TurnEnded:
    return TurnEnded(
        Stop.FAILED,
        f"{name} ended {one.stop}",
        f"{name} did not come to a good end ({one.stop}):\n{one.text}",
    )


def _end_without_answer(done: Sequence[tuple[str, ChildReturned]]) -> TurnEnded:
    told = "\n\n".join(_render_answer(name, one) for name, one in done)
    return TurnEnded(
        Stop.FAILED, "no agent came to an answer", f"No agent came to an answer.\n\n{told}"
    )


def _list_failures(done: Sequence[tuple[str, ChildReturned]]) -> str:
    return ", ".join(f"{name} ended {one.stop}" for name, one in done if not _succeeded(one))


def _succeeded(one: ChildReturned) -> bool:
    return one.stop in SUCCESSFUL_STOPS


def _round_count(composite: Composite) -> int:
    return max(1, composite.rounds) if composite.strategy in ("debate", "iterative") else 1


def _round_steps(composite: Composite, number: int) -> list[tuple[str, Member]]:
    return [(f"round.{number}.agent.{n}", member) for n, member in enumerate(composite.members)]


def _display_names(composite: Composite) -> Iterator[tuple[str, str]]:
    """What everybody is called, by key; the same agent twice is two."""
    agents = [member.agent for member in composite.members]
    for number in range(_round_count(composite)):
        for n, (key, member) in enumerate(_round_steps(composite, number)):
            yield (
                key,
                f"{member.agent} {agents[: n + 1].count(member.agent)}"
                if agents.count(member.agent) > 1
                else member.agent,
            )
    yield JUDGE, f"the judge, {composite.judge}"


def _join_task(member: Member, task: str, *before: str) -> str:
    return "\n\n".join(part for part in (member.brief, task, *before) if part)


def _debate_task(member: Member, task: str, name: str, latest: StepResults) -> str:
    others = [_render_answer(other, one) for other, one in latest.items() if other != name]
    own = [f"## What you answered\n{latest[name].text}"] if name in latest else []
    return _join_task(member, task, *own, *others, REVISE_PROMPT if others else "")


def _render_answer(name: str, one: ChildReturned) -> str:
    how = "answered" if _succeeded(one) else f"ended {one.stop} and said"
    return f"## What {name} {how}\n{one.text}"
