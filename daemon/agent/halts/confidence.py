"""Low confidence: the model says that it cannot go on, or nearly nothing that it tries works (D4)."""

from collections.abc import Iterator
from itertools import islice

from daemon.agent.halting import Halt
from daemon.agent.halts.hedging import hedge
from daemon.agent.halts.recent import iterations, replies
from daemon.core.events import Outcome, Stop, ToolFinished
from daemon.core.turn import Turn

LATEST = 8
FEWEST = 6
RATE = 0.25
SHOWN = 120
TRIED = (Outcome.OK, Outcome.ERROR, Outcome.UNKNOWN)


def low_confidence(turn: Turn) -> Halt | None:
    """Going on blindly would not help: the user is to be told. Void when the user steers meanwhile, but never coached."""
    detail = _hedged(turn) or _failing(turn)
    return Halt(Stop.LOW_CONFIDENCE, detail, coachable=True) if detail else None


def _hedged(turn: Turn) -> str:
    latest = next(replies(turn), None)
    sentence = hedge(latest[0].text) if latest and latest[0].text else ""
    shown = sentence if len(sentence) <= SHOWN else sentence[:SHOWN] + "..."
    return f'the model sees no way to go on ("{shown}")' if shown else ""


def _failing(turn: Turn) -> str:
    """What nobody tried does not count: calls that were refused, not run, or whose earlier result was shown again."""
    if not turn.past or (turn.past[-1][0].outcome is Outcome.OK and not turn.past[-1][0].repeat_of):
        return ""  # one more that worked makes nothing worse
    latest = list(islice(_tried(turn), LATEST))
    worked = sum(result.outcome is Outcome.OK for result in latest)
    if len(latest) < FEWEST or worked >= RATE * len(latest):
        return ""
    return f"{len(latest) - worked} of the last {len(latest)} tool calls failed"


def _tried(turn: Turn) -> Iterator[ToolFinished]:
    results = (result for done in iterations(turn) for result, _ in reversed(done))
    return (result for result in results if result.outcome in TRIED and not result.repeat_of)
