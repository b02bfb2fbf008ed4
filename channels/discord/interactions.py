"""The chat commands in Discord's own menu; written only when they have changed, for Discord counts the writes of a day.

Buttons and the commands of Discord's menu: first within 3 seconds, then in the house's words, for one person only (E7).
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from channels.base import (
    ChannelError,
    DeliveryUnknown,
    Host,
    NotAccepted,
    Rejected,
    RetryLater,
    Revoked,
)
from channels.discord import payloads as sending
from channels.discord.events import Interaction
from channels.discord.gateway import DiscordTiming
from channels.discord.payloads import Payload
from channels.discord.rest import DiscordRest, http
from channels.markup.discord import render_parts
from channels.markup.sanitize import escape_markdown
from channels.message import ButtonPress

log = logging.getLogger(__name__)
COMMAND_NAME = re.compile(r"[a-z0-9_-]{1,32}")
MAX_DESCRIPTION, MAX_COMMANDS = 100, 100
TEXT = {"type": 3, "name": "text", "description": "what comes after the command", "required": False}
Command = dict[str, Any]


def build_menu(commands: Sequence[tuple[str, str]]) -> list[Command]:
    """Commands as Discord has them, each with a text that may follow; what it would refuse is left out."""
    named = {name.lower().lstrip("/"): told for name, told in commands}
    return [
        {"type": 1, "name": name, "description": _shorten(told) or name, "options": [TEXT]}
        for name, told in named.items()
        if COMMAND_NAME.fullmatch(name)
    ][:MAX_COMMANDS]


def _shorten(told: str) -> str:
    line = " ".join(told.split())
    return line if len(line) <= MAX_DESCRIPTION else line[: MAX_DESCRIPTION - 1] + "…"


def is_same_menu(wanted: Sequence[Command], there: object) -> bool:
    """Whether what is registered is what we want."""
    if not isinstance(there, list):
        return False
    return {_comparable(command) for command in wanted} == {
        _comparable(command) for command in there if isinstance(command, Mapping)
    }


def _comparable(command: Payload) -> tuple[str, str, tuple[str, ...]]:
    options = tuple(str(option.get("name")) for option in command.get("options") or ())
    return str(command.get("name")), str(command.get("description")), options


async def register(
    calls: DiscordRest, app: str, guild: str, commands: Sequence[tuple[str, str]]
) -> None:
    """See to it that the menu has them; without it they can still be typed."""
    wanted = build_menu(commands)
    if not app or not wanted:
        return
    path = (
        "/applications/{application_id}/guilds/{guild_id}/commands"
        if guild
        else "/applications/{application_id}/commands"
    )
    where = {"application_id": app, "guild_id": guild} if guild else {"application_id": app}
    try:
        there = await calls.call(lambda rest: rest.request(http.Route("GET", path, **where)))
        if not is_same_menu(wanted, there):
            await calls.call(
                lambda rest: rest.request(http.Route("PUT", path, **where), json=wanted)
            )
    except (Rejected, RetryLater, DeliveryUnknown) as not_now:
        log.info("Discord's menu of commands was not changed: %s", not_now)


ACK_TIMEOUT_S = 2.5
THINKING, UNCHANGED = 5, 6
NOT_SAVED = "That could not be written down just now. Please try again in a moment."
MAX_TRIES = 4
MAX_PARTS = 5


class DiscordInteractions:
    """One account's."""

    def __init__(self, calls: DiscordRest, host: Host, patience: DiscordTiming) -> None:
        self._calls, self._host, self._patience = calls, host, patience

    async def handle(self, asked: Interaction) -> None:
        """See it through; whatever goes wrong ends this one only."""
        try:
            await self._defer(asked)
        except Revoked:
            return  # the connection is told the same
        except ChannelError as late:
            log.warning("Discord did not take the answer to a button or command in time: %s", late)
        text = await self._get_answer(asked)
        try:
            await self._reply(asked, text)
        except ChannelError as lost:
            log.warning("Discord did not take the reply to a button or command: %s", lost)

    async def _defer(self, asked: Interaction) -> None:
        kind = (
            {"type": UNCHANGED}
            if isinstance(asked.what, ButtonPress)
            else {"type": THINKING, "data": {"flags": sending.EPHEMERAL}}
        )
        where = {"webhook_id": asked.id, "webhook_token": asked.token}
        route = http.Route("POST", "/interactions/{webhook_id}/{webhook_token}/callback", **where)
        await self._calls.call(
            lambda rest: rest.request(route, json=kind), sends=True, within_s=ACK_TIMEOUT_S
        )

    async def _get_answer(self, asked: Interaction) -> str:
        for tries in range(MAX_TRIES):
            try:
                if isinstance(asked.what, ButtonPress):
                    return await self._host.press_button(asked.what)
                return await self._host.run_command(asked.what)
            except NotAccepted as full:
                log.warning(
                    "a button or command cannot be written down, it is tried again: %s", full
                )
                await asyncio.sleep(
                    self._patience.retries[min(tries, len(self._patience.retries) - 1)]
                )
        return NOT_SAVED

    async def _reply(self, asked: Interaction, text: str) -> None:
        where = {"webhook_id": asked.app, "webhook_token": asked.token}
        if not text.strip():
            if not isinstance(asked.what, ButtonPress):
                thinking = http.Route(
                    "DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", **where
                )
                await self._calls.call(lambda rest: rest.request(thinking))
            return
        route = http.Route("POST", "/webhooks/{webhook_id}/{webhook_token}", **where)
        for piece in render_parts(escape_markdown(text))[:MAX_PARTS]:
            body = sending.ephemeral_message(piece.text)
            await self._calls.call(
                lambda rest, body=body: rest.request(route, json=body), sends=True
            )
