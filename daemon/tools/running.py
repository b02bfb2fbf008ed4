"""Running the calls that may run: start written down, tool run under its time limit, result written down."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.events import Event, Outcome, ToolFinished, ToolRetried, ToolStarted
from daemon.core.live import Live
from daemon.core.live import ToolOutput as Printed
from daemon.core.redaction import Redactor, Stream
from daemon.core.turn import Turn
from daemon.tools.base import RetryableToolError, ToolContext, ToolError, ToolOutput
from daemon.tools.batches import Ready
from daemon.tools.pen import Pen
from daemon.tools.results import failure, finished, printable
from daemon.tools.retry import wait_before_retry

Sleep = Callable[[float], Awaitable[None]]


class TimedOut(ToolError):
    """The tool did not come back in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs batches of calls of one turn. Nothing that a tool says gets past the redactor."""

    turn: Turn
    pen: Pen
    untrusted: bool
    live: Live
    clock: Clock
    sleep: Sleep
    max_chars: int
    pool: asyncio.Semaphore
    redactor: Redactor = field(default_factory=Redactor)

    async def run(self, batch: Sequence[Ready]) -> None:
        """All of them at once, as far as the pool goes; results are recorded as they come, the model sees them in order."""
        await self._start(batch)
        if len(batch) == 1:
            await self._finish(batch[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for call in batch:
                    group.create_task(self._finish(call))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _start(self, batch: Sequence[Ready]) -> None:
        now = self.clock.now()
        for call in batch:
            state, effect = call.state, call.tool.meta.effect
            self.turn.record(ToolStarted(state.call_id, call.tool.name, effect, state.starts + 1), now)
        if all(call.only_reads for call in batch):
            self.pen.soon()
            return
        try:
            await self.pen.commit()
        except (asyncio.CancelledError, StoreUnavailable) as error:
            self._not_run(batch, error)
            raise

    def _not_run(self, batch: Sequence[Ready], error: BaseException) -> None:
        """We know that nothing has happened yet: say so, before anybody has to call the outcome unknown."""
        why = str(error) if isinstance(error, StoreUnavailable) else "it was stopped before it began"
        for call in batch:
            result = finished(call.state, Outcome.NOT_RUN, f"Not run: {why}", error_class="NotRun")
            self.turn.record(result, self.clock.now())

    async def _finish(self, call: Ready) -> None:
        async with self.pool:
            result, also = await self._result(call)
        now = self.clock.now()
        for event in also:
            self.turn.record(self.redactor.value(event), now)
        self.turn.record(result, now)
        if call.only_reads:
            self.pen.soon()
        else:
            await self.pen.commit()

    async def _result(self, call: Ready) -> tuple[ToolFinished, tuple[Event, ...]]:
        meta, error_class, began = call.tool.meta, "", self.clock.monotonic()
        try:
            output = await self._attempts(call)
        except (Fenced, StoreUnavailable):
            raise
        except asyncio.CancelledError as error:
            if _stopped():
                raise
            output, error_class = failure(ToolError("the tool gave up by itself (cancelled)"), meta), type(error).__name__
        except Exception as error:  # noqa: BLE001 - the border of a tool run: its failure is the model's to read (B7)
            output, error_class = failure(error, meta), type(error).__name__
        if output.is_error and not error_class:
            error_class = f"exit_{output.exit_code}" if output.exit_code is not None else "ToolError"
        outcome = Outcome.ERROR if output.is_error else Outcome.OK
        result = finished(
            call.state, outcome, self._shown(output.text), effect=meta.effect, label=output.label, error_class=error_class,
            limit=meta.max_chars or self.max_chars,
        )
        seconds = self.clock.monotonic() - began if output.seconds is None else output.seconds
        shown = replace(result, exit_code=output.exit_code, offers=output.offers, seconds=seconds, owned=output.owned)
        return shown, output.also

    def _shown(self, text: str) -> str:
        """Cleaned as a whole: what is cut later would cut a secret in two; what is unprintable would hide one."""
        return self.redactor.text(printable(text))

    async def _attempts(self, call: Ready) -> ToolOutput:
        attempt = 1
        while wait := wait_before_retry(call.tool.meta, attempt):
            try:
                return await self._once(call)
            except RetryableToolError as error:
                self.turn.record(ToolRetried(call.state.call_id, attempt, self._shown(str(error)), wait), self.clock.now())
            await self.pen.commit()
            await self.sleep(wait)
            attempt += 1
        return await self._once(call)

    async def _once(self, call: Ready) -> ToolOutput:
        limit = call.tool.meta.timeout_s
        scope, printed = asyncio.timeout(limit), self.redactor.stream()
        try:
            async with scope:
                return await call.tool.run(call.arguments, self._context(call, printed))
        except TimeoutError as error:
            if scope.expired():
                raise TimedOut(f"timed out after {limit:g} s") from error
            raise
        finally:
            self._show(call, printed.flush())

    def _show(self, call: Ready, text: str) -> None:
        if text and self.live.watched(self.turn.id):
            self.live.publish(self.turn.id, Printed(call.state.call_id, text))

    def _context(self, call: Ready, printed: Stream) -> ToolContext:
        turn, call_id = self.turn, call.state.call_id

        def on_output(text: str) -> None:
            self._show(call, printed.feed(text))

        return ToolContext(turn.session, turn, call_id, self.untrusted, self.clock, on_output, self._note)

    async def _note(self, event: Event) -> None:
        """A tool's own event, on disk before the tool goes on."""
        self.turn.record(self.redactor.value(event), self.clock.now())
        await self.pen.commit()


def _stopped() -> bool:
    """Somebody cancelled this task; without that, a cancellation is a tool's own fault and must not pass for a stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
