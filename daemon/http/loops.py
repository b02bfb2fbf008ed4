"""/api/agents/{id}/loop: start, stop, pause, resume, show and review a loop of an agent (C8)."""

from typing import Annotated, Literal

from aiohttp import web
from pydantic import ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from daemon.client.protocol import DaemonClient, LoopAction, find_loop, loop_to_json
from daemon.core.rows import LoopOrder
from daemon.core.trust import Right, has_right
from daemon.http.permissions import PERSON, POLICY, Routes, parse_session
from daemon.http.responses import (
    Body,
    HttpError,
    Reason,
    Text,
    json_response,
    not_found,
    read_body,
)

REFUSALS = {
    LoopAction.STOP: "has ended already",
    LoopAction.PAUSE: "is not running",
    LoopAction.RESUME: "is not paused",
}


class LoopStartBody(Body):
    """A start; the agent's settings say what is left out."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    message: Text
    session: str | None = None
    criterion: Literal["max_iterations", "regex", "test_pass", "manual"] | None = None
    value: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    max_iterations: int | None = None


class LoopReviewBody(Body):
    """A review of an attempt."""

    model_config = LoopStartBody.model_config

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
    given = dict(body) | {"agent": request.match_info["agent"], "session": session}
    order = LoopOrder(**given, sender=person.name, role=person.role.value)
    return json_response(loop_to_json(await client.start_loop(order)), 202)


async def change_loop(client: DaemonClient, request: web.Request) -> web.Response:
    """Stop, pause or resume the agent's active loop, as the last part of the path says; a person's
    approval completes it, and a rejection ends it.
    """
    agent, verb = request.match_info["agent"], request.path.rpartition("/")[2]
    loops = await client.list_loops(agent)
    if verb == "approve":
        body = await read_body(request, LoopReviewBody)
        view = next((view for view in loops if view.loop_id == body.loop_id), None)
        if view is None:
            raise not_found(f"loop {body.loop_id!r} of agent {agent!r}")
        refusal, by = "waits for no review", request[PERSON].name
        changed = await client.review_loop(view, approved=body.approved, by=by, reason=body.reason)
    else:
        view, refusal = find_loop(loops, "", open_only=True), REFUSALS[LoopAction(verb)]
        if view is None:
            raise HttpError(409, "no_loop", f"no loop of agent {agent!r} is active")
        changed = await client.change_loop(view, LoopAction(verb))
    if changed is None:
        raise HttpError(409, "not_now", f"loop {view.loop_id} {refusal}")
    return json_response(loop_to_json(changed))


LOOP_PATH = "/api/agents/{agent}/loop"
LOOP_ROUTES: Routes = {
    ("GET", f"{LOOP_PATH}/status"): (Right.READ, get_status),
    ("POST", f"{LOOP_PATH}/start"): (Right.WORK, start_loop),
    **{
        ("POST", f"{LOOP_PATH}/{verb}"): (Right.WORK, change_loop)
        for verb in (*LoopAction, "approve")
    },
}
