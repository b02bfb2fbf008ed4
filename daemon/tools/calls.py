"""Which calls of a reply run together (E5), repeat an earlier one (A11) or are retried (E6)."""

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
RETRY_DELAYS = (0.5, 1.0, 2.0)
WITHOUT_EFFECT = (Outcome.NOT_RUN, Outcome.REJECTED)
REPEAT_NOTE = (
    "\n[You asked exactly this before. This is the result of then;"
    " nothing has been done since that could change it.]"
)


@value
class AdmittedCall:
    """A call that may run now."""

    state: CallState
    tool: Tool
    arguments: Mapping[str, object]

    @property
    def changes_nothing(self) -> bool:
        """It may still be visible outside, as a fetch is."""
        return self.tool.meta.effect in READ_EFFECTS

    @property
    def is_read(self) -> bool:
        """It changes nothing and is not visible outside."""
        return self.tool.meta.effect is Effect.READ

    @property
    def paths(self) -> list[PurePosixPath]:
        """The workspace paths that it reads or writes."""
        return path_arguments(self.arguments, self.tool.meta.paths)


def split_into_batches(calls: Sequence[AdmittedCall]) -> list[list[AdmittedCall]]:
    """Neighbours that do not conflict share a batch; the order of the reply is kept."""
    batches: list[list[AdmittedCall]] = []
    for call in calls:
        if batches and _may_join(call, batches[-1]):
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


def _may_join(call: AdmittedCall, batch: Sequence[AdmittedCall]) -> bool:
    reads = True
    for one in (call, *batch):
        meta = one.tool.meta
        reads = reads and one.changes_nothing
        writes = meta.effect is Effect.WRITE and meta.paths
        if not (meta.parallel and (one.changes_nothing or writes)):
            return False
    return reads or (len(batch) < MAX_PARALLEL and not any(_conflict(call, one) for one in batch))


def _conflict(one: AdmittedCall, other: AdmittedCall) -> bool:
    if one.changes_nothing and other.changes_nothing:
        return False
    if not one.paths or not other.paths:
        return True
    return any(paths_overlap(mine, its) for mine in one.paths for its in other.paths)


def find_repeat(turn: Turn, call: AdmittedCall) -> ToolFinished | None:
    """The earlier result of the same successful read in this turn; None when it must be run.

    Anything that may have changed something in between makes the call new: an effect, a message
    of the user, a wait, a background agent or command.
    """
    if not call.is_read or call.tool.meta.volatile or call.state.starts:
        return None
    before = takewhile(lambda state: state is not call.state, turn.calls)
    if any(state.judged and state.judged.effect is not Effect.READ for state in before):
        return None
    if any(child.spawned.background for child in turn.children.values()):
        return None
    effects = [
        result
        for result, _ in turn.settled_calls
        if result.effect is not Effect.READ and result.outcome not in WITHOUT_EFFECT
    ]
    if any(result.effect is Effect.DESTRUCTIVE for result in effects):
        return None  # a command may go on in the background
    wanted = args_hash(call.tool.name, call.arguments)
    for result, asked in reversed(turn.settled_calls):
        if result in effects or int(result.call_id.partition(".")[0]) < turn.last_input_seq:
            return None
        if (
            result.tool == call.tool.name
            and result.outcome is Outcome.OK
            and not result.repeat_of
            and _hash_call(asked.name, asked.arguments) == wanted
        ):
            text = result.text + REPEAT_NOTE
            again = make_result(call.state, Outcome.OK, text, effect=Effect.READ, limit=len(text))
            return replace(again, label=result.label, owned=result.owned, repeat_of=result.call_id)
    return None


@lru_cache(maxsize=256)
def _hash_call(name: str, arguments: str) -> str:
    try:
        return args_hash(name, parse_arguments(arguments))
    except ToolError:
        return ""


def is_repeatable(meta: ToolMeta) -> bool:
    """Running it twice does no harm: it only reads, or its author declared it so."""
    return meta.effect is Effect.READ or meta.idempotent


def retry_delay(meta: ToolMeta, attempt: int) -> float | None:
    """Seconds to wait after this attempt failed temporarily; None for no more retries."""
    if attempt > meta.retries or not (is_repeatable(meta) or meta.effect is Effect.FETCH):
        return None
    return RETRY_DELAYS[min(attempt, len(RETRY_DELAYS)) - 1]
