"""Going in circles: seen by what is asked AND what comes of it, counted once per iteration (A11, E9, D7).

So parallel calls and healthy repetition do not trip it; nor does what is repeated beside something new.

Halt conditions for a model that goes round and round: told so first, stopped when it goes on (A11, E9).

The same words again and again: replies that repeat each other, and a reply that repeats itself (A11).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from itertools import islice
from typing import Literal

from daemon.agent.termination.halt import (
    Done,
    Halt,
    HaltCondition,
    has_new_results,
    is_just_coached,
    iterate_replies,
    iterate_results,
)
from daemon.core import value
from daemon.core.events import Outcome, Stop, ToolFinished
from daemon.core.trust import Effect
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


@value(order=True)
class CallOutcome:
    """One call and what came of it. `failure` is the kind of it, "" if it went well; `changes`: it may have changed something."""

    tool: str
    arguments: str
    outcome: str
    failure: str = field(compare=False)
    changes: bool = field(compare=False)


Recent = list[frozenset[CallOutcome]]


def normalize_arguments(arguments: str) -> str:
    """Arguments with what does not matter taken out: key order, white space, quotes, case."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    return NOISE.sub("", arguments).casefold()


def collect_outcomes(turn: Turn, done: Iterable[Done]) -> frozenset[CallOutcome]:
    """What one iteration did. A result that was only shown again counts as the earlier one."""
    return frozenset(
        _step(_original(turn, result), call.name, call.arguments) for result, call in done
    )


def list_outcomes(turn: Turn, window: int) -> list[frozenset[CallOutcome]]:
    """What each of the last iterations did, latest first."""
    return [collect_outcomes(turn, done) for done in islice(iterate_results(turn), window)]


def find_repeated_call(turn: Turn, window: int = WINDOW, recent: Recent | None = None) -> str:
    """The tool that was called in each of the last `window` iterations with similar arguments and the same outcome; or ""."""
    recent = recent or list_outcomes(turn, MEMORY)
    if len(recent) < window:
        return ""
    news = _news(recent, window - 1)
    held = (
        step
        for step in frozenset.intersection(*recent[:window])
        if not any(_excuses(new, step) for new in news)
    )
    return min((step.tool for step in held), default="")


def find_ping_pong(turn: Turn, recent: Recent | None = None) -> str:
    """The tools of a round of two to four steps that was gone three times running to the same outcomes: "a and b"; or ""."""
    recent = recent or list_outcomes(turn, MEMORY)
    return next((names for period in PERIODS if (names := _find_round(recent, period))), "")


def find_repeated_failure(turn: Turn, window: int = FAILURES, recent: Recent | None = None) -> str:
    """The tool that failed in the same way in each of the last `window` iterations, whatever its arguments; or ""."""
    recent = recent or list_outcomes(turn, MEMORY)
    if len(recent) < window or any(not new.failure for new in _news(recent, window - 1)):
        return ""
    kinds = (
        frozenset((step.tool, step.failure) for step in done if step.failure)
        for done in recent[:window]
    )
    return min((tool for tool, _ in frozenset.intersection(*kinds)), default="")


def render_coaching(tool: str, times: int = WINDOW) -> str:
    """What the model is told."""
    return COACHING.format(tool=tool, times=times)


def _find_round(recent: list[frozenset[CallOutcome]], period: int) -> str:
    window = WINDOW * period
    if len(recent) < window or any(not new.failure for new in _news(recent, window - period)):
        return ""
    always = frozenset.intersection(*recent[:window])
    phases = [
        frozenset.intersection(*recent[at:window:period]) - always for at in reversed(range(period))
    ]
    return _named([min(phase) for phase in phases]) if all(phases) else ""


def _named(chosen: list[CallOutcome]) -> str:
    tools = list(dict.fromkeys(step.tool for step in chosen))
    if len(tools) == 1:
        return f"{tools[0]} and {tools[0]} with other arguments"
    return ", ".join(tools[:-1]) + f" and {tools[-1]}"


def _news(recent: list[frozenset[CallOutcome]], latest: int) -> frozenset[CallOutcome]:
    """What the `latest` iterations brought that none before them had."""
    fresh = (done.difference(*recent[at + 1 :]) for at, done in enumerate(recent[:latest]))
    return frozenset[CallOutcome]().union(*fresh)


def _excuses(new: CallOutcome, held: CallOutcome) -> bool:
    """Something was found beside what is repeated; what fails is worth another try only when something was changed."""
    return not new.failure and (new.changes or not held.failure)


def _original(turn: Turn, result: ToolFinished) -> ToolFinished:
    while result.repeat_of:
        earlier = next(
            (old for old, _ in reversed(turn.settled_calls) if old.call_id == result.repeat_of),
            None,
        )
        if earlier is None:
            return result
        result = earlier
    return result


@lru_cache(maxsize=256)
def _step(result: ToolFinished, tool: str, arguments: str) -> CallOutcome:
    """A command's exit code says little: what it printed belongs to its outcome. So do a person's words to why not."""
    asked, changes = (
        normalize_arguments(arguments),
        result.effect not in (Effect.READ, Effect.FETCH),
    )
    if result.outcome is Outcome.OK:
        return CallOutcome(tool, asked, result.text, "", changes)
    kind = result.error_class or result.outcome.value
    told = f"{kind}: {NUMBER.sub('#', result.text)}"
    exited = kind.startswith("exit_")
    refused = result.outcome is Outcome.REJECTED
    return CallOutcome(
        tool, asked, told if exited else kind, told if exited or refused else kind, changes
    )


OnStall = Literal["coach", "stop"]
Notice = tuple[str, str]
ROUND = (
    "You have gone round {times} times between {tools}, with the same arguments and the same results each time. Going on like "
    "that will not change them. Say what you learned, then try another way, or tell the user what stands in the way."
)
FAILING = (
    "{tool} has now failed {times} times running in the same way, whatever arguments it was given. Other arguments will not "
    "help. Do it without this tool, or tell the user what stands in the way."
)


def coach_first(
    reason: Stop, on_stall: OnStall, look: Callable[[Turn], Notice | None]
) -> HaltCondition:
    """A condition that holds where `look` finds (detail, coaching): a message the first time, unless told to stop at once.

    While the model has not answered a coaching of either kind, no other comes on top.
    """

    def check(turn: Turn) -> Halt | None:
        noticed = None if has_new_results(turn) or is_just_coached(turn) else look(turn)
        if noticed is None:
            return None
        detail, coach = noticed
        first_time = on_stall == "coach" and reason.value not in turn.coached
        return Halt(reason, detail, coach if first_time else "", coachable=True)

    return check


def make_circling(on_stall: OnStall) -> HaltCondition:
    """The same again, back and forth, or one tool failing in the same way whatever it is given (A11, E9)."""

    def look(turn: Turn) -> Notice | None:
        recent = list_outcomes(turn, MEMORY)
        return (
            _notice_stuck(turn, recent)
            or _notice_round(turn, recent)
            or _notice_failing(turn, recent)
        )

    return coach_first(Stop.STALLED, on_stall, look)


def _notice_stuck(turn: Turn, recent: Recent) -> Notice | None:
    tool = find_repeated_call(turn, recent=recent)
    return (
        (f"{tool} was called {WINDOW} times running with the same outcome", render_coaching(tool))
        if tool
        else None
    )


def _notice_round(turn: Turn, recent: Recent) -> Notice | None:
    tools = find_ping_pong(turn, recent)
    if not tools:
        return None
    return f"it went back and forth between {tools} with the same outcomes", ROUND.format(
        times=WINDOW, tools=tools
    )


def _notice_failing(turn: Turn, recent: Recent) -> Notice | None:
    tool = find_repeated_failure(turn, recent=recent)
    if not tool:
        return None
    return f"{tool} failed {FAILURES} times running in the same way", FAILING.format(
        times=FAILURES, tool=tool
    )


REPLIES = 3
TIMES = 8
SHARE = 0.6
SHORTEST = 120
LONGEST = 16_000
LONGEST_ROUND = 40
SHOWN = 60
DIGITS = re.compile(r"\d+")
CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
NO_PROSE = re.compile(r"(?: {4}|\t)|\s*(?:[-*+•>|#]|\d+[.):]|\[)|.*\S\s*\|\s*\S")
SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")
SAME_REPLY = (
    "You have now given the same reply {times} times running, and nothing new came of it. Do the next step with a tool, say "
    "something new, or tell the user what stands in the way."
)
SAME_SENTENCE = (
    "Your last reply repeated one passage over and over. Say it once. Then do the next step, or tell the user what stands in "
    "the way."
)


def make_repeating(on_stall: OnStall) -> HaltCondition:
    """The model says the same again and again, and nothing new comes of it (A11)."""

    def look(turn: Turn) -> Notice | None:
        if said := find_repeated_reply(turn):
            return (
                f"the same reply came {REPLIES} times running ({_short(said)})",
                SAME_REPLY.format(times=REPLIES),
            )
        latest = next(iterate_replies(turn), None)
        if latest and (said := find_repeated_passage(latest[0].text)):
            return f"one passage was repeated over and over ({_short(said)})", SAME_SENTENCE
        return None

    return coach_first(Stop.REPEATING, on_stall, look)


def find_repeated_reply(turn: Turn, times: int = REPLIES) -> str:
    """What the last `times` replies said, when it was the same but for numbers and they brought nothing new; or ""."""
    recent = [
        (normalize_text(reply.text), collect_outcomes(turn, done))
        for reply, done in islice(iterate_replies(turn), times)
    ]
    texts = {text for text, _ in recent}
    if len(recent) < times or len(texts) > 1:
        return ""
    done = [steps for _, steps in recent]
    new = any(steps.difference(*done[at + 1 :]) for at, steps in enumerate(done[:-1]))
    return "" if new else texts.pop()


def find_repeated_passage(text: str) -> str:
    """The passage that most of a reply consists of, over and over; or "". Lists, tables and code may repeat themselves."""
    text = text[-LONGEST:]
    lines = [line for line in CODE.sub("\n", text).split("\n") if not NO_PROSE.match(line)]
    prose = " ".join(" ".join(lines).casefold().split())
    if len(prose) < max(SHORTEST, SHARE * len(" ".join(text.split()))):
        return ""
    return _sentences("\n".join(lines).casefold(), len(text)) or _looping(re.findall(r"\w+", prose))


def normalize_text(text: str) -> str:
    """A reply with what does not matter taken out: case, white space, numbers."""
    return DIGITS.sub("#", " ".join(text.casefold().split()))


def _sentences(prose: str, whole: int) -> str:
    """Of the sentences that come often enough, the most frequent one, when together they are most of the whole."""
    units = (" ".join(unit.split()) for unit in SENTENCE.split(prose))
    counted = Counter(unit for unit in units if unit)
    often = [(times, unit) for unit, times in counted.items() if times >= TIMES]
    covered = sum(times * (len(unit) + 1) for times, unit in often)
    return max(often)[1] if often and covered > SHARE * whole else ""


def _looping(words: list[str]) -> str:
    """Words that come back after the same distance nearly all the time: a loop without full stops."""
    for period in range(1, min(LONGEST_ROUND, len(words) // TIMES) + 1):
        pairs = zip(words, words[period:], strict=False)
        if sum(one == other for one, other in pairs) > SHARE * len(words):
            return " ".join(words[-period:])
    return ""


def _short(said: str) -> str:
    return f'"{said}"' if len(said) <= SHOWN else f'"{said[:SHOWN]}..."'
