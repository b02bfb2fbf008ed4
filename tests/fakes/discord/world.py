"""What there is on a fake Discord: people, one guild with channels and threads, direct messages, and what was said in them."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

Json = dict[str, Any]
EPOCH_MS = 1_420_070_400_000
BOT, APP, ROLE = "100000000000000001", "100000000000000001", "100000000000000002"
GUILD, ELSEWHERE = "300000000000000000", "300000000000000001"
GENERAL = "400000000000000000"
EPHEMERAL = 64
MARKS = (
    (re.compile(r"^```[^\n]*\n?", re.M), ""),
    (re.compile(r"\*\*|__|~~|\|\||(?<!\\)`"), ""),
    (re.compile(r"^(#{1,3}|-#|>>?>?) ", re.M), ""),
    (re.compile(r"\[([^\]\n]+)\]\(<?[^)\n]+>?\)"), r"\1"),
    (re.compile(r"\\([*_`~|>#\\\[\]()-])"), r"\1"),
)


def now() -> str:
    return datetime.now(UTC).isoformat()


def read(content: str) -> str:
    """What people see of Discord's markdown, roughly."""
    for mark, instead in MARKS:
        content = mark.sub(instead, content)
    return content


@dataclass
class Place:
    """A channel, a thread or a direct chat. `deny`: the code with which the bot is refused there. `blind`: it may write, but not
    read what was said before.
    """

    id: str
    kind: int
    guild: str = ""
    parent: str = ""
    people: tuple[str, ...] = ()
    owner: str = ""
    joined: bool = False
    deny: int = 0
    blind: bool = False
    last: str | None = None

    def payload(self, users: dict[str, Json]) -> Json:
        body: Json = {"id": self.id, "type": self.kind, "last_message_id": self.last, "flags": 0}
        if self.kind == 1:
            return body | {"recipients": [users[name] for name in self.people]}
        body |= {
            "guild_id": self.guild,
            "name": f"c{self.id[-4:]}",
            "parent_id": self.parent or None,
            "rate_limit_per_user": 0,
        }
        if not self.parent:
            return body | {"position": 0, "permission_overwrites": [], "nsfw": False, "topic": None}
        member = {"id": self.id, "user_id": BOT, "join_timestamp": now(), "flags": 0}
        meta = {
            "archived": False,
            "auto_archive_duration": 1440,
            "archive_timestamp": now(),
            "locked": False,
        }
        body |= {
            "owner_id": self.owner,
            "message_count": 1,
            "member_count": 1,
            "thread_metadata": meta,
        }
        return body | ({"member": member} if self.joined else {})


@dataclass
class World:
    """What there is. Ids are snowflakes: they hold the time, and only grow. `written`: what was ever written in a place."""

    users: dict[str, Json] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    messages: dict[str, Json] = field(default_factory=dict)
    written: dict[str, list[str]] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    reactions: dict[str, list[str]] = field(default_factory=dict)
    edits: dict[str, int] = field(default_factory=dict)
    nonces: dict[str, tuple[float, str]] = field(default_factory=dict)
    last_id: int = 0
    bot: Json = field(
        default_factory=lambda: {
            **{
                "id": BOT,
                "username": "aidaemon",
                "discriminator": "0",
                "global_name": None,
                "avatar": None,
                "bot": True,
            },
            "flags": 0,
        }
    )

    def __post_init__(self) -> None:
        self.places[GENERAL] = Place(GENERAL, 0, GUILD)

    def snowflake(self) -> str:
        self.last_id = max(self.last_id + 1, (int(time.time() * 1000) - EPOCH_MS) << 22)
        return str(self.last_id)

    def person(self, name: str) -> Json:
        if name not in self.users:
            user = {
                "username": name,
                "discriminator": "0",
                "global_name": name.title(),
                "avatar": None,
            }
            self.users[name] = {"id": str(200_000_000_000_000_000 + crc32(name.encode())), **user}
        return self.users[name]

    def name_of(self, user_id: str) -> str:
        return (
            "bot"
            if user_id == BOT
            else next((name for name, user in self.users.items() if user["id"] == user_id), user_id)
        )

    def direct(self, name: str) -> Place:
        self.person(name)
        return self._place(
            Place(str(500_000_000_000_000_000 + crc32(name.encode())), 1, people=(name,))
        )

    def channel(self, people: Sequence[str], guild: str = GUILD) -> Place:
        for name in people:
            self.person(name)
        number = crc32(" ".join((guild, *people)).encode())
        return self._place(
            Place(str(400_000_000_000_000_000 + number), 0, guild, people=tuple(people))
        )

    def thread(self, name: str, parent: str, owner: str, *, joined: bool) -> Place:
        above = self.places[parent]
        number = (
            name
            if name.isdigit() and len(name) > 16
            else str(600_000_000_000_000_000 + crc32(f"{parent} {name}".encode()))
        )
        return self._place(Place(number, 11, above.guild, parent, owner=owner, joined=joined))

    def _place(self, place: Place) -> Place:
        return self.places.setdefault(place.id, place)

    def guild(self, guild: str, *, web: str = "") -> Json:
        """The guild as GUILD_CREATE has it."""
        none = (
            "icon splash discovery_splash afk_channel_id system_channel_id rules_channel_id vanity_url_code description banner"
            " public_updates_channel_id"
        )
        empty = "emojis stickers features voice_states presences stage_instances guild_scheduled_events soundboard_sounds members"
        zero = (
            "verification_level default_message_notifications explicit_content_filter mfa_level system_channel_flags"
            " premium_tier nsfw_level"
        )
        here = [place for place in self.places.values() if place.guild == guild]
        role = {
            "permissions": "68608",
            "position": 0,
            "color": 0,
            "colors": {"primary_color": 0},
            "hoist": False,
            "flags": 0,
        }
        role |= {"managed": False, "mentionable": False}
        return {
            **dict.fromkeys(none.split()),
            **{key: [] for key in empty.split()},
            **dict.fromkeys(zero.split(), 0),
            **{
                "id": guild,
                "name": "G",
                "owner_id": "1",
                "afk_timeout": 60,
                "preferred_locale": "en-US",
            },
            **{
                "premium_progress_bar_enabled": False,
                "joined_at": now(),
                "large": False,
                "unavailable": False,
            },
            "member_count": 2,
            "roles": [
                {**role, "id": guild, "name": "@everyone"},
                {**role, "id": ROLE, "name": "aidaemon", "managed": True, "tags": {"bot_id": BOT}},
            ],
            "channels": [place.payload(self.users) for place in here if not place.parent],
            "threads": [place.payload(self.users) for place in here if place.parent],
        }

    def write(self, place: Place, author: Json, content: str, **more: Any) -> Json:
        """A new message; it stands in the place from now on."""
        message: Json = {
            **{
                "id": self.snowflake(),
                "channel_id": place.id,
                "author": author,
                "content": content,
                "timestamp": now(),
            },
            **{
                "edited_timestamp": None,
                "tts": False,
                "mention_everyone": False,
                "mention_roles": [],
                "embeds": [],
            },
            **{
                "mentions": self._mentioned(content),
                "attachments": [],
                "pinned": False,
                "type": 0,
                "flags": 0,
            },
            **{"components": [], **more},
        }
        self.messages[message["id"]] = message
        self.written.setdefault(place.id, []).append(message["id"])
        place.last = message["id"]
        return message

    def _mentioned(self, content: str) -> list[Json]:
        named = re.findall(r"<@!?(\d+)>", content)
        known = {user["id"]: user for user in (*self.users.values(), self.bot)} if named else {}
        return [known[number] for number in named if number in known]

    def here(self, place: str) -> list[Json]:
        """What stands in a place now, oldest first."""
        return [
            self.messages[number]
            for number in self.written.get(place, ())
            if number in self.messages
        ]

    def event(self, message: Json) -> Json:
        """A message as the gateway sends it."""
        place = self.places[message["channel_id"]]
        if not place.guild:
            return message
        member = {"roles": [], "joined_at": now(), "deaf": False, "mute": False, "flags": 0}
        return {**message, "guild_id": place.guild, "member": member}

    def history(self, place: str, *, after: int, before: int, limit: int) -> list[Json]:
        """Newest first; with `after`, those next after it."""
        there = [message for message in self.here(place) if after < int(message["id"]) < before]
        return list(reversed(there[:limit] if after else there[-limit:]))
