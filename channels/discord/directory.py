"""The channels and threads that the bot sees, as the gateway tells of them; as little as parsing
needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from channels.discord.rest import parse_snowflake
from channels.json_access import Json

THREAD_TYPES = (10, 11, 12)
TEXT_TYPES = (0, 2, 5, 13, *THREAD_TYPES)


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """`guild`: "" for a direct chat; `last_message`: the newest id."""

    guild: str = ""
    is_thread: bool = False
    last_message: int = 0


@dataclass(slots=True)
class ChannelDirectory:
    """`channel`: our name for the account; `only`: the one guild to listen in, or ""; `bot_roles`:
    those that stand for the bot alone; `pending`: guilds that are away; `joined`: channels and
    threads in which the bot takes part.
    """

    channel: str
    only: str = ""
    bot_id: str = ""
    bot_roles: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    channels: dict[str, ChannelInfo] = field(default_factory=dict)

    def on_ready(self, payload: Json) -> None:
        """A new session: its guilds come one by one, later on."""
        self.bot_id = str(payload["user"]["id"])
        guilds = {str(guild["id"]) for guild in payload.get("guilds") or ()}
        self.pending = guilds & {self.only} if self.only else guilds

    def on_event(self, event: str, payload: Json) -> None:
        """A channel or thread that was created, changed or deleted."""
        match event:
            case "CHANNEL_CREATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self.update(payload)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self.channels.pop(str(payload["id"]), None)
            case "THREAD_LIST_SYNC":
                for thread in payload["threads"]:
                    self.update(thread, payload["guild_id"])
                members = payload.get("members") or ()
                self.joined.update(str(member.get("id")) for member in members)
            case "THREAD_MEMBER_UPDATE":
                self.joined.add(str(payload["id"]))

    def is_direct(self, channel: str, guild: object) -> bool:
        """A chat with the bot alone; history does not say the guild of a message."""
        return guild is None and not self.channels.get(channel, ChannelInfo()).guild

    def is_joined_thread(self, channel: str) -> bool:
        """A thread in which the bot takes part."""
        return channel in self.joined and self.channels.get(channel, ChannelInfo()).is_thread

    def is_foreign(self, guild: object) -> bool:
        """A guild in which we do not listen."""
        return bool(self.only and guild not in (None, "", self.only))

    def on_guild(self, payload: Json) -> Iterator[tuple[str, ChannelInfo]]:
        """A guild; its channels in which something may have been missed, as it was away."""
        guild = str(payload["id"])
        if payload.get("unavailable"):
            return  # and it still is
        was_away = guild in self.pending
        self.pending.discard(guild)
        if self.is_foreign(guild):
            return
        for role in payload.get("roles") or ():
            if str((role.get("tags") or {}).get("bot_id", "")) == self.bot_id:
                self.bot_roles.add(str(role["id"]))
        for channel in (*(payload.get("channels") or ()), *(payload.get("threads") or ())):
            info = self.update(channel, guild)
            if was_away and info and channel.get("type") in TEXT_TYPES:
                yield str(channel["id"]), info

    def on_guild_delete(self, payload: Json) -> None:
        """The bot is no longer in this guild, or the guild is away for a while."""
        guild = str(payload["id"])
        if not payload.get("unavailable"):
            self.pending.discard(guild)
        elif not self.is_foreign(guild):
            self.pending.add(guild)

    def update(self, payload: object, guild: str = "") -> ChannelInfo | None:
        """A channel or thread; None where we do not listen, and for what is no channel."""
        if not isinstance(payload, dict) or "id" not in payload:
            return None
        channel, guild = str(payload["id"]), str(payload.get("guild_id") or guild)
        if self.is_foreign(guild):
            return None
        is_thread = payload.get("type") in THREAD_TYPES
        if is_thread and (payload.get("member") or str(payload.get("owner_id")) == self.bot_id):
            self.joined.add(channel)
        last_message = parse_snowflake(payload.get("last_message_id"))
        info = self.channels[channel] = ChannelInfo(guild, is_thread, last_message)
        return info
