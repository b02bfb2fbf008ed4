"""One `run` of the channel, from the first event to the last: what comes is looked at once, and put where it belongs."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from channels.base import Host, NotTaken
from channels.discord import reading
from channels.discord.answering import Answers
from channels.discord.calling import BROKEN, Calls
from channels.discord.config import DiscordAccount
from channels.discord.gateway import Connection, Patience
from channels.discord.intake import Intake
from channels.discord.menu import register
from channels.discord.payload import Payload
from channels.discord.places import Places

log = logging.getLogger(__name__)


class Listening:
    """What it needs."""

    def __init__(self, name: str, config: DiscordAccount, calls: Calls, host: Host, patience: Patience) -> None:
        self._name, self._config, self._calls, self._host, self._patience = name, config, calls, host, patience
        self._places = Places(only=str(config.guild_id))
        people = list(dict.fromkeys(str(person) for person in (*config.owner_ids, *config.allowed_user_ids)))
        self._intake = Intake(calls, host, self._me, self._places, patience, [one for one in people if one.isdecimal()])
        self._answers = Answers(calls, host, patience)
        reach = (config.api_url, config.gateway_url)
        self._connection = Connection(calls, self, *reach, patience, alive=host.alive)
        self._group = asyncio.TaskGroup()
        self._registered = False
        self._own: dict[str, Callable[[Payload], object]] = {
            "READY": self._ready,
            "RESUMED": lambda _: self._connection.up(),
            "GUILD_CREATE": self._guild,
            "GUILD_DELETE": self._gone,
            "CHANNEL_CREATE": self._places.channel,
            "THREAD_CREATE": self._places.channel,
            "THREAD_UPDATE": self._places.channel,
            "CHANNEL_DELETE": self._places.forget,
            "THREAD_DELETE": self._places.forget,
            "THREAD_LIST_SYNC": self._places.threads,
            "THREAD_MEMBER_UPDATE": lambda payload: self._places.join(str(payload["id"])),
            "INTERACTION_CREATE": self._asked,
        }

    def _me(self) -> reading.Me:
        return reading.Me(self._name, self._places.me or self._calls.id, self._places.roles, str(self._config.guild_id))

    async def run(self, now: Callable[[], datetime]) -> None:
        """Until cancelled. Raises Revoked."""
        await self._begin(now)
        try:
            async with self._group as group:
                group.create_task(self._intake.work())
                group.create_task(self._connection.listen(self._host.ailing))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _begin(self, now: Callable[[], datetime]) -> None:
        while True:
            try:
                return await self._intake.begin(now)
            except NotTaken as full:
                log.warning("Discord waits until the house can write: %s", full)
                await asyncio.sleep(self._patience.retries[-1])

    def hear(self, event: str, payload: object) -> None:
        """An event of the gateway, in order."""
        if not isinstance(payload, Mapping):
            self._intake.broken(reading.poison(event, payload, "it is no object", self._name))
            return
        try:
            self._heed(event, payload)
        except BROKEN as unread:
            self._intake.broken(reading.poison(event, payload, f"{type(unread).__name__}: {unread}", self._name))

    def broken(self, raw: str, why: str) -> None:
        """What is no event at all."""
        self._intake.broken(reading.poison("frame", raw, why, self._name))

    def _heed(self, event: str, payload: Payload) -> None:
        heed = self._own.get(event)
        if heed is None:
            self._said(event, payload)
        else:
            heed(payload)

    def _guild(self, payload: Payload) -> None:
        for channel, place in self._places.guild(payload):
            self._intake.seen(channel, place)

    def _gone(self, payload: Payload) -> None:
        self._intake.missing()
        self._places.gone(payload)

    def _ready(self, payload: Payload) -> None:
        self._intake.fresh()
        self._places.ready(payload)
        self._connection.up()
        if not self._registered:
            self._registered = True
            app = str((payload.get("application") or {}).get("id") or self._places.me)
            self._group.create_task(register(self._calls, app, str(self._config.guild_id), self._host.commands()))

    def _said(self, event: str, payload: Payload) -> None:
        author = payload.get("author")
        if isinstance(author, Mapping) and author.get("id") == self._places.me:
            self._places.join(str(payload.get("channel_id")))
        else:
            self._intake.hear(event, payload)

    def _asked(self, payload: Payload) -> None:
        asked = reading.asked(payload, self._places.get(str(payload.get("channel_id"))), self._me())
        if isinstance(asked, reading.Asked):
            self._group.create_task(self._answers.answer(asked))
        elif asked is not None:
            self._intake.broken(asked)
