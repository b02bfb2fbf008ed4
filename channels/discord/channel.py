"""Files that came with messages: fetched without the token, from Discord's own hosts only, and never more than may be.

One `run` of the channel, from the first event to the last: what comes is looked at once, and put where it belongs.

Discord: direct messages, channels and threads of servers, buttons, its own menu of commands (A13, A14, E7, E12, F1).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import aiohttp

from channels.base import (
    Capabilities,
    DeliveryUnknown,
    Host,
    NotAccepted,
    RateLimit,
    Rejected,
    RetryLater,
)
from channels.discord import events as reading
from channels.discord import payloads as sending
from channels.discord import payloads as snowflake
from channels.discord.backfill import DiscordIntake
from channels.discord.config import API, DiscordAccount
from channels.discord.directory import ChannelDirectory
from channels.discord.gateway import TIMING, DiscordTiming, GatewayConnection
from channels.discord.interactions import DiscordInteractions, register
from channels.discord.payloads import Payload
from channels.discord.rest import (
    MALFORMED,
    DiscordHttp,
    DiscordRest,
    NotFound,
    ReplyRejected,
    T,
    discord,
    http,
)
from channels.markup.discord import render_parts
from channels.message import Address, Attachment, Choice, MessagePart
from channels.platform import check_size, proxy_for

CDN = ("cdn.discordapp.com", "media.discordapp.net")
CHUNK = 1 << 16
DOWNLOAD_TIMEOUT_S = 120.0
GONE_STATUS = (403, 404, 410)


def is_discord_url(url: str, api_url: str) -> bool:
    """Whether a file is where Discord keeps files; with another API, where that is."""
    try:
        there, api = urlsplit(url), urlsplit(api_url)
        same = (there.scheme, there.hostname, there.port) == (api.scheme, api.hostname, api.port)
        known = there.scheme == "https" and there.hostname in CDN and there.port in (None, 443)
    except ValueError:
        return False
    return known or (same and api_url != API)


async def download(
    url: str, api_url: str, most: int, into: BinaryIO, within_s: float = DOWNLOAD_TIMEOUT_S
) -> None:
    """Fetch it. Raises Refused (too big, gone, elsewhere), Later."""
    if not is_discord_url(url, api_url):
        raise Rejected("the file is not at Discord, so it is not fetched")
    try:
        async with (
            asyncio.timeout(within_s),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
        ):
            async for chunk in _chunks(session, url, most):
                await asyncio.to_thread(into.write, chunk)
    except (aiohttp.ClientError, TimeoutError, OSError) as lost:
        raise RetryLater(
            f"the file could not be fetched from Discord ({type(lost).__name__})"
        ) from lost


async def _chunks(session: aiohttp.ClientSession, url: str, most: int) -> AsyncIterator[bytes]:
    async with session.get(url, proxy=proxy_for(url), allow_redirects=False) as answer:
        if answer.status in GONE_STATUS:
            raise Rejected("the file is no longer at Discord")
        if answer.status != 200:
            raise RetryLater(f"Discord does not give the file out just now ({answer.status})")
        came = 0
        async for chunk in answer.content.iter_chunked(CHUNK):
            came += len(chunk)
            if came > most:
                raise Rejected(f"the file is bigger than {most >> 20} MB")
            yield chunk


log = logging.getLogger(__name__)


class DiscordListener:
    """What it needs."""

    def __init__(
        self,
        name: str,
        config: DiscordAccount,
        calls: DiscordRest,
        host: Host,
        patience: DiscordTiming,
    ) -> None:
        self._name, self._config, self._calls, self._host, self._patience = (
            name,
            config,
            calls,
            host,
            patience,
        )
        self._places = ChannelDirectory(only=str(config.guild_id))
        people = list(
            dict.fromkeys(str(person) for person in (*config.owner_ids, *config.allowed_user_ids))
        )
        self._intake = DiscordIntake(
            calls,
            host,
            self._identity,
            self._places,
            patience,
            [one for one in people if one.isdecimal()],
        )
        self._answers = DiscordInteractions(calls, host, patience)
        reach = (config.api_url, config.gateway_url)
        self._connection = GatewayConnection(calls, self, *reach, patience, alive=host.report_alive)
        self._group = asyncio.TaskGroup()
        self._registered = False
        self._handlers: dict[str, Callable[[Payload], object]] = {
            "READY": self._on_ready,
            "RESUMED": lambda _: self._connection.on_session_up(),
            "GUILD_CREATE": self._on_guild,
            "GUILD_DELETE": self._on_guild_delete,
            "CHANNEL_CREATE": self._places.update_channel,
            "THREAD_CREATE": self._places.update_channel,
            "THREAD_UPDATE": self._places.update_channel,
            "CHANNEL_DELETE": self._places.forget,
            "THREAD_DELETE": self._places.forget,
            "THREAD_LIST_SYNC": self._places.update_threads,
            "THREAD_MEMBER_UPDATE": lambda payload: self._places.join(str(payload["id"])),
            "INTERACTION_CREATE": self._on_interaction,
        }

    def _identity(self) -> reading.DiscordIdentity:
        return reading.DiscordIdentity(
            self._name,
            self._places.bot_id or self._calls.id,
            self._places.bot_roles,
            str(self._config.guild_id),
        )

    async def run(self, now: Callable[[], datetime]) -> None:
        """Until cancelled. Raises Revoked."""
        await self._begin(now)
        try:
            async with self._group as group:
                group.create_task(self._intake.run())
                group.create_task(self._connection.run(self._host.report_trouble))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _begin(self, now: Callable[[], datetime]) -> None:
        while True:
            try:
                return await self._intake.begin(now)
            except NotAccepted as full:
                log.warning("Discord waits until the house can write: %s", full)
                await asyncio.sleep(self._patience.retries[-1])

    def on_event(self, event: str, payload: object) -> None:
        """An event of the gateway, in order."""
        if not isinstance(payload, Mapping):
            self._intake.enqueue_unreadable(
                reading.unreadable(event, payload, "it is no object", self._name)
            )
            return
        try:
            self._dispatch(event, payload)
        except MALFORMED as unread:
            self._intake.enqueue_unreadable(
                reading.unreadable(event, payload, f"{type(unread).__name__}: {unread}", self._name)
            )

    def on_unreadable(self, raw: str, why: str) -> None:
        """What is no event at all."""
        self._intake.enqueue_unreadable(reading.unreadable("frame", raw, why, self._name))

    def _dispatch(self, event: str, payload: Payload) -> None:
        heed = self._handlers.get(event)
        if heed is None:
            self._on_message(event, payload)
        else:
            heed(payload)

    def _on_guild(self, payload: Payload) -> None:
        for channel, place in self._places.on_guild(payload):
            self._intake.on_channel(channel, place)

    def _on_guild_delete(self, payload: Payload) -> None:
        self._intake.note_missing()
        self._places.on_guild_delete(payload)

    def _on_ready(self, payload: Payload) -> None:
        self._intake.on_new_session()
        self._places.on_ready(payload)
        self._connection.on_session_up()
        if not self._registered:
            self._registered = True
            app = str((payload.get("application") or {}).get("id") or self._places.bot_id)
            self._group.create_task(
                register(self._calls, app, str(self._config.guild_id), self._host.list_commands())
            )

    def _on_message(self, event: str, payload: Payload) -> None:
        author = payload.get("author")
        if isinstance(author, Mapping) and author.get("id") == self._places.bot_id:
            self._places.join(str(payload.get("channel_id")))
        else:
            self._intake.enqueue(event, payload)

    def _on_interaction(self, payload: Payload) -> None:
        asked = reading.parse_interaction(
            payload, self._places.get(str(payload.get("channel_id"))), self._identity()
        )
        if isinstance(asked, reading.Interaction):
            self._group.create_task(self._answers.handle(asked))
        elif asked is not None:
            self._intake.enqueue_unreadable(asked)


CAPABILITIES = Capabilities(
    limit=2000, idempotent=True, typing_every_s=8.0, max_upload=10 << 20, max_download=25 << 20
)
SEEN_EMOJI = "👀"
CLOCK_MARGIN_S = 30.0
"""How far our clock may be from Discord's when we look for a message of ours."""
FIND_MESSAGES = 100
UPLOAD_TIMEOUT_S = 180.0


def _now() -> datetime:
    return datetime.now(UTC)


class Discord:
    """One bot. channels.base.Channel."""

    def __init__(
        self,
        config: DiscordAccount,
        name: str = "discord",
        *,
        patience: DiscordTiming = TIMING,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._config, self._name, self._patience, self._now = config, name, patience, now
        self._calls = DiscordRest(config.bot_token, config.api_url, longest_s=patience.call)
        self._lacking: set[str] = set()

    @property
    def name(self) -> str:
        """The channel's name in the house."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What Discord can do."""
        return CAPABILITIES

    async def check(self) -> str:
        """The bot's name."""
        return await self._calls.get_name()

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        await DiscordListener(self._name, self._config, self._calls, host, self._patience).run(
            self._now
        )

    def rate_limit(self, address: Address) -> RateLimit:
        """Five messages in five seconds, per channel."""
        return RateLimit(5, 5.0)

    def render(self, text: str) -> Sequence[MessagePart]:
        """In Discord's markdown."""
        return render_parts(text, CAPABILITIES.limit)

    async def send(
        self,
        address: Address,
        piece: MessagePart,
        key: str,
        *,
        choices: Sequence[Choice] = (),
        reply_to: str = "",
    ) -> str:
        """The same key soon again gives the same message (K13). Where it may not be a reply, it goes out without."""
        try:
            return await self._post(
                address, _plain(sending.new_message(piece, key, choices, reply_to))
            )
        except ReplyRejected:
            return await self._post(address, _plain(sending.new_message(piece, key, choices)))

    async def edit(
        self,
        address: Address,
        message_id: str,
        piece: MessagePart,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        """Replace a message."""
        params = _plain(sending.message_body(piece, choices))
        await self._calls.call(
            lambda rest: rest.edit_message(address.chat, message_id, params=params), sends=True
        )

    async def find(self, address: Address, key: str, piece: MessagePart, since: datetime) -> str:
        """By its words: Discord does not give the nonce out."""
        if not piece.text.strip():
            return ""
        after = snowflake.snowflake_before(snowflake.snowflake_at(since), CLOCK_MARGIN_S)
        page = await self._maybe(
            "history", lambda rest: rest.logs_from(address.chat, FIND_MESSAGES, after=after)
        )
        ours = (
            [said for said in page if _is_ours(said, self._calls.id, piece)]
            if isinstance(page, list)
            else []
        )
        return min((str(said["id"]) for said in ours), key=snowflake.parse_snowflake, default="")

    async def show_draft(
        self, address: Address, key: str, text: str, shown: str, *, private: bool
    ) -> str:
        """A message that is edited; of a long one the end is seen."""
        piece = render_parts(text.strip() or "…", CAPABILITIES.limit)[-1]
        if not shown:
            return await self.send(address, piece, f"{key}/draft")
        await self.edit(address, shown, piece)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message away; one that is gone is gone."""
        with contextlib.suppress(NotFound):
            await self._calls.call(
                lambda rest: rest.delete_message(address.chat, message_id), sends=True
            )

    async def show_typing(self, address: Address, status: str = "") -> None:
        """Discord shows it for 10 seconds, without words."""
        await self._maybe("typing", lambda rest: rest.send_typing(address.chat))

    async def mark_seen(self, address: Address, message_id: str) -> None:
        """A pair of eyes."""
        await self._maybe(
            "reactions", lambda rest: rest.add_reaction(address.chat, message_id, SEEN_EMOJI)
        )

    async def upload(
        self, address: Address, file: Path, name: str, caption: MessagePart, key: str
    ) -> str:
        """Send a file."""
        await check_size(file, name, CAPABILITIES.max_upload, "Discord")
        with http.handle_message_parameters(
            caption.text or None,
            file=discord.File(file, filename=name),
            nonce=sending.nonce(key),
            flags=discord.MessageFlags(suppress_embeds=True),
            allowed_mentions=discord.AllowedMentions.none(),
        ) as params:
            return await self._post(address, params, UPLOAD_TIMEOUT_S)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file; the token is not shown."""
        if attachment.size > CAPABILITIES.max_download:
            raise Rejected(f"{attachment.name} is bigger than {CAPABILITIES.max_download >> 20} MB")
        await download(attachment.ref, self._config.api_url, CAPABILITIES.max_download, into)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._calls.aclose()

    async def _post(
        self, address: Address, params: http.MultipartParameters, within_s: float = 0.0
    ) -> str:
        told: object = await self._calls.call(
            lambda rest: rest.send_message(address.chat, params=params),
            sends=True,
            within_s=within_s,
        )
        if not isinstance(told, Mapping) or not told.get("id"):
            raise DeliveryUnknown("Discord's answer cannot be read")
        return str(told["id"])

    async def _maybe(self, what: str, ask: Callable[[DiscordHttp], Awaitable[T]]) -> T | None:
        """What is only nice to have: a server or a channel may be without."""
        try:
            return await self._calls.call(ask)
        except Rejected as lacking:
            level = logging.DEBUG if what in self._lacking else logging.INFO
            self._lacking.add(what)
            log.log(level, "no %s at Discord: %s", what, lacking)
            return None


def _plain(body: sending.Body) -> http.MultipartParameters:
    return http.MultipartParameters(payload=body, multipart=None, files=None)


def _is_ours(said: object, me: str, piece: MessagePart) -> bool:
    if not isinstance(said, Mapping) or not isinstance(author := said.get("author"), Mapping):
        return False
    return (
        str(author.get("id")) == me and str(said.get("content", "")).strip() == piece.text.strip()
    )
