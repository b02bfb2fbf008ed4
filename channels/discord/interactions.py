"""Buttons, and the commands of Discord's own menu: acknowledged within 3 seconds, then answered,
for one person only (E7).
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from channels.base import (
    TRANSIENT,
    ChannelError,
    Host,
    NotAccepted,
    Revoked,
)
from channels.discord.config import DiscordTiming
from channels.discord.events import Interaction
from channels.discord.rest import DiscordRest
from channels.markup.discord import render_parts
from channels.markup.sanitize import escape_markdown
from channels.message import ButtonPress
from channels.transport import Backoff

log = logging.getLogger(__name__)
ACK_TIMEOUT_S = 2.5
THINKING, UNCHANGED = 5, 6
EPHEMERAL, NO_EMBEDS = 1 << 6, 1 << 2
NO_MENTIONS: Mapping[str, Any] = {"parse": []}
NOT_SAVED = "That could not be written down just now. Please try again in a moment."
MAX_TRIES, MAX_PARTS = 4, 5
COMMAND_NAME = re.compile(r"[a-z0-9_-]{1,32}")
MAX_DESCRIPTION, MAX_COMMANDS = 100, 100
TEXT_OPTION = {
    "type": 3,
    "name": "text",
    "description": "what comes after the command",
    "required": False,
}


async def answer_interaction(
    asked: Interaction, rest: DiscordRest, host: Host, timing: DiscordTiming
) -> None:
    """See it through; what goes wrong ends only this one."""
    is_press = isinstance(asked.item, ButtonPress)
    kind = {"type": UNCHANGED} if is_press else {"type": THINKING, "data": {"flags": EPHEMERAL}}
    callback = f"/interactions/{asked.id}/{asked.token}/callback"
    try:
        await rest.call("POST", callback, kind, timeout_s=ACK_TIMEOUT_S)
    except Revoked:
        return  # the gateway reports it
    except ChannelError as error:
        log.warning("Discord: a button or command was not acknowledged in time: %s", error)
    text = await _ask_host(asked, host, timing)
    webhook = f"/webhooks/{asked.application}/{asked.token}"
    try:
        if text.strip():
            for part in render_parts(escape_markdown(text))[:MAX_PARTS]:
                flags = EPHEMERAL | NO_EMBEDS
                body = {"content": part.text, "flags": flags, "allowed_mentions": NO_MENTIONS}
                await rest.call("POST", webhook, body)
        elif not is_press:
            await rest.call("DELETE", f"{webhook}/messages/@original")
    except ChannelError as error:
        log.warning("Discord did not take the reply to a button or command: %s", error)


async def _ask_host(asked: Interaction, host: Host, timing: DiscordTiming) -> str:
    backoff = Backoff(timing.retry_s, timing.longest_retry_s)
    for _ in range(MAX_TRIES):
        try:
            if isinstance(asked.item, ButtonPress):
                return await host.press_button(asked.item)
            return await host.run_command(asked.item)
        except NotAccepted as error:
            log.warning("Discord: a button or command cannot be saved, trying again: %s", error)
            await backoff.wait()
    return NOT_SAVED


async def register_menu(
    rest: DiscordRest, application: str, guild: str, commands: Sequence[tuple[str, str]]
) -> None:
    """Write the menu only when it has changed: Discord limits the writes of a day. Without it
    commands are typed.
    """
    named = {name.lower().lstrip("/"): " ".join(text.split()) for name, text in commands}
    menu = [
        {"type": 1, "name": name, "description": _shorten(text) or name, "options": [TEXT_OPTION]}
        for name, text in named.items()
        if COMMAND_NAME.fullmatch(name)
    ][:MAX_COMMANDS]
    if not application or not menu:
        return
    path = f"/applications/{application}{f'/guilds/{guild}' if guild else ''}/commands"
    try:
        current = await rest.call("GET", path)
        if _comparable(current) != _comparable(menu):
            await rest.call("PUT", path, menu)
    except TRANSIENT as error:
        log.info("Discord's menu of commands was not changed: %s", error)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else text[: MAX_DESCRIPTION - 1] + "…"


def _comparable(menu: object) -> set[tuple[str, str, tuple[str, ...]]] | None:
    if not isinstance(menu, list):
        return None
    return {
        (
            str(command.get("name")),
            str(command.get("description")),
            tuple(str(option.get("name")) for option in command.get("options") or ()),
        )
        for command in menu
        if isinstance(command, Mapping)
    }
