"""The HTTP surface: one gate in front, one shape of error, and the routes beside it."""

import logging
from collections.abc import Callable, Sequence
from time import monotonic

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from daemon.core.errors import Fenced, StoreUnavailable, UsageError
from daemon.door.base import Door
from daemon.http.approvals import Approvals
from daemon.http.auth import Gate
from daemon.http.config import UserConfig
from daemon.http.events import EventDoor
from daemon.http.grants import Grants
from daemon.http.health import Health
from daemon.http.live import HEARTBEAT_S, Live
from daemon.http.loops import Loops
from daemon.http.messages import Messages
from daemon.http.people import People
from daemon.http.runs import Runs
from daemon.http.sessions import Sessions
from daemon.http.terminal import Terminal
from daemon.http.wire import BODY_LIMIT, Problem, refusal, too_large

log = logging.getLogger(__name__)
KINDS = {404: "not_found", 405: "method_not_allowed", 413: "too_large"}
WORDS = {
    404: "there is nothing at this address",
    405: "this address does not take that method",
    413: str(too_large(BODY_LIMIT)),
}


def build(
    door: Door,
    token: str,
    *,
    users: Sequence[UserConfig] = (),
    events: EventDoor | None = None,
    heartbeat_s: float = HEARTBEAT_S,
    stopwatch: Callable[[], float] = monotonic,
) -> web.Application:
    """The application, serving this door to whoever has a token: the owner's, a user's, or for an event its sender's."""
    people = {user.token: user.person for user in users}
    gate = Gate(token, stopwatch, people, events.tokens if events else {})
    app = web.Application(middlewares=[_border(gate)], client_max_size=BODY_LIMIT)
    rooms = (Health(door), Messages(door), Runs(door), Live(door, heartbeat_s), Approvals(door), Sessions(door), Terminal(door))
    for room in (*rooms, Grants(door), Loops(door), People(door), *([events] if events else [])):
        app.add_routes(room.routes())
    return app


def _border(gate: Gate) -> Middleware:
    @web.middleware
    async def border(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            gate.admit(request)
            return await handler(request)
        except Problem as problem:
            return refusal(problem)
        except web.HTTPException as error:
            return _translated(error)
        except (StoreUnavailable, Fenced) as error:
            return refusal(Problem(503, "unavailable", str(error)))
        except UsageError as error:
            return refusal(Problem(400, "invalid", str(error)))
        except Exception:  # the border of a request: whatever went wrong in it must not reach the client, nor stop the daemon
            log.exception("%s %s failed", request.method, request.path)
            return refusal(Problem(500, "internal", "something went wrong in the daemon; its log says what"))

    return border


def _translated(error: web.HTTPException) -> web.Response:
    kind = KINDS.get(error.status, "invalid")
    response = refusal(Problem(error.status, kind, WORDS.get(error.status, error.reason)))
    if "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
