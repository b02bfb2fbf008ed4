"""The HTTP application: authentication, routes, one form for errors, and listening."""

import errno
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Handler

from daemon.client.protocol import DaemonClient
from daemon.core.errors import ConfigError, Fenced, StoreUnavailable, UsageError
from daemon.core.rows import NotAllowedToAnswer
from daemon.core.trust import Right
from daemon.http.auth import EVENTS_PATH, HEALTH, Authenticator
from daemon.http.config import HttpConfig, UserConfig
from daemon.http.permissions import POLICY, serve
from daemon.http.resources import ROUTES, EventEndpoint, get_health
from daemon.http.responses import BODY_LIMIT, HttpError, error_response, too_large
from daemon.http.sse import HEARTBEAT_S, STREAM_ROUTE, stream_events
from daemon.loops.config import LoopNotEnabled, LoopNotStarted, UnknownAgent

log = logging.getLogger(__name__)
HTTP_ERRORS = {
    404: ("not_found", "there is nothing at this address"),
    405: ("method_not_allowed", "this address does not take that method"),
    413: ("too_large", str(too_large(BODY_LIMIT))),
}
ERRORS = (
    (NotAllowedToAnswer, *POLICY),
    (UnknownAgent, 404, "no_agent"),
    (LoopNotEnabled, 409, "not_enabled"),
    (LoopNotStarted, 409, "refused"),
    (UsageError | ConfigError, 400, "invalid"),
    (StoreUnavailable | Fenced, 503, "unavailable"),
    (Exception, 500, "internal"),
)
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
) -> web.Application:
    """The application, for the holders of tokens: the owner, users, and senders of events."""
    people = {user.token: user.person for user in users}
    authenticator = Authenticator(token, monotonic, people, events.tokens if events else {})
    guard = web.middleware(partial(_guard, authenticator))
    app = web.Application(middlewares=[guard], client_max_size=BODY_LIMIT)
    app.router.add_route("GET", HEALTH, partial(get_health, client))
    stream = Right.READ, partial(stream_events, heartbeat_s)
    for (method, path), (right, handler) in {**ROUTES, STREAM_ROUTE: stream}.items():
        app.router.add_route(method, path, partial(serve, client, right, handler))
    if events:
        app.router.add_route("POST", EVENTS_PATH, events.post_event)
    return app


async def _guard(
    authenticator: Authenticator, request: web.Request, handler: Handler
) -> web.StreamResponse:
    try:
        authenticator.authenticate(request)
        return await handler(request)
    except HttpError as error:
        return error_response(error)
    except web.HTTPException as error:
        kind, message = HTTP_ERRORS.get(error.status, ("invalid", error.reason))
        response = error_response(HttpError(error.status, kind, message))
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
    except Exception as error:
        # the border of a request: no error may reach the client or stop the daemon
        status, kind = next((s, k) for known, s, k in ERRORS if isinstance(error, known))
        message = str(error)
        if status == 500:
            log.exception("%s %s failed", request.method, request.path)
            message = "something went wrong in the daemon; see its log"
        return error_response(HttpError(status, kind, message))


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
