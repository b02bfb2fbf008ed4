"""The channels and threads that the bot sees, as the gateway tells of them; as little as parsing
needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from channels.discord.rest import parse_snowflake
from channels.json_access import Json

THREAD_TYPES = (10, 11, 12)
TEXT_TYPES = (0, 2, 5, 13, *THREAD_TYPES)


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """`guild`: "" for a direct chat; `is_member`: of a thread: the bot takes part; `last_message`:
    the newest id.
    """

    guild: str = ""
    is_thread: bool = False
    is_member: bool = False
    last_message: int = 0


@dataclass(slots=True)
class ChannelDirectory:
    """`channel`: our name for the account; `only`: the one guild to listen in, or ""; `bot_roles`:
    those that stand for the bot alone; `pending`: guilds that are away.
    """

    channel: str
    only: str = ""
    bot_id: str = ""
    bot_roles: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    _joined: set[str] = field(default_factory=set)
    _channels: dict[str, ChannelInfo] = field(default_factory=dict)

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
                self._channels.pop(str(payload["id"]), None)
            case "THREAD_LIST_SYNC":
                self._on_thread_list(payload)
            case "THREAD_MEMBER_UPDATE":
                self.join(str(payload["id"]))

    def get(self, channel: str) -> ChannelInfo | None:
        """What is known of it."""
        return self._channels.get(channel)

    def is_direct(self, channel: str, guild: object) -> bool:
        """A chat with the bot alone; history does not say the guild of a message."""
        info = self._channels.get(channel)
        return guild is None and not (info and info.guild)

    def is_foreign(self, guild: object) -> bool:
        """A guild in which we do not listen."""
        return bool(self.only and guild not in (None, "", self.only))

    def on_guild(self, payload: Json) -> Iterator[tuple[str, ChannelInfo]]:
        """A guild; its channels in which something may have been missed, as it was away."""
        if payload.get("unavailable"):
            return  # and it still is
        guild = str(payload["id"])
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

    def update(self, payload: Json, guild: str = "") -> ChannelInfo | None:
        """A channel or thread; None where we do not listen."""
        guild = str(payload.get("guild_id") or guild)
        if self.is_foreign(guild):
            return None
        channel = str(payload["id"])
        before = self._channels.get(channel)
        is_thread = payload.get("type") in THREAD_TYPES
        is_member = is_thread and (
            str(payload.get("owner_id", "")) == self.bot_id
            or bool(payload.get("member"))
            or channel in self._joined
            or bool(before and before.is_member)
        )
        info = ChannelInfo(
            guild, is_thread, is_member, parse_snowflake(payload.get("last_message_id"))
        )
        self._channels[channel] = info
        return info

    def _on_thread_list(self, payload: Json) -> None:
        """The threads of a channel that the bot now sees."""
        mine = {str(member.get("id")) for member in payload.get("members") or ()}
        for thread in payload["threads"]:
            self.update(thread, payload["guild_id"])
            if str(thread["id"]) in mine:
                self.join(str(thread["id"]))

    def join(self, channel: str) -> None:
        """The bot takes part there, if it is a thread."""
        self._joined.add(channel)
        info = self._channels.get(channel)
        if info and info.is_thread:
            self._channels[channel] = replace(info, is_member=True)
