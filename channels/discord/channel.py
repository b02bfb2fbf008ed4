"""Discord: direct messages, channels and threads of servers, buttons, its own menu of commands (A13, A14, E7, E12, F1)."""

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from channels.base import Capabilities, Host, Rate, Refused, Unclear
from channels.discord import files, sending, snowflake
from channels.discord.calling import Calls, Gone, Rest, Told, Unrelated
from channels.discord.config import DiscordAccount
from channels.discord.gateway import PATIENCE, Patience
from channels.discord.lib import discord, http
from channels.discord.listening import Listening
from channels.files import weighed
from channels.message import Address, Attachment, Choice, Piece
from channels.text.discord import pieces

log = logging.getLogger(__name__)
CAN = Capabilities(limit=2000, keyed=True, typing_every_s=8.0, most_upload=10 << 20, most_fetch=25 << 20)
SEEN = "👀"
SLACK_S = 30.0
"""How far our clock may be from Discord's when we look for a message of ours."""
LOOKED_THROUGH = 100
UPLOAD_S = 180.0


def _now() -> datetime:
    return datetime.now(UTC)


class Discord:
    """One bot. channels.base.Channel."""

    def __init__(
        self,
        config: DiscordAccount,
        name: str = "discord",
        *,
        patience: Patience = PATIENCE,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self._config, self._name, self._patience, self._now = config, name, patience, now
        self._calls = Calls(config.bot_token, config.api_url, longest_s=patience.call)
        self._lacking: set[str] = set()

    @property
    def name(self) -> str:
        """The channel's name in the house."""
        return self._name

    @property
    def can(self) -> Capabilities:
        """What Discord can do."""
        return CAN

    async def check(self) -> str:
        """The bot's name."""
        return await self._calls.who()

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        await Listening(self._name, self._config, self._calls, host, self._patience).run(self._now)

    def rate(self, address: Address) -> Rate:
        """Five messages in five seconds, per channel."""
        return Rate(5, 5.0)

    def render(self, text: str) -> Sequence[Piece]:
        """In Discord's markdown."""
        return pieces(text, CAN.limit)

    async def send(
        self, address: Address, piece: Piece, key: str, *, choices: Sequence[Choice] = (), reply_to: str = ""
    ) -> str:
        """The same key soon again gives the same message (B5 #13). Where it may not be a reply, it goes out without."""
        try:
            return await self._post(address, _plain(sending.message(piece, key, choices, reply_to)))
        except Unrelated:
            return await self._post(address, _plain(sending.message(piece, key, choices)))

    async def edit(self, address: Address, message_id: str, piece: Piece, *, choices: Sequence[Choice] = ()) -> None:
        """Replace a message."""
        params = _plain(sending.changed(piece, choices))
        await self._calls.call(lambda rest: rest.edit_message(address.chat, message_id, params=params), sends=True)

    async def find(self, address: Address, key: str, piece: Piece, since: datetime) -> str:
        """By its words: Discord does not give the nonce out."""
        if not piece.text.strip():
            return ""
        after = snowflake.earlier(snowflake.at(since), SLACK_S)
        page = await self._maybe("history", lambda rest: rest.logs_from(address.chat, LOOKED_THROUGH, after=after))
        ours = [said for said in page if _is_ours(said, self._calls.id, piece)] if isinstance(page, list) else []
        return min((str(said["id"]) for said in ours), key=snowflake.number, default="")

    async def draft(self, address: Address, key: str, text: str, shown: str, *, private: bool) -> str:
        """A message that is edited; of a long one the end is seen."""
        piece = pieces(text.strip() or "…", CAN.limit)[-1]
        if not shown:
            return await self.send(address, piece, f"{key}/draft")
        await self.edit(address, shown, piece)
        return shown

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message away; one that is gone is gone."""
        with contextlib.suppress(Gone):
            await self._calls.call(lambda rest: rest.delete_message(address.chat, message_id), sends=True)

    async def typing(self, address: Address, status: str = "") -> None:
        """Discord shows it for 10 seconds, without words."""
        await self._maybe("typing", lambda rest: rest.send_typing(address.chat))

    async def seen(self, address: Address, message_id: str) -> None:
        """A pair of eyes."""
        await self._maybe("reactions", lambda rest: rest.add_reaction(address.chat, message_id, SEEN))

    async def upload(self, address: Address, file: Path, name: str, caption: Piece, key: str) -> str:
        """Send a file."""
        await weighed(file, name, CAN.most_upload, "Discord")
        with http.handle_message_parameters(
            caption.text or None,
            file=discord.File(file, filename=name),
            nonce=sending.nonce(key),
            flags=discord.MessageFlags(suppress_embeds=True),
            allowed_mentions=discord.AllowedMentions.none(),
        ) as params:
            return await self._post(address, params, UPLOAD_S)

    async def fetch(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file; the token is not shown."""
        if attachment.size > CAN.most_fetch:
            raise Refused(f"{attachment.name} is bigger than {CAN.most_fetch >> 20} MB")
        await files.fetch(attachment.ref, self._config.api_url, CAN.most_fetch, into)

    async def aclose(self) -> None:
        """Let go of the connections."""
        await self._calls.aclose()

    async def _post(self, address: Address, params: http.MultipartParameters, within_s: float = 0.0) -> str:
        told: object = await self._calls.call(
            lambda rest: rest.send_message(address.chat, params=params), sends=True, within_s=within_s
        )
        if not isinstance(told, Mapping) or not told.get("id"):
            raise Unclear("Discord's answer cannot be read")
        return str(told["id"])

    async def _maybe(self, what: str, ask: Callable[[Rest], Awaitable[Told]]) -> Told | None:
        """What is only nice to have: a server or a channel may be without."""
        try:
            return await self._calls.call(ask)
        except Refused as lacking:
            level = logging.DEBUG if what in self._lacking else logging.INFO
            self._lacking.add(what)
            log.log(level, "no %s at Discord: %s", what, lacking)
            return None


def _plain(body: sending.Body) -> http.MultipartParameters:
    return http.MultipartParameters(payload=body, multipart=None, files=None)


def _is_ours(said: object, me: str, piece: Piece) -> bool:
    if not isinstance(said, Mapping) or not isinstance(author := said.get("author"), Mapping):
        return False
    return str(author.get("id")) == me and str(said.get("content", "")).strip() == piece.text.strip()
