"""Which calls of one reply may run together (E5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from daemon.core.label import Effect
from daemon.core.state import CallState
from daemon.tools.arguments import overlap, paths_in
from daemon.tools.base import Tool

POOL = 8
READING = (Effect.READ, Effect.FETCH)


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may run now."""

    state: CallState
    tool: Tool
    arguments: Mapping[str, object]

    @property
    def reads(self) -> bool:
        """It changes nothing."""
        return self.tool.meta.effect in READING

    @property
    def only_reads(self) -> bool:
        """It changes nothing and nobody outside hears of it."""
        return self.tool.meta.effect is Effect.READ

    @property
    def paths(self) -> list[PurePosixPath]:
        """Where in the workspace it reads or writes."""
        return paths_in(self.arguments, self.tool.meta.paths)


def in_batches(calls: Sequence[Ready]) -> list[list[Ready]]:
    """Neighbours that do not disturb each other share a batch; the order of the reply is kept."""
    batches: list[list[Ready]] = []
    for call in calls:
        if batches and _joins(call, batches[-1]):
            batches[-1].append(call)
        else:
            batches.append([call])
    return batches


def _joins(call: Ready, batch: Sequence[Ready]) -> bool:
    if not all(_may_share(member) for member in (call, *batch)):
        return False
    if call.reads and all(member.reads for member in batch):
        return True
    return len(batch) < POOL and not any(_disturb(call, member) for member in batch)


def _may_share(call: Ready) -> bool:
    meta = call.tool.meta
    return meta.parallel and (call.reads or (meta.effect is Effect.WRITE and bool(meta.paths)))


def _disturb(one: Ready, other: Ready) -> bool:
    if one.reads and other.reads:
        return False
    if not one.paths or not other.paths:
        return True
    return any(overlap(mine, its) for mine in one.paths for its in other.paths)
