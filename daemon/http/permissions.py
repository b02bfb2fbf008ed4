"""What each address asks of whoever comes (C9). An address that is not in the table is nobody's."""

from aiohttp import web

from daemon.core.trust import Person, Right, Role, has_right
from daemon.http.responses import HttpError

PERSON = web.RequestKey("who", Person)
EVENTS_PATH = "/v1/events/{name}"
OPEN_ROUTES = frozenset({("GET", "/health"), ("POST", EVENTS_PATH)})
LOOP_PATH = "/api/agents/{agent}/loop"
RULES = {
    ("GET", "/v1/runs"): Right.READ,
    ("GET", "/v1/runs/{turn}"): Right.READ,
    ("GET", "/v1/runs/{turn}/transcript"): Right.READ,
    ("GET", "/v1/runs/{turn}/events"): Right.READ,
    ("GET", "/v1/approvals"): Right.READ,
    ("GET", "/v1/grants"): Right.READ,
    ("DELETE", "/v1/grants/{id}"): Right.ANSWER,
    ("GET", "/v1/sessions"): Right.READ,
    ("GET", "/v1/sessions/{id}/turns"): Right.READ,
    ("GET", "/v1/sessions/{id}/undelivered"): Right.READ,
    ("GET", "/v1/sessions/{id}/unfinished"): Right.READ,
    ("GET", "/api/loops"): Right.READ,
    ("GET", f"{LOOP_PATH}/status"): Right.READ,
    ("POST", "/v1/messages"): Right.TALK,
    ("POST", "/v1/terminal/{name}/messages"): Right.TALK,
    ("POST", "/v1/sessions/{id}/agent"): Right.TALK,
    ("POST", "/v1/runs/{turn}/approve"): Right.TALK,
    ("POST", "/v1/runs/{turn}/reject"): Right.TALK,
    ("POST", "/v1/runs/{turn}/cancel"): Right.WORK,
    ("POST", "/v1/sessions/{id}/stop"): Right.WORK,
    ("POST", f"{LOOP_PATH}/start"): Right.WORK,
    ("POST", f"{LOOP_PATH}/stop"): Right.WORK,
    ("POST", f"{LOOP_PATH}/pause"): Right.WORK,
    ("POST", f"{LOOP_PATH}/resume"): Right.WORK,
    ("POST", f"{LOOP_PATH}/approve"): Right.WORK,
    ("POST", "/v1/runs/{turn}/delivered"): Right.MANAGE,
    ("POST", "/v1/people/codes"): Right.MANAGE,
    ("GET", "/v1/people"): Right.MANAGE,
    ("POST", "/v1/people/remove"): Right.MANAGE,
}
RIGHT_TEXTS = {
    Right.READ: "look at what others do",
    Right.TALK: "talk to the assistant",
    Right.WORK: "start, stop or approve work",
    Right.ANSWER: "say yes to what it asks",
    Right.MANAGE: "manage the house",
}


def route_key(request: web.Request) -> tuple[str, str] | None:
    """(method, address pattern) of a request; None where there is nothing at its address. HEAD is a GET."""
    resource = request.match_info.route.resource
    if resource is None or request.match_info.http_exception is not None:
        return None
    return "GET" if request.method == "HEAD" else request.method, resource.canonical


def require_right(person: Person, place: tuple[str, str]) -> None:
    """Raises Problem: this person may not do that, or nobody may."""
    right = RULES.get(place)
    if right is None or not has_right(person.role, right):
        what = RIGHT_TEXTS.get(right, "do this") if right else "do this"
        raise forbidden(
            f"{person.name} is {_with_article(person.role)} here and may not {what}; nothing was done"
        )


def require_own_session(person: Person, session: str) -> None:
    """Raises Problem unless this is a conversation that the person may speak in."""
    if not owns_session(person, session):
        own = f"web:{person.name}"
        raise forbidden(
            f"{person.name} may speak in {own} and in {own}.ANYTHING, and in no other conversation"
        )


def owns_session(person: Person, session: str) -> bool:
    """All are the owner's; everybody else has those that begin with their name."""
    own = f"web:{person.name}"
    return person.role is Role.OWNER or session == own or session.startswith(f"{own}.")


def forbidden(message: str) -> HttpError:
    """The person is known, and may not."""
    return HttpError(403, "POLICY_ERROR", message)


def _with_article(role: Role) -> str:
    return f"{'an' if role.value[0] in 'aeo' else 'a'} {role.value}"
