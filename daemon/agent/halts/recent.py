"""The latest part of a turn, read backwards: what was said and done since the user last spoke.

Whoever looks here stops when they have seen enough; nobody reads the whole turn at each step.
"""

from collections.abc import Iterator
from itertools import takewhile

from daemon.core.events import Coached, ModelReplied, Outcome, Recorded, Steered, Stop, ToolFinished, UserSaid
from daemon.core.messages import ToolCall
from daemon.core.turn import Turn

LOOKED = 96
Done = tuple[ToolFinished, ToolCall]
BY_USER = (UserSaid, Steered)
CIRCLING = (Stop.STALLED.value, Stop.REPEATING.value)


def since_user(turn: Turn) -> Iterator[Recorded]:
    """Events, latest first; what a user says mid-turn is a new chance for the model, so older ones do not count."""
    return takewhile(lambda recorded: not isinstance(recorded.event, BY_USER), reversed(turn.events))


def replies(turn: Turn) -> Iterator[tuple[ModelReplied, tuple[Done, ...]]]:
    """Replies, latest first, each with what came of its calls."""
    results: list[ToolFinished] = []
    for recorded in reversed(turn.events):
        event = recorded.event
        if isinstance(event, ToolFinished):
            results.append(event)
        elif isinstance(event, ModelReplied):
            yield event, tuple([(result, _asked(event, result)) for result in reversed(results)])
            results = []
        elif isinstance(event, BY_USER):
            return


def iterations(turn: Turn) -> Iterator[tuple[Done, ...]]:
    """What the iterations did, latest first; those without a call are left out."""
    return (done for _, done in replies(turn) if done)


def fresh(turn: Turn) -> bool:
    """The latest iteration went well, brought only what no earlier one did, and said nothing: no circle can be in that."""
    reply = turn.reply
    if reply is None or reply.text or not reply.calls or not turn.past:
        return reply is None
    count = len(reply.calls)
    latest = [result for result, _ in turn.past[-count:]]
    if any(result.outcome is not Outcome.OK or result.repeat_of for result in latest):
        return False
    before = {result.text for result, _ in turn.past[-count - LOOKED : -count]}
    return before.isdisjoint(result.text for result in latest)


def just_coached(turn: Turn) -> bool:
    """The model was told that it goes in circles, and has not answered yet."""
    for recorded in since_user(turn):
        match recorded.event:
            case Coached(kind=kind) if kind in CIRCLING:
                return True
            case ModelReplied():
                return False
            case _:
                continue
    return False


def _asked(reply: ModelReplied, result: ToolFinished) -> ToolCall:
    return reply.calls[int(result.call_id.partition(".")[2])]
