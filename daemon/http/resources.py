"""Handlers of the HTTP API: messages, runs, approvals, grants, sessions, deliveries, people, health
and events.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from typing import Annotated, Literal, Protocol

from aiohttp import web
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import from_json

from daemon.client.protocol import SESSION_NAME, DaemonClient, RunView
from daemon.core import value
from daemon.core.rows import MAX_GRANT_TERM, MAX_GRANT_USES, GrantBounds, NotAllowedToAnswer
from daemon.core.trust import Answer, Right, Role
from daemon.http.permissions import PERSON, Routes, forbidden, require_own_session
from daemon.http.responses import (
    Body,
    HttpError,
    invalid,
    json_response,
    not_found,
    query_flag,
    query_number,
    read_body,
    read_raw_body,
)
from daemon.triggers.events import TriggerEvent, TriggerReceipt

MAX_RUNS = 1000
MAX_SESSIONS, SESSIONS_PAGE = 1000, 100
DISCONNECT_CHECK_S = 5.0
STATES = ("pending", "answered", "consumed", "expired", "void")
CREATABLE_CHANNELS = ("web", "terminal")
EVENT_LIMIT = 256 * 1024
KEY_HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 200


def _check_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


Text = Annotated[str, AfterValidator(_check_not_blank)]
Reason = Annotated[str, StringConstraints(max_length=2000)]


async def find_run(client: DaemonClient, request: web.Request) -> RunView:
    """The run that the address names. Raises HttpError 404."""
    turn = request.match_info["turn"]
    view = await client.get_run(turn)
    if view is None:
        raise not_found(f"run {turn!r}")
    return view


class MessageBody(Body):
    """A message. `agent` is set for the session, from this message on."""

    text: Text
    client_id: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    agent: str | None = None


class WebMessageBody(MessageBody):
    """A message to a web session; the default is the owner's web:default, or the user's own."""

    session: str | None = None


async def post_web_message(client: DaemonClient, request: web.Request) -> web.Response:
    """A message to a session `web:NAME`."""
    message = await read_body(request, WebMessageBody)
    person = request[PERSON]
    name = "default" if person.role is Role.OWNER else person.name
    if message.session is not None:
        name = message.session.removeprefix("web:")
    return await _accept_message(client, request, "web", name, message)


async def post_terminal_message(client: DaemonClient, request: web.Request) -> web.Response:
    """A message to a session `terminal:NAME`; only the owner's."""
    message = await read_body(request, MessageBody)
    return await _accept_message(client, request, "terminal", request.match_info["name"], message)


async def _accept_message(
    client: DaemonClient, request: web.Request, channel: str, name: str, message: MessageBody
) -> web.Response:
    """Without `?wait=1` the response comes as soon as the message is on disk."""
    if not SESSION_NAME.fullmatch(name):
        raise invalid(
            f"session: expected NAME or {channel}:NAME, with no ':' or '/' in it and at most 100"
            " characters; sessions of other channels cannot be written to from here"
        )
    session, person = f"{channel}:{name}", request[PERSON]
    require_own_session(person, session)
    wait = query_flag(request, "wait", default=False)
    stream = query_flag(request, "stream", default=True) and not wait
    if message.agent is not None:
        await client.set_agent(session, message.agent)
    result = await client.send(session, message.text, message.client_id, stream=stream, by=person)
    if result.command:
        return json_response({"command": result.command, "reply": result.reply})
    if wait:
        view = await _wait_for_run(client, request, result.turn or result.steered)
        return json_response(view)
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
        while not waiting.done() and request.transport is not None:
            await asyncio.wait((waiting,), timeout=DISCONNECT_CHECK_S)
        if waiting.done():
            return waiting.result()
    finally:
        waiting.cancel()
    raise HttpError(499, "gone", "the client closed the connection; the run goes on")


async def list_runs(client: DaemonClient, request: web.Request) -> web.Response:
    """Newest first, `?session=` and `?limit=`."""
    limit = query_number(request, "limit", 50, least=1, most=MAX_RUNS)
    return json_response(await client.list_runs(request.query.get("session"), limit))


async def get_run(client: DaemonClient, request: web.Request) -> web.Response:
    """One run as it is now."""
    return json_response(await find_run(client, request))


async def get_transcript(client: DaemonClient, request: web.Request) -> web.Response:
    """Its events as they are in the journal."""
    view = await find_run(client, request)
    return json_response(await client.get_transcript(view.turn))


async def cancel_run(client: DaemonClient, request: web.Request) -> web.Response:
    """Stop it; `cancelled` is false when it had ended."""
    turn = (await find_run(client, request)).turn
    return json_response({"turn": turn, "cancelled": await client.cancel_run(turn)})


async def list_approvals(client: DaemonClient, request: web.Request) -> web.Response:
    """`?state=pending` (the default) and `?session=`."""
    state = request.query.get("state", "pending")
    if state not in STATES:
        raise invalid(f"state: found {state!r}, expected one of {', '.join(STATES)}")
    return json_response(await client.list_approvals(state, request.query.get("session")))


class ApprovalAnswerBody(Body):
    """An answer. `scope` and the bounds count for a yes to a call only."""

    call_id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    scope: Literal["once", "session", "always"] = "once"
    reason: Reason = ""
    times: Annotated[int, Field(ge=1, le=MAX_GRANT_USES)] | None = None
    minutes: (
        Annotated[float, Field(gt=0, le=MAX_GRANT_TERM.total_seconds() / 60, allow_inf_nan=False)]
        | None
    ) = None
    paths: Annotated[str, StringConstraints(max_length=1000)] = ""


async def approve(client: DaemonClient, request: web.Request) -> web.Response:
    """Yes: once, for this session, or always."""
    body = await read_body(request, ApprovalAnswerBody)
    return await _answer_approval(client, request, body, Answer(body.scope))


async def reject(client: DaemonClient, request: web.Request) -> web.Response:
    """No; the model gets the reason."""
    body = await read_body(request, ApprovalAnswerBody)
    return await _answer_approval(client, request, body, Answer.DENY)


async def _answer_approval(
    client: DaemonClient, request: web.Request, body: ApprovalAnswerBody, answer: Answer
) -> web.Response:
    turn, call_id = request.match_info["turn"], body.call_id
    duration = None if body.minutes is None else timedelta(minutes=body.minutes)
    bounds = GrantBounds(body.times, duration, body.paths)
    try:
        person = request[PERSON]
        done = await client.answer_approval(turn, call_id, answer, person, body.reason, bounds)
    except NotAllowedToAnswer as error:
        raise forbidden(str(error)) from error
    if done:
        return json_response({"turn": turn, "call_id": call_id, "answer": answer})
    view = await find_run(client, request)
    if all(call.call_id != call_id for call in view.calls):
        # a question of the daemon itself is no call of the run: "budget.1", "review.7"
        approvals = [row for s in STATES for row in await client.list_approvals(s, view.session)]
        if all((row.turn, row.call_id) != (turn, call_id) for row in approvals):
            raise not_found(f"call {call_id!r} in run {turn!r}")
    raise HttpError(
        409,
        "not_pending",
        f"call {call_id} does not wait for an answer: answered already, expired or over",
    )


async def list_grants(client: DaemonClient, request: web.Request) -> web.Response:
    """Valid grants, oldest first, with what is left of them."""
    return json_response(await client.list_grants())


async def revoke_grant(client: DaemonClient, request: web.Request) -> web.Response:
    """From now on the call is asked about again."""
    grant_id = request.match_info["id"]
    if not await client.revoke_grant(grant_id):
        raise not_found(f"grant {grant_id!r}")
    return json_response({"id": grant_id, "revoked": True})


async def list_sessions(client: DaemonClient, request: web.Request) -> web.Response:
    """One page, newest first: `?limit=` (100), and `?after=ID` for what follows the session ID."""
    limit = query_number(request, "limit", SESSIONS_PAGE, least=1, most=MAX_SESSIONS)
    return json_response(await client.list_sessions(limit, request.query.get("after", "")))


async def get_session(client: DaemonClient, request: web.Request) -> web.Response:
    """One session by its full id, such as web:default."""
    session = request.match_info["id"]
    view = await client.get_session(session)
    if view is None:
        raise not_found(f"session {session!r}")
    return json_response(view)


async def list_session_turns(client: DaemonClient, request: web.Request) -> web.Response:
    """The session's runs, newest first."""
    limit = query_number(request, "limit", 50, least=1, most=MAX_RUNS)
    lines = await client.list_runs(request.match_info["id"], limit)
    if not lines:
        await get_session(client, request)
    return json_response(lines)


async def stop_session(client: DaemonClient, request: web.Request) -> web.Response:
    """Stop its runs; `stopped` names them."""
    session = request.match_info["id"]
    stopped = await client.stop_session(session)
    if not stopped:
        await get_session(client, request)
    return json_response({"session": session, "stopped": stopped})


class AgentBody(Body):
    """Which agent answers."""

    agent: str


async def set_agent(client: DaemonClient, request: web.Request) -> web.Response:
    """The agent of a session, from its next message on; a web or terminal session may be new."""
    session = request.match_info["id"]
    require_own_session(request[PERSON], session)
    agent = (await read_body(request, AgentBody)).agent
    channel, _, name = session.partition(":")
    if channel not in CREATABLE_CHANNELS or not SESSION_NAME.fullmatch(name):
        await get_session(client, request)
    await client.set_agent(session, agent)
    return json_response({"session": session, "agent": agent})


async def list_undelivered(client: DaemonClient, request: web.Request) -> web.Response:
    """Texts for a terminal session that no terminal has shown, in order."""
    return json_response(await client.list_undelivered(request.match_info["id"]))


async def list_unfinished(client: DaemonClient, request: web.Request) -> web.Response:
    """Runs that are queued, running or suspended, oldest first."""
    return json_response(await client.list_unfinished(request.match_info["id"]))


class DeliveredBody(Body):
    """Which part of the reply was shown."""

    part: Annotated[int, Field(ge=0)]


async def mark_delivered(client: DaemonClient, request: web.Request) -> web.Response:
    """A terminal has shown it; repeating this changes nothing."""
    turn, part = request.match_info["turn"], (await read_body(request, DeliveredBody)).part
    await client.mark_delivered(turn, part)
    return json_response({"turn": turn, "part": part})


class InviteBody(Body):
    """The role that a pairing code gives, and the channel that it is limited to."""

    role: Role = Role.EDITOR
    channel: Annotated[str, StringConstraints(max_length=64)] = ""


async def invite(client: DaemonClient, request: web.Request) -> web.Response:
    """A pairing code; it is shown only here."""
    body = await read_body(request, InviteBody)
    return json_response(await client.invite(body.role, body.channel))


async def list_people(client: DaemonClient, request: web.Request) -> web.Response:
    """People who were paired by a code."""
    return json_response(await client.list_people())


class PersonBody(Body):
    """Whom to remove."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


async def remove_person(client: DaemonClient, request: web.Request) -> web.Response:
    """`removed` is false when nobody has that name."""
    name = (await read_body(request, PersonBody)).name
    return json_response({"removed": await client.remove_person(name)})


async def get_health(client: DaemonClient, request: web.Request) -> web.Response:
    """200, or 503 with the problems. No token is needed."""
    health = await client.get_health()
    return json_response(health, 200 if health.ok else 503)


class EventIntake(Protocol):
    """Accepts an event; `daemon.triggers.events` implements it."""

    async def accept(self, arrived: TriggerEvent) -> TriggerReceipt:
        """The event is durable when this returns."""
        ...


@value
class EventEndpoint:
    """POST /v1/events/{name}: untrusted JSON (A13, A16). `tokens`: by name of the sender; they open
    nothing else.
    """

    events: EventIntake
    tokens: Mapping[str, str] = field(repr=False)

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
        raw = await read_raw_body(request, EVENT_LIMIT)
        try:
            payload = from_json(raw, allow_inf_nan=False)
            receipt = await self.events.accept(TriggerEvent(name, payload, len(raw), key or ""))
        except ValueError as error:
            raise invalid(f"body: is not JSON: {error}") from error
        return json_response({"session": receipt.session, "turn": receipt.turn}, 202)


ROUTES: Routes = {
    ("POST", "/v1/messages"): (Right.TALK, post_web_message),
    ("POST", "/v1/terminal/{name}/messages"): (Right.TALK, post_terminal_message),
    ("GET", "/v1/runs"): (Right.READ, list_runs),
    ("GET", "/v1/runs/{turn}"): (Right.READ, get_run),
    ("GET", "/v1/runs/{turn}/transcript"): (Right.READ, get_transcript),
    ("POST", "/v1/runs/{turn}/cancel"): (Right.WORK, cancel_run),
    ("POST", "/v1/runs/{turn}/approve"): (Right.TALK, approve),
    ("POST", "/v1/runs/{turn}/reject"): (Right.TALK, reject),
    ("POST", "/v1/runs/{turn}/delivered"): (Right.MANAGE, mark_delivered),
    ("GET", "/v1/approvals"): (Right.READ, list_approvals),
    ("GET", "/v1/grants"): (Right.READ, list_grants),
    ("DELETE", "/v1/grants/{id}"): (Right.ANSWER, revoke_grant),
    ("GET", "/v1/sessions"): (Right.READ, list_sessions),
    ("GET", "/v1/sessions/{id}"): (Right.READ, get_session),
    ("GET", "/v1/sessions/{id}/turns"): (Right.READ, list_session_turns),
    ("GET", "/v1/sessions/{id}/undelivered"): (Right.READ, list_undelivered),
    ("GET", "/v1/sessions/{id}/unfinished"): (Right.READ, list_unfinished),
    ("POST", "/v1/sessions/{id}/agent"): (Right.TALK, set_agent),
    ("POST", "/v1/sessions/{id}/stop"): (Right.WORK, stop_session),
    ("GET", "/v1/people"): (Right.MANAGE, list_people),
    ("POST", "/v1/people/codes"): (Right.MANAGE, invite),
    ("POST", "/v1/people/remove"): (Right.MANAGE, remove_person),
}
