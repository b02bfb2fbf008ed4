"""Going in circles: seen by what is asked AND what comes of it, counted once per iteration (A11, E9, D7).

So parallel calls and healthy repetition do not trip it; nor does what is repeated beside something new.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from daemon.agent.halts.recent import Done, iterations
from daemon.core.events import Outcome, ToolFinished
from daemon.core.label import Effect
from daemon.core.turn import Turn

WINDOW = 3
FAILURES = 5
PERIODS = (2, 3, 4)
MEMORY = WINDOW * max(PERIODS)
NOISE = re.compile(r"\s+|[\"'`]")
NUMBER = re.compile(r"\d+")
COACHING = (
    "You have now called {tool} {times} times running with the same arguments and got the same result. Doing it again will not "
    "change that. Say what you learned from it, then try another way, or tell the user what stands in the way."
)


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One call and what came of it. `failure` is the kind of it, "" if it went well; `changes`: it may have changed something."""

    tool: str
    arguments: str
    outcome: str
    failure: str = field(compare=False)
    changes: bool = field(compare=False)


Recent = list[frozenset[Step]]


def similar(arguments: str) -> str:
    """Arguments with what does not matter taken out: key order, white space, quotes, case."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    return NOISE.sub("", arguments).casefold()


def deeds(turn: Turn, done: Iterable[Done]) -> frozenset[Step]:
    """What one iteration did. A result that was only shown again counts as the earlier one."""
    return frozenset(_step(_original(turn, result), call.name, call.arguments) for result, call in done)


def steps(turn: Turn, window: int) -> list[frozenset[Step]]:
    """What each of the last iterations did, latest first."""
    return [deeds(turn, done) for done in islice(iterations(turn), window)]


def stuck_on(turn: Turn, window: int = WINDOW, recent: Recent | None = None) -> str:
    """The tool that was called in each of the last `window` iterations with similar arguments and the same outcome; or ""."""
    recent = recent or steps(turn, MEMORY)
    if len(recent) < window:
        return ""
    news = _news(recent, window - 1)
    held = (step for step in frozenset.intersection(*recent[:window]) if not any(_excuses(new, step) for new in news))
    return min((step.tool for step in held), default="")


def pingpong(turn: Turn, recent: Recent | None = None) -> str:
    """The tools of a round of two to four steps that was gone three times running to the same outcomes: "a and b"; or ""."""
    recent = recent or steps(turn, MEMORY)
    return next((names for period in PERIODS if (names := _round(recent, period))), "")


def failing_alike(turn: Turn, window: int = FAILURES, recent: Recent | None = None) -> str:
    """The tool that failed in the same way in each of the last `window` iterations, whatever its arguments; or ""."""
    recent = recent or steps(turn, MEMORY)
    if len(recent) < window or any(not new.failure for new in _news(recent, window - 1)):
        return ""
    kinds = (frozenset((step.tool, step.failure) for step in done if step.failure) for done in recent[:window])
    return min((tool for tool, _ in frozenset.intersection(*kinds)), default="")


def coaching(tool: str, times: int = WINDOW) -> str:
    """What the model is told."""
    return COACHING.format(tool=tool, times=times)


def _round(recent: list[frozenset[Step]], period: int) -> str:
    window = WINDOW * period
    if len(recent) < window or any(not new.failure for new in _news(recent, window - period)):
        return ""
    always = frozenset.intersection(*recent[:window])
    phases = [frozenset.intersection(*recent[at:window:period]) - always for at in reversed(range(period))]
    return _named([min(phase) for phase in phases]) if all(phases) else ""


def _named(chosen: list[Step]) -> str:
    tools = list(dict.fromkeys(step.tool for step in chosen))
    if len(tools) == 1:
        return f"{tools[0]} and {tools[0]} with other arguments"
    return ", ".join(tools[:-1]) + f" and {tools[-1]}"


def _news(recent: list[frozenset[Step]], latest: int) -> frozenset[Step]:
    """What the `latest` iterations brought that none before them had."""
    fresh = (done.difference(*recent[at + 1 :]) for at, done in enumerate(recent[:latest]))
    return frozenset[Step]().union(*fresh)


def _excuses(new: Step, held: Step) -> bool:
    """Something was found beside what is repeated; what fails is worth another try only when something was changed."""
    return not new.failure and (new.changes or not held.failure)


def _original(turn: Turn, result: ToolFinished) -> ToolFinished:
    while result.repeat_of:
        earlier = next((old for old, _ in reversed(turn.past) if old.call_id == result.repeat_of), None)
        if earlier is None:
            return result
        result = earlier
    return result


@lru_cache(maxsize=256)
def _step(result: ToolFinished, tool: str, arguments: str) -> Step:
    """A command's exit code says little: what it printed belongs to its outcome. So do a person's words to why not."""
    asked, changes = similar(arguments), result.effect not in (Effect.READ, Effect.FETCH)
    if result.outcome is Outcome.OK:
        return Step(tool, asked, result.text, "", changes)
    kind = result.error_class or result.outcome.value
    told = f"{kind}: {NUMBER.sub('#', result.text)}"
    exited = kind.startswith("exit_")
    refused = result.outcome is Outcome.REJECTED
    return Step(tool, asked, told if exited else kind, told if exited or refused else kind, changes)
