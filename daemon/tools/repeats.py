"""The same question again: it is answered with what came of it before, and not run again (A11)."""

from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from daemon.core.events import Outcome, ToolFinished
from daemon.core.label import Effect
from daemon.core.turn import Turn
from daemon.tools.arguments import args_hash, parsed
from daemon.tools.base import ToolError
from daemon.tools.batches import Ready
from daemon.tools.results import finished

NOTE = "\n[You asked exactly this before. This is the result of then; nothing has been done since that could change it.]"
IDLE = (Outcome.NOT_RUN, Outcome.REJECTED)


def repeated(turn: Turn, call: Ready) -> ToolFinished | None:
    """The result for a call that only reads, was made before in this turn, and went well; None when it has to be run.

    Whatever may have changed something in between makes it new: an effect, a word of the user's, a wait, another agent.
    """
    if not call.only_reads or call.tool.meta.volatile or call.state.starts or _effect_before(turn, call) or _helped(turn):
        return None
    wanted = args_hash(call.tool.name, call.arguments)
    for result, asked in reversed(turn.past):
        if int(result.call_id.partition(".")[0]) < turn.news or _changed(result):
            return None
        same = result.tool == call.tool.name and result.outcome is Outcome.OK and _hash(asked.name, asked.arguments) == wanted
        if same and not result.repeat_of:
            again = finished(
                call.state,
                Outcome.OK,
                result.text + NOTE,
                effect=Effect.READ,
                label=result.label,
                limit=len(result.text) + len(NOTE),
                repeat_of=result.call_id,
            )
            return replace(again, owned=result.owned)
    return None


def _effect_before(turn: Turn, call: Ready) -> bool:
    """The same reply asks for an effect first, which will have happened by then."""
    before = takewhile(lambda state: state is not call.state, turn.calls)
    return any(state.judged and state.judged.effect is not Effect.READ for state in before)


def _helped(turn: Turn) -> bool:
    """An agent in the background may change anything at any time, and so may a command that goes on there."""
    begun = any(result.effect is Effect.DESTRUCTIVE and _changed(result) for result, _ in turn.past)
    return begun or any(child.spawned.background for child in turn.children.values())


def _changed(result: ToolFinished) -> bool:
    return result.effect is not Effect.READ and result.outcome not in IDLE


@lru_cache(maxsize=256)
def _hash(name: str, arguments: str) -> str:
    try:
        return args_hash(name, parsed(arguments))
    except ToolError:
        return ""
