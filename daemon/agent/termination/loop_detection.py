"""The stop conditions of every turn, in their order (E1); loops (A11, E9, D7): the same calls with
the same results, or the same words, with nothing new beside them.

Loops are counted once per iteration, so that parallel calls and healthy repetition do not trip
them. The model is told first, and stopped when it goes on.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from daemon.agent.termination.conditions import (
    Halt,
    check_confidence,
    check_iterations,
    check_unrecoverable,
    clip,
    iterate_results,
    iterate_since_reply,
)
from daemon.core import value
from daemon.core.events import Coached, Outcome, Stop, ToolFinished
from daemon.core.trust import Effect
from daemon.core.turn import Done, Turn

LOOKED = 96
CIRCLING = (Stop.STALLED.value, Stop.REPEATING.value)
HOUSEKEEPING = ("todo", "find_tools")
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

SAME_RESULT = (
    "{tool} has now given the same result {times} times running, whatever it was asked. Asking it "
    "something else will not change "
    "that. Say what you learned from it, then try another way, or tell the user what stands in the "
    "way."
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
T = TypeVar("T")


def find_halt(turn: Turn) -> Halt | None:
    """The first condition that holds: unrecoverable errors, the limit of iterations, loops, a
    model that sees no way on.
    """
    return (
        check_unrecoverable(turn)
        or check_iterations(turn)
        or check_loops(turn)
        or check_confidence(turn)
    )


def check_loops(turn: Turn) -> Halt | None:
    """The same call again, back and forth, or one tool failing in the same way whatever it is given
    (A11, E9); or the same words again and again. Void where something new comes of it.
    """
    if not _may_loop(turn):
        return None
    recent, reason, said = list_outcomes(turn), Stop.STALLED, ""
    if tool := find_repeated_call(recent):
        detail = f"{tool} was called {WINDOW} times running with the same outcome"
        coach = COACHING.format(tool=tool, times=WINDOW)
    elif tool := find_repeated_result(recent):
        detail = f"{tool} gave the same result {WINDOW} times running, whatever it was asked"
        coach = SAME_RESULT.format(tool=tool, times=WINDOW)
    elif tools := find_ping_pong(recent):
        detail = f"it went back and forth between {tools} with the same outcomes"
        coach = ROUND.format(times=WINDOW, tools=tools)
    elif tool := find_repeated_failure(recent):
        detail = f"{tool} failed {FAILURES} times running in the same way"
        coach = FAILING.format(tool=tool, times=FAILURES)
    elif said := find_repeated_reply(turn):
        detail = f"the same reply came {REPLIES} times running"
        coach = SAME_REPLY.format(times=REPLIES)
    elif turn.reply and (said := find_repeated_passage(turn.reply.text)):
        detail, coach = "one passage was repeated over and over", SAME_SENTENCE
    else:
        return None
    if said:
        reason, detail = Stop.REPEATING, f'{detail} ("{clip(said, SHOWN)}")'
    first_time = turn.spec.on_stall == "coach" and reason.value not in turn.coached
    return Halt(reason, detail, coach if first_time else "", coachable=True)


def _may_loop(turn: Turn) -> bool:
    """Not where the latest iteration succeeded, asked or brought only what is new, and said
    nothing; nor where the model was told that it goes in circles and has not answered yet.
    """
    reply, settled = turn.reply, turn.settled_calls
    if reply is None:
        return False
    if not reply.text and reply.calls and settled:
        count = len(reply.calls)
        before = settled[-count - LOOKED : -count]
        texts = {result.text for result, _ in before}
        asked = {(call.name, _normalize(call.arguments)) for _, call in before}
        if all(
            one.outcome is Outcome.OK
            and not one.repeat_of
            and (
                one.text not in texts
                or (
                    (one.effect not in (Effect.READ, Effect.FETCH) or one.tool in HOUSEKEEPING)
                    and (call.name, _normalize(call.arguments)) not in asked
                )
            )
            for one, call in settled[-count:]
        ):
            return False
    since = iterate_since_reply(turn)
    return not any(isinstance(event, Coached) and event.kind in CIRCLING for event in since)


def find_repeated_call(recent: Outcomes) -> str:
    """The tool that was called in each of the last iterations with similar arguments and the same
    outcome; or "".
    """
    news = _find_news(recent, WINDOW - 1)
    tools = [
        step.tool
        for step in _find_common(recent, WINDOW)
        if not any(not new.failure and (new.changes or not step.failure) for new in news)
    ]
    return min(tools, default="")


def find_repeated_result(recent: Outcomes) -> str:
    """The tool that gave the same result in each of the last iterations, whatever it was asked
    (D7); or "".
    """
    if len(recent) < WINDOW:
        return ""
    same = {one.outcome for one in recent[0]}
    for done in recent[1:WINDOW]:
        same &= {one.outcome for one in done}
    return find_repeated_call(ignore_arguments(recent)) if same else ""


def ignore_arguments(recent: Outcomes) -> Outcomes:
    """Of what went well and changed nothing the result counts, not what was asked (D7)."""

    def ignore(one: CallOutcome) -> CallOutcome:
        counts = one.changes or one.failure or one.tool in HOUSEKEEPING
        return one if counts else replace(one, arguments="")

    return [frozenset(map(ignore, done)) for done in recent]


def find_ping_pong(recent: Outcomes) -> str:
    """The tools of a round of two to four steps that was gone three times running to the same
    outcomes: "a and b"; or "".
    """
    for period in PERIODS:
        window = WINDOW * period
        if len(recent) < window or any(not n.failure for n in _find_news(recent, window - period)):
            continue
        always = _find_common(recent, window)
        phases = [
            frozenset.intersection(*recent[at:window:period]) - always
            for at in reversed(range(period))
        ]
        if all(phases):
            tools = list(dict.fromkeys(min(phase).tool for phase in phases))
            last = tools[-1] if len(tools) > 1 else f"{tools[0]} with other arguments"
            return f"{', '.join(tools[:-1] or tools)} and {last}"
    return ""


def find_repeated_failure(recent: Outcomes) -> str:
    """The tool that failed in the same way in each of the last iterations, whatever its arguments;
    or "".
    """
    if any(not new.failure for new in _find_news(recent, FAILURES - 1)):
        return ""
    kinds = [frozenset((one.tool, one.failure) for one in done if one.failure) for done in recent]
    return min((tool for tool, _ in _find_common(kinds, FAILURES)), default="")


def list_outcomes(turn: Turn) -> Outcomes:
    """What each of the last iterations did, latest first."""
    return [_collect_outcomes(turn, done) for done in islice(iterate_results(turn), MEMORY)]


def _collect_outcomes(turn: Turn, done: Done) -> frozenset[CallOutcome]:
    """What one iteration did. A result that was only shown again counts as the earlier one."""
    return frozenset(
        _make_outcome(_find_original(turn, result), call.name, call.arguments)
        for result, call in done
    )


def _find_common(recent: Sequence[frozenset[T]], latest: int) -> frozenset[T]:
    """What each of the `latest` iterations has; nothing where there were fewer."""
    return frozenset.intersection(*recent[:latest]) if len(recent) >= latest else frozenset()


def _find_news(recent: Outcomes, latest: int) -> frozenset[CallOutcome]:
    """What the `latest` iterations brought that none before them had."""
    fresh = (done.difference(*recent[at + 1 :]) for at, done in enumerate(recent[:latest]))
    return frozenset[CallOutcome]().union(*fresh)


def _find_original(turn: Turn, result: ToolFinished) -> ToolFinished:
    while result.repeat_of:
        wanted, same = result.repeat_of, result
        result = next((old for old, _ in turn.settled_calls if old.call_id == wanted), same)
        if result is same:
            break
    return result


@lru_cache(maxsize=1024)
def _normalize(arguments: str) -> str:
    """Without key order, white space, quotes, case."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True)
    return NOISE.sub("", arguments).casefold()


def _make_outcome(result: ToolFinished, tool: str, arguments: str) -> CallOutcome:
    """An exit code says little: what was printed belongs to it."""
    asked = _normalize(arguments)
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
    recent = turn.replies[: -REPLIES - 1 : -1]
    texts = {normalize_text(reply.text) for reply, _ in recent}
    if len(recent) < REPLIES or len(texts) > 1:
        return ""
    done = ignore_arguments([_collect_outcomes(turn, results) for _, results in recent])
    return "" if _find_news(done, REPLIES - 1) else texts.pop()


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
