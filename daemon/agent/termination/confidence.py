"""Low confidence: the model says that it cannot go on, or nearly nothing that it tries works
(D4).
"""

import re
from functools import lru_cache
from itertools import islice

from daemon.agent.termination.halt import Halt, iterate_replies, iterate_results
from daemon.core.events import Outcome, Stop
from daemon.core.turn import Turn

EDGE, MAX_SHOWN = 4000, 120
LATEST, FEWEST, RATE = 8, 6, 0.25
TRIED = (Outcome.OK, Outcome.ERROR, Outcome.UNKNOWN)
QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"]*\"|“[^”]*”|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)|^[ "
    r"\t]*>.*?$",
    re.DOTALL | re.MULTILINE,
)
LETTER = re.compile(
    r"^[^\S\n]*(?:dear|hi|hello)\b[^.\n]{0,40},[^\S\n]*$", re.MULTILINE | re.IGNORECASE
)
SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n")
ADVERBS = re.compile(
    r" (?:else|really|honestly|still|just|quite|entirely|completely|currently|unfortunately|now|here|next|any ?more|any further"  # noqa: E501
    r"|further|from here|at this point|with (?:this|the|my) task)\b"
)
END = r"(?= *(?:[.,;:!?…—–-]|$|(?:and|or|but|so)\b))"
I_AM, CANNOT = (
    r"i(?:'m| am)",
    r"i(?: cannot| can't| can not| am unable to|'m unable to| am not able to)",
)
NO_IDEA = (
    rf"(?:{I_AM} (?:not (?:sure|certain)|unsure|uncertain)|i (?:do not|don't|no longer) "
    rf"know|i have no idea|i can't figure out|it is (?:not clear|unclear)(?: to "
    rf"me)?|^(?:not sure|no idea))"
)
CANNOT_GO_ON = re.compile(
    rf"(?<![\w'])(?:{NO_IDEA} (?:how|what|where) (?:to|i (?:should|can)) (?:proceed|move "
    rf"forward|(?:continue|go on|go|do|try){END})"
    rf"|{I_AM} (?:stuck|at a loss|out of ideas|going (?:around )?in circles){END}"
    r"|i(?:'ve| have)? (?:run|ran) out of (?:ideas|options|things to try)|i(?:'ve| have)? "
    r"exhausted (?:all |my |the )*options"
    rf"|i(?:'ve| have)? (?:hit|reached) a dead end{END}"
    rf"|{CANNOT} (?:proceed|continue|go on|move forward|make (?:any )?progress){END}"
    r"|i (?:(?:do not|don't|cannot|can't) see (?:any|a)|see no)(?: other)? way (?:forward|to "
    r"(?:proceed|continue|go on))"
    rf"|there(?:'s| is) nothing(?: more| else)?(?: that)? i can (?:try|do){END}|i give up{END})"
)
DEPENDS = re.compile(r"\b(?:if|when|whenever|in case|until|unless|without)\b")
SOLVED = re.compile(
    r" (?:if|when|unless|until)\b|(?:,? (?:so|but|therefore)|[;:—–-]) (?:first,? )?(?:i(?:'ll|'d| "
    r"will| would)|i am going to|let me|let's|here(?:'s| is))\b"
)


def check_confidence(turn: Turn) -> Halt | None:
    """Going on blindly would not help: the user is told. Void when the user steers meanwhile,
    never coached.
    """
    latest = next(iterate_replies(turn), None)
    sentence = find_low_confidence(latest[0].text) if latest and latest[0].text else ""
    if sentence:
        shown = sentence if len(sentence) <= MAX_SHOWN else sentence[:MAX_SHOWN] + "..."
        detail = f'the model sees no way to go on ("{shown}")'
    elif not (detail := _describe_failures(turn)):
        return None
    return Halt(Stop.LOW_CONFIDENCE, detail, coachable=True)


@lru_cache(maxsize=64)
def find_low_confidence(text: str) -> str:
    """The sentence that says "I cannot go on", or "". In a long reply it stands at the beginning
    or the end. English only.
    """
    if len(text) > 2 * EDGE:
        text = f"{text[:EDGE]}\n{text[-EDGE:]}"
    text = QUOTED.sub(" … ", text.replace("’", "'").replace("‘", "'"))
    letter = LETTER.search(text)
    for sentence in SENTENCE.split(text[: letter.start()] if letter else text):
        plain = ADVERBS.sub("", " ".join(sentence.casefold().split()))
        found = CANNOT_GO_ON.search(plain)
        if found and not (
            DEPENDS.search(plain[: found.start()]) or SOLVED.search(plain, found.end())
        ):
            return " ".join(sentence.split())
    return ""


def _describe_failures(turn: Turn) -> str:
    """Calls that were refused, not run, or whose earlier result was shown again do not count."""
    if not turn.settled_calls or (
        turn.settled_calls[-1][0].outcome is Outcome.OK and not turn.settled_calls[-1][0].repeat_of
    ):
        return ""
    results = (result for done in iterate_results(turn) for result, _ in reversed(done))
    tried = [
        one.outcome is Outcome.OK
        for one in islice((r for r in results if r.outcome in TRIED and not r.repeat_of), LATEST)
    ]
    if len(tried) < FEWEST or sum(tried) >= RATE * len(tried):
        return ""
    return f"{len(tried) - sum(tried)} of the last {len(tried)} tool calls failed"
