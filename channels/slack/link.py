"""One Socket Mode connection, in the library's client: it only carries; when it ends, the channel makes a new one (B5 #13)."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from time import time

from aiohttp import ClientError, WSMessage
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse

from channels.base import Later
from channels.slack.pace import Pace
from channels.slack.web import Web, quiet

Heard = Callable[[str], None]


class _Client(SocketModeClient):
    """The library would start a task for each message, so that they overtake each other, and connect again by itself for ever."""

    heard: Heard

    async def enqueue_message(self, message: str) -> None:
        self.heard(message)


class Link:
    """`heard` gets each text in order, and must not wait."""

    def __init__(self, web: Web, app_token: str, pace: Pace, heard: Heard) -> None:
        self._pace = pace
        self._ended = asyncio.Event()
        self.why, self.refreshed = "the connection was lost", False
        ping = pace.ping_s
        self._client = _Client(
            app_token, quiet(), web.client, auto_reconnect_enabled=False, ping_interval=ping, on_close_listeners=[self._closed]
        )
        self._client.heard, self._client.proxy = heard, web.proxy
        self._opened_at = time()

    async def connect(self, url: str) -> None:
        """Open it. Raises Later."""
        self._client.wss_uri = url
        try:
            async with asyncio.timeout(self._pace.hello_s):
                await self._client.connect()  # tries this address again until then
        except TimeoutError as no:
            raise Later("Slack: no connection for events") from no

    def refresh(self, why: str) -> None:
        """Slack wants us to connect anew; nothing is wrong."""
        self.why, self.refreshed = f"Slack ended the connection: {why}", True
        self._ended.set()

    async def over(self, seconds: float) -> bool:
        """It has ended; looked at for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self._ended.is_set() or not await self._client.is_connected()

    @property
    def answered(self) -> float:
        """When the last sign of life was answered, in seconds since 1970."""
        return self._client.last_ping_pong_time or self._opened_at

    async def acknowledge(self, envelope_id: str, payload: dict[str, object] | None = None) -> bool:
        """Tell Slack that it is ours now; False where that cannot be told. That is no harm: Slack sends it again, and it is
        known; but a reply in `payload` was not shown.
        """
        answer = SocketModeResponse(envelope_id, payload)
        with contextlib.suppress(ClientError, ConnectionError, RuntimeError, AttributeError, TimeoutError):
            async with asyncio.timeout(self._pace.close_s):
                await self._client.send_message(json.dumps(answer.to_dict()))
                return True
        return False

    async def aclose(self) -> None:
        """Close it; a network that has forgotten it does not hold us up. What the client still does is ended, too."""
        client = self._client
        client.closed = True
        tasks = [task for task in (client.message_processor, client.message_receiver, client.current_session_monitor) if task]
        with contextlib.suppress(ClientError, ConnectionError, RuntimeError, TimeoutError):
            async with asyncio.timeout(self._pace.close_s):
                await client.close()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=self._pace.close_s)
        await client.aiohttp_client_session.close()

    async def _closed(self, _: WSMessage) -> None:
        self._ended.set()
