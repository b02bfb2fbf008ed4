"""Where the bot is: channels and threads of guilds, as the gateway tells of them; as little as reading needs."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from channels.discord.payloads import Payload, parse_snowflake

DIRECT_TYPES = (1, 3)
THREAD_TYPES = (10, 11, 12)
TEXT_TYPES = (0, 2, 5, 13, *THREAD_TYPES)


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel. `guild` "" for a direct chat; `joined`: a thread that the bot takes part in; `last`: its newest message."""

    guild: str = ""
    is_thread: bool = False
    is_member: bool = False
    last_message: int = 0


@dataclass(slots=True)
class ChannelDirectory:
    """All that is known of them. `me`: the bot's own id; `roles`: those that stand for the bot alone."""

    bot_id: str = ""
    only: str = ""
    bot_roles: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    _joined: set[str] = field(default_factory=set)
    _channels: dict[str, ChannelInfo] = field(default_factory=dict)

    def on_ready(self, payload: Payload) -> None:
        """A new session: the guilds in it are told of one by one, later on."""
        self.bot_id = str(payload["user"]["id"])
        guilds = {str(guild["id"]) for guild in payload.get("guilds") or ()}
        self.pending = guilds & {self.only} if self.only else guilds

    def get(self, channel: str) -> ChannelInfo | None:
        """What is known of it."""
        return self._channels.get(channel)

    def on_guild(self, payload: Payload) -> Iterator[tuple[str, ChannelInfo]]:
        """A guild with its channels and threads; those in which something may have been missed: it was away."""
        if payload.get("unavailable"):
            return  # and still is
        guild = str(payload["id"])
        was_away = guild in self.pending
        self.pending.discard(guild)
        if self.only and guild != self.only:
            return
        self.bot_roles |= {
            str(role["id"]) for role in payload.get("roles") or () if self._is_mine(role)
        }
        for channel in (*(payload.get("channels") or ()), *(payload.get("threads") or ())):
            place = self.update_channel({"guild_id": guild, **channel})
            if was_away and place and channel.get("type") in TEXT_TYPES:
                yield str(channel["id"]), place

    def _is_mine(self, role: Payload) -> bool:
        return str((role.get("tags") or {}).get("bot_id", "")) == self.bot_id

    def on_guild_delete(self, payload: Payload) -> None:
        """The bot is no longer in this guild, or the guild is away for a while."""
        guild = str(payload["id"])
        if not payload.get("unavailable"):
            self.pending.discard(guild)
        elif self.only in ("", guild):
            self.pending.add(guild)

    def update_channel(self, payload: Payload) -> ChannelInfo | None:
        """A channel or thread; None where it is not ours to read."""
        guild = str(payload.get("guild_id") or "")
        if self.only and guild not in ("", self.only):
            return None
        number_of = str(payload["id"])
        before = self._channels.get(number_of)
        thread = payload.get("type") in THREAD_TYPES
        joined = thread and (
            str(payload.get("owner_id", "")) == self.bot_id or bool(payload.get("member"))
        )
        joined = joined or (
            thread and (number_of in self._joined or bool(before and before.is_member))
        )
        place = ChannelInfo(guild, thread, joined, parse_snowflake(payload.get("last_message_id")))
        self._channels[number_of] = place
        return place

    def update_threads(self, payload: Payload) -> None:
        """The threads of a channel that the bot has come to see."""
        mine = {str(member.get("id")) for member in payload.get("members") or ()}
        for thread in payload["threads"]:
            self.update_channel({"guild_id": payload["guild_id"], **thread})
            if str(thread["id"]) in mine:
                self.join(str(thread["id"]))

    def join(self, channel: str) -> None:
        """The bot takes part there, if it is a thread."""
        self._joined.add(channel)
        place = self._channels.get(channel)
        if place and place.is_thread:
            self._channels[channel] = replace(place, is_member=True)

    def forget(self, payload: Payload) -> None:
        """It was deleted."""
        self._channels.pop(str(payload["id"]), None)
