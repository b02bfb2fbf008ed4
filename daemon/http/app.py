"""The HTTP application: routes, one form for errors, events of a run as server-sent events, and
listening.
"""

import asyncio
import errno
import logging
import resource
from asyncio import BaseProtocol, BaseTransport, Protocol, Server, Transport
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from secrets import token_urlsafe
from time import monotonic, time

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic_core import to_json
from yarl import URL

from daemon.client.protocol import DaemonClient
from daemon.client.view_types import LiveEvent
from daemon.core.errors import ConfigError
from daemon.core.trust import OWNER, Resource, Right, Role
from daemon.http.auth import (
    EVENTS_PATH,
    HEALTH,
    PERSON,
    Authenticator,
    sees_others_only,
    serve,
)
from daemon.http.config import HttpConfig, UserConfig
from daemon.http.errors import explain_error
from daemon.http.live import LIVE, SOCKETS, LiveEndpoint, close_sockets
from daemon.http.openapi import add_document
from daemon.http.page import add_page
from daemon.http.resources import ROUTES, EventEndpoint, get_health, require
from daemon.http.responses import (
    BODY_LIMIT,
    HttpError,
    error_response,
    invalid,
    query_number,
    too_large,
)
from daemon.http.sign_in import SignIns, add_sign_in

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
    """From the start, or after `Last-Event-ID` or `?after=`, to run.completed. Who resumes gets
    each recorded event exactly once; drafts have no id and are not repeated.
    """
    seq, rest = _start_position(request)
    view = await require(client, "run", request.match_info["turn"])
    is_limited = sees_others_only(request[PERSON], Resource.RUNS)
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(request)
    events = client.stream_events(view.turn, seq - 1 if rest else seq)
    is_complete = False
    try:
        async with asyncio.TaskGroup() as group:
            heartbeats = group.create_task(_send_heartbeats(response, heartbeat_s))
            async for event in events:
                if is_limited and event.seq is None:
                    continue  # not recorded yet, so it may be the owner's
                if is_limited and await client.find_private([view.session]):
                    break  # it was shown something of the owner's meanwhile
                if not (rest and event.seq == seq and event.rest >= rest):
                    await _send(response, format_sse(event))
            heartbeats.cancel()
        is_complete = True
    except* (ConnectionError, TimeoutError):
        pass  # the client closed the connection or stopped reading; the run goes on
    finally:
        if not is_complete and request.transport is not None:
            request.transport.abort()  # it cannot report an error any more: the client resumes
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
        return query_number(request, "after"), 0
    seq, dash, rest = last.partition("-")
    if not (last.isascii() and len(last) < 30 and seq.isdigit() and (rest.isdigit() or not dash)):
        raise invalid(f"Last-Event-ID: found {last!r}, expected an id of this stream")
    return int(seq), int(rest or 0)


log = logging.getLogger(__name__)
HTTP_ERRORS = {
    404: ("not_found", "there is nothing at this address"),
    405: ("method_not_allowed", "this address does not take that method"),
    413: ("too_large", str(too_large(BODY_LIMIT))),
}
SHUTDOWN_S = 0.5
IDLE_S = 20.0
MAX_CONNECTIONS = 4096
MAX_BACKLOG = 128
BUSY = web.AppKey("busy", set[BaseProtocol])
OPEN = web.AppKey("open", Counter[str])
MAX_OPEN_REQUESTS, RETRY_OPEN_S = 64, 5
TOO_MANY_OPEN = (
    "{} has 64 requests and streams open; this one was not accepted: close some, or come back in"
    " 5 s"
)
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)
LISTEN_ERRORS = {
    errno.EADDRINUSE: "another program listens on it",
    errno.EACCES: "this user may not listen on it",
}


def build_app(
    client: DaemonClient,
    token: str,
    *,
    users: Sequence[UserConfig] = (),
    events: EventEndpoint | None = None,
    metrics: Callable[[], Awaitable[str]] | None = None,
    live: LiveEndpoint | None = None,
    page_secret: str = "",
    heartbeat_s: float = HEARTBEAT_S,
) -> web.Application:
    """The application, for the holders of tokens: the owner, users, and senders of events."""
    people = {user.token: user.person for user in users}
    senders = (events.tokens, events.signed) if events else ({}, ())
    sign_ins = SignIns({token: OWNER, **people}, monotonic, time, page_secret or token_urlsafe(32))
    authenticator = Authenticator(token, monotonic, people, *senders, sign_ins)
    guard = web.middleware(partial(_guard, authenticator))
    app = web.Application(middlewares=[guard], client_max_size=BODY_LIMIT)
    app[BUSY], app[OPEN] = set(), Counter()
    app.router.add_get(HEALTH, partial(get_health, client))  # HEAD, too
    add_page(app)
    add_document(app, ROUTES)
    add_sign_in(app, sign_ins, authenticator.refuse_code)
    streaming = Resource.RUNS, partial(stream_events, heartbeat_s)
    app.router.add_route(*STREAM_ROUTE, partial(serve, client, *streaming))
    for (method, path), route in ROUTES.items():
        app.router.add_route(method, path, partial(serve, client, route.right, route.handler))
    if events:
        app.router.add_route("POST", EVENTS_PATH, events.post_event)
    app[SOCKETS] = set()
    if live:
        watching = Resource.RUNS, live.serve
        app.router.add_route("GET", LIVE, partial(serve, client, *watching))
        app.on_shutdown.append(close_sockets)
    if metrics:
        shown = Right.MANAGE, partial(show_metrics, metrics)
        app.router.add_route("GET", "/metrics", partial(serve, client, *shown))
    return app


async def show_metrics(
    metrics: Callable[[], Awaitable[str]], client: DaemonClient, request: web.Request
) -> web.Response:
    """In Prometheus' text form."""
    kind = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(text=await metrics(), headers=kind)


async def _guard(
    authenticator: Authenticator, request: web.Request, handler: Handler
) -> web.StreamResponse:
    busy = request.app[BUSY]
    busy.add(request.protocol)
    try:
        authenticator.authenticate(request)
        person = request.get(PERSON)
        if person is None or person.role is Role.OWNER:
            return await handler(request)
        if request.app[OPEN][person.name] >= MAX_OPEN_REQUESTS:
            raise HttpError(429, "too_many", TOO_MANY_OPEN.format(person.name), RETRY_OPEN_S)
        request.app[OPEN][person.name] += 1
        try:
            return await handler(request)
        finally:
            request.app[OPEN][person.name] -= 1
    except HttpError as error:
        return error_response(error)
    except web.HTTPException as error:
        kind, message = HTTP_ERRORS.get(error.status, ("invalid", error.reason))
        message += await _find_address(request) if error.status == 404 else ""
        response = error_response(HttpError(error.status, kind, message))
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
    except Exception as error:
        # the border of a request: no error may reach the client or stop the daemon
        shown = explain_error(error, request.get(PERSON))
        if shown.status == 500:
            log.exception("%s %s failed", request.method, request.path)
        return error_response(shown)
    finally:
        busy.discard(request.protocol)


async def _find_address(request: web.Request) -> str:
    """What was meant, where the path has a slash too many."""
    path = "/" + "/".join(filter(None, request.path.split("/")))
    if path == request.path:
        return ""
    found = await request.app.router.resolve(request.clone(rel_url=URL.build(path=path)))
    return f"; {path} is one" if found.http_exception is None else ""


class Refusal(Protocol):
    """A connection that finds every other one at work: it is told to come back."""

    def connection_made(self, transport: BaseTransport) -> None:
        if isinstance(transport, Transport):
            transport.write(FULL)
            transport.close()


class HttpServer:
    """Serves the application on this machine until it is closed.

    A connection has IDLE_S to send the head of its first or next request. There are never more
    than half as many as the process may have files: the oldest that sends nothing makes room.
    """

    def __init__(self, config: HttpConfig, app: web.Application) -> None:
        self.config = config
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = min(MAX_CONNECTIONS, soft // 2 if soft > 0 else MAX_CONNECTIONS)
        self._app = app
        self._listener: Server | None = None
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=SHUTDOWN_S, keepalive_timeout=IDLE_S
        )

    async def start(self) -> str:
        """Listen; the address. Raises ConfigError for a port that cannot be used."""
        await self._runner.setup()
        host, port, loop = self.config.host, self.config.port, asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(self._admit, host, port, backlog=MAX_BACKLOG)
        except OSError as error:
            await self.aclose()
            why = LISTEN_ERRORS.get(error.errno or 0, error.strerror)
            hint = "set another one, or 0 for any free one"
            raise ConfigError(f"http.port: {host} port {port}: {why}; {hint}") from error
        host, port = self._listener.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _admit(self) -> BaseProtocol:
        server = self._runner.server
        if server is None:
            return Refusal()
        if len(server.connections) >= self.most:
            open_ones = [(one, one.transport) for one in server.connections]
            live = [(one, way) for one, way in open_ones if way and not way.is_closing()]
            idle = (way for one, way in live if one not in self._app[BUSY])
            if len(live) >= self.most:
                oldest = next(idle, None)
                if oldest is None:
                    return Refusal()
                oldest.abort()
        return server()

    async def aclose(self) -> None:
        """Stop listening; requests under way get half a second, streams are cut and resume
        elsewhere.
        """
        if self._listener:
            self._listener.close()
        await self._runner.cleanup()
