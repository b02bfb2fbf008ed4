"""Where the bot is: channels and threads of guilds, as the gateway tells of them; as little as reading needs."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from channels.discord.payload import Payload
from channels.discord.snowflake import number

DIRECT = (1, 3)
THREADS = (10, 11, 12)
WRITTEN_IN = (0, 2, 5, 13, *THREADS)


@dataclass(frozen=True, slots=True)
class Place:
    """A channel. `guild` "" for a direct chat; `joined`: a thread that the bot takes part in; `last`: its newest message."""

    guild: str = ""
    thread: bool = False
    joined: bool = False
    last: int = 0


@dataclass(slots=True)
class Places:
    """All that is known of them. `me`: the bot's own id; `roles`: those that stand for the bot alone."""

    me: str = ""
    only: str = ""
    roles: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    _talked: set[str] = field(default_factory=set)
    _known: dict[str, Place] = field(default_factory=dict)

    def ready(self, payload: Payload) -> None:
        """A new session: the guilds in it are told of one by one, later on."""
        self.me = str(payload["user"]["id"])
        guilds = {str(guild["id"]) for guild in payload.get("guilds") or ()}
        self.pending = guilds & {self.only} if self.only else guilds

    def get(self, channel: str) -> Place | None:
        """What is known of it."""
        return self._known.get(channel)

    def guild(self, payload: Payload) -> Iterator[tuple[str, Place]]:
        """A guild with its channels and threads; those in which something may have been missed: it was away."""
        if payload.get("unavailable"):
            return  # and still is
        guild = str(payload["id"])
        was_away = guild in self.pending
        self.pending.discard(guild)
        if self.only and guild != self.only:
            return
        self.roles |= {str(role["id"]) for role in payload.get("roles") or () if self._is_mine(role)}
        for channel in (*(payload.get("channels") or ()), *(payload.get("threads") or ())):
            place = self.channel({"guild_id": guild, **channel})
            if was_away and place and channel.get("type") in WRITTEN_IN:
                yield str(channel["id"]), place

    def _is_mine(self, role: Payload) -> bool:
        return str((role.get("tags") or {}).get("bot_id", "")) == self.me

    def gone(self, payload: Payload) -> None:
        """The bot is no longer in this guild, or the guild is away for a while."""
        guild = str(payload["id"])
        if not payload.get("unavailable"):
            self.pending.discard(guild)
        elif self.only in ("", guild):
            self.pending.add(guild)

    def channel(self, payload: Payload) -> Place | None:
        """A channel or thread; None where it is not ours to read."""
        guild = str(payload.get("guild_id") or "")
        if self.only and guild not in ("", self.only):
            return None
        number_of = str(payload["id"])
        before = self._known.get(number_of)
        thread = payload.get("type") in THREADS
        joined = thread and (str(payload.get("owner_id", "")) == self.me or bool(payload.get("member")))
        joined = joined or (thread and (number_of in self._talked or bool(before and before.joined)))
        place = Place(guild, thread, joined, number(payload.get("last_message_id")))
        self._known[number_of] = place
        return place

    def threads(self, payload: Payload) -> None:
        """The threads of a channel that the bot has come to see."""
        mine = {str(member.get("id")) for member in payload.get("members") or ()}
        for thread in payload["threads"]:
            self.channel({"guild_id": payload["guild_id"], **thread})
            if str(thread["id"]) in mine:
                self.join(str(thread["id"]))

    def join(self, channel: str) -> None:
        """The bot takes part there, if it is a thread."""
        self._talked.add(channel)
        place = self._known.get(channel)
        if place and place.thread:
            self._known[channel] = replace(place, joined=True)

    def forget(self, payload: Payload) -> None:
        """It was deleted."""
        self._known.pop(str(payload["id"]), None)
