"""Loops (C8): the handlers of start, stop, pause, resume, approve and status."""

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from daemon.client.loop_view import LoopAction, LoopView, find_loop, loop_to_json
from daemon.client.protocol import DaemonClient
from daemon.core.requests import LoopOrder, LoopRequest
from daemon.core.trust import Person, Resource, Right, has_right
from daemon.http.auth import POLICY, parse_session
from daemon.http.responses import (
    PERSON,
    HttpError,
    Reason,
    json_response,
    not_found,
    read_body,
)
from daemon.http.routes import (
    CamelBody,
    Query,
    Route,
    Routes,
    hide_private,
    list_fields,
    make_model,
    read_query,
)

REFUSALS = {
    LoopAction.STOP: "has ended already",
    LoopAction.PAUSE: "is not running",
    LoopAction.RESUME: "is not paused",
}
VERBS = {action.value: action for action in LoopAction}
LOOP_PATH = "/api/agents/{agent}/loop"
LoopStartBody = make_model(
    "LoopStart", CamelBody, list_fields(LoopRequest, "agent", session=(str | None, None))
)


class AgentQuery(Query):
    """Whose."""

    agent: str | None = None


class LoopReviewBody(CamelBody):
    """A review of an attempt."""

    loop_id: str
    approved: bool
    reason: Reason = ""


async def find_loops(
    client: DaemonClient, request: web.Request, agent: str | None
) -> list[LoopView]:
    """Those that the person of the request sees."""
    loops = await client.list_loops(agent)
    return await hide_private(client, request[PERSON], Resource.RUNS, loops)


async def list_loops(client: DaemonClient, request: web.Request) -> web.Response:
    """Loops, newest first, `?agent=`."""
    loops = await find_loops(client, request, read_query(request, AgentQuery).agent)
    return json_response([loop_to_json(view) for view in loops])


async def get_status(client: DaemonClient, request: web.Request) -> web.Response:
    """The agent's latest loop and whether it is active."""
    agent = request.match_info["agent"]
    loops = await find_loops(client, request, agent)
    view = find_loop(loops, "", open_only=False)
    known = loop_to_json(view) if view else {"agent": agent}
    return json_response({"active": bool(view and not view.ended), **known})


async def start(
    client: DaemonClient, person: Person, agent: str, body: Any, *, live: bool = False
) -> LoopView:
    """Start a loop as LoopStartBody says; `live`: it ends when the person's pages are gone."""
    session = parse_session(person, body.session or None)
    # test_pass runs its command again and again without a question
    is_command = body.value is not None and body.criterion in (None, "test_pass")
    if is_command and not has_right(person.role, Right.DANGER):
        raise HttpError(
            *POLICY,
            "the value of test_pass is a command that runs without a question, so only the owner"
            " may give it: start the loop with the agent's own criterion, or with regex or manual;"
            " nothing was started",
        )
    given = dict(body) | {"agent": agent, "session": session, "live": live}
    return await client.start_loop(LoopOrder(**given, sender=person.name, role=person.role.value))


async def review(
    client: DaemonClient,
    person: Person,
    agent: str,
    loops: Sequence[LoopView],
    body: LoopReviewBody,
) -> LoopView:
    """A person's approval completes the loop, and a rejection ends it."""
    view = next((view for view in loops if view.loop_id == body.loop_id), None)
    if view is None:
        raise not_found(f"loop {body.loop_id!r} of agent {agent!r}")
    changed = await client.review_loop(
        view, approved=body.approved, by=person.name, reason=body.reason
    )
    if changed is None:
        raise HttpError(409, "not_now", f"loop {view.loop_id} waits for no review")
    return changed


async def change(
    client: DaemonClient, agent: str, loops: Sequence[LoopView], action: LoopAction
) -> LoopView:
    """Stop, pause or resume the active one of these loops of the agent."""
    view = find_loop(loops, "", open_only=True)
    if view is None:
        raise HttpError(409, "no_loop", f"no loop of agent {agent!r} is active")
    changed = await client.change_loop(view, action)
    if changed is None:
        raise HttpError(409, "not_now", f"loop {view.loop_id} {REFUSALS[action]}")
    return changed


async def start_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """202 with the loop, once it is on disk."""
    body: Any = await read_body(request, LoopStartBody)
    view = await start(client, request[PERSON], request.match_info["agent"], body)
    return json_response(loop_to_json(view), 202)


async def change_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """Stop, pause or resume the agent's active loop, as the last part of the path says."""
    agent, verb = request.match_info["agent"], request.path.rpartition("/")[2]
    loops = await find_loops(client, request, agent)
    return json_response(loop_to_json(await change(client, agent, loops, LoopAction(verb))))


async def review_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """A person's approval completes it, and a rejection ends it."""
    agent = request.match_info["agent"]
    loops = await find_loops(client, request, agent)
    body = await read_body(request, LoopReviewBody)
    return json_response(loop_to_json(await review(client, request[PERSON], agent, loops, body)))


def make_loop_routes() -> Routes:
    """The table of loops."""
    see, work = Resource.RUNS, Right.WORK
    changing = Route(work, change_loop, result=LoopView)
    return {
        ("GET", "/api/loops"): Route(see, list_loops, AgentQuery, result=list[LoopView]),
        ("GET", f"{LOOP_PATH}/status"): Route(see, get_status, result=dict),
        ("POST", f"{LOOP_PATH}/start"): Route(
            work, start_loop, body=LoopStartBody, result=LoopView, status=202
        ),
        ("POST", f"{LOOP_PATH}/approve"): Route(
            work, review_loop, body=LoopReviewBody, result=LoopView
        ),
        **{("POST", f"{LOOP_PATH}/{verb}"): changing for verb in LoopAction},
    }
