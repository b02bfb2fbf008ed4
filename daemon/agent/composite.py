"""Several agents at one task: in a row, at once, against each other, or round after round until it is done (B11).

Pure: the same results give the same next steps, before a crash and after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from daemon.core.events import ChildReturned, TurnEnded
from daemon.core.outcomes import Stop
from daemon.core.terms import Composite, Member

JUDGE = "judge"
WELL = (Stop.DONE.value, Stop.CONDITION.value, Stop.MAX_ITERATIONS.value)
WEIGH = "Weigh these answers against each other and give the one final answer to the task."
ANSWER_AGAIN = "Answer again in the light of what the others say: keep what is right, put right what is not."
MARKS = " \t\r\n.!:*_`\"'()[]<>-"

Results = Mapping[str, ChildReturned]


@dataclass(frozen=True, slots=True)
class Step:
    """A child to set to work: its key in the turn, who it is, what it is told."""

    key: str
    agent: str
    task: str


def next_steps(composite: Composite, task: str, results: Results) -> Sequence[Step] | TurnEnded:
    """What comes next, all of it at once, or the end. Only what is not known yet, and only once all that it builds on is."""
    match composite.strategy:
        case "parallel":
            return _at_once(composite, task, results)
        case "debate":
            return _debate(composite, task, results)
        case "sequential" | "iterative":
            return _in_a_row(composite, task, results)
        case _:
            assert_never(composite.strategy)


def keys(composite: Composite) -> list[str]:
    """Of all steps that there can be, in order."""
    rounds = [key for number in range(_rounds(composite)) for key, _ in _round(composite, number)]
    return [*rounds, JUDGE] if composite.strategy == "debate" and composite.judge else rounds


def share(composite: Composite, results: Results) -> float:
    """What each of the next steps may use of what is left, so that something is left for all that may still come."""
    return 1 / max(1, sum(key not in results for key in keys(composite)))


def so_far(composite: Composite, results: Results) -> str:
    """The answers there are, for one that was cut."""
    names = dict(_names(composite))
    done = [(key, results[key]) for key in keys(composite) if key in results]
    return "\n\n".join(_shown(names[key], one) for key, one in done if _well(one))


def _at_once(composite: Composite, task: str, results: Results) -> Sequence[Step] | TurnEnded:
    stage = [Step(key, member.agent, _told(member, task)) for key, member in _round(composite, 0)]
    if missing := [step for step in stage if step.key not in results]:
        return missing
    names = dict(_names(composite))
    done = [(names[step.key], results[step.key]) for step in stage]
    if not any(_well(one) for _, one in done):
        return _nobody(done)
    return TurnEnded(Stop.DONE, _who_failed(done), "\n\n".join(_shown(name, one) for name, one in done))


def _in_a_row(composite: Composite, task: str, results: Results) -> Sequence[Step] | TurnEnded:
    """Each is given the one before; in rounds, what everybody said last, its own answer too."""
    names, most = dict(_names(composite)), len(composite.members) if composite.strategy == "iterative" else 1
    done: list[tuple[str, ChildReturned]] = []
    for number in range(_rounds(composite)):
        for key, member in _round(composite, number):
            if key not in results:
                return [Step(key, member.agent, _told(member, task, *(_shown(name, one) for name, one in done[-most:])))]
            done.append((names[key], results[key]))
            if not _well(results[key]):
                return _broken(*done[-1])
            if composite.until and composite.until in results[key].text:
                return TurnEnded(Stop.DONE, "", _approved(composite.until, done))
    if composite.until:
        return _unfinished(composite, done[-most:])
    return TurnEnded(Stop.DONE, "", done[-1][1].text)


def _debate(composite: Composite, task: str, results: Results) -> Sequence[Step] | TurnEnded:
    """Who fails is left out from then on; the last good answer of everybody counts."""
    names, alive = dict(_names(composite)), list(range(len(composite.members)))
    latest: dict[str, ChildReturned] = {}
    failed: list[tuple[str, ChildReturned]] = []
    for number in range(_rounds(composite)):
        stage = [(n, *_round(composite, number)[n]) for n in alive]
        steps = [Step(key, member.agent, _argued(member, task, names[key], latest)) for _, key, member in stage]
        if missing := [step for step in steps if step.key not in results]:
            return missing
        failed += [(names[key], results[key]) for _, key, _ in stage if not _well(results[key])]
        latest |= {names[key]: results[key] for _, key, _ in stage if _well(results[key])}
        alive = [n for n, key, _ in stage if _well(results[key])]
        if len(alive) < 2:
            break
    return _weighed(composite, task, results, latest, failed) if latest else _nobody(failed)


def _weighed(
    composite: Composite,
    task: str,
    results: Results,
    latest: Results,
    failed: Sequence[tuple[str, ChildReturned]],
) -> Sequence[Step] | TurnEnded:
    """The judge has the last word, where there is one and it comes to one."""
    said = "\n\n".join(_shown(name, one) for name, one in latest.items())
    if composite.judge and JUDGE not in results:
        return [Step(JUDGE, composite.judge, "\n\n".join((task, said, WEIGH)))]
    if composite.judge:
        verdict = results[JUDGE]
        failed = failed if _well(verdict) else [*failed, (f"the judge, {composite.judge},", verdict)]
        said = verdict.text if _well(verdict) else said
    notes = [f"({name} ended {one.stop}: {one.text})" for name, one in failed]
    return TurnEnded(Stop.DONE, _who_failed(failed), "\n\n".join((said, *notes)))


def _approved(until: str, done: Sequence[tuple[str, ChildReturned]]) -> str:
    """Whoever says nothing else means what was said before."""
    last = done[-1][1].text
    bare = not last.replace(until, "").strip(MARKS)
    return done[-2][1].text if bare and len(done) > 1 else last


def _unfinished(composite: Composite, last: Sequence[tuple[str, ChildReturned]]) -> TurnEnded:
    why = f"{_rounds(composite)} rounds, and nobody said {composite.until!r}"
    said = last[-1][1].text if len(last) == 1 else "\n\n".join(_shown(name, one) for name, one in last)
    return TurnEnded(Stop.MAX_ITERATIONS, why, f"{said}\n\n(Not finished: {why}.)")


def _broken(name: str, one: ChildReturned) -> TurnEnded:
    return TurnEnded(Stop.FAILED, f"{name} ended {one.stop}", f"{name} did not come to a good end ({one.stop}):\n{one.text}")


def _nobody(done: Sequence[tuple[str, ChildReturned]]) -> TurnEnded:
    told = "\n\n".join(_shown(name, one) for name, one in done)
    return TurnEnded(Stop.FAILED, "no agent came to an answer", f"No agent came to an answer.\n\n{told}")


def _who_failed(done: Sequence[tuple[str, ChildReturned]]) -> str:
    return ", ".join(f"{name} ended {one.stop}" for name, one in done if not _well(one))


def _well(one: ChildReturned) -> bool:
    return one.stop in WELL


def _rounds(composite: Composite) -> int:
    return max(1, composite.rounds) if composite.strategy in ("debate", "iterative") else 1


def _round(composite: Composite, number: int) -> list[tuple[str, Member]]:
    return [(f"round.{number}.agent.{n}", member) for n, member in enumerate(composite.members)]


def _names(composite: Composite) -> Iterator[tuple[str, str]]:
    """What everybody is called, by key; the same agent twice is two."""
    agents = [member.agent for member in composite.members]
    for number in range(_rounds(composite)):
        for n, (key, member) in enumerate(_round(composite, number)):
            yield key, f"{member.agent} {agents[: n + 1].count(member.agent)}" if agents.count(member.agent) > 1 else member.agent
    yield JUDGE, f"the judge, {composite.judge}"


def _told(member: Member, task: str, *before: str) -> str:
    return "\n\n".join(part for part in (member.brief, task, *before) if part)


def _argued(member: Member, task: str, name: str, latest: Results) -> str:
    others = [_shown(other, one) for other, one in latest.items() if other != name]
    own = [f"## What you answered\n{latest[name].text}"] if name in latest else []
    return _told(member, task, *own, *others, ANSWER_AGAIN if others else "")


def _shown(name: str, one: ChildReturned) -> str:
    how = "answered" if _well(one) else f"ended {one.stop} and said"
    return f"## What {name} {how}\n{one.text}"
