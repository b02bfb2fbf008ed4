"""Sends the spans of turns that end to an OpenTelemetry collector. Behind the extra `otel`.

A span is read off the journal's events, so no step of a turn waits for it; what cannot be sent is
lost, and nothing else is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from daemon import VERSION
from daemon.core.errors import ConfigError, StoreUnavailable
from daemon.core.event_bus import EventBus
from daemon.services.spans import EndedTurn, WorkSpan, list_spans
from daemon.store.codec import UnreadableEvent
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
BATCH, CLOSE_S, SEND_S = 100, 5.0, 10.0
MISSING = "telemetry.endpoint: needs the extra otel: pip install 'aidaemon[otel]'"


class SpanSender(Protocol):
    """Takes spans in, and sends them in its own time."""

    def send(self, spans: Sequence[WorkSpan], top: str) -> None:
        """Those of one turn, in the trace of the turn at its top."""
        ...

    def close(self) -> None:
        """Send what waits still."""
        ...


def make_sender(endpoint: str, headers: Mapping[str, str]) -> SpanSender:
    """Raises ConfigError without the extra."""
    try:
        from daemon.services.otel import OtelSender  # lazy: the extra otel, 200 ms
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return OtelSender(endpoint, dict(headers), VERSION, SEND_S)


@dataclass
class TurnTracer:
    """Follows the turns that end from now on."""

    store: Store
    sender: SpanSender
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _after: int = 0

    async def start(self) -> None:
        """What has ended before is not told."""
        self._after = await self.store.read(lambda tx: tx.count_ended())

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.ended.wait()
            self.ended.clear()
            await self.look()

    async def look(self) -> None:
        """Send what has ended since the last look."""
        while True:
            try:
                number, turns = await self.store.read(self._read)
            except StoreUnavailable as error:
                log.debug("no spans: %s", error)
                return
            for turn in turns:
                self.sender.send(list(list_spans(turn)), turn.top)
            if number == self._after:
                return
            self._after = number

    def _read(self, tx: Tx) -> tuple[int, list[EndedTurn]]:
        found, turns = tx.list_ended(self._after, BATCH), list[EndedTurn]()
        for _, row in found:
            top = row.id
            while above := tx.get_child(top):
                top = above.parent
            try:
                turns.append(EndedTurn(row, row.parent, top, tx.list_events(row.id)))
            except UnreadableEvent as error:
                log.debug("no spans of turn %s: %s", row.id, error)
        return (found[-1][0] if found else self._after), turns


@asynccontextmanager
async def trace_turns(
    endpoint: str, headers: Mapping[str, str], store: Store, bus: EventBus
) -> AsyncIterator[None]:
    """Send the spans of the turns that end while this is open, where there is an endpoint. Raises
    ConfigError.
    """
    if not endpoint:
        yield
        return
    tracer = TurnTracer(store, await asyncio.to_thread(make_sender, endpoint, headers))
    await tracer.start()
    bus.end_listeners.append(tracer.ended.set)
    following = asyncio.create_task(tracer.run(), name="spans")
    try:
        yield
    finally:
        bus.end_listeners.remove(tracer.ended.set)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await tracer.look()
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.to_thread(tracer.sender.close)
        except TimeoutError:
            log.warning("the last spans were not sent in %g s", CLOSE_S)
