"""Discord: direct messages, channels and threads of guilds, buttons, a menu of commands (A13, A14,
E7, E12, F1).
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from typing import BinaryIO
from urllib.parse import quote

from channels.base import (
    Capabilities,
    DeliveryUnknown,
    Gone,
    Host,
    NotAccepted,
    RateLimit,
)
from channels.discord.api import (
    DiscordRest,
    GatewayConnection,
    ReplyRejected,
    parse_snowflake,
    snowflake_at,
    snowflake_before,
)
from channels.discord.config import DiscordAccount, DiscordTiming
from channels.discord.intake import QUIET, DiscordIntake
from channels.json_access import Json, find_objects, find_text
from channels.markup.discord import LIMIT, render_parts
from channels.message import Address, Attachment, OutboundMessage
from channels.transport import Backoff, OptionalCalls, check_size

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
FIND_MESSAGES = 100
STYLES = {"": 2, "good": 3, "bad": 4}
BUTTONS_PER_ROW, MAX_ROWS, MAX_LABEL = 5, 5, 80


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
        self._rest, self._now = DiscordRest(config, timing or DiscordTiming()), now
        self._optional = OptionalCalls(name)

    async def check(self) -> str:
        return f"@{await self._rest.login()}"

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        intake = DiscordIntake(self.name, self._rest, host, self._now)
        timing = self._rest.timing
        backoff = Backoff(timing.first_s, timing.longest_s)
        connection = GatewayConnection(self._rest, host, intake.on_event)
        await intake.backoff().retry(intake.begin, NotAccepted, host.report_trouble)
        try:
            async with intake.tasks as tasks:
                tasks.create_task(intake.run())
                tasks.create_task(backoff.reconnect(connection.connect, host, timing.calm_s))
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    def rate_limit(self, address: Address) -> RateLimit:
        return RateLimit(5, 5.0)

    render = staticmethod(render_parts)

    async def send(self, message: OutboundMessage) -> str:
        """The same key soon again gives the same message (K13). Where it may not be a reply, it
        goes out as none.
        """
        path, reply, file = _path(message.address), {}, None
        # within minutes, the same nonce gives the first message; at most 25 characters
        nonce = blake2b(message.key.encode(), digest_size=12).hexdigest()
        body = _body(message) | {"nonce": nonce, "enforce_nonce": True}
        if message.file:
            await check_size(message.file, message.name, MAX_UPLOAD, "Discord")
            file = message.file, message.name
        elif message.reply_to:
            target = {"message_id": message.reply_to, "fail_if_not_exists": False}
            reply = {"message_reference": target}
        try:
            sent = await self._rest.call("POST", path, body | reply, file=file)
        except ReplyRejected:
            sent = await self._rest.call("POST", path, body, file=file)
        if message_id := find_text(sent, "id"):
            return message_id
        raise DeliveryUnknown("Discord's answer cannot be read")

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        await self._rest.call("PATCH", _path(message.address, message_id), _body(message))

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """By its text: Discord does not give the nonce out."""
        text = message.part.text.strip()
        if not text:
            return ""
        if not self._rest.bot_id:
            await self._rest.login()
        after = snowflake_before(snowflake_at(since), CLOCK_MARGIN_S)
        path = f"{_path(message.address)}?limit={FIND_MESSAGES}&after={after}"
        page = await self._optional.attempt("history", self._rest.call, "GET", path)
        ids = [
            find_text(row, "id")
            for row in find_objects(page)
            if find_text(row, "author", "id") == self._rest.bot_id
            and find_text(row, "content").strip() == text
        ]
        return min(ids, key=parse_snowflake, default="")

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """A message that is edited; of a long one the end is seen."""
        part = render_parts(text.strip() or "…")[-1]
        message = OutboundMessage(address, part, f"{key}/draft")
        if not shown:
            return await self.send(message)
        await self.edit(shown, message)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        with suppress(Gone):
            await self._rest.call("DELETE", _path(address, message_id))

    async def show_typing(self, address: Address, status: str = "") -> None:
        """For 10 seconds, without the status."""
        path = f"/channels/{address.chat}/typing"
        await self._optional.attempt("typing", self._rest.call, "POST", path)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        path = f"{_path(address, message_id)}/reactions/{quote('👀')}/@me"
        await self._optional.attempt("reactions", self._rest.call, "PUT", path)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Without the token."""
        await self._rest.http.download(attachment.ref, attachment, into, MAX_DOWNLOAD)

    async def aclose(self) -> None:
        await self._rest.http.aclose()


def _path(address: Address, message_id: str = "") -> str:
    return f"/channels/{address.chat}/messages/{message_id}".rstrip("/")


def _body(message: OutboundMessage) -> Json:
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
    return {"content": message.part.text, "components": rows, **QUIET}
