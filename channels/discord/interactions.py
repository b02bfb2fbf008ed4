"""Buttons, and the commands of Discord's own menu: acknowledged within 3 seconds, then answered,
for one person only (E7).
"""

import logging
import re
from collections.abc import Sequence

from channels.base import (
    TRANSIENT,
    ChannelError,
    Host,
    NotAccepted,
    Revoked,
)
from channels.discord.events import Interaction
from channels.discord.rest import DiscordRest
from channels.json_access import find_objects, find_text
from channels.markup.discord import render_parts
from channels.markup.sanitize import escape_markdown, shorten_line
from channels.message import ButtonPress
from channels.transport import Backoff

log = logging.getLogger(__name__)
ACK_TIMEOUT_S = 2.5
THINKING, UNCHANGED = 5, 6
EPHEMERAL, NO_EMBEDS = 1 << 6, 1 << 2
QUIET = {"flags": NO_EMBEDS, "allowed_mentions": {"parse": []}}
"""Nothing in a message can notify anybody, and links show no preview."""
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


async def answer_interaction(asked: Interaction, rest: DiscordRest, host: Host) -> None:
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
    backoff, text = Backoff(rest.timing.retry_s, rest.timing.longest_retry_s), NOT_SAVED
    for _ in range(MAX_TRIES):
        try:
            if isinstance(asked.item, ButtonPress):
                text = await host.press_button(asked.item)
            else:
                text = await host.run_command(asked.item)
            break
        except NotAccepted as error:
            log.warning("Discord: a button or command cannot be saved, trying again: %s", error)
            await backoff.wait()
    webhook = f"/webhooks/{asked.application}/{asked.token}"
    try:
        if text.strip():
            for part in render_parts(escape_markdown(text))[:MAX_PARTS]:
                body = QUIET | {"content": part.text, "flags": EPHEMERAL | NO_EMBEDS}
                await rest.call("POST", webhook, body)
        elif not is_press:
            await rest.call("DELETE", f"{webhook}/messages/@original")
    except ChannelError as error:
        log.warning("Discord did not take the reply to a button or command: %s", error)


async def register_menu(
    rest: DiscordRest, application: str, commands: Sequence[tuple[str, str]]
) -> None:
    """Write the menu only when it has changed: Discord limits the writes of a day. Without it
    commands are typed.
    """
    named = {name.lower().lstrip("/"): text for name, text in commands}
    menu = [
        {
            "type": 1,
            "name": name,
            "description": shorten_line(text, MAX_DESCRIPTION) or name,
            "options": [TEXT_OPTION],
        }
        for name, text in named.items()
        if COMMAND_NAME.fullmatch(name)
    ][:MAX_COMMANDS]
    if not application or not menu:
        return
    guild = f"/guilds/{rest.config.guild_id}" if rest.config.guild_id else ""
    path = f"/applications/{application}{guild}/commands"
    try:
        current = await rest.call("GET", path)
        if _comparable(current) != _comparable(menu):
            await rest.call("PUT", path, menu)
    except TRANSIENT as error:
        log.info("Discord's menu of commands was not changed: %s", error)


def _comparable(menu: object) -> list[list[str]]:
    """What of it counts."""
    return sorted(
        [find_text(row, key) for key in ("name", "description")]
        + [find_text(option, "name") for option in find_objects(row, "options")]
        for row in find_objects(menu)
    )
