"""Socket Mode as Slack does it: envelopes to the newest connection, each to be acknowledged, or events are sent again."""

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import WSMsgType, web

from tests.fakes.slack.workspace import Json

HELLO: Json = {
    "type": "hello",
    "num_connections": 1,
    "connection_info": {"app_id": "A0APP"},
    "debug_info": {"host": "fake"},
}


@dataclass(slots=True)
class _Sent:
    payload: Json
    kind: str
    attempt: int
    timer: asyncio.TimerHandle | None = None


class Sockets:
    """`ack_s`: how long an acknowledgement may take; `retries_s`: how long Slack waits before each further try. `silent`: what is
    connected from now on is kept open and hears nothing; `deaf`: it is not even answered, as when the network has forgotten it.
    `forgets`: what is connected from now on is greeted, and then it is deaf.
    """

    def __init__(
        self, ack_s: float, retries_s: Sequence[float], changed: Callable[[], None]
    ) -> None:
        self.ack_s, self._retries_s, self._changed = ack_s, tuple(retries_s), changed
        self.open: list[web.WebSocketResponse] = []
        self.silent = self.deaf = self.forgets = False
        self.acked: list[tuple[Json, Json | None]] = []
        self.answers: list[Json] = []
        self.dropped: list[Json] = []
        self.attempts: list[tuple[str, int]] = []
        self.connected = 0
        self._mute: set[web.WebSocketResponse] = set()
        self._deaf: set[web.WebSocketResponse] = set()
        self._waiting: dict[str, _Sent] = {}
        self._queue: asyncio.Queue[tuple[web.WebSocketResponse, str]] = asyncio.Queue()

    def send(self, kind: str, payload: Json) -> None:
        """An envelope to the app, now; events are tried again."""
        self._try(_Sent(payload, kind, 0))

    def say(self, message: Json) -> None:
        """To every open connection, without an envelope."""
        for socket in self.open:
            self._queue.put_nowait((socket, json.dumps(message)))

    def go_deaf(self) -> None:
        """Every open connection: no byte comes back any more."""
        self._deaf.update(self.open)

    def go_silent(self) -> None:
        """Every open connection: pings are answered, nothing else comes."""
        self._mute.update(self.open)

    @property
    def unacknowledged(self) -> int:
        """How many envelopes wait for their acknowledgement."""
        return len(self._waiting)

    async def pump(self) -> None:
        """Write what is to be written, in order; ends with its task."""
        while True:
            socket, text = await self._queue.get()
            if not socket.closed and socket not in self._mute and socket not in self._deaf:
                try:
                    await socket.send_str(text)
                except ConnectionError:
                    continue
                self._deaf.update([socket] if self.forgets else [])

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """One connection, until it ends."""
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self.connected += 1
        self._mute.update([socket] if self.silent else [])
        self._deaf.update([socket] if self.deaf else [])
        self.open.append(socket)
        self._queue.put_nowait((socket, json.dumps(HELLO)))
        self._changed()
        try:
            async for message in socket:
                await self._hear(socket, message.type, message.data)
        except ConnectionError:
            pass
        finally:
            self.open.remove(socket)
            self._changed()
        return socket

    async def _hear(
        self, socket: web.WebSocketResponse, kind: WSMsgType, data: str | bytes | bytearray
    ) -> None:
        if socket in self._deaf:
            return
        if kind is WSMsgType.PING:
            await socket.pong(data.encode() if isinstance(data, str) else bytes(data))
        elif kind is WSMsgType.TEXT:
            self._acknowledge(json.loads(data))

    def _acknowledge(self, answer: Json) -> None:
        sent = self._waiting.pop(answer.get("envelope_id", ""), None)
        if sent is None:
            return
        if sent.timer:
            sent.timer.cancel()
        self.acked.append((sent.payload, answer.get("payload")))
        self._changed()

    def _try(self, sent: _Sent) -> None:
        self.attempts.append((str(sent.payload.get("event_id", "")), sent.attempt))
        envelope_id = str(uuid.uuid4())
        envelope: Json = {"envelope_id": envelope_id, "type": sent.kind, "payload": sent.payload}
        envelope["accepts_response_payload"] = sent.kind != "events_api"
        if sent.kind == "events_api":
            envelope |= {
                "retry_attempt": sent.attempt,
                "retry_reason": "timeout" if sent.attempt else "",
            }
        if self.open:
            self._waiting[envelope_id] = sent
            self._queue.put_nowait((self.open[-1], json.dumps(envelope)))
            sent.timer = asyncio.get_running_loop().call_later(self.ack_s, self._late, envelope_id)
        else:
            self._again(sent)

    def _late(self, envelope_id: str) -> None:
        if sent := self._waiting.pop(envelope_id, None):
            self._again(sent)

    def _again(self, sent: _Sent) -> None:
        if sent.kind != "events_api" or sent.attempt >= len(self._retries_s):
            self.dropped.append(sent.payload)
            self._changed()
            return
        wait = self._retries_s[sent.attempt]
        again = _Sent(sent.payload, sent.kind, sent.attempt + 1)
        asyncio.get_running_loop().call_later(wait, self._try, again)
