"""GET /v1/runs/{turn}/events: the events of a run as server-sent events; a client that reconnects
resumes.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager

from aiohttp import web
from pydantic_core import to_json

from daemon.client.protocol import DaemonClient, LiveEvent
from daemon.http.resources import require
from daemon.http.responses import invalid, query_number

STREAM_ROUTE = ("GET", "/v1/runs/{turn}/events")
HEARTBEAT_S = 15.0
WRITE_TIMEOUT_S = 30.0
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


async def stream_events(
    heartbeat_s: float, client: DaemonClient, request: web.Request
) -> web.StreamResponse:
    """From the start, or after `Last-Event-ID` or `?after=`, to run.completed. Each recorded event
    reaches a client that resumes exactly once; drafts have no id and are not repeated.
    """
    seq, rest = _start_position(request)
    view = await require(client, "run", request.match_info["turn"])
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(request)
    events = client.stream_events(view.turn, seq - 1 if rest else seq)
    try:
        with _abort_on_error(request):
            async with asyncio.TaskGroup() as group:
                heartbeats = group.create_task(_send_heartbeats(response, heartbeat_s))
                async for event in events:
                    if not (rest and event.seq == seq and event.rest >= rest):
                        await _send(response, format_sse(event))
                heartbeats.cancel()
    except* (ConnectionError, TimeoutError):
        pass  # the client closed the connection or stopped reading; the run goes on
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()  # unsubscribe now, not when the garbage is collected
    return response


async def _send_heartbeats(response: web.StreamResponse, heartbeat_s: float) -> None:
    """Proxies keep the connection open; a closed one is noticed."""
    while True:
        await asyncio.sleep(heartbeat_s)
        await _send(response, b": heartbeat\n\n")


async def _send(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(WRITE_TIMEOUT_S):
        await response.write(data)


def format_sse(event: LiveEvent) -> bytes:
    """One server-sent event. Its id is SEQ, or SEQ-REST when REST more events of the same record
    follow.
    """
    rest = f"-{event.rest}" if event.rest else ""
    event_id = b"" if event.seq is None else f"id: {event.seq}{rest}\n".encode()
    return b"%bevent: %b\ndata: %b\n\n" % (event_id, event.name.encode(), to_json(event.data))


def _start_position(request: web.Request) -> tuple[int, int]:
    """(seq, rest) of the last event that the client has, as its id says."""
    last = request.headers.get("Last-Event-ID")
    if not last:
        return query_number(request, "after", 0), 0
    seq, dash, rest = last.partition("-")
    if not (last.isascii() and len(last) < 30 and seq.isdigit() and (rest.isdigit() or not dash)):
        raise invalid(f"Last-Event-ID: found {last!r}, expected an id of this stream")
    return int(seq), int(rest or 0)


@contextmanager
def _abort_on_error(request: web.Request) -> Generator[None, None, None]:
    """A stream that has begun cannot report an error: the connection is aborted, and the client
    resumes.
    """
    complete = False
    try:
        yield
        complete = True
    finally:
        if not complete and request.transport is not None:
            request.transport.abort()
