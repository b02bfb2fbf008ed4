"""Which calls of one reply may run together (E5).

The same question again: it is answered with what came of it before, and not run again (A11).

When a failed tool is tried again, off-budget (E6).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from pathlib import PurePosixPath

from daemon.core import value
from daemon.core.events import Outcome, ToolFinished
from daemon.core.trust import Effect
from daemon.core.turn import CallState, Turn
from daemon.tools.arguments import args_hash, parse_arguments, path_arguments, paths_overlap
from daemon.tools.base import Tool, ToolError, ToolMeta
from daemon.tools.results import make_result

MAX_PARALLEL = 8
READ_EFFECTS = (Effect.READ, Effect.FETCH)


@value
class AdmittedCall:
    """A call that may run now."""

    state: CallState
    tool: Tool
    arguments: Mapping[str, object]

    @property
    def changes_nothing(self) -> bool:
        """It changes nothing."""
        return self.tool.meta.effect in READ_EFFECTS

    @property
    def is_read(self) -> bool:
        """It changes nothing and nobody outside hears of it."""
        return self.tool.meta.effect is Effect.READ

    @property
    def paths(self) -> list[PurePosixPath]:
        """Where in the workspace it reads or writes."""
        return path_arguments(self.arguments, self.tool.meta.paths)


def split_into_batches(calls: Sequence[AdmittedCall]) -> list[list[AdmittedCall]]:
    """Neighbours that do not disturb each other share a batch; the order of the reply is kept."""
    batches: list[list[AdmittedCall]] = []
    for call in calls:
        if batches and _may_join(call, batches[-1]):
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


def _may_join(call: AdmittedCall, batch: Sequence[AdmittedCall]) -> bool:
    if not all(_may_run_parallel(member) for member in (call, *batch)):
        return False
    if call.changes_nothing and all(member.changes_nothing for member in batch):
        return True
    return len(batch) < MAX_PARALLEL and not any(_conflict(call, member) for member in batch)


def _may_run_parallel(call: AdmittedCall) -> bool:
    meta = call.tool.meta
    return meta.parallel and (
        call.changes_nothing or (meta.effect is Effect.WRITE and bool(meta.paths))
    )


def _conflict(one: AdmittedCall, other: AdmittedCall) -> bool:
    if one.changes_nothing and other.changes_nothing:
        return False
    if not one.paths or not other.paths:
        return True
    return any(paths_overlap(mine, its) for mine in one.paths for its in other.paths)


REPEAT_NOTE = "\n[You asked exactly this before. This is the result of then; nothing has been done since that could change it.]"
WITHOUT_EFFECT = (Outcome.NOT_RUN, Outcome.REJECTED)


def find_repeat(turn: Turn, call: AdmittedCall) -> ToolFinished | None:
    """The result for a call that only reads, was made before in this turn, and went well; None when it has to be run.

    Whatever may have changed something in between makes it new: an effect, a word of the user's, a wait, another agent.
    """
    if (
        not call.is_read
        or call.tool.meta.volatile
        or call.state.starts
        or _follows_effect(turn, call)
        or _has_background_work(turn)
    ):
        return None
    wanted = args_hash(call.tool.name, call.arguments)
    for result, asked in reversed(turn.settled_calls):
        if int(result.call_id.partition(".")[0]) < turn.last_input_seq or _had_effect(result):
            return None
        same = (
            result.tool == call.tool.name
            and result.outcome is Outcome.OK
            and _hash_call(asked.name, asked.arguments) == wanted
        )
        if same and not result.repeat_of:
            again = make_result(
                call.state,
                Outcome.OK,
                result.text + REPEAT_NOTE,
                effect=Effect.READ,
                label=result.label,
                limit=len(result.text) + len(REPEAT_NOTE),
                repeat_of=result.call_id,
            )
            return replace(again, owned=result.owned)
    return None


def _follows_effect(turn: Turn, call: AdmittedCall) -> bool:
    """The same reply asks for an effect first, which will have happened by then."""
    before = takewhile(lambda state: state is not call.state, turn.calls)
    return any(state.judged and state.judged.effect is not Effect.READ for state in before)


def _has_background_work(turn: Turn) -> bool:
    """An agent in the background may change anything at any time, and so may a command that goes on there."""
    begun = any(
        result.effect is Effect.DESTRUCTIVE and _had_effect(result)
        for result, _ in turn.settled_calls
    )
    return begun or any(child.spawned.background for child in turn.children.values())


def _had_effect(result: ToolFinished) -> bool:
    return result.effect is not Effect.READ and result.outcome not in WITHOUT_EFFECT


@lru_cache(maxsize=256)
def _hash_call(name: str, arguments: str) -> str:
    try:
        return args_hash(name, parse_arguments(arguments))
    except ToolError:
        return ""


RETRY_DELAYS = (0.5, 1.0, 2.0)


def is_repeatable(meta: ToolMeta) -> bool:
    """Running it twice does no harm: it only reads inside, or its author declared it so."""
    return meta.effect is Effect.READ or meta.idempotent


def retry_delay(meta: ToolMeta, attempt: int) -> float | None:
    """Seconds until the next try after attempt number `attempt` failed for a passing reason; None when there is none."""
    if attempt > meta.retries or not (is_repeatable(meta) or meta.effect is Effect.FETCH):
        return None
    return RETRY_DELAYS[min(attempt, len(RETRY_DELAYS)) - 1]
