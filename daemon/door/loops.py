"""Loops as a client sees them: one shape, in-process and over HTTP (C8)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from daemon.core.loops import REVIEW, LoopRow, LoopStage, Order
from daemon.core.rows import TurnRow
from daemon.store.protocol import ReadTx, Store

MOST = 20
SHOWN_AS = {LoopStage.REVIEWING: "paused"}


@dataclass(frozen=True, slots=True)
class AttemptView:
    """One attempt: the run that it was, and all it said. `output` is None while it runs."""

    iteration: int
    turn: str
    state: str
    stop_reason: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class CriteriaView:
    """When the loop is done."""

    type: str
    value: str


@dataclass(frozen=True, slots=True)
class LoopView:
    """A loop as it stands. status: running, paused, completed, failed; `review` is the question that waits for a person."""

    loop_id: str
    agent: str
    iteration: int
    max_iterations: int
    criteria: CriteriaView
    status: str
    session: str
    message: str
    progress_log: list[str] = field(default_factory=list)
    attempts: list[AttemptView] = field(default_factory=list)
    final_output: str | None = None
    error: str | None = None
    review: str | None = None
    started: str = ""
    ended: str | None = None


class Loops(Protocol):
    """What a client can do with loops; all but `all` by the loop's id."""

    async def start(self, order: Order) -> LoopView:
        """Begin one. Raises ConfigError, UsageError, LoopRefused; over HTTP DaemonRefused."""
        ...

    async def all(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first; of one agent, or of all."""
        ...

    async def stop(self, loop: LoopView) -> LoopView | None:
        """End it now; None when it had ended."""
        ...

    async def pause(self, loop: LoopView) -> LoopView | None:
        """Not another attempt; None when there is nothing to pause."""
        ...

    async def resume(self, loop: LoopView) -> LoopView | None:
        """Go on; None when it is not paused."""
        ...

    async def review(self, loop: LoopView, *, approved: bool, by: str, reason: str = "") -> LoopView | None:
        """Say whether the attempt will do; None when that is not asked."""
        ...


@dataclass(frozen=True, slots=True)
class LoopReading:
    """The half that only looks."""

    store: Store

    async def all(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first."""
        return await self.store.read(lambda tx: [loop_view(tx, row) for row in tx.loops(agent, MOST)])


def loop_view(tx: ReadTx, row: LoopRow) -> LoopView:
    """The loop with its attempts, whose full output stays readable (C5)."""
    tried = [(number, tx.turn(row.turn(number))) for number in range(1, row.attempt + 1)]
    return LoopView(
        loop_id=row.id,
        agent=row.agent,
        iteration=row.attempt,
        max_iterations=row.max_iterations,
        criteria=CriteriaView(row.criterion, row.value),
        status=SHOWN_AS.get(row.stage, row.stage.value),
        session=row.root,
        message=row.message,
        progress_log=list(row.learned),
        attempts=[_attempt(row, number, turn) for number, turn in tried],
        final_output=row.final_output if row.stage is LoopStage.COMPLETED else None,
        error=row.error or None,
        review=REVIEW if row.stage is LoopStage.REVIEWING else None,
        started=row.started_at.isoformat(),
        ended=row.ended_at.isoformat() if row.ended_at else None,
    )


def _attempt(row: LoopRow, number: int, turn: TurnRow | None) -> AttemptView:
    if turn is None:
        return AttemptView(number, row.turn(number), "queued")
    stop = turn.stop_reason.value if turn.stop_reason else None
    return AttemptView(number, turn.id, turn.state, stop, turn.reply if turn.ended_at else None)


def to_wire(view: LoopView) -> dict[str, object]:
    """LoopState, in the names that its clients know."""
    return {_camel(name): _wired(value) for name, value in asdict(view).items()}


def _wired(value: object) -> object:
    match value:
        case dict():
            return {_camel(name): _wired(inner) for name, inner in value.items()}
        case list():
            return [_wired(inner) for inner in value]
        case _:
            return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def named(loops: Sequence[LoopView], name: str, *, open_only: bool) -> LoopView | None:
    """The loop of this id, or the latest of this agent; without a name the latest. `open_only`: one that has not ended."""
    found = [view for view in loops if name in ("", view.loop_id, view.agent) and not (open_only and view.ended)]
    return found[0] if found else None
