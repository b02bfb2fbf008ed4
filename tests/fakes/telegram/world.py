"""Who is there, what stands in the chats, and what the bot has yet to be told."""

import asyncio
import time
import zlib
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.platform import OTHER, OWNER, STRANGER, Button, Calls, Shown
from tests.fakes.telegram.html import units

Json = dict[str, Any]
BOT_ID, BOT = 7001, "house_bot"
ME = {
    "id": BOT_ID,
    "is_bot": True,
    "first_name": "House",
    "username": BOT,
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
}
FIXED = {OWNER: 4201, OTHER: 4202, STRANGER: 4203}
POISON: tuple[object, ...] = (
    {},
    {"message": {"message_id": 1, "date": 1_700_000_000, "text": "no chat"}},
    {"message": {"message_id": "zzz", "date": "notadate", "chat": 5, "text": "wrong types"}},
    {"novelty": {"of": "the year 2031"}},
    {"message": None, "callback_query": 5},
    {"message_reaction": {"chat": {"id": "x"}, "new_reaction": "all"}},
    "not an object",
    {"message": ["a", "list"]},
)


@dataclass(slots=True)
class Message:
    """A message in a chat. `json` is how the platform sends it."""

    json: Json
    shown: Shown
    look: tuple[object, ...] = ()


@dataclass(slots=True)
class Update:
    """Something that the bot is to be told. `forced`: once more, although it was acknowledged."""

    id: int
    content: object
    forced: bool = False


@dataclass(slots=True)
class World:
    """All of it. Ids of messages are unique over all chats, so that a test needs no chat to name one. `generous`: files of any
    size, as a Bot API server of one's own gives them. `nosy`: privacy mode is off, the bot hears all in groups. `cuts`: how many
    updates the next polls get at most, each that gets any.
    """

    chats: dict[int, Json] = field(default_factory=dict)
    people: dict[int, Json] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    by_chat: dict[int, list[int]] = field(default_factory=dict)
    drafts: dict[tuple[int, int], Shown] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    closed_topics: set[tuple[int, str]] = field(default_factory=set)
    topic_refusal: str = "message thread not found"
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    queries: dict[str, Json] = field(default_factory=dict)
    toasts: list[str] = field(default_factory=list)
    pending: list[Update] = field(default_factory=list)
    told: dict[int, Update] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    webhook: str = ""
    generous: bool = False
    nosy: bool = False
    cuts: list[int] = field(default_factory=list)
    commands: list[Json] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    last_update: int = 500_000
    last_message: int = 0
    poisons: int = 0

    def tell(self) -> None:
        """Something has happened: let all who wait look again."""
        self.news.set()
        self.news = asyncio.Event()

    def person(self, name: str) -> Json:
        """A user, made when first named."""
        number = FIXED.get(name) or 10_000 + zlib.crc32(name.encode()) % 900_000_000
        return self.people.setdefault(
            number, {"id": number, "is_bot": False, "first_name": name.title(), "username": name}
        )

    def private(self, name: str) -> Json:
        """The chat between the bot and a person, who has pressed Start."""
        user = self.person(name)
        chat = {
            "id": user["id"],
            "type": "private",
            "first_name": user["first_name"],
            "username": name,
        }
        return self.chats.setdefault(user["id"], chat)

    def group(self, people: tuple[str, ...]) -> Json:
        """A group of these people and the bot."""
        number = -1_001_000_000_000 - zlib.crc32(" ".join(people).encode())
        for name in people:
            self.person(name)
        return self.chats.setdefault(
            number, {"id": number, "type": "supergroup", "title": ", ".join(people)}
        )

    def new_message(self, chat: Json, sender: Json, thread: str = "") -> Json:
        """The head of a message."""
        self.last_message += 1
        head = {
            "message_id": self.last_message,
            "date": int(time.time()),
            "chat": chat,
            "from": sender,
        }
        if thread:
            chat["is_forum"] = True
            head |= {"message_thread_id": int(thread), "is_topic_message": True}
        return head

    def keep(self, message: Json, shown: Shown, look: tuple[object, ...] = ()) -> None:
        """It stands in its chat from now on."""
        self.messages[message["message_id"]] = Message(message, shown, look)
        self.by_chat.setdefault(message["chat"]["id"], []).append(message["message_id"])
        self.tell()

    def remove(self, number: int) -> None:
        """It is gone."""
        gone = self.messages.pop(number)
        self.by_chat[gone.json["chat"]["id"]].remove(number)
        self.tell()

    def push(self, content: object, about: int = 0) -> None:
        """The bot is to be told; `about` which message, for `again`."""
        self.last_update += 1
        whole = {"update_id": self.last_update, **content} if isinstance(content, dict) else content
        update = Update(self.last_update, whole)
        self.pending.append(update)
        if about:
            self.told[about] = update
        self.tell()

    def push_again(self, about: int) -> None:
        """The same update once more, acknowledged or not."""
        update = self.told[about]
        if update not in self.pending:
            self.pending.append(Update(update.id, update.content, forced=True))
        self.tell()

    def acknowledge(self, offset: int) -> None:
        """What stands before this offset was taken; what is forced stays until it was handed out."""
        if self.pending:
            self.pending = [
                update for update in self.pending if update.id >= offset or update.forced
            ]
            self.tell()

    def hand_out(self, limit: int, allowed: set[str]) -> list[object]:
        """The oldest of what is pending."""
        out = [update for update in self.pending if _wanted(update.content, allowed)][:limit]
        out = out[: self.cuts.pop(0)] if out and self.cuts else out
        for update in out:
            update.forced = False
        return [update.content for update in out]

    def shown(self, chat: int, thread: str) -> list[Shown]:
        """What people see there."""
        shown = [self.messages[number].shown for number in self.by_chat.get(chat, [])]
        drafts = [draft for (where, _), draft in self.drafts.items() if where == chat]
        return [one for one in shown + drafts if not thread or one.thread == thread]


def _wanted(content: object, allowed: set[str]) -> bool:
    kinds = (
        "edited_message",
        "message_reaction",
        "callback_query",
        "channel_post",
        "my_chat_member",
    )
    if not isinstance(content, dict) or not allowed:
        return not (isinstance(content, dict) and not allowed and "message_reaction" in content)
    return not any(kind in content and kind not in allowed for kind in kinds)


def entities(text: str) -> list[Json]:
    """What Telegram finds in a person's text: a command at its start, mentions."""
    found: list[Json] = []
    at = 0
    for number, word in enumerate(text.split(" ")):
        bare = word.rstrip(",.:;!?\n")
        if number == 0 and bare.startswith("/") and len(bare) > 1:
            found.append({"type": "bot_command", "offset": 0, "length": units(bare.split("\n")[0])})
        elif bare.startswith("@") and len(bare) > 1:
            found.append({"type": "mention", "offset": units(text[:at]), "length": units(bare)})
        at += len(word) + 1
    return found


def reaches_the_bot(message: Json) -> bool:
    """Privacy mode: of a group it hears commands, mentions and replies to itself."""
    if message["chat"]["type"] == "private":
        return True
    if message.get("reply_to_message", {}).get("from", {}).get("id") == BOT_ID:
        return True
    text = (message.get("text") or message.get("caption") or "").lower()
    command = text.split(" ")[0] if text.startswith("/") else ""
    return f"@{BOT}" in text or (bool(command) and "@" not in command)


def buttons(markup: Json | None) -> tuple[Button, ...]:
    """The buttons of an inline keyboard, row by row."""
    rows = (markup or {}).get("inline_keyboard", [])
    return tuple(
        Button(button["text"], button.get("callback_data", "")) for row in rows for button in row
    )
