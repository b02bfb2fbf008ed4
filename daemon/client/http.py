"""A client of a daemon that runs in another process on this machine, over HTTP.

Light: `aidaemon runs` and `aidaemon chat` import it before anything else of the daemon, so it
speaks HTTP/1.0 on asyncio's own
streams: one connection a request, each response up to the end of its connection.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from daemon.client.protocol import (
    COMPLETED,
    SESSIONS_PAGE,
    ApprovalView,
    AttemptView,
    CallView,
    CriteriaView,
    GrantView,
    HealthView,
    LiveEvent,
    LoopAction,
    LoopView,
    RunLine,
    RunView,
    SendResult,
    SessionView,
    UndeliveredText,
    UsageView,
)
from daemon.core import value
from daemon.core.errors import AidaemonError, UsageError
from daemon.core.trust import OWNER, Answer, Person, Role
from daemon.settings.paths import Paths
from daemon.store.lock import LOCK_FILE, is_locked

if TYPE_CHECKING:
    from daemon.access.directory import NewCode, PairedPerson
    from daemon.core.rows import GrantBounds, LoopOrder

REQUEST_S, SILENCE_S = 30.0, 45.0
MAX_EVENT_BYTES = 64 * 1024 * 1024
RECONNECT_DELAYS = (0.1, 0.3, 1.0, 2.0)
LOST_CONNECTION = (OSError, EOFError)
INVALID_TYPES = ("invalid", "no_agent", "not_enabled")
DRAFT_EVENTS = ("model.delta", "model.response", "model.reset")
NOT_SENT = (
    "the daemon cannot be reached, so the message was not taken: start the daemon again and"
    " repeat it"
)
MAYBE_SENT = (
    "the daemon stopped while it was taking the message: start it again and look whether the"
    " message is there"
)
UPPER = re.compile("([A-Z])")

ViewT = TypeVar("ViewT")
Json = Mapping[str, Any]  # a JSON object as it came; `build_view` picks the known names


def find_running_daemon(paths: Paths) -> "HttpClient | None":
    """A client of the daemon that holds the lock of HOME.

    A daemon that was killed leaves its address behind. The address counts only while the lock is
    its own: by now a chat may
    hold the lock, and another program listen at the address.
    """
    if not is_locked(paths.home):
        return None
    try:
        known = json.loads(paths.daemon.read_text())
        owner = (paths.home / LOCK_FILE).read_text().strip()
        if str(known["pid"]) != owner:
            return None
        return HttpClient(str(known["url"]), str(known["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class DaemonStopped(AidaemonError):
    """The daemon stopped; nothing was lost: start it again, the answer will come."""


class RequestRefused(AidaemonError):
    """The daemon refused the request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class InvalidRequest(RequestRefused, UsageError):
    """The request is wrong, whoever sends it."""


@value
class HttpClient:
    """A `DaemonClient` of the daemon at `url`."""

    url: str
    token: str = field(repr=False)
    delays: tuple[float, ...] = RECONNECT_DELAYS

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
    ) -> SendResult:
        """Only to terminal and web sessions. Raises DaemonStopped, saying whether the message can
        have been accepted.
        """
        channel, _, name = session.partition(":")
        if channel not in ("terminal", "web"):
            raise UsageError(
                f"{session}: only sessions web:NAME and terminal:NAME can be written to from here"
            )
        body = {"text": text, "client_id": client_id}
        path = f"/v1/terminal/{quote(name, safe='')}/messages"
        if channel == "web":
            path, body["session"] = "/v1/messages", session
        try:
            sent = await self._request("POST", f"{path}?stream={stream:d}", body)
        except DaemonStopped as error:
            unreached = isinstance(error.__cause__, ConnectionRefusedError)
            raise DaemonStopped(NOT_SENT if unreached else MAYBE_SENT) from error
        return build_view(SendResult, sent)

    async def set_agent(self, session: str, agent: str) -> None:
        await self._request("POST", f"{_session_path(session)}/agent", {"agent": agent})

    async def wait_until_ended(self, turn: str) -> RunView:
        async for _ in self.stream_events(turn):
            pass
        view = await self.get_run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def get_run(self, turn: str) -> RunView | None:
        run = await self._request("GET", _run_path(turn), none_for=(404,))
        if run is None:
            return None
        calls = [build_view(CallView, call) for call in run["calls"]]
        return build_view(RunView, run, calls=calls, usage=build_view(UsageView, run["usage"]))

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """Each event once, over lost connections too. Raises DaemonStopped after several in a
        row.
        """
        position, is_drafting, failures = str(after), False, 0
        while True:
            cause: BaseException | None = None
            try:
                async with aclosing(self._read_events(turn, position)) as events:
                    async for event_id, event in events:
                        position, failures = event_id or position, 0
                        if event.name in DRAFT_EVENTS:
                            is_drafting = event.name == "model.delta"
                        yield event
                        if event.name == COMPLETED:
                            return
            except LOST_CONNECTION as error:
                cause = error
            if failures == len(self.delays):
                raise DaemonStopped from cause
            await asyncio.sleep(self.delays[failures])
            failures += 1
            if is_drafting:
                is_drafting = False
                yield LiveEvent("model.reset", {})

    async def _read_events(self, turn: str, position: str) -> AsyncGenerator[tuple[str, LiveEvent]]:
        """(id, event) of one connection. Id "12-2" is event 12 with two more parts; a draft has
        none.
        """
        headers = {"Last-Event-ID": position}
        async with self._open("GET", f"{_run_path(turn)}/events", headers) as (status, reader):
            if status == 404:
                raise KeyError(turn)
            if status != 200:
                raise _refusal(status, await reader.read())
            while True:
                async with asyncio.timeout(SILENCE_S):
                    frame = (await reader.readuntil(b"\n\n")).decode()
                if frame.startswith(":"):
                    continue
                named = dict(line.split(": ", 1) for line in frame.strip().split("\n"))
                event_id = named.get("id", "")
                seq, _, rest = event_id.partition("-")
                numbers = int(seq) if seq else None, int(rest or 0)
                yield event_id, LiveEvent(named["event"], json.loads(named["data"]), *numbers)

    async def get_transcript(self, turn: str) -> list[dict[str, object]]:
        return await self._request("GET", f"{_run_path(turn)}/transcript", none_for=(404,)) or []

    async def list_runs(self, session: str | None = None, limit: int = 50) -> list[RunLine]:
        return await self._list(RunLine, "/v1/runs", limit=limit, session=session)

    async def list_unfinished(self, session: str) -> list[str]:
        return await self._request("GET", f"{_session_path(session)}/unfinished")

    async def cancel_run(self, turn: str) -> bool:
        done = await self._request("POST", f"{_run_path(turn)}/cancel", none_for=(404,))
        return done is not None and done["cancelled"]

    async def stop_session(self, session: str) -> list[str]:
        done = await self._request("POST", f"{_session_path(session)}/stop", none_for=(404,))
        return [] if done is None else done["stopped"]

    async def list_approvals(
        self, state: str = "pending", session: str | None = None
    ) -> list[ApprovalView]:
        return await self._list(ApprovalView, "/v1/approvals", state=state, session=session)

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: "GrantBounds | None" = None,
    ) -> bool:
        body: dict[str, object] = {"call_id": call_id, "reason": reason}
        if answer is not Answer.DENY:
            body["scope"] = answer.value
            if bounds:
                seconds = bounds.duration.total_seconds() if bounds.duration else None
                minutes = seconds / 60 if seconds is not None else None
                body |= {"times": bounds.uses, "minutes": minutes, "paths": bounds.paths}
        verb = "reject" if answer is Answer.DENY else "approve"
        path = f"{_run_path(turn)}/{verb}"
        return await self._request("POST", path, body, none_for=(404, 409)) is not None

    async def list_grants(self) -> list[GrantView]:
        return await self._list(GrantView, "/v1/grants")

    async def revoke_grant(self, grant_id: str) -> bool:
        path = f"/v1/grants/{quote(grant_id, safe='')}"
        return await self._request("DELETE", path, none_for=(404,)) is not None

    async def get_session(self, session: str) -> SessionView | None:
        found = await self._request("GET", _session_path(session), none_for=(404,))
        return None if found is None else build_view(SessionView, found)

    async def list_sessions(self, limit: int = SESSIONS_PAGE, after: str = "") -> list[SessionView]:
        return await self._list(SessionView, "/v1/sessions", limit=limit, after=after or None)

    async def list_undelivered(self, session: str) -> list[UndeliveredText]:
        return await self._list(UndeliveredText, f"{_session_path(session)}/undelivered")

    async def mark_delivered(self, turn: str, part: int) -> None:
        await self._request("POST", f"{_run_path(turn)}/delivered", {"part": part})

    async def invite(self, role: Role, channel: str = "") -> "NewCode":
        from daemon.access.directory import NewCode  # lazy: brings the store

        body = {"role": role.value, "channel": channel}
        return build_view(NewCode, await self._request("POST", "/v1/people/codes", body))

    async def list_people(self) -> "list[PairedPerson]":
        from daemon.access.directory import PairedPerson  # lazy: brings the store

        return await self._list(PairedPerson, "/v1/people")

    async def remove_person(self, name: str) -> bool:
        return (await self._request("POST", "/v1/people/remove", {"name": name}))["removed"]

    async def start_loop(self, order: "LoopOrder") -> LoopView:
        body = {
            "message": order.message,
            "session": order.session,
            "criterion": order.criterion,
            "value": order.value,
            "maxIterations": order.max_iterations,
        }
        return loop_from_json(await self._request("POST", _loop_path(order.agent, "start"), body))

    async def list_loops(self, agent: str | None = None) -> list[LoopView]:
        return [loop_from_json(row) for row in await self._get_list("/api/loops", agent=agent)]

    async def change_loop(self, loop: LoopView, action: LoopAction) -> LoopView | None:
        changed = await self._request("POST", _loop_path(loop.agent, action), {}, none_for=(409,))
        return changed and loop_from_json(changed)

    async def review_loop(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        body = {"loopId": loop.loop_id, "approved": approved, "reason": reason}
        changed = await self._request(
            "POST", _loop_path(loop.agent, "approve"), body, none_for=(409,)
        )
        return changed and loop_from_json(changed)

    async def get_health(self) -> HealthView:
        return build_view(HealthView, await self._request("GET", "/health", unhealthy=503))

    async def _list(self, kind: type[ViewT], path: str, **params: object) -> list[ViewT]:
        return [build_view(kind, row) for row in await self._get_list(path, **params)]

    async def _get_list(self, path: str, **params: object) -> list[Json]:
        query = urlencode({name: given for name, given in params.items() if given is not None})
        return await self._request("GET", f"{path}?{query}")

    async def _request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        none_for: tuple[int, ...] = (),
        unhealthy: int = 200,
    ) -> Any:  # the parsed JSON
        """The response; None for a status in `none_for`. Raises RequestRefused, DaemonStopped."""
        try:
            async with (
                asyncio.timeout(REQUEST_S),
                self._open(method, path, {}, body) as (status, reader),
            ):
                raw = await reader.read()
        except LOST_CONNECTION as error:
            raise DaemonStopped from error
        if status in none_for:
            return None
        if status >= 300 and status != unhealthy:
            raise _refusal(status, raw)
        try:
            return json.loads(raw)
        except ValueError as error:
            raise DaemonStopped from error  # the connection was cut in the middle of the response

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, headers: Mapping[str, str], body: Json | None = None
    ) -> AsyncGenerator[tuple[int, asyncio.StreamReader], None]:
        """Send a request and read the head of its response: the status, and a reader of the
        rest.
        """
        address = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(
            address.hostname, address.port, limit=MAX_EVENT_BYTES
        )
        try:
            given = {name: text for name, text in (body or {}).items() if text is not None}
            content = b"" if body is None else json.dumps(given).encode()
            lines = {
                "Host": address.netloc,
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
                **headers,
            }
            head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
            writer.write(f"{method} {path} HTTP/1.0\r\n{head}\r\n".encode() + content)
            async with asyncio.timeout(REQUEST_S):
                status = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
            yield int(status), reader
        finally:
            writer.close()


def build_view(kind: type[ViewT], data: Json, **replaced: object) -> ViewT:
    """The view of a JSON object; names that a newer daemon adds are left out."""
    names = {one.name for one in fields(cast(Any, kind))}
    return kind(**{name: data[name] for name in data if name in names} | replaced)


def loop_from_json(data: Json) -> LoopView:
    """LoopState as a view."""
    named = _snake_case(data)
    attempts = [build_view(AttemptView, _snake_case(one)) for one in named["attempts"]]
    criteria = build_view(CriteriaView, named["criteria"])
    return build_view(LoopView, named, attempts=attempts, criteria=criteria)


def _snake_case(data: Json) -> Json:
    return {UPPER.sub(r"_\1", name).lower(): data[name] for name in data}


def _refusal(status: int, raw: bytes) -> RequestRefused:
    """The daemon's own words, as InvalidRequest where the request is wrong."""
    try:
        error = json.loads(raw)["error"]
        kind, message = error["type"], error["message"]
    except (ValueError, KeyError, TypeError):
        kind, message = "", f"the daemon answered {status}"
    return (InvalidRequest if kind in INVALID_TYPES else RequestRefused)(status, message)


def _run_path(turn: str) -> str:
    return f"/v1/runs/{quote(turn, safe='')}"


def _session_path(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"


def _loop_path(agent: str, verb: str) -> str:
    return f"/api/agents/{quote(agent, safe='')}/loop/{verb}"
