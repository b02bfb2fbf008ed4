"""A client of a daemon that runs in another process on this machine, over HTTP; and one that
outlives restarts of the daemon: it waits for the next one and goes on there.

Light: `aidaemon runs` and `aidaemon chat` import it before anything else of the daemon, so it
speaks HTTP/1.0 on asyncio's own
streams: one connection a request, each response up to the end of its connection.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import quote, urlencode, urlsplit

from daemon.client.loop_view import LoopAction, LoopView
from daemon.client.protocol import COMPLETED, DaemonClient, Endpoint
from daemon.client.view_types import HealthView, LiveEvent, RunView, SendResult
from daemon.core import value
from daemon.core.errors import AidaemonError, UsageError
from daemon.core.trust import OWNER, Answer, Person
from daemon.settings.paths import Paths
from daemon.store.lock import LOCK_FILE, is_locked

if TYPE_CHECKING:
    from daemon.core.requests import LoopOrder
    from daemon.core.rows import GrantBounds
    from daemon.triggers.orders import ScheduleOrder

SEND = {
    "terminal": Endpoint("POST", "/v1/terminal/{session}/messages?stream={stream}", SendResult),
    "web": Endpoint("POST", "/v1/messages?stream={stream}", SendResult),
}
UPLOAD = Endpoint("POST", "/v1/files", str, "file")
EVENTS = Endpoint("GET", "/v1/runs/{turn}/events")
HEALTH = Endpoint("GET", "/health")
ANSWER = Endpoint("POST", "/v1/runs/{turn}/{verb}", missing="question")
START_LOOP = Endpoint("POST", "/api/agents/{agent}/loop/start", LoopView)
CHANGE_LOOP = Endpoint("POST", "/api/agents/{agent}/loop/{verb}", LoopView, missing="loop")
ADD_SCHEDULE = Endpoint("POST", "/v1/schedules", str, "said")
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


def find_running_daemon(paths: Paths) -> "HttpClient | None":
    """A client of the daemon that holds the lock of HOME.

    A killed daemon leaves its address behind, which counts only while the lock is its own: by now a
    chat may hold the lock, and another program listen there.
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


@value
class HttpClient(DaemonClient):
    """A client of the daemon at `url`. Each `patience_s` without an answer it asks whether the
    daemon is alive.
    """

    url: str
    token: str = field(repr=False)
    delays: tuple[float, ...] = RECONNECT_DELAYS
    patience_s: float = REQUEST_S

    async def send(
        self,
        session: str,
        text: str,
        client_id: str | None = None,
        *,
        stream: bool = True,
        by: Person = OWNER,
        data: Sequence[str] = (),
        files: Sequence[str] = (),
    ) -> SendResult:
        """Only to terminal and web sessions. Raises DaemonStopped, saying whether the message can
        have been accepted.
        """
        channel, _, name = session.partition(":")
        if channel not in SEND:
            raise UsageError(
                f"{session}: only sessions web:NAME and terminal:NAME can be written to from here"
            )
        given: dict[str, object] = {"session": name, "stream": int(stream), "text": text}
        given |= {"client_id": client_id, "data": [*data] or None, "files": [*files] or None}
        try:
            return await self.request(SEND[channel], given)
        except DaemonStopped as error:
            unreached = isinstance(error.__cause__, ConnectionRefusedError)
            raise DaemonStopped(NOT_SENT if unreached else MAYBE_SENT) from error

    async def upload(self, name: str, data: bytes, by: Person = OWNER) -> str:
        return await self.request(UPLOAD, {"name": name, "body": data})

    async def wait_until_ended(self, turn: str) -> RunView:
        async for _ in self.stream_events(turn):
            pass
        view = await self.get_run(turn)
        if view is None:
            raise KeyError(turn)
        return view

    async def stream_events(self, turn: str, after: int = 0) -> AsyncIterator[LiveEvent]:
        """Each event once, over lost connections too. Raises DaemonStopped after several in a
        row.
        """
        position, is_drafting, failures = str(after), False, 0
        while True:
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
                await self.wait_for_connection(failures, error)
            failures += 1
            if is_drafting:
                is_drafting = False
                yield LiveEvent("model.reset", {})

    async def wait_for_connection(self, failures: int, error: Exception) -> None:
        """A stream of events was cut; so many in a row had been before. Raises DaemonStopped."""
        if failures == len(self.delays):
            raise DaemonStopped from error
        await asyncio.sleep(self.delays[failures])

    def locate(self) -> tuple[str, str]:
        """The address and the token to use now."""
        return self.url, self.token

    async def _read_events(self, turn: str, position: str) -> AsyncGenerator[tuple[str, LiveEvent]]:
        """(id, event) of one connection. Id "12-2" is event 12 with two more parts; a draft has
        none.
        """
        async with self._open(EVENTS, {"turn": turn}, position) as (status, reader):
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

    async def answer_approval(
        self,
        turn: str,
        call_id: str,
        answer: Answer,
        by: Person = OWNER,
        reason: str = "",
        bounds: "GrantBounds | None" = None,
    ) -> bool:
        call_id, _, question = call_id.partition("/")
        given: dict[str, object] = {"turn": turn, "call_id": call_id, "reason": reason}
        given |= {"question": question} if question else {}
        if answer is Answer.DENY:
            given["verb"] = "reject"
        elif answer is Answer.CHOICE:
            given |= {"verb": "approve", "option": reason, "reason": ""}
        else:
            given |= {"verb": "approve", "scope": answer}
            if bounds:
                minutes = bounds.duration and bounds.duration.total_seconds() / 60
                given |= {"times": bounds.uses, "minutes": minutes, "paths": bounds.paths}
        return await self.request(ANSWER, given) is not None

    async def start_loop(self, order: "LoopOrder") -> LoopView:
        return await self.request(START_LOOP, order.requested)

    async def add_schedule(self, order: "ScheduleOrder") -> str:
        return await self.request(ADD_SCHEDULE, order.requested)

    async def change_loop(self, loop: LoopView, action: LoopAction) -> LoopView | None:
        return await self.request(CHANGE_LOOP, {"agent": loop.agent, "verb": action})

    async def review_loop(
        self, loop: LoopView, *, approved: bool, by: str, reason: str = ""
    ) -> LoopView | None:
        review = {"loop_id": loop.loop_id, "approved": approved, "reason": reason}
        return await self.request(CHANGE_LOOP, {"agent": loop.agent, "verb": "approve", **review})

    async def request(self, endpoint: Endpoint, given: Mapping[str, object]) -> Any:
        """The result as the endpoint declares it. Raises RequestRefused, DaemonStopped."""
        result = endpoint.result
        try:
            async with self._open(endpoint, given) as (status, reader):
                async with asyncio.timeout(REQUEST_S):
                    raw = await reader.read()
        except LOST_CONNECTION as error:
            raise DaemonStopped from error
        if endpoint.missing and status in (404, 409):
            return result() if result in (bool, dict, list) else None
        if status >= 300 and (result, status) != (HealthView, 503):
            raise _refusal(status, raw)
        try:
            answer = json.loads(raw)
        except ValueError as error:
            raise DaemonStopped from error  # the connection was cut in the middle of the response
        return read_view(result, answer[endpoint.key] if endpoint.key else answer)

    @asynccontextmanager
    async def _open(
        self, endpoint: Endpoint, given: Mapping[str, object], position: str = ""
    ) -> AsyncGenerator[tuple[int, asyncio.StreamReader], None]:
        """Send a request and read the head of its response: the status, and a reader of the
        rest. `position` is the last event that is known.
        """
        path = endpoint.path.format_map({k: quote(str(v), safe="") for k, v in given.items()})
        rest = {
            name: argument
            for name, argument in given.items()
            if argument is not None and f"{{{name}}}" not in endpoint.path
        }
        file, kind = rest.pop("body", None), "application/json"
        if endpoint.method == "GET" or isinstance(file, bytes):
            path += f"?{urlencode(rest)}"
        content = b"" if endpoint.method == "GET" else json.dumps(rest).encode()
        if isinstance(file, bytes):
            content, kind = file, "application/octet-stream"
        url, token = self.locate()
        address = urlsplit(url)
        lines = {
            "Host": address.netloc,
            "Authorization": f"Bearer {token}",
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Last-Event-ID": position,
        }
        head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
        async with asyncio.timeout(REQUEST_S):
            reader, writer = await asyncio.open_connection(
                address.hostname, address.port, limit=MAX_EVENT_BYTES
            )
        try:
            writer.write(f"{endpoint.method} {path} HTTP/1.0\r\n{head}\r\n".encode() + content)
            yield await self._read_status(reader), reader
        finally:
            writer.close()

    async def _read_status(self, reader: asyncio.StreamReader) -> int:
        """However long the daemon works on it. Raises TimeoutError once it is not alive."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.patience_s):
                    return int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
            try:
                # it ends before it would ask the same of itself
                async with asyncio.timeout(self.patience_s / 2), self._open(HEALTH, {}):
                    pass
            except ConnectionRefusedError as error:
                raise TimeoutError from error  # the request itself was taken


def read_view(kind: Any, found: Any) -> Any:
    """JSON as this type; names that a newer daemon adds are left out."""
    if isinstance(found, list):
        inner = (*get_args(kind), None)[0]
        return [read_view(inner, one) for one in found]
    if not (is_dataclass(kind) and isinstance(found, dict)):
        return found
    named = {UPPER.sub(r"_\1", name).lower(): inner for name, inner in found.items()}
    return cast(type, kind)(
        **{
            one.name: read_view(one.type, named[one.name])
            for one in fields(kind)
            if one.name in named
        }
    )


def _refusal(status: int, raw: bytes) -> AidaemonError:
    """The daemon's own words, as a UsageError where the request is wrong."""
    try:
        error = json.loads(raw)["error"]
        kind, message = error["type"], error["message"]
    except (ValueError, KeyError, TypeError):
        kind, message = "", f"the daemon answered {status}"
    return (UsageError if kind in INVALID_TYPES else RequestRefused)(message)


WAIT_S = 0.3
MAKES_ANEW = (START_LOOP.path, ADD_SCHEDULE.path, "/v1/people/codes")
"""Each request there makes one more thing."""


async def _tell_nobody(is_lost: bool) -> None:
    pass


@dataclass(slots=True)
class ConnectionWatch:
    """Whether the daemon is away; `tell` is called once when it has gone, and once it is back."""

    is_lost: bool = False
    tell: Callable[[bool], Awaitable[None]] = _tell_nobody

    async def set_lost(self, is_lost: bool) -> None:
        """What the last request found."""
        if self.is_lost != is_lost:
            self.is_lost = is_lost
            await self.tell(is_lost)


@value
class ReconnectingClient(HttpClient):
    """A client of whatever daemon runs on these paths, now and later."""

    paths: Paths = field(kw_only=True)
    watch: ConnectionWatch = field(kw_only=True)

    def locate(self) -> tuple[str, str]:
        """Raises ConnectionRefusedError where no daemon runs."""
        client = find_running_daemon(self.paths)
        if client is None:
            raise ConnectionRefusedError
        return client.url, client.token

    async def request(self, endpoint: Endpoint, given: Mapping[str, object]) -> Any:
        while True:
            try:
                result = await HttpClient.request(self, endpoint, given)
            except DaemonStopped as error:
                is_unreached = isinstance(error.__cause__, ConnectionRefusedError)
                if not (is_unreached or _is_repeatable(endpoint, given)):
                    raise
                await self.watch.set_lost(True)
                await asyncio.sleep(WAIT_S)
            else:
                await self.watch.set_lost(False)
                return result

    async def wait_for_connection(self, failures: int, error: Exception) -> None:
        if failures:
            await self.watch.set_lost(True)
        await asyncio.sleep(WAIT_S)


def _is_repeatable(endpoint: Endpoint, given: Mapping[str, object]) -> bool:
    """A message that has a client_id is accepted once; other requests but a few say how something
    shall be, and may say it twice.
    """
    if "text" in given and endpoint.path.partition("?")[0].endswith("/messages"):
        return bool(given.get("client_id"))
    return endpoint.method != "POST" or endpoint.path not in MAKES_ANEW
