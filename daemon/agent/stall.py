"""Going in circles: seen by what is asked AND what comes of it, counted once per iteration (A11).

So parallel calls and healthy repetition do not trip it.
"""

import json
import re
from contextlib import suppress
from itertools import groupby, islice

from daemon.core.events import ToolFinished
from daemon.core.messages import ToolCall
from daemon.core.turn import Turn

WINDOW = 3
NOISE = re.compile(r"\s+|[\"'`]")
NUMBER = re.compile(r"\d+")
COACHING = (
    "You have now called {tool} {times} times running with the same arguments and got the same result. Doing it again will not "
    "change that. Say what you learned from it, then try another way, or tell the user what stands in the way."
)

Step = tuple[str, str, str]


def similar(arguments: str) -> str:
    """Arguments with what does not matter taken out: key order, white space, quotes, case."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    return NOISE.sub("", arguments).casefold()


def steps(turn: Turn, window: int) -> list[frozenset[Step]]:
    """What each of the last iterations did, latest first: tool, arguments, and the result or the class of its error."""
    grouped = groupby(reversed(turn.past), key=lambda entry: entry[0].call_id.partition(".")[0])
    return [frozenset(_step(result, call) for result, call in entries) for _, entries in islice(grouped, window)]


def stuck_on(turn: Turn, window: int = WINDOW) -> str:
    """The tool that was called in each of the last `window` iterations with similar arguments and the same outcome; or ""."""
    recent = steps(turn, window)
    if len(recent) < window:
        return ""
    return min((tool for tool, _, _ in frozenset.intersection(*recent)), default="")


def coaching(tool: str, times: int = WINDOW) -> str:
    """What the model is told."""
    return COACHING.format(tool=tool, times=times)


def _step(result: ToolFinished, call: ToolCall) -> Step:
    outcome = result.error_class or NUMBER.sub("#", result.text) if result.outcome.value != "ok" else result.text
    return call.name, similar(call.arguments), outcome
