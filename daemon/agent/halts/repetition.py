"""The same words again and again: replies that repeat each other, and a reply that repeats itself (A11)."""

import re
from collections import Counter
from itertools import islice

from daemon.agent.halting import HaltCondition
from daemon.agent.halts.circles import Notice, OnStall, coached_first
from daemon.agent.halts.recent import replies
from daemon.agent.stall import deeds
from daemon.core.events import Stop
from daemon.core.turn import Turn

REPLIES = 3
TIMES = 8
SHARE = 0.6
SHORTEST = 120
LONGEST = 16_000
LONGEST_ROUND = 40
SHOWN = 60
NUMBER = re.compile(r"\d+")
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


def repeating(on_stall: OnStall) -> HaltCondition:
    """The model says the same again and again, and nothing new comes of it (A11)."""

    def look(turn: Turn) -> Notice | None:
        if said := repeated(turn):
            return f"the same reply came {REPLIES} times running ({_short(said)})", SAME_REPLY.format(times=REPLIES)
        latest = next(replies(turn), None)
        if latest and (said := degenerate(latest[0].text)):
            return f"one passage was repeated over and over ({_short(said)})", SAME_SENTENCE
        return None

    return coached_first(Stop.REPEATING, on_stall, look)


def repeated(turn: Turn, times: int = REPLIES) -> str:
    """What the last `times` replies said, when it was the same but for numbers and they brought nothing new; or ""."""
    recent = [(normal(reply.text), deeds(turn, done)) for reply, done in islice(replies(turn), times)]
    texts = {text for text, _ in recent}
    if len(recent) < times or len(texts) > 1:
        return ""
    done = [steps for _, steps in recent]
    new = any(steps.difference(*done[at + 1 :]) for at, steps in enumerate(done[:-1]))
    return "" if new else texts.pop()


def degenerate(text: str) -> str:
    """The passage that most of a reply consists of, over and over; or "". Lists, tables and code may repeat themselves."""
    text = text[-LONGEST:]
    lines = [line for line in CODE.sub("\n", text).split("\n") if not NO_PROSE.match(line)]
    prose = " ".join(" ".join(lines).casefold().split())
    if len(prose) < max(SHORTEST, SHARE * len(" ".join(text.split()))):
        return ""
    return _sentences("\n".join(lines).casefold(), len(text)) or _looping(re.findall(r"\w+", prose))


def normal(text: str) -> str:
    """A reply with what does not matter taken out: case, white space, numbers."""
    return NUMBER.sub("#", " ".join(text.casefold().split()))


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
