"""Discord: direct messages, channels and threads of guilds, buttons, a menu of commands (A13, A14,
E7, E12, F1).
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from yarl import URL

from channels.base import (
    Capabilities,
    DeliveryUnknown,
    Gone,
    Host,
    NotAccepted,
    RateLimit,
)
from channels.discord.config import DEFAULT_API, DiscordAccount, DiscordTiming
from channels.discord.gateway import GatewayConnection
from channels.discord.intake import DiscordIntake
from channels.discord.interactions import NO_EMBEDS, NO_MENTIONS
from channels.discord.rest import (
    DiscordRest,
    ReplyRejected,
    parse_snowflake,
    snowflake_at,
    snowflake_before,
)
from channels.json_access import Json
from channels.markup.discord import LIMIT, render_parts
from channels.message import Address, Attachment, MessagePart, OutboundMessage
from channels.transport import Backoff, OptionalCalls, check_size, too_large

MAX_UPLOAD, MAX_DOWNLOAD = 10 << 20, 25 << 20
CAPABILITIES = Capabilities(
    limit=LIMIT,
    idempotent=True,
    typing_every_s=8.0,
    max_upload=MAX_UPLOAD,
    max_download=MAX_DOWNLOAD,
)
CLOCK_MARGIN_S = 30.0
"""How far our clock may be from Discord's when we look for a message of ours."""
FIND_MESSAGES, UPLOAD_S = 100, 180.0
STYLES = {"": 2, "good": 3, "bad": 4}
BUTTONS_PER_ROW, MAX_ROWS, MAX_LABEL = 5, 5, 80
FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
MALFORMED = (KeyError, TypeError, ValueError, AttributeError)

log = logging.getLogger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Discord:
    """One bot. channels.base.Channel."""

    Config = DiscordAccount

    def __init__(
        self,
        config: DiscordAccount,
        *,
        name: str = "discord",
        timing: DiscordTiming | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.name, self.capabilities = name, CAPABILITIES
        self._config, self._timing, self._now = config, timing or DiscordTiming(), now
        self._rest = DiscordRest(config.bot_token, config.api_url, self._timing.call_s)
        self._optional = OptionalCalls(name)

    async def check(self) -> str:
        return f"@{await self._rest.login()}"

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        timing, rest = self._timing, self._rest
        intake = DiscordIntake(self.name, self._config, rest, host, timing, self._now)
        connection = GatewayConnection(rest, self._config, timing, host, intake.on_event)
        backoff = Backoff(timing.retry_s, timing.longest_retry_s)
        await backoff.retry(intake.begin, NotAccepted, host.report_trouble)
        try:
            async with intake.tasks as tasks:
                tasks.create_task(intake.run())
                tasks.create_task(connection.run())
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    def rate_limit(self, address: Address) -> RateLimit:
        return RateLimit(5, 5.0)

    def render(self, text: str) -> Sequence[MessagePart]:
        return render_parts(text, LIMIT)

    async def send(self, message: OutboundMessage) -> str:
        """The same key soon again gives the same message (K13). Where it may not be a reply, it
        goes out as none.
        """
        address, reply_to = message.address, message.reply_to
        if message.file:
            return await self._upload(message, message.file)
        body = _body(message) | _nonce(message.key)
        if reply_to:
            reply = {"message_reference": {"message_id": reply_to, "fail_if_not_exists": False}}
            try:
                return await self._post(address, body | reply)
            except ReplyRejected:
                pass
        return await self._post(address, body)

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        await self._rest.call("PATCH", _path(message.address, message_id), _body(message))

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """By its text: Discord does not give the nonce out."""
        part = message.part
        if not part.text.strip():
            return ""
        if not self._rest.bot_id:
            await self._rest.login()
        after = snowflake_before(snowflake_at(since), CLOCK_MARGIN_S)
        path = f"{_path(message.address)}?limit={FIND_MESSAGES}&after={after}"
        page = await self._optional.attempt("history", self._rest.call, "GET", path)
        ids = (
            [str(row["id"]) for row in page if self._is_ours(row, part)]
            if isinstance(page, list)
            else []
        )
        return min(ids, key=parse_snowflake, default="")

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """A message that is edited; of a long one the end is seen."""
        part = render_parts(text.strip() or "…", LIMIT)[-1]
        message = OutboundMessage(address, part, f"{key}/draft")
        if not shown:
            return await self.send(message)
        await self.edit(shown, message)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        try:
            await self._rest.call("DELETE", _path(address, message_id))
        except Gone:
            return

    async def show_typing(self, address: Address, status: str = "") -> None:
        """For 10 seconds, without the status."""
        path = f"/channels/{address.chat}/typing"
        await self._optional.attempt("typing", self._rest.call, "POST", path)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        path = f"{_path(address, message_id)}/reactions/{quote('👀')}/@me"
        await self._optional.attempt("reactions", self._rest.call, "PUT", path)

    async def _upload(self, message: OutboundMessage, file: Path) -> str:
        await check_size(file, message.name, MAX_UPLOAD, "Discord")
        body = {"flags": NO_EMBEDS, "allowed_mentions": NO_MENTIONS} | _nonce(message.key)
        if message.part.text:
            body["content"] = message.part.text
        name = message.name
        return await self._post(message.address, body, file=(file, name), timeout_s=UPLOAD_S)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Without the token."""
        if attachment.size > MAX_DOWNLOAD:
            raise too_large(attachment.name, MAX_DOWNLOAD)
        url, http = attachment.ref, self._rest.http
        await http.download(url, attachment, into, MAX_DOWNLOAD, is_allowed=self._is_at_discord)

    async def aclose(self) -> None:
        await self._rest.aclose()

    async def _post(self, address: Address, body: Json, **options: Any) -> str:
        sent = await self._rest.call("POST", _path(address), body, **options)
        if not isinstance(sent, dict) or not sent.get("id"):
            raise DeliveryUnknown("Discord's answer cannot be read")
        return str(sent["id"])

    def _is_ours(self, row: object, part: MessagePart) -> bool:
        if not isinstance(row, dict) or not isinstance(author := row.get("author"), dict):
            return False
        is_same = str(row.get("content", "")).strip() == part.text.strip()
        return is_same and str(author.get("id")) == self._rest.bot_id

    def _is_at_discord(self, url: URL) -> bool:
        """Where Discord keeps files; with another API, where that is."""
        api = self._config.api_url
        if api != DEFAULT_API and url.is_absolute() and url.origin() == URL(api).origin():
            return True
        return url.scheme == "https" and url.host in FILE_HOSTS and url.port == 443


def _path(address: Address, message_id: str = "") -> str:
    return f"/channels/{address.chat}/messages{f'/{message_id}' if message_id else ''}"


def _nonce(key: str) -> dict[str, Any]:
    """Within minutes, the same nonce gives the first message; at most 25 characters."""
    return {"nonce": blake2b(key.encode(), digest_size=12).hexdigest(), "enforce_nonce": True}


def _body(message: OutboundMessage) -> dict[str, Any]:
    """Nothing in it can notify anybody, and links show no preview."""
    buttons = [
        {
            "type": 2,
            "style": STYLES.get(choice.style, 2),
            "label": choice.label[:MAX_LABEL] or "?",
            "custom_id": choice.data,
        }
        for choice in message.choices[: BUTTONS_PER_ROW * MAX_ROWS]
    ]
    rows = [
        {"type": 1, "components": buttons[at : at + BUTTONS_PER_ROW]}
        for at in range(0, len(buttons), BUTTONS_PER_ROW)
    ]
    return {
        "content": message.part.text,
        "flags": NO_EMBEDS,
        "allowed_mentions": NO_MENTIONS,
        "components": rows,
    }
