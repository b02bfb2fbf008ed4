"""Several agents at one task: in a row, at once, against each other, or round after round until it is done (B11)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from daemon.agent.children import Children, Returned
from daemon.agent.context import Scene
from daemon.core.errors import ConfigError
from daemon.core.events import ChildReturned, ChildSpawned, Event, TurnEnded, UserSaid
from daemon.core.outcomes import Stop
from daemon.core.terms import Composite, Member
from daemon.core.turn import Turn

WELL = ("done", "condition", "max_iterations")


@dataclass(frozen=True, slots=True)
class Step:
    """A child to set to work: its key in the turn, who it is, what it is told."""

    key: str
    agent: str
    task: str


Results = Callable[[str], ChildReturned | None]


def next_steps(composite: Composite, task: str, results: Results) -> Sequence[Step] | TurnEnded:
    """What comes next, or the end. Pure: the same results give the same steps, before a crash and after it."""
    failed = [one for key in keys(composite) if (one := results(key)) and one.stop not in WELL]
    if failed and composite.strategy in ("sequential", "iterative"):
        first = failed[0]
        return TurnEnded(Stop.FAILED, f"{first.key} ended {first.stop}", f"The step {first.key} did not end well:\n{first.text}")
    for stage in stages(composite, task, results):
        missing = [step for step in stage if results(step.key) is None]
        if missing:
            return missing
        if _is_done(composite, stage, results):
            break
    return _ended(composite, task, results)


def stages(composite: Composite, task: str, results: Results) -> "Sequence[Sequence[Step]]":
    """The steps, those that may run at once together; only as far as the results before them are known."""
    match composite.strategy:
        case "parallel":
            return [[Step(f"agent.{n}", member.agent, _told(member, task)) for n, member in enumerate(composite.members)]]
        case "debate":
            return _debate(composite, task, results)
        case "iterative":
            return _in_a_row(composite, task, results, max(1, composite.rounds))
        case _:
            return _in_a_row(composite, task, results, 1)


def _in_a_row(composite: Composite, task: str, results: Results, rounds: int) -> list[list[Step]]:
    found: list[list[Step]] = []
    before = ""
    for turn in range(rounds):
        for n, member in enumerate(composite.members):
            key = f"round.{turn}.agent.{n}"
            found.append([Step(key, member.agent, _told(member, task, before))])
            done = results(key)
            if done is None:
                return found
            before = f"## What {member.agent} answered\n{done.text}"
    return found


def _debate(composite: Composite, task: str, results: Results) -> list[list[Step]]:
    found: list[list[Step]] = []
    before = ""
    for turn in range(max(1, composite.rounds)):
        told = [(f"round.{turn}.agent.{n}", member, _told(member, task, before)) for n, member in enumerate(composite.members)]
        stage = [Step(key, member.agent, text) for key, member, text in told]
        found.append(stage)
        done = [results(step.key) for step in stage]
        if any(one is None for one in done):
            return found
        before = _said(composite, done)
    if composite.judge:
        found.append([Step("judge", composite.judge, f"{task}\n\n{before}\n\nWeigh these answers and give the final one.")])
    return found


def _is_done(composite: Composite, stage: Sequence[Step], results: Results) -> bool:
    if composite.strategy != "iterative" or not composite.until:
        return False
    return any(composite.until in done.text for step in stage if (done := results(step.key)))


def _ended(composite: Composite, task: str, results: Results) -> TurnEnded:
    done = [(key, one) for key in keys(composite) if (one := results(key))]
    well = [one for _, one in done if one.stop in WELL]
    if not well:
        text = "\n\n".join(f"{key} ended {one.stop}: {one.text}" for key, one in done)
        return TurnEnded(Stop.FAILED, "no agent came to an answer", f"No agent came to an answer.\n{text}")
    if composite.strategy == "parallel" or (composite.strategy == "debate" and not composite.judge):
        last = [key for key in keys(composite) if key != "judge"][-len(composite.members) :]
        return TurnEnded(Stop.DONE, "", _said(composite, [results(key) for key in last]))
    unmet = composite.strategy == "iterative" and composite.until and composite.until not in well[-1].text
    return TurnEnded(Stop.MAX_ITERATIONS if unmet else Stop.DONE, f"{composite.rounds} rounds" if unmet else "", well[-1].text)


def keys(composite: Composite) -> list[str]:
    """All keys there can be, in order."""
    members = range(len(composite.members))
    if composite.strategy == "parallel":
        return [f"agent.{n}" for n in members]
    return [*(f"round.{turn}.agent.{n}" for turn in range(max(1, composite.rounds)) for n in members), "judge"]


def _told(member: Member, task: str, before: str = "") -> str:
    return "\n\n".join(part for part in (member.brief, task, before) if part)


def _said(composite: Composite, done: "Sequence[ChildReturned | None]") -> str:
    parts = [f"## {member.agent}\n{one.text}" for member, one in zip(composite.members, done, strict=False) if one]
    return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class Crew:
    """Sets the next agents of a composite to work, each with its slice of the budget, and waits for them."""

    children: Children
    now: Callable[[], datetime]

    async def advance(self, turn: Turn, scene: Scene) -> Sequence[Event]:
        """What came of the next steps, or the end."""
        composite, first = turn.terms.composite, turn.events[0].event
        if composite is None or not isinstance(first, UserSaid):
            return []

        def results(key: str) -> ChildReturned | None:
            child = turn.children.get(key)
            return child.returned if child else None

        steps = next_steps(composite, first.text, results)
        if isinstance(steps, TurnEnded):
            return [steps]
        try:
            events = await self._spawn(turn, steps)
        except ConfigError as error:
            return [TurnEnded(Stop.FAILED, "agent", f"I cannot go on: {error}")]
        done = await asyncio.gather(*(self.children.returned(event) for event in events))
        return [_returned(event, one) for event, one in zip(events, done, strict=True)]

    async def _spawn(self, turn: Turn, steps: Sequence[Step]) -> list[ChildSpawned]:
        """All of one stage in one write; those that a crash left behind are only waited for."""
        events = []
        new = []
        for step in steps:
            known = turn.children.get(step.key)
            event = known.spawned if known else self.children.spawned(
                turn, step.key, step.task, agent=step.agent, share=1 / len(steps)
            )
            events.append(event)
            if known is None:
                new.append(event)
        for event in new:
            turn.record(event, self.now())
        await turn.commit()
        for event in events:
            await self.children.rouse(event.child)
        return events


def _returned(event: ChildSpawned, returned: Returned) -> ChildReturned:
    return ChildReturned(event.key, event.child, returned.stop, returned.text, returned.label)
