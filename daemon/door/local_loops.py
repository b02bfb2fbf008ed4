"""Loops of this very process."""

from dataclasses import dataclass

from daemon.core.loops import LoopRow, Order
from daemon.core.redaction import Redactor
from daemon.door.loops import LoopReading, LoopView, loop_view
from daemon.loops.engine import Engine


@dataclass(frozen=True, slots=True)
class LocalLoops(LoopReading):
    """Everything a client can do with loops, done here."""

    engine: Engine
    redactor: Redactor

    async def start(self, order: Order) -> LoopView:
        """Begin one."""
        return await self._view(await self.engine.start(self.redactor.value(order)))

    async def stop(self, loop: LoopView) -> LoopView | None:
        """End it now."""
        row = await self.engine.stop(loop.loop_id, "stopped by the owner")
        return await self._view(row) if row else None

    async def pause(self, loop: LoopView) -> LoopView | None:
        """Not another attempt."""
        row = await self.engine.pause(loop.loop_id)
        return await self._view(row) if row else None

    async def resume(self, loop: LoopView) -> LoopView | None:
        """Go on, in this process."""
        row = await self.engine.resume(loop.loop_id)
        return await self._view(row) if row else None

    async def review(self, loop: LoopView, *, approved: bool, by: str, reason: str = "") -> LoopView | None:
        """Say whether the attempt will do."""
        row = await self.engine.review(loop.loop_id, approved=approved, by=by, reason=self.redactor.text(reason))
        return await self._view(row) if row else None

    async def _view(self, row: LoopRow) -> LoopView:
        return await self.store.read(lambda tx: loop_view(tx, row))
