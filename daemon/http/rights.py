"""What each address asks of whoever comes (C9). An address that is not in the table is nobody's."""

from aiohttp import web

from daemon.core.roles import Person, Right, Role, may
from daemon.http.wire import Problem

WHO = web.RequestKey("who", Person)
EVENTS = "/v1/events/{name}"
OPEN = frozenset({("GET", "/health"), ("POST", EVENTS)})
LOOP = "/api/agents/{agent}/loop"
RULES = {
    ("GET", "/v1/runs"): Right.LOOK,
    ("GET", "/v1/runs/{turn}"): Right.LOOK,
    ("GET", "/v1/runs/{turn}/transcript"): Right.LOOK,
    ("GET", "/v1/runs/{turn}/events"): Right.LOOK,
    ("GET", "/v1/approvals"): Right.LOOK,
    ("GET", "/v1/grants"): Right.LOOK,
    ("DELETE", "/v1/grants/{id}"): Right.ANSWER,
    ("GET", "/v1/sessions"): Right.LOOK,
    ("GET", "/v1/sessions/{id}/turns"): Right.LOOK,
    ("GET", "/v1/sessions/{id}/undelivered"): Right.LOOK,
    ("GET", "/v1/sessions/{id}/unfinished"): Right.LOOK,
    ("GET", "/api/loops"): Right.LOOK,
    ("GET", f"{LOOP}/status"): Right.LOOK,
    ("POST", "/v1/messages"): Right.TALK,
    ("POST", "/v1/terminal/{name}/messages"): Right.TALK,
    ("POST", "/v1/sessions/{id}/agent"): Right.TALK,
    ("POST", "/v1/runs/{turn}/approve"): Right.TALK,
    ("POST", "/v1/runs/{turn}/reject"): Right.TALK,
    ("POST", "/v1/runs/{turn}/cancel"): Right.WORK,
    ("POST", "/v1/sessions/{id}/stop"): Right.WORK,
    ("POST", f"{LOOP}/start"): Right.WORK,
    ("POST", f"{LOOP}/stop"): Right.WORK,
    ("POST", f"{LOOP}/pause"): Right.WORK,
    ("POST", f"{LOOP}/resume"): Right.WORK,
    ("POST", f"{LOOP}/approve"): Right.WORK,
    ("POST", "/v1/runs/{turn}/delivered"): Right.MANAGE,
    ("POST", "/v1/people/codes"): Right.MANAGE,
    ("GET", "/v1/people"): Right.MANAGE,
    ("POST", "/v1/people/remove"): Right.MANAGE,
}
MAY = {
    Right.LOOK: "look at what others do",
    Right.TALK: "talk to the assistant",
    Right.WORK: "start, stop or approve work",
    Right.ANSWER: "say yes to what it asks",
    Right.MANAGE: "manage the house",
}


def place_of(request: web.Request) -> tuple[str, str] | None:
    """(method, address pattern) of a request; None where there is nothing at its address. HEAD is a GET."""
    resource = request.match_info.route.resource
    if resource is None or request.match_info.http_exception is not None:
        return None
    return "GET" if request.method == "HEAD" else request.method, resource.canonical


def check(person: Person, place: tuple[str, str]) -> None:
    """Raises Problem: this person may not do that, or nobody may."""
    right = RULES.get(place)
    if right is None or not may(person.role, right):
        what = MAY.get(right, "do this") if right else "do this"
        raise forbidden(f"{person.name} is {_a(person.role)} here and may not {what}; nothing was done")


def check_own(person: Person, session: str) -> None:
    """Raises Problem unless this is a conversation that the person may speak in."""
    if not is_own(person, session):
        own = f"web:{person.name}"
        raise forbidden(f"{person.name} may speak in {own} and in {own}.ANYTHING, and in no other conversation")


def is_own(person: Person, session: str) -> bool:
    """All are the owner's; everybody else has those that begin with their name."""
    own = f"web:{person.name}"
    return person.role is Role.OWNER or session == own or session.startswith(f"{own}.")


def forbidden(message: str) -> Problem:
    """The person is known, and may not."""
    return Problem(403, "POLICY_ERROR", message)


def _a(role: Role) -> str:
    return f"{'an' if role.value[0] in 'aeo' else 'a'} {role.value}"
