"""The HTTP application: authentication, routes, one form for errors, and listening."""

import errno
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from daemon.client.protocol import DaemonClient
from daemon.core.errors import ConfigError, Fenced, StoreUnavailable, UsageError
from daemon.core.trust import Right
from daemon.http.auth import HEALTH, Authenticator
from daemon.http.config import HttpConfig, UserConfig
from daemon.http.loops import LOOP_ROUTES
from daemon.http.permissions import EVENTS_PATH
from daemon.http.resources import ROUTES, EventEndpoint, get_health
from daemon.http.responses import BODY_LIMIT, HttpError, error_response, too_large
from daemon.http.sse import HEARTBEAT_S, EventStreamEndpoint

log = logging.getLogger(__name__)
STREAM_ROUTE = ("GET", "/v1/runs/{turn}/events")
ROUTE_RIGHTS = {
    STREAM_ROUTE: Right.READ,
    **{route: right for route, (right, _) in (ROUTES | LOOP_ROUTES).items()},
}
ERRORS = {
    404: ("not_found", "there is nothing at this address"),
    405: ("method_not_allowed", "this address does not take that method"),
    413: ("too_large", str(too_large(BODY_LIMIT))),
}
SHUTDOWN_S = 0.5
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
    heartbeat_s: float = HEARTBEAT_S,
    stopwatch: Callable[[], float] = monotonic,
) -> web.Application:
    """The application, for the holders of tokens: the owner, users, and senders of events."""
    people = {user.token: user.person for user in users}
    authenticator = Authenticator(
        token, stopwatch, people, events.tokens if events else {}, ROUTE_RIGHTS
    )
    app = web.Application(middlewares=[_guard(authenticator)], client_max_size=BODY_LIMIT)
    add = app.router.add_route
    add("GET", HEALTH, partial(get_health, client))
    add(*STREAM_ROUTE, partial(EventStreamEndpoint(heartbeat_s).stream_events, client))
    for (method, path), (_, handler) in (ROUTES | LOOP_ROUTES).items():
        add(method, path, partial(handler, client))
    if events:
        add("POST", EVENTS_PATH, events.post_event)
    return app


def _guard(authenticator: Authenticator) -> Middleware:
    @web.middleware
    async def handle(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            authenticator.authenticate(request)
            return await handler(request)
        except HttpError as error:
            return error_response(error)
        except web.HTTPException as error:
            kind, message = ERRORS.get(error.status, ("invalid", error.reason))
            response = error_response(HttpError(error.status, kind, message))
            if "Allow" in error.headers:
                response.headers["Allow"] = error.headers["Allow"]
            return response
        except (StoreUnavailable, Fenced) as error:
            return error_response(HttpError(503, "unavailable", str(error)))
        except UsageError as error:
            return error_response(HttpError(400, "invalid", str(error)))
        except (
            Exception
        ):  # the border of a request: no error may reach the client or stop the daemon
            log.exception("%s %s failed", request.method, request.path)
            return error_response(
                HttpError(500, "internal", "something went wrong in the daemon; see its log")
            )

    return handle


@dataclass(slots=True)
class HttpServer:
    """Serves the application on this machine until it is closed."""

    config: HttpConfig
    app: web.Application
    _runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen; the address. Raises ConfigError for a port that cannot be used."""
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        host, port = self.config.host, self.config.port
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self.aclose()
            why = LISTEN_ERRORS.get(error.errno or 0, error.strerror)
            hint = "set another one, or 0 for any free one"
            raise ConfigError(f"http.port: {host} port {port}: {why}; {hint}") from error
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def aclose(self) -> None:
        """Stop listening; requests under way get half a second, streams are cut and resume
        elsewhere.
        """
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()
