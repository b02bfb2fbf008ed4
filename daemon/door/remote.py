"""The door of a daemon that runs in another process on this machine: the same questions, asked over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from aiohttp import (
    ClientConnectionError,
    ClientConnectorError,
    ClientPayloadError,
    ClientSession,
    ClientTimeout,
)
from pydantic import TypeAdapter

from daemon.core.asking import EXACT, Bounds
from daemon.core.errors import UsageError
from daemon.core.events import Answer
from daemon.core.roles import OWNER, Person
from daemon.door.base import (
    Accepted,
    ApprovalView,
    Delivery,
    GrantView,
    HealthView,
    LiveEvent,
    RunLine,
    RunView,
    SessionView,
)
from daemon.door.narrate import COMPLETED
from daemon.door.people import RemoteRegister
from daemon.door.refusals import DaemonGone, DaemonRefused, check
from daemon.door.remote_loops import RemoteLoops
from daemon.providers.sse import EventStream, ServerEvent

ORDINARY = ClientTimeout(total=30.0, sock_connect=5.0)
STREAM = ClientTimeout(total=None, sock_connect=5.0, sock_read=45.0)
DELAYS = (0.1, 0.3, 1.0, 2.0)
LOST = (ClientConnectionError, ClientPayloadError, TimeoutError)
NOT_TAKEN = "the daemon cannot be reached, so the message was not taken: start the daemon again and repeat it"
PERHAPS_TAKEN = "the daemon stopped while it was taking the message: start it again and look whether the message is there"


@dataclass(slots=True)
class Follower:
    """How far a watcher of a run has got, over as many connections as it takes."""

    place: str
    drafting: bool = False
    failures: int = 0

    def took(self, place: str, event: LiveEvent) -> None:
        """One more thing was seen."""
        self.place, self.failures = place or self.place, 0
        if event.name in ("model.delta", "model.response", "model.reset"):
            self.drafting = event.name == "model.delta"


@dataclass(slots=True)
class RemoteDoor:
    """A `Door` over the daemon at `url`. Close it with `aclose`."""

    url: str
    token: str = field(repr=False)
    delays: tuple[float, ...] = DELAYS
    _session: ClientSession | None = None

    async def aclose(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def send(
        self, session: str, text: str, client_id: str | None = None, *, stream: bool = True, by: Person = OWNER
    ) -> Accepted:
        """Say this in a terminal or web session; the daemon goes by the token for who says it, whoever `by` is. Raises
        DaemonGone, saying whether the message can have been taken.
        """
        channel, _, name = session.partition(":")
        if channel not in ("terminal", "web"):
            raise UsageError(f"{session}: only sessions web:NAME and terminal:NAME can be written to from here")
        path = f"/v1/terminal/{_quoted(name)}/messages" if channel == "terminal" else "/v1/messages"
        said = {"text": text, "client_id": client_id} | ({} if channel == "terminal" else {"session": session})
        try:
            raw = await self._ask("POST", path, params={"stream": str(int(stream))}, body=said)
        except DaemonGone as error:
            unreached = isinstance(error.__cause__, ClientConnectorError)
            raise DaemonGone(NOT_TAKEN if unreached else PERHAPS_TAKEN) from error
        return TypeAdapter(Accepted).validate_json(raw)

    async def choose(self, session: str, agent: str) -> None:
        """This agent answers in the session, from the next message on."""
        await self._ask("POST", f"/v1/sessions/{_quoted(session)}/agent", body={"agent": agent})

    async def settled(self, turn: str) -> RunView:
        """The run once it has ended or was quarantined. Raises KeyError for no such run."""
        async for _ in self.events(turn):
            pass
        view = await self.run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def run(self, turn: str) -> RunView | None:
        """The run as it is now."""
        raw = await self._find("GET", f"/v1/runs/{_quoted(turn)}")
        return None if raw is None else TypeAdapter(RunView).validate_json(raw)

    async def events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """What happened, then what happens, each once, over dropped connections too. Raises KeyError for no such run."""
        follower = Follower(str(after))
        while True:
            async for event in self._connection(turn, follower):
                yield event
                if event.name == COMPLETED:
                    return
            if follower.drafting:
                follower.drafting = False
                yield LiveEvent("model.reset", {})

    async def _connection(self, turn: str, follower: Follower) -> AsyncIterator[LiveEvent]:
        """What one connection brings. Waits after a loss; raises DaemonGone when there were too many in a row."""
        cause: BaseException | None = None
        try:
            async for place, event in self._stream(turn, follower.place):
                follower.took(place, event)
                yield event
        except LOST as error:
            cause = error
        if follower.failures == len(self.delays):
            raise DaemonGone from cause
        await asyncio.sleep(self.delays[follower.failures])
        follower.failures += 1

    async def _stream(self, turn: str, place: str) -> AsyncIterator[tuple[str, LiveEvent]]:
        headers = {"Last-Event-ID": place, "Accept": "text/event-stream"}
        path = f"/v1/runs/{_quoted(turn)}/events"
        async with self._http().get(path, headers=headers, timeout=STREAM) as response:
            if response.status == 404:
                raise KeyError(turn)
            await check(response)
            stream = EventStream()
            async for piece in response.content.iter_any():
                for sent in stream.feed(piece):
                    yield sent.id, _told(sent)

    async def transcript(self, turn: str) -> list[dict[str, object]]:
        """The events as they are in the journal; none for no such run."""
        raw = await self._find("GET", f"/v1/runs/{_quoted(turn)}/transcript")
        return TypeAdapter(list[dict[str, object]]).validate_json(raw or b"[]")

    async def runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        """Runs, newest first."""
        params = {"limit": str(limit)} | ({} if session is None else {"session": session})
        return TypeAdapter(list[RunLine]).validate_json(await self._ask("GET", "/v1/runs", params=params))

    async def unfinished(self, session: str) -> list[str]:
        """Runs of a session that are queued, running or suspended."""
        raw = await self._ask("GET", f"/v1/sessions/{_quoted(session)}/unfinished")
        return TypeAdapter(list[str]).validate_json(raw)

    async def cancel(self, turn: str) -> bool:
        """Stop this run; False when it had ended."""
        raw = await self._find("POST", f"/v1/runs/{_quoted(turn)}/cancel")
        return raw is not None and _object(raw)["cancelled"] is True

    async def stop(self, session: str) -> list[str]:
        """Stop what runs in the session."""
        raw = await self._find("POST", f"/v1/sessions/{_quoted(session)}/stop")
        return [] if raw is None else TypeAdapter(list[str]).validate_python(_object(raw)["stopped"])

    async def approvals(self, state: str = "pending", session: str | None = None) -> list[ApprovalView]:
        """Questions to a person."""
        params = {"state": state} | ({} if session is None else {"session": session})
        return TypeAdapter(list[ApprovalView]).validate_json(await self._ask("GET", "/v1/approvals", params=params))

    async def answer(
        self, turn: str, call_id: str, answer: Answer, by: Person = OWNER, reason: str = "", bounds: Bounds = EXACT
    ) -> bool:
        """Answer one; the daemon goes by the token for who says it, whatever `by` is."""
        verb = "reject" if answer is Answer.DENY else "approve"
        said: dict[str, object] = {"call_id": call_id, "reason": reason}
        said |= {} if answer is Answer.DENY else {"scope": answer.value} | _bounds(bounds)
        try:
            await self._ask("POST", f"/v1/runs/{_quoted(turn)}/{verb}", body=said)
        except DaemonRefused as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    async def grants(self) -> list[GrantView]:
        """What needs no question any more."""
        return TypeAdapter(list[GrantView]).validate_json(await self._ask("GET", "/v1/grants"))

    async def revoke(self, grant_id: str) -> bool:
        """Take a permission back; False when there is none of that id."""
        return await self._find("DELETE", f"/v1/grants/{_quoted(grant_id)}") is not None

    async def sessions(self) -> list[SessionView]:
        """All sessions, newest first."""
        return TypeAdapter(list[SessionView]).validate_json(await self._ask("GET", "/v1/sessions"))

    async def undelivered(self, session: str) -> list[Delivery]:
        """What was said to the session and not yet marked as delivered."""
        raw = await self._ask("GET", f"/v1/sessions/{_quoted(session)}/undelivered")
        return TypeAdapter(list[Delivery]).validate_json(raw)

    async def delivered(self, turn: str, part: int) -> None:
        """It has been shown."""
        await self._ask("POST", f"/v1/runs/{_quoted(turn)}/delivered", body={"part": part})

    def people(self) -> RemoteRegister:
        """Who is known, and letting one more in."""
        return RemoteRegister(self._ask)

    def loops(self) -> RemoteLoops:
        """What can be done with loops."""
        return RemoteLoops(self._ask)

    async def health(self) -> HealthView:
        """How the daemon is; a sick one says so with 503."""
        return TypeAdapter(HealthView).validate_json(await self._ask("GET", "/health", also=503))

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        also: int = 200,
    ) -> bytes:
        try:
            async with self._http().request(method, path, params=params, json=body, timeout=ORDINARY) as response:
                if response.status != also:
                    await check(response)
                return await response.read()
        except LOST as error:
            raise DaemonGone from error

    async def _find(self, method: str, path: str) -> bytes | None:
        """What is not there is told by its absence; any other refusal stays an error."""
        try:
            return await self._ask(method, path)
        except DaemonRefused as error:
            if error.status == 404:
                return None
            raise

    def _http(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(self.url, headers={"Authorization": f"Bearer {self.token}"})
        return self._session


def _told(sent: ServerEvent) -> LiveEvent:
    """Id "12-2" is a part of event 12 with two more parts to follow; without an id it is a draft."""
    seq, _, rest = sent.id.partition("-")
    return LiveEvent(sent.event, _object(sent.data.encode()), int(seq) if seq else None, int(rest or 0))


def _object(raw: bytes) -> dict[str, object]:
    return TypeAdapter(dict[str, object]).validate_json(raw)


def _bounds(bounds: Bounds) -> dict[str, object]:
    minutes = None if bounds.lasts is None else bounds.lasts.total_seconds() / 60
    named = {"times": bounds.uses, "minutes": minutes, "paths": bounds.paths or None}
    return {name: value for name, value in named.items() if value is not None}


def _quoted(part: str) -> str:
    return quote(part, safe="")
