"""GET /v1/runs/{turn}/events: a run as it happens, as server-sent events; a dropped connection resumes where it was."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager

from aiohttp import web
from pydantic_core import to_json

from daemon.client.protocol import DaemonClient, LiveEvent
from daemon.core import value
from daemon.http.resources import require_run
from daemon.http.responses import invalid, query_number

HEARTBEAT_S = 15.0
WRITE_TIMEOUT_S = 30.0
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


@value
class StreamPosition:
    """How far a watcher got: event `seq` but for the last `rest` things told of it. Written SEQ, or SEQ-REST."""

    seq: int
    rest: int = 0

    @classmethod
    def parse(cls, text: str) -> "StreamPosition":
        """From the Last-Event-ID header. Raises Problem."""
        seq, _, rest = text.partition("-")
        if not (
            text.isascii() and len(text) < 30 and seq.isdigit() and (rest.isdigit() or text == seq)
        ):
            raise invalid(f"Last-Event-ID: found {text!r}, expected an id of this stream")
        return cls(int(seq), int(rest or 0))

    @property
    def complete_seq(self) -> int:
        """The latest event that was told in full."""
        return self.seq - 1 if self.rest else self.seq

    def includes(self, event: LiveEvent) -> bool:
        """The watcher has had this one."""
        return bool(self.rest) and event.seq == self.seq and event.rest >= self.rest


@value
class EventStreamRoutes:
    """Each recorded thing is sent exactly once to a client that resumes; drafts have no id and are not repeated."""

    door: DaemonClient
    heartbeat_s: float = HEARTBEAT_S

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/v1/runs/{turn}/events", self.stream)]

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """From the start, or after `Last-Event-ID` or `?after=`, to run.completed."""
        place = _start_position(request)
        view = await require_run(self.door, request)
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        try:
            with _abort_on_error(request):
                await self._send_events(response, view.turn, place)
        except* (ConnectionError, TimeoutError):
            pass  # the watcher went away, or stopped reading; the run goes on
        return response

    async def _send_events(
        self, response: web.StreamResponse, turn: str, place: StreamPosition
    ) -> None:
        events = self.door.stream_events(turn, place.complete_seq)
        try:
            async with asyncio.TaskGroup() as group:
                beat = group.create_task(self._send_heartbeats(response))
                async for event in events:
                    if not place.includes(event):
                        await _send(response, frame_event(event))
                beat.cancel()
        finally:
            await _close_events(events)

    async def _send_heartbeats(self, response: web.StreamResponse) -> None:
        """Keeps proxies from hanging up, and finds out that the client has."""
        while True:
            await asyncio.sleep(self.heartbeat_s)
            await _send(response, b": still here\n\n")


async def _send(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_TIMEOUT_S):
        await response.write(data)


def frame_event(event: LiveEvent) -> bytes:
    """One server-sent event."""
    place = (
        b""
        if event.seq is None
        else f"id: {event.seq}{f'-{event.rest}' if event.rest else ''}\n".encode()
    )
    return b"%bevent: %b\ndata: %b\n\n" % (place, event.name.encode(), to_json(event.data))


def _start_position(request: web.Request) -> StreamPosition:
    last = request.headers.get("Last-Event-ID")
    return StreamPosition.parse(last) if last else StreamPosition(query_number(request, "after", 0))


async def _close_events(events: AsyncIterator[LiveEvent]) -> None:
    """Stop watching at once, rather than when the garbage is collected."""
    if isinstance(events, AsyncGenerator):
        await events.aclose()


@contextmanager
def _abort_on_error(request: web.Request) -> Generator[None, None, None]:
    """Once the stream has begun no error can be answered: the connection is cut, and the client resumes."""
    whole = False
    try:
        yield
        whole = True
    finally:
        if not whole and request.transport is not None:
            request.transport.abort()
