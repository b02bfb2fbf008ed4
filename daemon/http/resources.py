"""/v1/runs: what became of each message, and stopping it.

Waiting for the end of a run on behalf of a client who may have gone.

POST /v1/messages: a person says something in a web session; and the same for terminal sessions.

Questions to a person, and the answers.

/v1/sessions: the conversations, their runs, and a stop for each.

What a terminal that is a client of this daemon needs beside the rest: what it has not shown yet.

What needs no question any more: to be seen, and to be taken back.

/v1/people: who has been let in by a code, and letting one more in (DESIGN 6 Roles).

GET /health: whether the daemon serves, for those who watch over it. No token.

POST /v1/events/{name}: the untrusted door (A13, A16). Its tokens open this and nothing else, and no other opens it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from typing import Annotated, Literal, Protocol

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import from_json

from daemon.client.protocol import (
    CODES_PATH,
    PEOPLE_PATH,
    REMOVE_PATH,
    SESSION_NAME,
    DaemonClient,
    RunView,
    SendResult,
)
from daemon.core import value
from daemon.core.events import Answer
from daemon.core.rows import MAX_GRANT_TERM, MAX_GRANT_USES, GrantBounds, NotAllowedToAnswer
from daemon.core.trust import Role
from daemon.http.permissions import EVENTS_PATH, PERSON, forbidden, require_own_session
from daemon.http.responses import (
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


async def require_run(door: DaemonClient, request: web.Request) -> RunView:
    """The run the address names. Raises Problem 404."""
    turn = request.match_info["turn"]
    view = await door.get_run(turn)
    if view is None:
        raise not_found(f"run {turn!r}")
    return view


@value
class RunRoutes:
    """Runs as a list, one by one, and as they stand in the journal."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/runs", self.list_all),
            web.get("/v1/runs/{turn}", self.show),
            web.get("/v1/runs/{turn}/transcript", self.transcript),
            web.post("/v1/runs/{turn}/cancel", self.cancel),
        ]

    async def list_all(self, request: web.Request) -> web.Response:
        """Newest first, `?session=` and `?limit=`."""
        limit = query_number(request, "limit", 50, least=1, most=MAX_RUNS)
        return json_response(await self.door.list_runs(request.query.get("session"), limit))

    async def show(self, request: web.Request) -> web.Response:
        """One run as it is now."""
        return json_response(await require_run(self.door, request))

    async def transcript(self, request: web.Request) -> web.Response:
        """Its events as they are in the journal."""
        view = await require_run(self.door, request)
        return json_response(await self.door.get_transcript(view.turn))

    async def cancel(self, request: web.Request) -> web.Response:
        """Stop it; `cancelled` is false when it had ended."""
        view = await require_run(self.door, request)
        return json_response(
            {"turn": view.turn, "cancelled": await self.door.cancel_run(view.turn)}
        )


DISCONNECT_CHECK_S = 5.0


async def wait_for_run(door: DaemonClient, request: web.Request, turn: str) -> RunView:
    """The run when it has ended. A client who goes away ends the waiting, never the run.

    Handlers are not cancelled when a connection drops (a write to the journal must not be cut in half), so this looks.
    """
    waiting = asyncio.ensure_future(door.wait_until_ended(turn))
    try:
        while not waiting.done() and request.transport is not None:
            await asyncio.wait((waiting,), timeout=DISCONNECT_CHECK_S)
        if waiting.done():
            return waiting.result()
    finally:
        waiting.cancel()
    raise HttpError(499, "gone", "the client went away; the run goes on")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
ClientId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class MessageBody(BaseModel):
    """The body of a message to a terminal session. `agent` is set for the session, from this message on."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    text: Text
    client_id: ClientId | None = None
    agent: str | None = None


class WebMessageBody(MessageBody):
    """The body of a message to a web session; without one it goes to the owner's web:default, or to the user's own."""

    session: str | None = None


@value
class MessageRoutes:
    """Takes messages in. Without `?wait=1` the answer comes once the message is on disk."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.post("/v1/messages", self.post_web),
            web.post("/v1/terminal/{name}/messages", self.post_terminal),
        ]

    async def post_web(self, request: web.Request) -> web.Response:
        """A message to `web:NAME`, and to no session of another channel."""
        said = await read_body(request, WebMessageBody)
        person = request[PERSON]
        own = "default" if person.role is Role.OWNER else person.name
        name = own if said.session is None else said.session.removeprefix("web:")
        return await self._accept(request, f"web:{_check_session_name(name, 'web:')}", said)

    async def post_terminal(self, request: web.Request) -> web.Response:
        """A message to `terminal:NAME`; terminals are the owner's."""
        said = await read_body(request, MessageBody)
        return await self._accept(
            request,
            f"terminal:{_check_session_name(request.match_info['name'], 'terminal:')}",
            said,
        )

    async def _accept(self, request: web.Request, session: str, said: MessageBody) -> web.Response:
        person = request[PERSON]
        require_own_session(person, session)
        wait, draft = (
            query_flag(request, "wait", default=False),
            query_flag(request, "stream", default=True),
        )
        if said.agent is not None:
            await self.door.set_agent(session, said.agent)
        accepted = await self.door.send(
            session, said.text, said.client_id, stream=draft and not wait, by=person
        )
        if accepted.command:
            return json_response({"command": accepted.command, "reply": accepted.reply})
        if wait:
            return json_response(
                await wait_for_run(self.door, request, accepted.turn or accepted.steered)
            )
        return json_response(_turn_reference(accepted), 202)


def _turn_reference(accepted: SendResult) -> dict[str, str]:
    return {"steered": accepted.steered} if accepted.steered else {"turn": accepted.turn}


def _check_session_name(name: str, prefix: str) -> str:
    if SESSION_NAME.fullmatch(name):
        return name
    raise invalid(
        f"session: expected NAME or {prefix}NAME, with no ':' or '/' in it and at most 100 characters;"
        " sessions of other channels cannot be written to from here"
    )


STATES = ("pending", "answered", "consumed", "expired", "void")


class ApprovalAnswerBody(BaseModel):
    """The body of an answer; `scope` counts for the approval of a call only, and so do the bounds of a longer one."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    call_id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    scope: Literal["once", "session", "always"] = "once"
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""
    times: Annotated[int, Field(ge=1, le=MAX_GRANT_USES)] | None = None
    minutes: (
        Annotated[float, Field(gt=0, le=MAX_GRANT_TERM.total_seconds() / 60, allow_inf_nan=False)]
        | None
    ) = None
    paths: Annotated[str, StringConstraints(max_length=1000)] = ""

    def bounds(self) -> GrantBounds:
        """How far a yes for the session or always goes."""
        return GrantBounds(
            self.times,
            None if self.minutes is None else timedelta(minutes=self.minutes),
            self.paths,
        )


@value
class ApprovalRoutes:
    """Each question is answered once; each call on its own (B8)."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/approvals", self.list_all),
            web.post("/v1/runs/{turn}/approve", self.approve),
            web.post("/v1/runs/{turn}/reject", self.reject),
        ]

    async def list_all(self, request: web.Request) -> web.Response:
        """`?state=pending` (the default) and `?session=`."""
        state = request.query.get("state", "pending")
        if state not in STATES:
            raise invalid(f"state: found {state!r}, expected one of {', '.join(STATES)}")
        return json_response(await self.door.list_approvals(state, request.query.get("session")))

    async def approve(self, request: web.Request) -> web.Response:
        """Yes, for this once, this session or always."""
        said = await read_body(request, ApprovalAnswerBody)
        return await self._answer(request, said, Answer(said.scope))

    async def reject(self, request: web.Request) -> web.Response:
        """No; the model is told the reason, which is feedback where an answer was to be reviewed."""
        return await self._answer(
            request, await read_body(request, ApprovalAnswerBody), Answer.DENY
        )

    async def _answer(
        self, request: web.Request, said: ApprovalAnswerBody, answered: Answer
    ) -> web.Response:
        turn, person = request.match_info["turn"], request[PERSON]
        try:
            done = await self.door.answer_approval(
                turn, said.call_id, answered, person, said.reason, said.bounds()
            )
        except NotAllowedToAnswer as error:
            raise forbidden(str(error)) from error
        if done:
            return json_response({"turn": turn, "call_id": said.call_id, "answer": answered})
        view = await require_run(self.door, request)
        if not await self._is_known_question(view, said.call_id):
            raise not_found(f"call {said.call_id!r} in run {turn!r}")
        raise HttpError(
            409,
            "not_pending",
            f"call {said.call_id} does not wait for an answer: answered already, expired or over",
        )

    async def _is_known_question(self, view: RunView, call_id: str) -> bool:
        """A call of the run; or a question of the house itself, which is no call: "budget.1", "review.7"."""
        if any(call.call_id == call_id for call in view.calls):
            return True
        asked = [
            one for state in STATES for one in await self.door.list_approvals(state, view.session)
        ]
        return any((one.turn, one.call_id) == (view.turn, call_id) for one in asked)


CREATABLE_CHANNELS = ("web", "terminal")


class AgentBody(BaseModel):
    """The body that says which agent answers."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    agent: str


@value
class SessionRoutes:
    """Sessions by their full id, such as web:default."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/sessions", self.list_all),
            web.get("/v1/sessions/{id}/turns", self.turns),
            web.post("/v1/sessions/{id}/stop", self.stop),
            web.post("/v1/sessions/{id}/agent", self.set_agent),
        ]

    async def list_all(self, request: web.Request) -> web.Response:
        """All sessions, newest first."""
        return json_response(await self.door.list_sessions())

    async def turns(self, request: web.Request) -> web.Response:
        """The session's runs, newest first."""
        session = request.match_info["id"]
        lines = await self.door.list_runs(
            session, query_number(request, "limit", 50, least=1, most=MAX_RUNS)
        )
        if not lines:
            await self._check_known(session)
        return json_response(lines)

    async def stop(self, request: web.Request) -> web.Response:
        """Stop what runs in it; `stopped` names the runs."""
        session = request.match_info["id"]
        stopped = await self.door.stop_session(session)
        if not stopped:
            await self._check_known(session)
        return json_response({"session": session, "stopped": stopped})

    async def set_agent(self, request: web.Request) -> web.Response:
        """Which agent answers in it from now on; a web or terminal session need not be there yet."""
        session = request.match_info["id"]
        require_own_session(request[PERSON], session)
        chosen = await read_body(request, AgentBody)
        channel, _, name = session.partition(":")
        if channel not in CREATABLE_CHANNELS or not SESSION_NAME.fullmatch(name):
            await self._check_known(session)
        await self.door.set_agent(session, chosen.agent)
        return json_response({"session": session, "agent": chosen.agent})

    async def _check_known(self, session: str) -> None:
        if all(view.id != session for view in await self.door.list_sessions()):
            raise not_found(f"session {session!r}")


class DeliveredBody(BaseModel):
    """The body that says which delivery was shown."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    part: Annotated[int, Field(ge=0)]


@value
class TerminalRoutes:
    """Deliveries to a session, and the runs that will bring more."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/sessions/{id}/undelivered", self.undelivered),
            web.get("/v1/sessions/{id}/unfinished", self.unfinished),
            web.post("/v1/runs/{turn}/delivered", self.delivered),
        ]

    async def undelivered(self, request: web.Request) -> web.Response:
        """What was said and not marked as shown, in order."""
        return json_response(await self.door.list_undelivered(request.match_info["id"]))

    async def unfinished(self, request: web.Request) -> web.Response:
        """Runs that are queued, running or suspended, oldest first."""
        return json_response(await self.door.list_unfinished(request.match_info["id"]))

    async def delivered(self, request: web.Request) -> web.Response:
        """It has been shown; telling it again changes nothing."""
        shown = await read_body(request, DeliveredBody)
        await self.door.mark_delivered(request.match_info["turn"], shown.part)
        return json_response({"turn": request.match_info["turn"], "part": shown.part})


@value
class GrantRoutes:
    """Standing permissions are given with an answer, and bounded."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/v1/grants", self.list_all), web.delete("/v1/grants/{id}", self.revoke)]

    async def list_all(self, request: web.Request) -> web.Response:
        """Those that stand, oldest first, with what is left of them."""
        return json_response(await self.door.list_grants())

    async def revoke(self, request: web.Request) -> web.Response:
        """From now on it is asked again."""
        name = request.match_info["id"]
        if not await self.door.revoke_grant(name):
            raise not_found(f"grant {name!r}")
        return json_response({"id": name, "revoked": True})


class InviteBody(BaseModel):
    """The body that asks for a code."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    role: Role = Role.EDITOR
    channel: Annotated[str, StringConstraints(max_length=64)] = ""


class PersonBody(BaseModel):
    """The body that says who is meant."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


@value
class PeopleRoutes:
    """The owner's alone."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.post(CODES_PATH, self.invite),
            web.get(PEOPLE_PATH, self.list_all),
            web.post(REMOVE_PATH, self.remove),
        ]

    async def invite(self, request: web.Request) -> web.Response:
        """The code, told this once."""
        wanted = await read_body(request, InviteBody)
        return json_response(await self.door.people().invite(wanted.role, wanted.channel))

    async def list_all(self, request: web.Request) -> web.Response:
        """Those who had a code."""
        return json_response(await self.door.people().list_people())

    async def remove(self, request: web.Request) -> web.Response:
        """`removed` is false when nobody is known by that name."""
        named = await read_body(request, PersonBody)
        return json_response({"removed": await self.door.people().remove(named.name)})


@value
class HealthRoutes:
    """200, or 503 with what ails it."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/health", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """How the daemon is."""
        health = await self.door.get_health()
        return json_response(health, 200 if health.ok else 503)


EVENT_LIMIT = 256 * 1024
KEY_HEADER = "Idempotency-Key"
LONGEST_KEY = 200


class EventIntake(Protocol):
    """Takes an event in; `daemon.triggers.events.Events` does."""

    async def accept(self, arrived: TriggerEvent) -> TriggerReceipt:
        """Durable when it returns."""
        ...


@value
class EventEndpoint:
    """Any JSON in; out comes where its run can be looked at, by whoever has a token of the house's people.

    `tokens`: by name of the sender.
    """

    events: EventIntake
    tokens: Mapping[str, str] = field(repr=False)

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.post(EVENTS_PATH, self.take)]

    async def take(self, request: web.Request) -> web.Response:
        """202 once it is on disk; the same Idempotency-Key again gets the same answer, whatever came with it."""
        key = _idempotency_key(request)
        raw = await read_raw_body(request, EVENT_LIMIT)
        name = request.match_info["name"]
        try:
            taken = await self.events.accept(
                TriggerEvent(name, from_json(raw, allow_inf_nan=False), len(raw), key)
            )
        except ValueError as error:
            raise invalid(f"body: is not JSON: {error}") from error
        return json_response({"session": taken.session, "turn": taken.turn}, 202)


def _idempotency_key(request: web.Request) -> str:
    """What the sender calls this event, so that sending it again is no second one."""
    key = request.headers.get(KEY_HEADER)
    if key is None:
        return ""
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= LONGEST_KEY):
        raise invalid(f"{KEY_HEADER}: expected 1 to {LONGEST_KEY} printable ASCII characters")
    return key
