"""Handlers of the HTTP API that are more than a call of the client: messages, schedules, health and
events; and the table of all.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

from aiohttp import web
from pydantic import Field, model_validator

from daemon.client.protocol import SESSION_NAME, DaemonClient, Endpoint
from daemon.client.view_types import RunLine, RunView, SendResult
from daemon.core import value
from daemon.core.trust import Right
from daemon.http.approvals import ApprovalAnswerBody, answer_approval
from daemon.http.auth import (
    CREATABLE_CHANNELS,
    PERSON,
    parse_session,
    require_own_session,
)
from daemon.http.loops import make_loop_routes
from daemon.http.payloads import find_challenge, read_payload
from daemon.http.responses import (
    Body,
    HttpError,
    invalid,
    json_response,
    read_body,
    read_raw_body,
    require,
)
from daemon.http.routes import (
    Query,
    Route,
    Routes,
    list_fields,
    make_model,
    make_route,
    read_endpoints,
    read_query,
)
from daemon.http.uploads import FileQuery, post_file
from daemon.recall.imports import LIMIT, ImportedLine
from daemon.triggers.events import EventTrigger
from daemon.triggers.orders import ScheduleOrder, ScheduleRequest
from daemon.triggers.signatures import BadSignature

MAX_ROWS = 1000
DISCONNECT_CHECK_S = 5.0
EVENT_LIMIT = 256 * 1024
KEY_HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 200


ScheduleBody = make_model(
    "ScheduleBody", Body, list_fields(ScheduleRequest, session=(str, "terminal:main"))
)


async def add_schedule(client: DaemonClient, request: web.Request) -> web.Response:
    """201 once it is on disk, with its next runs in words."""
    body: Any = await read_body(request, ScheduleBody)
    person = request[PERSON]
    order = ScheduleOrder(**dict(body), sender=person.name, role=person.role.value)
    return json_response({"said": await client.add_schedule(order)}, 201)


class ImportBody(Body):
    """Messages of elsewhere."""

    lines: tuple[ImportedLine, ...] = Field(max_length=LIMIT)
    trusted: bool = False


BODIES: Mapping[str, type[Body]] = {"import_memories": ImportBody}
"""What a signature does not say."""


class MessageQuery(Query):
    """Whether to wait for the run's end, and whether somebody watches the draft."""

    wait: bool = False
    stream: bool = True


class MessageBody(Body):
    """A message. `agent` is set for the session, from this message on. Files need no text."""

    text: str = ""
    client_id: str | None = Field(None, min_length=1, max_length=200)
    agent: str | None = None
    data: tuple[str, ...] = Field((), max_length=100)
    quoted: bool = False
    files: tuple[str, ...] = Field((), max_length=20)

    @model_validator(mode="after")
    def _check_text(self) -> "MessageBody":
        if not (self.text.strip() or self.files):
            raise ValueError("text: expected a text that is not empty")
        return self


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
    query = read_query(request, MessageQuery)
    wait, stream = query.wait, query.stream and not query.wait
    key = read_key(request)
    name = message.client_id or (key and f"{person.name}:{key}")
    if message.agent and not (name and await client.was_sent(session, name, person)):
        await client.set_agent(session, message.agent)
    data = (message.text,) if message.quoted else message.data
    given = (session, message.text, name)
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
    """POST /v1/events/{name}: an untrusted payload (A13, A16). `tokens`: by name of the sender;
    they open nothing else. `signed`: names whose events are signed.
    """

    events: EventTrigger
    tokens: Mapping[str, str] = field(repr=False)
    signed: Collection[str] = ()

    async def post_event(self, request: web.Request) -> web.Response:
        """202 once the event is on disk; the same Idempotency-Key gets the same response, whatever
        the body.
        """
        key, name = read_key(request), request.match_info["name"]
        self.events.check_rate(name)
        raw = await read_raw_body(request, EVENT_LIMIT)
        try:
            key = self.events.verify(name, request.headers, raw) or key
            kind = request.headers.get("Content-Type", "")
            payload = read_payload(kind, request.charset or "utf-8", raw)
            if challenge := find_challenge(payload):
                return json_response({"challenge": challenge})
            if not self.events.is_meant(name, payload):
                return json_response({"left_out": "the filter of this event does not mean it"})
            receipt = await self.events.accept(name, payload, len(raw), key or "")
        except BadSignature as error:
            raise HttpError(401, "unauthorized", f"{error}; nothing was accepted") from error
        except ValueError as error:
            raise invalid(f"body: cannot be read: {error}") from error
        return json_response({"session": receipt.session, "turn": receipt.turn}, 202)


def read_key(request: web.Request) -> str | None:
    """Which request it is, where it says so: the same one twice is one. Raises HttpError."""
    key = request.headers.get(KEY_HEADER)
    if key is not None and not (
        key.isascii() and key.isprintable() and 0 < len(key) <= MAX_KEY_LENGTH
    ):
        message = f"expected 1 to {MAX_KEY_LENGTH} printable ASCII characters"
        raise invalid(f"{KEY_HEADER}: {message}")
    return key


SESSION_TURNS = Endpoint("GET", "/v1/sessions/{session}/turns", list[RunLine], missing="session")
OWN_HANDLERS = ("get_health", "set_agent", "list_loops", "add_schedule")


def make_routes() -> Routes:
    """The whole table, but what needs no token, and streams."""
    endpoints = read_endpoints()
    found: Routes = {
        (one.method, one.path): make_route(name, one, BODIES.get(name))
        for name, one in (*endpoints.items(), ("list_runs", SESSION_TURNS))
        if name not in OWN_HANDLERS
    }
    schedule = endpoints["add_schedule"]
    say = Route(Right.TALK, post_message, MessageQuery, WebMessageBody, SendResult, status=202)
    answer = Route(Right.TALK, answer_approval, body=ApprovalAnswerBody, result=dict)
    keep = Route(Right.TALK, post_file, FileQuery, result=str, key="file", status=201)
    add = Route(schedule.right, add_schedule, None, ScheduleBody, str, schedule.key, 201)
    return {
        **found,
        **make_loop_routes(),
        ("POST", "/v1/messages"): say,
        ("POST", "/v1/terminal/{name}/messages"): replace(say, body=MessageBody),
        ("POST", "/v1/files"): keep,
        ("POST", "/v1/runs/{turn}/approve"): answer,
        ("POST", "/v1/runs/{turn}/reject"): answer,
        ("POST", "/v1/sessions/{session}/agent"): Route(
            Right.TALK, set_agent, body=AgentBody, result=dict
        ),
        (schedule.method, schedule.path): add,
    }


ROUTES = make_routes()
