"""What each address asks of a person (C9). An address without a right in the table is refused to
everybody.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from daemon.client.protocol import DaemonClient
from daemon.core.trust import Person, Right, Role, has_right
from daemon.http.responses import HttpError

PERSON = web.RequestKey("person", Person)
EVENTS_PATH = "/v1/events/{name}"
OPEN_ROUTES = frozenset({("GET", "/health"), ("POST", EVENTS_PATH)})
RIGHT_TEXTS = {
    Right.READ: "look at what others do",
    Right.TALK: "talk to the assistant",
    Right.WORK: "start, stop or approve work",
    Right.ANSWER: "say yes to what it asks",
    Right.MANAGE: "manage the daemon",
}
Route = tuple[str, str]
"""Method and address pattern."""
Handler = Callable[[DaemonClient, web.Request], Awaitable[web.StreamResponse]]
Routes = dict[Route, tuple[Right, Handler]]


def find_route(request: web.Request) -> Route | None:
    """The route of a request; None where nothing is served. HEAD is a GET."""
    resource = request.match_info.route.resource
    if resource is None or request.match_info.http_exception is not None:
        return None
    return "GET" if request.method == "HEAD" else request.method, resource.canonical


def require_right(person: Person, right: Right | None) -> None:
    """Raises HttpError unless the person has this right; None is a right that nobody has."""
    if right is None or not has_right(person.role, right):
        what = RIGHT_TEXTS.get(right, "do this") if right else "do this"
        article = "an" if person.role.value[0] in "aeo" else "a"
        raise forbidden(
            f"{person.name} is {article} {person.role.value} here and may not {what};"
            " nothing was done"
        )


def require_own_session(person: Person, session: str) -> None:
    """Raises HttpError unless the person may write in this session: the owner in all, others in
    those of their name.
    """
    own = f"web:{person.name}"
    if person.role is not Role.OWNER and session != own and not session.startswith(f"{own}."):
        raise forbidden(
            f"{person.name} may write in {own} and in {own}.ANYTHING, and in no other conversation"
        )


def forbidden(message: str) -> HttpError:
    """The person is known and has no right to this."""
    return HttpError(403, "POLICY_ERROR", message)
