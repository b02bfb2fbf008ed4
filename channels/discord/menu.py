"""The chat commands in Discord's own menu; written only when they have changed, for Discord counts the writes of a day."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from channels.base import Later, Refused, Unclear
from channels.discord.calling import Calls
from channels.discord.lib import http
from channels.discord.payload import Payload

log = logging.getLogger(__name__)
NAME = re.compile(r"[a-z0-9_-]{1,32}")
LONGEST, MOST = 100, 100
TEXT = {"type": 3, "name": "text", "description": "what comes after the command", "required": False}
Command = dict[str, Any]


def menu(commands: Sequence[tuple[str, str]]) -> list[Command]:
    """Commands as Discord has them, each with a text that may follow; what it would refuse is left out."""
    named = {name.lower().lstrip("/"): told for name, told in commands}
    return [
        {"type": 1, "name": name, "description": _short(told) or name, "options": [TEXT]}
        for name, told in named.items()
        if NAME.fullmatch(name)
    ][:MOST]


def _short(told: str) -> str:
    line = " ".join(told.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def same(wanted: Sequence[Command], there: object) -> bool:
    """Whether what is registered is what we want."""
    if not isinstance(there, list):
        return False
    return {_core(command) for command in wanted} == {_core(command) for command in there if isinstance(command, Mapping)}


def _core(command: Payload) -> tuple[str, str, tuple[str, ...]]:
    options = tuple(str(option.get("name")) for option in command.get("options") or ())
    return str(command.get("name")), str(command.get("description")), options


async def register(calls: Calls, app: str, guild: str, commands: Sequence[tuple[str, str]]) -> None:
    """See to it that the menu has them; without it they can still be typed."""
    wanted = menu(commands)
    if not app or not wanted:
        return
    path = "/applications/{application_id}/guilds/{guild_id}/commands" if guild else "/applications/{application_id}/commands"
    where = {"application_id": app, "guild_id": guild} if guild else {"application_id": app}
    try:
        there = await calls.call(lambda rest: rest.request(http.Route("GET", path, **where)))
        if not same(wanted, there):
            await calls.call(lambda rest: rest.request(http.Route("PUT", path, **where), json=wanted))
    except (Refused, Later, Unclear) as not_now:
        log.info("Discord's menu of commands was not changed: %s", not_now)
