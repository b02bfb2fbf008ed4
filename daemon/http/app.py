"""Listening: from a config and an application to an address that answers.

The HTTP surface: one gate in front, one shape of error, and the routes beside it.
"""

import errno
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from daemon.client.protocol import DaemonClient
from daemon.core.errors import ConfigError, Fenced, StoreUnavailable, UsageError
from daemon.http.auth import Authenticator
from daemon.http.config import HttpConfig, UserConfig
from daemon.http.loops import LoopRoutes
from daemon.http.resources import (
    ApprovalRoutes,
    EventEndpoint,
    GrantRoutes,
    HealthRoutes,
    MessageRoutes,
    PeopleRoutes,
    RunRoutes,
    SessionRoutes,
    TerminalRoutes,
)
from daemon.http.responses import BODY_LIMIT, HttpError, error_response, too_large
from daemon.http.sse import HEARTBEAT_S, EventStreamRoutes

GRACE_S = 0.5
LISTEN_ERRORS = {
    errno.EADDRINUSE: "another program listens on it",
    errno.EACCES: "this user may not listen on it",
}


@dataclass(slots=True)
class HttpServer:
    """Serves the application on this machine until it is closed."""

    config: HttpConfig
    app: web.Application
    _runner: web.AppRunner | None = None

    async def start(self) -> str:
        """Listen, and give the address. Raises ConfigError for a port that cannot be had."""
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=GRACE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.config.host, self.config.port)
        try:
            await site.start()
        except OSError as error:
            await self.aclose()
            why = LISTEN_ERRORS.get(error.errno or 0, error.strerror)
            hint = "set another one, or 0 for any free one"
            raise ConfigError(
                f"http.port: {self.config.host} port {self.config.port}: {why}; {hint}"
            ) from error
        host, port = self._runner.addresses[0][:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def aclose(self) -> None:
        """Stop listening; requests under way get half a second to end, streams are cut and resume elsewhere."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()


log = logging.getLogger(__name__)
ERROR_TYPES = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
ERROR_TEXTS = {
    404: "there is nothing at this address",
    405: "this address does not take that method",
    413: str(too_large(BODY_LIMIT)),
}


def build_app(
    door: DaemonClient,
    token: str,
    *,
    users: Sequence[UserConfig] = (),
    events: EventEndpoint | None = None,
    heartbeat_s: float = HEARTBEAT_S,
    stopwatch: Callable[[], float] = monotonic,
) -> web.Application:
    """The application, serving this door to whoever has a token: the owner's, a user's, or for an event its sender's."""
    people = {user.token: user.person for user in users}
    gate = Authenticator(token, stopwatch, people, events.tokens if events else {})
    app = web.Application(middlewares=[_handle_errors(gate)], client_max_size=BODY_LIMIT)
    rooms = (
        HealthRoutes(door),
        MessageRoutes(door),
        RunRoutes(door),
        EventStreamRoutes(door, heartbeat_s),
        ApprovalRoutes(door),
        SessionRoutes(door),
        TerminalRoutes(door),
    )
    for room in (
        *rooms,
        GrantRoutes(door),
        LoopRoutes(door),
        PeopleRoutes(door),
        *([events] if events else []),
    ):
        app.add_routes(room.routes())
    return app


def _handle_errors(gate: Authenticator) -> Middleware:
    @web.middleware
    async def border(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            gate.authenticate(request)
            return await handler(request)
        except HttpError as problem:
            return error_response(problem)
        except web.HTTPException as error:
            return _translate_error(error)
        except (StoreUnavailable, Fenced) as error:
            return error_response(HttpError(503, "unavailable", str(error)))
        except UsageError as error:
            return error_response(HttpError(400, "invalid", str(error)))
        except Exception:  # the border of a request: whatever went wrong in it must not reach the client, nor stop the daemon
            log.exception("%s %s failed", request.method, request.path)
            return error_response(
                HttpError(500, "internal", "something went wrong in the daemon; its log says what")
            )

    return border


def _translate_error(error: web.HTTPException) -> web.Response:
    kind = ERROR_TYPES.get(error.status, "invalid")
    response = error_response(
        HttpError(error.status, kind, ERROR_TEXTS.get(error.status, error.reason))
    )
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
