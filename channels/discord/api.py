"""Calls of Discord's REST API: every failure as what can be done about it (K14). And the connection
that Discord's events come by: resumed where Discord allows it, else started anew (E12).

discord.py speaks the protocol; when to give up a connection and when to try again is decided here.
Its parsers are left out: `on_event` sees the bare payloads, in their order.
"""

import asyncio
import contextlib
import json
import logging
import random
import warnings
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import ClientWebSocketResponse
from yarl import URL

from channels.base import ChannelError, Gone, Host, Rejected, RetryLater, Revoked
from channels.discord.config import DEFAULT_API, DiscordAccount, DiscordTiming
from channels.json_access import MALFORMED, Json, find_object, find_text, parse_json
from channels.transport import PlatformClient, lost_answer, make_form, parse_seconds

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord.gateway import DiscordWebSocket, ReconnectWebSocket

logging.getLogger("discord").setLevel(logging.INFO)  # DEBUG holds every message, and tokens
discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # no voice here

FILE_HOSTS = (".cdn.discordapp.com", ".media.discordapp.net")
USER_AGENT = "DiscordBot (https://aidaemon.invalid, 1)"
EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
SNOWFLAKE_BITS = 22
UNKNOWN_TOKEN = (
    "Discord does not accept bot_token (any more). What came in before is kept. Make a new token "
    "in the developer portal (Bot, Reset Token), put it into config.toml, and start again."
)
HINTS = {
    10003: "the channel is gone",
    10008: "the message is gone",
    50001: "the bot may not see this channel: give it View Channel, or invite it again",
    50007: "this person takes no direct messages from the bot",
    50013: "the bot lacks rights there: Send Messages, Attach Files, Add Reactions, Read History",
    50027: "a button or command can be answered for 15 minutes only",
    50035: "the message is malformed",
    40005: "the file is too big for Discord",
}
REPLY_REJECTED = (160002, 160009, 160010)
"""A message may be sent there, but not refer to another one: the bot may not read the history."""
TOO_LATE = 50027
MAX_WAIT_S, UPLOAD_S, MAX_TRIES, MAX_ERROR = 30.0, 180.0, 3, 200
DEFAULT_GATEWAY = DiscordWebSocket.DEFAULT_GATEWAY

INTENTS_HELP = (
    "Discord does not give the bot what people write: switch on Message Content Intent in the "
    "developer portal (Bot, Privileged Gateway Intents), and start again. What came before is kept."
)

FATAL = {
    code: f"Discord's gateway rejects this bot (close code {code}); it may need an update."
    for code in (4010, 4011, 4012, 4013)
}
"""No new connection mends these."""
FATAL |= {4004: UNKNOWN_TOKEN, 4014: INTENTS_HELP}
INTENTS = discord.Intents(guilds=True, messages=True, message_content=True, reactions=True)

log = logging.getLogger(__name__)


class ReplyRejected(Rejected):
    """The message may be sent, but not as a reply."""


class DiscordRest:
    """One bot's calls."""

    def __init__(self, config: DiscordAccount, timing: DiscordTiming) -> None:
        self.config, self.timing = config, timing
        self.http = PlatformClient("Discord", config.api_url, FILE_HOSTS)
        self._headers = {"Authorization": f"Bot {config.bot_token}", "User-Agent": USER_AGENT}
        self._free_at: dict[str, float] = {}
        self.bot_id = ""

    async def login(self) -> str:
        """The bot's name; its id is known from then on. Raises Revoked, RetryLater."""
        user = await self.call("GET", "/users/@me")
        self.bot_id = find_text(user, "id")
        if not self.bot_id:
            raise RetryLater("Discord's answer cannot be read")
        return find_text(user, "username")

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        file: tuple[Path, str] | None = None,
        timeout_s: float = 0.0,
    ) -> Any:
        """Discord's answer, as JSON. Raises Rejected, RetryLater, Revoked, and DeliveryUnknown
        where the answer to a call that changes something is lost.
        """
        what = f"{method} {path.split('/')[1]}"  # the rest may hold the token of a button
        timeout_s, sends = timeout_s or (UPLOAD_S if file else self.timing.call_s), method != "GET"
        how = {"what": what, "timeout_s": timeout_s, "headers": self._headers}
        url, loop = self.config.api_url + path, asyncio.get_running_loop()
        tries = 0
        while True:
            tries += 1
            await asyncio.sleep(self._free_at.pop(path, 0.0) - loop.time())
            if file:
                with await asyncio.to_thread(file[0].open, "rb") as content:
                    files = {"files[0]": (file[1], content, None)}
                    data = make_form({"payload_json": json.dumps(body)}, files)
                    answer = await self.http.request(method, url, data=data, sends=sends, **how)
            else:
                answer = await self.http.request(method, url, json=body, sends=sends, **how)
            headers, fields = answer.headers, find_object(answer.value)
            if headers.get("X-RateLimit-Remaining") == "0":
                after_s = parse_seconds(headers.get("X-RateLimit-Reset-After"), 0.0)
                self._free_at[path] = loop.time() + after_s
            if answer.status < 300:
                return answer.value
            wait_s = float(tries)
            if answer.status == 429:
                after_s = fields.get("retry_after", headers.get("Retry-After"))
                wait_s = parse_seconds(after_s, MAX_WAIT_S)
                log.info("Discord limits %s (429): wait %g s", what, wait_s)
                if "retry_after" not in fields or wait_s > min(MAX_WAIT_S, timeout_s):
                    raise RetryLater("Discord asks us to write less", wait_s)
            elif answer.status not in (500, 502, 504) or tries == MAX_TRIES:
                raise _error_of(answer.status, fields, sends=sends)
            await asyncio.sleep(wait_s)


def _error_of(status: int, answer: Json, *, sends: bool) -> ChannelError:
    code = answer.get("code") or 0
    why = HINTS.get(code) or f"{status} {answer.get('message', '')}"[:MAX_ERROR].strip()
    if code in REPLY_REJECTED:
        return ReplyRejected(f"Discord rejects it: {why}")
    if status == 401 and code != TOO_LATE:
        return Revoked(UNKNOWN_TOKEN)
    if status == 503:
        return RetryLater("Discord has an internal error (503)")
    if status >= 500:
        return lost_answer(f"Discord has an internal error ({status})", sends=sends)
    error = Gone if status == 404 else Rejected
    return error(f"Discord rejects it: {why}")


def snowflake_at(moment: datetime) -> int:
    """The least id of that moment: ids hold the time, so they are ordered over all channels."""
    return max(0, (moment - EPOCH) // timedelta(milliseconds=1)) << SNOWFLAKE_BITS


def snowflake_before(snowflake: int, seconds: float) -> int:
    """So many seconds before."""
    return max(0, snowflake - (int(seconds * 1000) << SNOWFLAKE_BITS))


def parse_snowflake(value: object) -> int:
    """An id; 0 for what is none."""
    digits = str(value)
    return int(digits) if digits.isdecimal() and len(digits) <= 20 else 0


class _Socket(DiscordWebSocket):
    """It tells of heartbeats, keeps the text of each frame, and goes on after what it cannot
    read.
    """

    on_beat: Callable[[], None] | None = None
    is_readable = True
    text = ""

    @property
    def last_ack(self) -> float:
        return self._keep_alive._last_ack if self._keep_alive else 0.0

    async def send_heartbeat(self, data: Any) -> None:
        if self.on_beat:
            self.on_beat()
        await super().send_heartbeat(data)

    def log_receive(self, data: Any, /) -> None:
        self.text = str(data)

    async def received_message(self, msg: Any, /) -> None:
        self.text, self.is_readable = "", True
        try:
            await super().received_message(msg)
        except Exception as error:
            if isinstance(msg, bytes) and not self.text:  # zlib's errors, or zstandard's
                raise RetryLater("Discord's gateway sent something that cannot be read") from None
            if not isinstance(error, MALFORMED):
                raise
            self.is_readable = False


class GatewayConnection:
    """`on_event` gets each event in order, and must not wait; "frame" is what is no event."""

    def __init__(
        self, rest: DiscordRest, host: Host, on_event: Callable[[str, object], None]
    ) -> None:
        self._rest, self._host, self._on_event = rest, host, on_event
        self._timing = rest.timing
        self._session_id: str | None = None
        self._sequence: int | None = None
        self._resume_url: URL | None = None
        self._is_up = False

    async def connect(self) -> None:
        """From one connection to its end. Raises Revoked, RetryLater."""
        self._is_up = False
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._timing.ready_s) as limit:
                    await self._receive(stack, limit)
            except ReconnectWebSocket as again:
                if not again.resume:
                    self._session_id = None
                    await asyncio.sleep(random.uniform(*self._timing.invalid_s))
            except discord.ConnectionClosed as closed:
                self._session_id = None
                if closed.code in FATAL:
                    raise Revoked(FATAL[closed.code]) from None
            except TimeoutError:
                raise RetryLater("Discord's gateway does not answer any more") from None
        if not self._is_up:
            raise RetryLater("Discord closed the connection")

    async def _receive(self, stack: AsyncExitStack, limit: asyncio.Timeout) -> None:
        """Raises whatever ends the connection."""
        loop, timing = asyncio.get_running_loop(), self._timing

        async def connect(url: str) -> ClientWebSocketResponse:
            # a code other than 1000 keeps the session, to be resumed
            opening = self._rest.http.open_socket(url, timing.ready_s, timing.close_s, code=4000)
            return await stack.enter_async_context(opening)

        def on_beat() -> None:
            if limit.when() is None:
                limit.reschedule(loop.time() + timing.ack_s)

        client: Any = discord.Client(
            intents=INTENTS, max_messages=None, chunk_guilds_at_startup=False
        )
        client.loop, client._connection.parsers = loop, {}  # ours sees the bare payloads
        client.http.token, client.http.ws_connect = self._rest.config.bot_token, connect
        home, session, resume = await self._home(), self._session_id, self._resume_url
        self._resume_url = None  # if that is dead, the next try starts at home
        socket = await _Socket.from_client(
            client,
            gateway=resume if session and resume and _may_resume_at(resume, home) else home,
            session=session,
            sequence=self._sequence,
            resume=bool(session),
            initial=not session,
        )
        socket.on_beat = on_beat
        try:
            while True:
                before = self._is_up, socket.last_ack
                await socket.poll_event()
                self._dispatch(socket)
                if self._is_up:
                    self._host.report_alive()
                    if before != (True, socket.last_ack):
                        limit.reschedule(None)
        finally:
            self._session_id, self._sequence = socket.session_id, socket.sequence
            self._resume_url = socket.gateway if self._is_up else None
            if socket._keep_alive:
                socket._keep_alive.stop()

    async def _home(self) -> URL:
        config = self._rest.config
        if config.gateway_url:
            return URL(config.gateway_url)
        if config.api_url == DEFAULT_API:
            return DEFAULT_GATEWAY
        with contextlib.suppress(Rejected, RetryLater):
            if url := find_text(await self._rest.call("GET", "/gateway"), "url"):
                return URL(url)
        # a simple server has it at its root
        return URL(config.api_url.replace("http", "ws", 1)).with_path("/")

    def _dispatch(self, socket: _Socket) -> None:
        frame = parse_json(socket.text)
        if not socket.is_readable:
            self._on_event("frame", socket.text)
        elif isinstance(frame, dict) and (event := frame.get("t")):
            if event != "RESUMED":
                self._on_event(event, frame.get("d"))
            if event in ("READY", "RESUMED"):
                self._is_up = True


def _may_resume_at(url: URL, home: URL) -> bool:
    """Whether the token may go there: the same server, or one of Discord's."""
    if url.scheme != home.scheme or url.host is None:
        return False
    is_discord = home == DEFAULT_GATEWAY and url.host.endswith(".discord.gg")
    return is_discord or (url.host, url.port) == (home.host, home.port)
