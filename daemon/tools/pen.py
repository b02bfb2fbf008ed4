"""Writing down what several tools did at once, and when it has to be on disk."""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType

from daemon.core.turn import Turn

SOON_S = 0.05


@dataclass(slots=True)
class Pen:
    """One commit of a turn at a time: tools that finish together share one, and none is written twice.

    What an effect follows from is committed before it. Reading has no consequence outside, and is simply done again after a
    crash: its start and its result may wait for the next commit. Where that takes longer than 50 ms they are written `soon`,
    so that whoever watches sees what runs.
    """

    turn: Turn
    _held: asyncio.Lock = field(default_factory=asyncio.Lock)
    _timer: asyncio.TimerHandle | None = None
    _later: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Pen":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is written behind the back of whoever comes next."""
        if self._timer:
            self._timer.cancel()
        if self._later:
            await asyncio.wait((self._later,))
            if error is None:
                self._later.result()

    async def commit(self) -> None:
        """Durable when it returns. A stop in the middle waits for the disk: nobody could say what had been written."""
        async with self._held:
            await self.turn.commit()

    def soon(self) -> None:
        """Durable in a moment, unless something else commits before."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SOON_S, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if self._later is None or (self._later.done() and not self._later.exception()):
            self._later = asyncio.create_task(self.commit(), name="pen")
