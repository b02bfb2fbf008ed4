"""/api/agents/{id}/loop: start, stop, pause, resume, show and review a loop of an agent (C8)."""

from typing import Annotated, Literal

from aiohttp import web
from pydantic import ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from daemon.client.protocol import (
    SESSION_NAME,
    DaemonClient,
    LoopAction,
    LoopView,
    find_loop,
    loop_to_json,
)
from daemon.core.errors import ConfigError
from daemon.core.rows import LoopOrder
from daemon.core.trust import Person, Right, Role, has_right
from daemon.http.permissions import PERSON, Routes, forbidden, require_own_session
from daemon.http.resources import CREATABLE_CHANNELS, Reason, Text
from daemon.http.responses import Body, HttpError, invalid, json_response, not_found, read_body
from daemon.loops.config import LoopNotEnabled, LoopNotStarted, UnknownAgent

CAMEL_CASE = ConfigDict(alias_generator=to_camel, populate_by_name=True)
REFUSALS = {
    LoopAction.STOP: "has ended already",
    LoopAction.PAUSE: "is not running",
    LoopAction.RESUME: "is not paused",
}


class LoopStartBody(Body):
    """A start; the agent's settings say what is left out."""

    model_config = CAMEL_CASE

    message: Text
    session: str | None = None
    criterion: Literal["max_iterations", "regex", "test_pass", "manual"] | None = None
    value: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    max_iterations: int | None = None


class LoopReviewBody(Body):
    """A review of an attempt."""

    model_config = CAMEL_CASE

    loop_id: str
    approved: bool
    reason: Reason = ""


async def list_loops(client: DaemonClient, request: web.Request) -> web.Response:
    """Loops, newest first, `?agent=`."""
    loops = await client.list_loops(request.query.get("agent"))
    return json_response([loop_to_json(view) for view in loops])


async def get_status(client: DaemonClient, request: web.Request) -> web.Response:
    """The agent's latest loop and whether it is active."""
    agent = request.match_info["agent"]
    view = find_loop(await client.list_loops(agent), "", open_only=False)
    known = loop_to_json(view) if view else {"agent": agent}
    return json_response({"active": bool(view and not view.ended), **known})


async def start_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """202 with the loop, once it is on disk."""
    body, person = await read_body(request, LoopStartBody), request[PERSON]
    session = _parse_session(body.session, person)
    require_own_session(person, session)
    # test_pass runs its command again and again without a question
    is_command = body.value is not None and body.criterion in (None, "test_pass")
    if is_command and not has_right(person.role, Right.DANGER):
        raise forbidden(
            "the value of test_pass is a command that runs without a question, so only the owner"
            " may give it: start the loop with the agent's own criterion, or with regex or manual;"
            " nothing was started"
        )
    agent, value, limit = request.match_info["agent"], body.value, body.max_iterations
    name, role = person.name, person.role.value
    order = LoopOrder(agent, body.message, session, name, body.criterion, value, limit, role)
    try:
        return json_response(loop_to_json(await client.start_loop(order)), 202)
    except UnknownAgent as error:
        raise HttpError(404, "no_agent", str(error)) from error
    except (LoopNotEnabled, LoopNotStarted) as error:
        kind = "not_enabled" if isinstance(error, LoopNotEnabled) else "refused"
        raise HttpError(409, kind, str(error)) from error
    except ConfigError as error:
        raise invalid(str(error)) from error


def _parse_session(name: str | None, person: Person) -> str:
    if not name:
        name = "default" if person.role is Role.OWNER else person.name
    channel, _, chat = name.partition(":") if ":" in name else ("web", "", name)
    if channel in CREATABLE_CHANNELS and SESSION_NAME.fullmatch(chat):
        return f"{channel}:{chat}"
    raise invalid(
        "session: expected web:NAME or terminal:NAME, the session that the loop works for"
    )


async def change_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """Stop, pause or resume the agent's active loop; the last part of the path says which."""
    agent, action = request.match_info["agent"], LoopAction(request.path.rpartition("/")[2])
    view = find_loop(await client.list_loops(agent), "", open_only=True)
    if view is None:
        raise HttpError(409, "no_loop", f"no loop of agent {agent!r} is active")
    changed = await client.change_loop(view, action)
    return _loop_response(changed, f"loop {view.loop_id} {REFUSALS[action]}")


async def review_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """A person's yes completes the loop, a no ends it."""
    body, agent = await read_body(request, LoopReviewBody), request.match_info["agent"]
    loops = await client.list_loops(agent)
    view = next((view for view in loops if view.loop_id == body.loop_id), None)
    if view is None:
        raise not_found(f"loop {body.loop_id!r} of agent {agent!r}")
    changed = await client.review_loop(
        view, approved=body.approved, by=request[PERSON].name, reason=body.reason
    )
    return _loop_response(changed, f"loop {body.loop_id} waits for no review")


def _loop_response(view: LoopView | None, refusal: str) -> web.Response:
    if view is None:
        raise HttpError(409, "not_now", refusal)
    return json_response(loop_to_json(view))


LOOP_PATH = "/api/agents/{agent}/loop"
LOOP_ROUTES: Routes = {
    ("GET", "/api/loops"): (Right.READ, list_loops),
    ("GET", f"{LOOP_PATH}/status"): (Right.READ, get_status),
    ("POST", f"{LOOP_PATH}/start"): (Right.WORK, start_loop),
    ("POST", f"{LOOP_PATH}/stop"): (Right.WORK, change_loop),
    ("POST", f"{LOOP_PATH}/pause"): (Right.WORK, change_loop),
    ("POST", f"{LOOP_PATH}/resume"): (Right.WORK, change_loop),
    ("POST", f"{LOOP_PATH}/approve"): (Right.WORK, review_loop),
}
