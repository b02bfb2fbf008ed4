"""Handlers of the HTTP API: the methods of the client by their endpoints, messages, answers to
questions, agents, loops (C8), health and events.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import field
from functools import partial
from inspect import Parameter, signature
from typing import Any, Literal
from urllib.parse import parse_qs

from aiohttp import web
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from daemon.client.loop_view import LoopAction, LoopView, find_loop, loop_to_json
from daemon.client.protocol import (
    SESSION_NAME,
    ApprovalView,
    DaemonClient,
    Endpoint,
    RunLine,
    RunView,
    SessionView,
)
from daemon.core import value
from daemon.core.rows import (
    Criterion,
    LoopOrder,
)
from daemon.core.trust import Person, Resource, Right, Role, has_right
from daemon.http.approvals import STATES, SecretBody, answer_approval
from daemon.http.auth import (
    CREATABLE_CHANNELS,
    PERSON,
    POLICY,
    Handler,
    Routes,
    parse_session,
    require_own_session,
    sees_others_only,
)
from daemon.http.responses import (
    Body,
    HttpError,
    Reason,
    Text,
    invalid,
    json_response,
    not_found,
    query_flag,
    query_number,
    read_body,
    read_raw_body,
    require,
)
from daemon.http.uploads import post_file
from daemon.recall.imports import LIMIT, ImportedLine
from daemon.triggers.events import EventTrigger
from daemon.triggers.orders import ScheduleOrder
from daemon.triggers.signatures import BadSignature

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
    criterion: Criterion | None = None
    value: str | None = Field(None, max_length=10_000)
    max_iterations: int | None = None


class LoopReviewBody(Body):
    """A review of an attempt."""

    model_config = LoopStartBody.model_config

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
    loops = await find_loops(client, request, request.query.get("agent"))
    return json_response([loop_to_json(view) for view in loops])


async def get_status(client: DaemonClient, request: web.Request) -> web.Response:
    """The agent's latest loop and whether it is active."""
    agent = request.match_info["agent"]
    loops = await find_loops(client, request, agent)
    view = find_loop(loops, "", open_only=False)
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
    loops = await find_loops(client, request, agent)
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
    ("GET", f"{LOOP_PATH}/status"): (Resource.RUNS, get_status),
    ("POST", f"{LOOP_PATH}/start"): (Right.WORK, start_loop),
    **{
        ("POST", f"{LOOP_PATH}/{verb}"): (Right.WORK, change_loop)
        for verb in (*LoopAction, "approve")
    },
}


MAX_ROWS = 1000
DISCONNECT_CHECK_S = 5.0
EVENT_LIMIT = 256 * 1024
KEY_HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 200


class DeliveredBody(Body):
    """Which part of the reply was shown."""

    part: int = Field(ge=0)


class InviteBody(Body):
    """The role that a pairing code gives, and the channel that it is limited to."""

    role: Role = Role.EDITOR
    channel: str = Field("", max_length=64)


class PersonBody(Body):
    """Whom to remove."""

    name: str = Field(min_length=1, max_length=1000)


class ScheduleBody(Body):
    """What to do, and when."""

    rule: str = Field(min_length=1, max_length=200)
    prompt: Text
    name: str = Field("", max_length=64)
    zone: str = Field("", max_length=100)
    session: str = Field("terminal:main", max_length=200)
    misfire: Literal["once", "all", "skip"] = "once"
    oneshot: bool = False
    remind: bool = False
    jitter_s: int = Field(0, ge=0, le=86_400)
    until: str = Field("", max_length=100)
    agent: str = "default"


async def add_schedule(client: DaemonClient, request: web.Request) -> web.Response:
    """201 once it is on disk, with its next runs in words."""
    body, person = await read_body(request, ScheduleBody), request[PERSON]
    order = ScheduleOrder(**dict(body), sender=person.name, role=person.role.value)
    return json_response({"said": await client.add_schedule(order)}, 201)


class ImportBody(Body):
    """Messages of elsewhere."""

    lines: tuple[ImportedLine, ...] = Field(max_length=LIMIT)
    trusted: bool = False


BODIES: Mapping[str, type[Body]] = {
    "import_memories": ImportBody,
    "mark_delivered": DeliveredBody,
    "invite": InviteBody,
    "remove_person": PersonBody,
    "keep_secret": SecretBody,
}


async def call_client(
    name: str, endpoint: Endpoint, client: DaemonClient, request: web.Request
) -> web.Response:
    """Call this method of the client with what the path, the query and the body say."""
    method: Any = getattr(client, name)
    path, known = dict(request.match_info), signature(method).parameters
    given: dict[str, Any] = {k: text for k, text in request.query.items() if k in known} | path
    if "limit" in given:
        given["limit"] = query_number(request, "limit", least=1, most=MAX_ROWS)
    if "after" in given and known["after"].annotation is int:
        given["after"] = query_number(request, "after")
    if (state := given.get("state", STATES[0])) not in STATES:
        raise invalid(f"state: found {state!r}, expected one of {', '.join(STATES)}")
    if name in BODIES:
        given |= dict(await read_body(request, BODIES[name]))
    if "by" in known:
        given["by"] = request[PERSON]
    needed = (one.name for one in known.values() if one.default is Parameter.empty)
    if missing := [one for one in needed if one not in given]:
        raise invalid(f"{missing[0]}: is missing")
    result = await method(**given)
    if isinstance(endpoint.right, Resource) and isinstance(result, list):
        result = await hide_private(client, request[PERSON], endpoint.right, result)
    if endpoint.missing and not result:
        await require(client, endpoint.missing, *path.values())
    if endpoint.key or result is None:
        result = {**path, endpoint.key: result} if endpoint.key else given
    return json_response(result)


async def hide_private(
    client: DaemonClient, person: Person, resource: Resource, items: list[Any]
) -> list[Any]:
    """Without those in conversations of the owner's own that this person does not see."""
    if not sees_others_only(person, resource):
        return items
    private = await client.find_private({session for one in items if (session := _session_of(one))})
    return [one for one in items if _session_of(one) not in private]


def _session_of(item: object) -> str:
    """The conversation that an item of a list is of; "" for what the path has named."""
    if isinstance(item, SessionView):
        return item.id
    return item.session if isinstance(item, RunLine | ApprovalView | LoopView) else ""


class MessageBody(Body):
    """A message. `agent` is set for the session, from this message on."""

    text: Text
    client_id: str | None = Field(None, min_length=1, max_length=200)
    agent: str | None = None
    data: tuple[str, ...] = Field((), max_length=100)
    quoted: bool = False
    files: tuple[str, ...] = Field((), max_length=20)


class WebMessageBody(MessageBody):
    """A message to a web session; the default is the owner's web:default, or the user's own."""

    session: str | None = None


async def post_message(client: DaemonClient, request: web.Request) -> web.Response:
    """A message to `web:NAME`, or to `terminal:NAME`, which is the owner's. Without `?wait=1` the
    response comes as soon as the message is on disk.
    """
    person, name = request[PERSON], request.match_info.get("name")
    if name is None:
        message = await read_body(request, WebMessageBody)
        session = parse_session(person, message.session, ("web",))
    else:
        message = await read_body(request, MessageBody)
        session = parse_session(person, f"terminal:{name}", ("terminal",))
    wait = query_flag(request, "wait", "0")
    stream = query_flag(request, "stream", "1") and not wait
    if message.agent is not None:
        await client.set_agent(session, message.agent)
    data = (message.text,) if message.quoted else message.data
    given = (session, message.text, message.client_id)
    result = await client.send(*given, stream=stream, by=person, data=data, files=message.files)
    if result.command:
        return json_response({"command": result.command, "reply": result.reply})
    if wait:
        return json_response(await _wait_for_run(client, request, result.turn or result.steered))
    return json_response(
        {"steered": result.steered} if result.steered else {"turn": result.turn}, 202
    )


async def _wait_for_run(client: DaemonClient, request: web.Request, turn: str) -> RunView:
    """The run when it has ended. A client that disconnects ends the waiting, never the run.

    aiohttp does not cancel handlers of closed connections, because that could cut a write to the
    journal in two.
    """
    waiting = asyncio.ensure_future(client.wait_until_ended(turn))
    try:
        while request.transport is not None:
            await asyncio.wait((waiting,), timeout=DISCONNECT_CHECK_S)
            if waiting.done():
                return waiting.result()
    finally:
        waiting.cancel()
    raise HttpError(499, "gone", "the client closed the connection; the run goes on")


class AgentBody(Body):
    """Which agent answers."""

    agent: str


async def set_agent(client: DaemonClient, request: web.Request) -> web.Response:
    """The agent of a session, from its next message on; a web or terminal session may be new."""
    session = request.match_info["session"]
    require_own_session(request[PERSON], session)
    agent = (await read_body(request, AgentBody)).agent
    channel, _, name = session.partition(":")
    if channel not in CREATABLE_CHANNELS or not SESSION_NAME.fullmatch(name):
        await require(client, "session", session)
    await client.set_agent(session, agent)
    return json_response({"session": session, "agent": agent})


async def get_health(client: DaemonClient, request: web.Request) -> web.Response:
    """200, or 503 with the problems. No token is needed."""
    health = await client.get_health()
    return json_response(health, 200 if health.ok else 503)


@value
class EventEndpoint:
    """POST /v1/events/{name}: untrusted JSON (A13, A16). `tokens`: by name of the sender; they open
    nothing else. `signed`: names whose events are signed.
    """

    events: EventTrigger
    tokens: Mapping[str, str] = field(repr=False)
    signed: Collection[str] = ()

    async def post_event(self, request: web.Request) -> web.Response:
        """202 once the event is on disk; the same Idempotency-Key gets the same response, whatever
        the body.
        """
        key, name = request.headers.get(KEY_HEADER), request.match_info["name"]
        if key is not None and not (
            key.isascii() and key.isprintable() and 0 < len(key) <= MAX_KEY_LENGTH
        ):
            message = f"expected 1 to {MAX_KEY_LENGTH} printable ASCII characters"
            raise invalid(f"{KEY_HEADER}: {message}")
        self.events.check_rate(name)
        raw = await read_raw_body(request, EVENT_LIMIT)
        try:
            key = self.events.verify(name, request.headers, raw) or key
            payload = from_json(unwrap(request.content_type, raw), allow_inf_nan=False)
            if challenge := find_challenge(payload):
                return json_response({"challenge": challenge})
            if not self.events.is_meant(name, payload):
                return json_response({"left_out": "the filter of this event does not mean it"})
            receipt = await self.events.accept(name, payload, len(raw), key or "")
        except BadSignature as error:
            raise HttpError(401, "unauthorized", f"{error}; nothing was accepted") from error
        except ValueError as error:
            raise invalid(f"body: is not JSON: {error}") from error
        return json_response({"session": receipt.session, "turn": receipt.turn}, 202)


def unwrap(content_type: str, raw: bytes) -> bytes:
    """The JSON of a form with the field `payload`, as GitHub and Slack may send it."""
    if content_type != "application/x-www-form-urlencoded":
        return raw
    fields = parse_qs(raw.decode("utf-8", "replace"), max_num_fields=100)
    return fields.get("payload", [""])[0].encode()


def find_challenge(payload: object) -> str:
    """What Slack sends once, to see whether somebody listens who knows the secret; "" for none."""
    if isinstance(payload, dict) and payload.get("type") == "url_verification":
        return str(payload.get("challenge", ""))[:200]
    return ""


HANDLERS: Mapping[str, Handler] = {
    "set_agent": set_agent,
    "list_loops": list_loops,
    "add_schedule": add_schedule,
}
ENDPOINTS: Mapping[str, Endpoint] = {
    name: endpoint
    for name in dir(DaemonClient)
    if (endpoint := getattr(getattr(DaemonClient, name), "endpoint", None))
}
SESSION_TURNS = Endpoint("GET", "/v1/sessions/{session}/turns", missing="session")
ROUTES: Routes = {
    ("POST", "/v1/messages"): (Right.TALK, post_message),
    ("POST", "/v1/terminal/{name}/messages"): (Right.TALK, post_message),
    ("POST", "/v1/files"): (Right.TALK, post_file),
    ("POST", "/v1/runs/{turn}/approve"): (Right.TALK, answer_approval),
    ("POST", "/v1/runs/{turn}/reject"): (Right.TALK, answer_approval),
    **LOOP_ROUTES,
    **{
        (one.method, one.path): (one.right, HANDLERS.get(name) or partial(call_client, name, one))
        for name, one in (*ENDPOINTS.items(), ("list_runs", SESSION_TURNS))
        if name != "get_health"
    },
}
