"""What a daemon that runs in another process says when it does not do what was asked, or nothing because it is gone.

Loops of a daemon that runs in another process.

The door of a daemon that runs in another process on this machine: the same questions, asked over HTTP.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientPayloadError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
)
from pydantic import TypeAdapter

from daemon.client.event_stream import COMPLETED
from daemon.client.protocol import (
    ApprovalView,
    GrantView,
    HealthView,
    HttpPeople,
    LiveEvent,
    LoopView,
    RunLine,
    RunView,
    SendResult,
    SessionView,
    UndeliveredText,
)
from daemon.core import value
from daemon.core.errors import AidaemonError, UsageError
from daemon.core.events import Answer
from daemon.core.rows import EXACT_CALL, GrantBounds, LoopOrder
from daemon.core.trust import OWNER, Person
from daemon.providers.http import EventStreamParser, ServerEvent

INVALID_TYPES = ("invalid", "no_agent", "not_enabled")


class DaemonStopped(AidaemonError):
    """The daemon stopped; nothing was lost: start it again, the answer will come."""


class RequestRefused(AidaemonError):
    """The daemon did not do what was asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class InvalidRequest(RequestRefused, UsageError):
    """What was asked cannot be meant, whoever is asked."""


async def raise_for_status(response: ClientResponse) -> None:
    """Raises DaemonRefused in the daemon's own words, AskedWrongly where it was the caller's mistake."""
    if response.ok:
        return
    try:
        error = TypeAdapter(dict[str, dict[str, str]]).validate_json(await response.read())["error"]
        kind, message = error["type"], error["message"]
    except (ValueError, KeyError):
        kind, message = "", f"the daemon answered {response.status} {response.reason}"
    raise (InvalidRequest if kind in INVALID_TYPES else RequestRefused)(response.status, message)


UPPER = re.compile("([A-Z])")


class SendRequest(Protocol):
    """Puts a request to the daemon; gives the body. Raises DaemonRefused, DaemonGone."""

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        also: int = 200,
    ) -> bytes:
        """`also` is a status that counts as an answer, too."""
        ...


@value
class HttpLoops:
    """`Loops` over HTTP."""

    ask: SendRequest

    async def start(self, order: LoopOrder) -> LoopView:
        """Begin one; the daemon goes by the token for who starts it."""
        told = {
            "message": order.message,
            "session": order.session,
            "criterion": order.criterion,
            "value": order.value,
            "maxIterations": order.max_iterations,
        }
        body = {name: value for name, value in told.items() if value is not None}
        return _decode_loop(await self.ask("POST", _loop_path(order.agent, "start"), body=body))

    async def list_loops(self, agent: str | None = None) -> list[LoopView]:
        """Loops, newest first."""
        raw = await self.ask("GET", "/api/loops", params={} if agent is None else {"agent": agent})
        return [
            loop_from_json(one) for one in TypeAdapter(list[dict[str, object]]).validate_json(raw)
        ]

    async def stop(self, loop: LoopView) -> LoopView | None:
        """End it now."""
        return await self._do(loop, "stop")

    async def pause(self, loop: LoopView) -> LoopView | None:
        """Not another attempt."""
        return await self._do(loop, "pause")

    async def resume(self, loop: LoopView) -> LoopView | None:
        """Go on."""
        return await self._do(loop, "resume")

    async def review(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        """Say whether the attempt will do."""
        return await self._do(
            loop, "approve", loopId=loop.loop_id, approved=approved, reason=reason
        )

    async def _do(self, loop: LoopView, verb: str, **body: object) -> LoopView | None:
        """409 says that it was not in a state for that."""
        raw = TypeAdapter(dict[str, object]).validate_json(
            await self.ask("POST", _loop_path(loop.agent, verb), body=body, also=409)
        )
        return loop_from_json(raw) if "loopId" in raw else None


def loop_from_json(raw: Mapping[str, object]) -> LoopView:
    """LoopState back again."""
    return TypeAdapter(LoopView).validate_python(_to_snake_case(raw))


def _to_snake_case(value: object) -> object:
    match value:
        case dict():
            return {
                UPPER.sub(r"_\1", str(name)).lower(): _to_snake_case(inner)
                for name, inner in value.items()
            }
        case list():
            return [_to_snake_case(inner) for inner in value]
        case _:
            return value


def _loop_path(agent: str, verb: str) -> str:
    return f"/api/agents/{quote(agent, safe='')}/loop/{verb}"


def _decode_loop(raw: bytes) -> LoopView:
    return loop_from_json(TypeAdapter(dict[str, object]).validate_json(raw))


REQUEST_TIMEOUT = ClientTimeout(total=30.0, sock_connect=5.0)
STREAM_TIMEOUT = ClientTimeout(total=None, sock_connect=5.0, sock_read=45.0)
RECONNECT_DELAYS = (0.1, 0.3, 1.0, 2.0)
LOST_CONNECTION = (ClientConnectionError, ClientPayloadError, TimeoutError)
NOT_SENT = "the daemon cannot be reached, so the message was not taken: start the daemon again and repeat it"
MAYBE_SENT = "the daemon stopped while it was taking the message: start it again and look whether the message is there"


@dataclass(slots=True)
class StreamCursor:
    """How far a watcher of a run has got, over as many connections as it takes."""

    position: str
    drafting: bool = False
    failures: int = 0

    def advance(self, place: str, event: LiveEvent) -> None:
        """One more thing was seen."""
        self.position, self.failures = place or self.position, 0
        if event.name in ("model.delta", "model.response", "model.reset"):
            self.drafting = event.name == "model.delta"


@dataclass(slots=True)
class HttpClient:
    """A `Door` over the daemon at `url`. Close it with `aclose`."""

    url: str
    token: str = field(repr=False)
    delays: tuple[float, ...] = RECONNECT_DELAYS
    _session: ClientSession | None = None

    async def aclose(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
    ) -> SendResult:
        """Say this in a terminal or web session; the daemon goes by the token for who says it, whoever `by` is. Raises
        DaemonGone, saying whether the message can have been taken.
        """
        channel, _, name = session.partition(":")
        if channel not in ("terminal", "web"):
            raise UsageError(
                f"{session}: only sessions web:NAME and terminal:NAME can be written to from here"
            )
        path = (
            f"/v1/terminal/{_quote_path(name)}/messages"
            if channel == "terminal"
            else "/v1/messages"
        )
        said = {"text": text, "client_id": client_id} | (
            {} if channel == "terminal" else {"session": session}
        )
        try:
            raw = await self._request("POST", path, params={"stream": str(int(stream))}, body=said)
        except DaemonStopped as error:
            unreached = isinstance(error.__cause__, ClientConnectorError)
            raise DaemonStopped(NOT_SENT if unreached else MAYBE_SENT) from error
        return TypeAdapter(SendResult).validate_json(raw)

    async def set_agent(self, session: str, agent: str) -> None:
        """This agent answers in the session, from the next message on."""
        await self._request(
            "POST", f"/v1/sessions/{_quote_path(session)}/agent", body={"agent": agent}
        )

    async def wait_until_ended(self, turn: str) -> RunView:
        """The run once it has ended or was quarantined. Raises KeyError for no such run."""
        async for _ in self.stream_events(turn):
            pass
        view = await self.get_run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def get_run(self, turn: str) -> RunView | None:
        """The run as it is now."""
        raw = await self._request_or_none("GET", f"/v1/runs/{_quote_path(turn)}")
        return None if raw is None else TypeAdapter(RunView).validate_json(raw)

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """What happened, then what happens, each once, over dropped connections too. Raises KeyError for no such run."""
        follower = StreamCursor(str(after))
        while True:
            async for event in self._connection(turn, follower):
                yield event
                if event.name == COMPLETED:
                    return
            if follower.drafting:
                follower.drafting = False
                yield LiveEvent("model.reset", {})

    async def _connection(self, turn: str, follower: StreamCursor) -> AsyncIterator[LiveEvent]:
        """What one connection brings. Waits after a loss; raises DaemonGone when there were too many in a row."""
        cause: BaseException | None = None
        try:
            async for place, event in self._stream(turn, follower.position):
                follower.advance(place, event)
                yield event
        except LOST_CONNECTION as error:
            cause = error
        if follower.failures == len(self.delays):
            raise DaemonStopped from cause
        await asyncio.sleep(self.delays[follower.failures])
        follower.failures += 1

    async def _stream(self, turn: str, place: str) -> AsyncIterator[tuple[str, LiveEvent]]:
        headers = {"Last-Event-ID": place, "Accept": "text/event-stream"}
        path = f"/v1/runs/{_quote_path(turn)}/events"
        async with self._http().get(path, headers=headers, timeout=STREAM_TIMEOUT) as response:
            if response.status == 404:
                raise KeyError(turn)
            await raise_for_status(response)
            stream = EventStreamParser()
            async for piece in response.content.iter_any():
                for sent in stream.feed(piece):
                    yield sent.id, _decode_event(sent)

    async def get_transcript(self, turn: str) -> list[dict[str, object]]:
        """The events as they are in the journal; none for no such run."""
        raw = await self._request_or_none("GET", f"/v1/runs/{_quote_path(turn)}/transcript")
        return TypeAdapter(list[dict[str, object]]).validate_json(raw or b"[]")

    async def list_runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        """Runs, newest first."""
        params = {"limit": str(limit)} | ({} if session is None else {"session": session})
        return TypeAdapter(list[RunLine]).validate_json(
            await self._request("GET", "/v1/runs", params=params)
        )

    async def list_unfinished(self, session: str) -> list[str]:
        """Runs of a session that are queued, running or suspended."""
        raw = await self._request("GET", f"/v1/sessions/{_quote_path(session)}/unfinished")
        return TypeAdapter(list[str]).validate_json(raw)

    async def cancel_run(self, turn: str) -> bool:
        """Stop this run; False when it had ended."""
        raw = await self._request_or_none("POST", f"/v1/runs/{_quote_path(turn)}/cancel")
        return raw is not None and _decode_object(raw)["cancelled"] is True

    async def stop_session(self, session: str) -> list[str]:
        """Stop what runs in the session."""
        raw = await self._request_or_none("POST", f"/v1/sessions/{_quote_path(session)}/stop")
        return (
            []
            if raw is None
            else TypeAdapter(list[str]).validate_python(_decode_object(raw)["stopped"])
        )

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        """Questions to a person."""
        params = {"state": state} | ({} if session is None else {"session": session})
        return TypeAdapter(list[ApprovalView]).validate_json(
            await self._request("GET", "/v1/approvals", params=params)
        )

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: GrantBounds = EXACT_CALL,
    ) -> bool:
        """Answer one; the daemon goes by the token for who says it, whatever `by` is."""
        verb = "reject" if answer is Answer.DENY else "approve"
        said: dict[str, object] = {"call_id": call_id, "reason": reason}
        said |= {} if answer is Answer.DENY else {"scope": answer.value} | _encode_bounds(bounds)
        try:
            await self._request("POST", f"/v1/runs/{_quote_path(turn)}/{verb}", body=said)
        except RequestRefused as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def list_grants(self) -> list[GrantView]:
        """What needs no question any more."""
        return TypeAdapter(list[GrantView]).validate_json(await self._request("GET", "/v1/grants"))

    async def revoke_grant(self, grant_id: str) -> bool:
        """Take a permission back; False when there is none of that id."""
        return (
            await self._request_or_none("DELETE", f"/v1/grants/{_quote_path(grant_id)}") is not None
        )

    async def list_sessions(self) -> list[SessionView]:
        """All sessions, newest first."""
        return TypeAdapter(list[SessionView]).validate_json(
            await self._request("GET", "/v1/sessions")
        )

    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        """What was said to the session and not yet marked as delivered."""
        raw = await self._request("GET", f"/v1/sessions/{_quote_path(session)}/undelivered")
        return TypeAdapter(list[UndeliveredText]).validate_json(raw)

    async def mark_delivered(self, turn: str, part: int) -> None:
        """It has been shown."""
        await self._request("POST", f"/v1/runs/{_quote_path(turn)}/delivered", body={"part": part})

    def people(self) -> HttpPeople:
        """Who is known, and letting one more in."""
        return HttpPeople(self._request)

    def loops(self) -> HttpLoops:
        """What can be done with loops."""
        return HttpLoops(self._request)

    async def get_health(self) -> HealthView:
        """How the daemon is; a sick one says so with 503."""
        return TypeAdapter(HealthView).validate_json(
            await self._request("GET", "/health", also=503)
        )

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        also: int = 200,
    ) -> bytes:
        try:
            async with self._http().request(
                method, path, params=params, json=body, timeout=REQUEST_TIMEOUT
            ) as response:
                if response.status != also:
                    await raise_for_status(response)
                return await response.read()
        except LOST_CONNECTION as error:
            raise DaemonStopped from error

    async def _request_or_none(self, method: str, path: str) -> bytes | None:
        """What is not there is told by its absence; any other refusal stays an error."""
        try:
            return await self._request(method, path)
        except RequestRefused as error:
            if error.status == 404:
                return None
            raise

    def _http(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(
                self.url, headers={"Authorization": f"Bearer {self.token}"}
            )
        return self._session


def _decode_event(sent: ServerEvent) -> LiveEvent:
    """Id "12-2" is a part of event 12 with two more parts to follow; without an id it is a draft."""
    seq, _, rest = sent.id.partition("-")
    return LiveEvent(
        sent.event, _decode_object(sent.data.encode()), int(seq) if seq else None, int(rest or 0)
    )


def _decode_object(raw: bytes) -> dict[str, object]:
    return TypeAdapter(dict[str, object]).validate_json(raw)


def _encode_bounds(bounds: GrantBounds) -> dict[str, object]:
    minutes = None if bounds.duration is None else bounds.duration.total_seconds() / 60
    named = {"times": bounds.uses, "minutes": minutes, "paths": bounds.paths or None}
    return {name: value for name, value in named.items() if value is not None}


def _quote_path(part: str) -> str:
    return quote(part, safe="")
