"""Loops (A11, E9, D7): the same calls with the same results, or the same words, with nothing new
beside them.

Counted once per iteration, so that parallel calls and healthy repetition do not trip it. The model
is told first, and stopped when it goes on.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from itertools import islice

from daemon.agent.termination.halt import (
    Done,
    Halt,
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
ROUND = (
    "You have gone round {times} times between {tools}, with the same arguments and the same "
    "results each time. Going on like "
    "that will not change them. Say what you learned, then try another way, or tell the user what "
    "stands in the way."
)
FAILING = (
    "{tool} has now failed {times} times running in the same way, whatever arguments it was "
    "given. Other arguments will not "
    "help. Do it without this tool, or tell the user what stands in the way."
)
COACHING = (
    "You have now called {tool} {times} times running with the same arguments and got the same "
    "result. Doing it again will not "
    "change that. Say what you learned from it, then try another way, or tell the user what "
    "stands in the way."
)

REPLIES = 3
TIMES = 8
SHARE = 0.6
SHORTEST = 120
LONGEST = 16_000
LONGEST_ROUND = 40
SHOWN = 60
CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
NO_PROSE = re.compile(r"(?: {4}|\t)|\s*(?:[-*+•>|#]|\d+[.):]|\[)|.*\S\s*\|\s*\S")
SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")
SAME_REPLY = (
    "You have now given the same reply {times} times running, and nothing new came of it. Do the "
    "next step with a tool, say "
    "something new, or tell the user what stands in the way."
)
SAME_SENTENCE = (
    "Your last reply repeated one passage over and over. Say it once. Then do the next step, or "
    "tell the user what stands in "
    "the way."
)


@value(order=True)
class CallOutcome:
    """One call and what came of it. `failure` is the kind of it, "" if it went well; `changes`: it
    may have changed something.
    """

    tool: str
    arguments: str
    outcome: str
    failure: str = field(compare=False)
    changes: bool = field(compare=False)


Outcomes = list[frozenset[CallOutcome]]


def check_circling(turn: Turn) -> Halt | None:
    """The same call again, back and forth, or one tool failing in the same way whatever it is
    given (A11, E9).
    """
    if has_new_results(turn) or is_just_coached(turn):
        return None
    if tool := find_repeated_call(turn):
        detail = f"{tool} was called {WINDOW} times running with the same outcome"
        coach = COACHING.format(tool=tool, times=WINDOW)
    elif tools := find_ping_pong(turn):
        detail = f"it went back and forth between {tools} with the same outcomes"
        coach = ROUND.format(times=WINDOW, tools=tools)
    elif tool := find_repeated_failure(turn):
        detail = f"{tool} failed {FAILURES} times running in the same way"
        coach = FAILING.format(tool=tool, times=FAILURES)
    else:
        return None
    return _make_halt(turn, Stop.STALLED, detail, coach)


def check_repetition(turn: Turn) -> Halt | None:
    """The model says the same again and again, and nothing new comes of it (A11)."""
    if has_new_results(turn) or is_just_coached(turn):
        return None
    if said := find_repeated_reply(turn):
        detail, coach = (
            f"the same reply came {REPLIES} times running",
            SAME_REPLY.format(times=REPLIES),
        )
    elif turn.reply and (said := find_repeated_passage(turn.reply.text)):
        detail, coach = "one passage was repeated over and over", SAME_SENTENCE
    else:
        return None
    shown = said if len(said) <= SHOWN else said[:SHOWN] + "..."
    return _make_halt(turn, Stop.REPEATING, f'{detail} ("{shown}")', coach)


def _make_halt(turn: Turn, reason: Stop, detail: str, coach: str) -> Halt:
    first_time = turn.spec.on_stall == "coach" and reason.value not in turn.coached
    return Halt(reason, detail, coach if first_time else "", coachable=True)


def collect_outcomes(turn: Turn, done: Iterable[Done]) -> frozenset[CallOutcome]:
    """What one iteration did. A result that was only shown again counts as the earlier one."""
    return frozenset(
        _make_outcome(_find_original(turn, result), call.name, call.arguments)
        for result, call in done
    )


def find_repeated_call(turn: Turn) -> str:
    """The tool that was called in each of the last iterations with similar arguments and the same
    outcome; or "".
    """
    recent = _list_outcomes(turn, MEMORY)
    if len(recent) < WINDOW:
        return ""
    news = _find_news(recent, WINDOW - 1)
    tools = [
        step.tool
        for step in frozenset.intersection(*recent[:WINDOW])
        if not any(not new.failure and (new.changes or not step.failure) for new in news)
    ]
    return min(tools, default="")


def find_ping_pong(turn: Turn) -> str:
    """The tools of a round of two to four steps that was gone three times running to the same
    outcomes: "a and b"; or "".
    """
    recent = _list_outcomes(turn, MEMORY)
    for period in PERIODS:
        window = WINDOW * period
        if len(recent) < window or any(not n.failure for n in _find_news(recent, window - period)):
            continue
        always = frozenset.intersection(*recent[:window])
        phases = [
            frozenset.intersection(*recent[at:window:period]) - always
            for at in reversed(range(period))
        ]
        if all(phases):
            tools = list(dict.fromkeys(min(phase).tool for phase in phases))
            last = tools[-1] if len(tools) > 1 else f"{tools[0]} with other arguments"
            return f"{', '.join(tools[:-1] or tools)} and {last}"
    return ""


def find_repeated_failure(turn: Turn) -> str:
    """The tool that failed in the same way in each of the last iterations, whatever its arguments;
    or "".
    """
    recent = _list_outcomes(turn, MEMORY)
    if len(recent) < FAILURES or any(not n.failure for n in _find_news(recent, FAILURES - 1)):
        return ""
    kinds = [
        frozenset((one.tool, one.failure) for one in done if one.failure)
        for done in recent[:FAILURES]
    ]
    return min((tool for tool, _ in frozenset.intersection(*kinds)), default="")


def _list_outcomes(turn: Turn, window: int) -> Outcomes:
    """What each of the last iterations did, latest first."""
    return [collect_outcomes(turn, done) for done in islice(iterate_results(turn), window)]


def _find_news(recent: Outcomes, latest: int) -> frozenset[CallOutcome]:
    """What the `latest` iterations brought that none before them had."""
    fresh = (done.difference(*recent[at + 1 :]) for at, done in enumerate(recent[:latest]))
    return frozenset[CallOutcome]().union(*fresh)


def _find_original(turn: Turn, result: ToolFinished) -> ToolFinished:
    while result.repeat_of:
        earlier = (
            old for old, _ in reversed(turn.settled_calls) if old.call_id == result.repeat_of
        )
        if (found := next(earlier, None)) is None:
            break
        result = found
    return result


@lru_cache(maxsize=256)
def _make_outcome(result: ToolFinished, tool: str, arguments: str) -> CallOutcome:
    """Arguments without key order, white space, quotes, case. An exit code says little: what was
    printed belongs to it.
    """
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    asked = NOISE.sub("", arguments).casefold()
    changes = result.effect not in (Effect.READ, Effect.FETCH)
    if result.outcome is Outcome.OK:
        return CallOutcome(tool, asked, result.text, "", changes)
    kind = result.error_class or result.outcome.value
    text = f"{kind}: {NUMBER.sub('#', result.text)}"
    exited, refused = kind.startswith("exit_"), result.outcome is Outcome.REJECTED
    failure = text if exited or refused else kind
    return CallOutcome(tool, asked, text if exited else kind, failure, changes)


def find_repeated_reply(turn: Turn) -> str:
    """What the last replies said, when it was the same but for numbers and they brought nothing
    new; or "".
    """
    recent = [
        (normalize_text(reply.text), collect_outcomes(turn, done))
        for reply, done in islice(iterate_replies(turn), REPLIES)
    ]
    texts = {text for text, _ in recent}
    if len(recent) < REPLIES or len(texts) > 1:
        return ""
    done = [steps for _, steps in recent]
    new = any(steps.difference(*done[at + 1 :]) for at, steps in enumerate(done[:-1]))
    return "" if new else texts.pop()


def find_repeated_passage(text: str) -> str:
    """The passage that most of a reply consists of, over and over; or "". Lists, tables and code
    may repeat themselves.
    """
    text = text[-LONGEST:]
    lines = [line for line in CODE.sub("\n", text).split("\n") if not NO_PROSE.match(line)]
    prose = " ".join(" ".join(lines).casefold().split())
    if len(prose) < max(SHORTEST, SHARE * len(" ".join(text.split()))):
        return ""
    return _find_frequent_sentence("\n".join(lines).casefold(), len(text)) or _find_word_loop(
        re.findall(r"\w+", prose)
    )


def normalize_text(text: str) -> str:
    """A reply with what does not matter taken out: case, white space, numbers."""
    return NUMBER.sub("#", " ".join(text.casefold().split()))


def _find_frequent_sentence(prose: str, whole: int) -> str:
    """Of the sentences that come often enough, the most frequent one, when together they are most
    of the whole.
    """
    units = (" ".join(unit.split()) for unit in SENTENCE.split(prose))
    counted = Counter(unit for unit in units if unit)
    often = [(times, unit) for unit, times in counted.items() if times >= TIMES]
    covered = sum(times * (len(unit) + 1) for times, unit in often)
    return max(often)[1] if often and covered > SHARE * whole else ""


def _find_word_loop(words: list[str]) -> str:
    """Words that come back after the same distance nearly all the time: a loop without full
    stops.
    """
    for period in range(1, min(LONGEST_ROUND, len(words) // TIMES) + 1):
        pairs = zip(words, words[period:], strict=False)
        if sum(one == other for one, other in pairs) > SHARE * len(words):
            return " ".join(words[-period:])
    return ""
