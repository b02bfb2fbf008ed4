"""Slack's events and interactions as the channel's messages, and the threads in which the assistant
takes part (A13, A14).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b

from channels import value
from channels.base import Host
from channels.content import NO_WORDS, WORDLESS, put_passed_first
from channels.json_access import Json, find_object, find_objects, find_text, get_text
from channels.lookups import Lookups
from channels.message import Address, ButtonPress, InboundMessage, Reaction, Reference, Sender
from channels.slack.content import (
    has_mention,
    list_passed,
    read_content,
    read_whole,
    read_words,
    to_plain,
)
from channels.slack.web import SlackWeb
from channels.transport import RecentDict

UNREADABLE = (ValueError, OverflowError, OSError, RecursionError)
"""What `EventParser` raises for what it cannot read; UnreadablePayload among them."""
PERSONAL_SUBTYPES = ("", "file_share", "thread_broadcast", "me_message")
"""Subtypes of messages that a person has written."""
EMOJI = {
    "+1": "👍",
    "thumbsup": "👍",
    "-1": "👎",
    "thumbsdown": "👎",
    "heart": "❤",
    "eyes": "👀",
    "tada": "🎉",
    "fire": "🔥",
    "white_check_mark": "✅",
    "x": "❌",
}
BANG_COMMAND = re.compile(r"^!(?=[A-Za-z][\w-]*(?:\s|$))")
MAX_THREADS = 2000
ThreadKey = tuple[str, str]


class ThreadMembership:
    """The latest threads, and who wrote there last; in memory only. `members`: people of the
    allow-list. Threads in which only others have mentioned the assistant are kept apart, so that
    they push out no other.
    """

    def __init__(self, members: Iterable[str] = (), limit: int = MAX_THREADS) -> None:
        self.members = frozenset(members)
        self._people = RecentDict[ThreadKey, str](limit)
        self._guests = RecentDict[ThreadKey, str](limit)

    def is_joined(self, chat: str, thread: str) -> bool:
        """The assistant takes part in this thread."""
        return (chat, thread) in self._people or (chat, thread) in self._guests

    def join(self, address: Address, person: str = "") -> None:
        """It does so from now on; `person` wrote there, "" for the assistant."""
        key = address.chat, address.thread
        if not address.thread:
            return
        if key in self._people or not person or person in self.members:
            self._people[key] = person or self.last_author(address)
            self._guests.pop(key, None)
        else:
            self._guests[key] = person

    def last_author(self, address: Address) -> str:
        """Who wrote there last; "" if nobody is known."""
        key = address.chat, address.thread
        return self._people.get(key) or self._guests.get(key, "")

    def latest(self, limit: int, chats: Collection[str]) -> list[ThreadKey]:
        """Of these chats, the latest first; those that only guests know come last."""
        keys = [*reversed(self._people), *reversed(self._guests)]
        return [key for key in keys if key[0] in chats][:limit]


@value
class EventParser:
    """For one account. `commands`: names that are slash commands of their own."""

    channel: str
    web: SlackWeb
    threads: ThreadMembership
    commands: Collection[str]

    def parse_event(self, event: Json) -> InboundMessage | Reaction | None:
        """A message or a reaction; None for what is of no concern. Raises UNREADABLE."""
        match event.get("type"):
            case "message" if event.get("subtype") == "message_changed":
                return self._parse_edit(event)
            case "message" | "app_mention":
                return self._parse_message(event)
            case "reaction_added" | "reaction_removed":
                return self._parse_reaction(event)
            case _:
                return None

    def parse_press(self, payload: Json) -> ButtonPress:
        """A button under a message. Raises UnreadablePayload."""
        message, container = find_object(payload, "message"), find_object(payload, "container")
        chat = find_text(payload, "channel", "id") or get_text(container, "channel_id")
        message_id = find_text(message, "ts") or get_text(container, "message_ts")
        data = next((find_text(one, "value") for one in find_objects(payload, "actions")), "")
        thread = _thread_of(message) or _thread_of(container, message_id)
        address = Address(self.channel, chat, thread)
        return ButtonPress(address, _sender_of(payload), data, message_id)

    def parse_command(self, payload: Json) -> InboundMessage:
        """ "/aidaemon status" is "/status", and so is "/status" where that is registered. An entry
        of the app in a message's menu is about the conversation of that message. Raises
        UnreadablePayload.
        """
        if message := find_object(payload, "message"):
            chat, sender = get_text(find_object(payload, "channel"), "id"), _sender_of(payload)
            thread, text = _thread_of(message), "/" + get_text(payload, "callback_id").lstrip("/")
            if not thread and self.web.config.use_threads and not _is_direct(chat):
                thread = find_text(message, "ts")
        else:
            chat, thread = get_text(payload, "channel_id"), ""
            sender = Sender(get_text(payload, "user_id"), find_text(payload, "user_name"))
            name, words = get_text(payload, "command"), find_text(payload, "text").strip()
            is_own = name.removeprefix("/") in self.commands
            text = f"{name} {words}".strip() if is_own else f"/{words.lstrip('/!') or 'help'}"
        trigger = find_text(payload, "trigger_id") or find_text(payload, "action_ts")
        trigger = trigger or get_text(payload, "envelope_id")
        # a hash: with the trigger anybody could act in the sender's name, and the journal keeps it
        key = blake2b(trigger.encode(errors="replace"), digest_size=12).hexdigest()
        address, number = Address(self.channel, chat, thread), f"{chat}/command/{key}"
        text, is_private = to_plain(text), _is_direct(chat)
        return InboundMessage(address, sender, number, text, "", private=is_private)

    def _parse_message(self, event: Json) -> InboundMessage | None:
        is_typed = find_text(event, "subtype") in PERSONAL_SUBTYPES or "client_msg_id" in event
        if not is_typed or event.get("bot_id") or event.get("user") == self.web.user:
            return None
        chat, ts, thread = get_text(event, "channel"), get_text(event, "ts"), _thread_of(event)
        bot, is_direct = self.web.user, _is_direct(chat, event.get("channel_type"))
        is_asked = event.get("type") == "app_mention" or has_mention(read_words(event), bot)
        is_addressed = is_direct or is_asked or self.threads.is_joined(chat, thread)
        if is_asked and not thread and self.web.config.use_threads and not is_direct:
            thread = ts
        content = read_content(event, bot)
        # Slack keeps words that begin with "/" to itself
        text = BANG_COMMAND.sub("/", content.render(), count=1)
        passed = tuple(list_passed(event, bot))
        text, author, is_forwarded, passed = put_passed_first(text, passed)
        if is_addressed and not (text or content.files):
            text = NO_WORDS if is_asked else WORDLESS
        return InboundMessage(
            Address(self.channel, chat, thread),
            Sender(get_text(event, "user"), _name_of(event)),
            f"{chat}/{ts}",
            text,
            ts,
            attachments=content.files,
            private=is_direct,
            addressed=is_addressed,
            forwarded=is_forwarded,
            author=author,
            references=passed,
            sent_at=datetime.fromtimestamp(float(ts), UTC),
            data=(*content.data, *content.beside),
        )

    def _parse_edit(self, event: Json) -> InboundMessage | None:
        message, before = find_object(event, "message"), find_object(event, "previous_message")
        edited = find_text(message, "edited", "ts")
        if not edited or (before and read_words(message) == read_words(before)):
            return None  # a preview of a link was added, or an answer in the thread
        read = self._parse_message({**event, "subtype": "", **message, "type": "message"})
        return read and replace(
            read,
            external_id=f"{read.external_id}/{edited}",
            edits=read.external_id,
            sent_at=datetime.fromtimestamp(float(edited), UTC),
        )

    def parse_root(self, row: Json, sender: str) -> Reference:
        """The first message of a thread, in which `sender` writes. Raises UNREADABLE."""
        named = _name_of(row), find_text(row, "ts")
        others = row.get("bot_id") or any(list_passed(row, ""))
        if not others and get_text(row, "user", "") == sender:
            return read_content(row).refer("root", "sender", *named)
        by = "assistant" if self.web.is_author(row) else "other"
        return Reference("root", read_whole(row) or WORDLESS, by, *named)

    def _parse_reaction(self, event: Json) -> Reaction | None:
        item, user = find_object(event, "item"), get_text(event, "user")
        is_ours = find_text(event, "item_user") in ("", self.web.user)
        if find_text(item, "type") not in ("", "message") or not is_ours or user == self.web.user:
            return None
        name = get_text(event, "reaction")
        emoji = EMOJI.get(name.partition("::")[0], f":{name}:")
        address = Address(self.channel, get_text(item, "channel"))
        is_added = event.get("type") == "reaction_added"
        return Reaction(address, Sender(user), get_text(item, "ts"), emoji if is_added else "")


def _name_of(message: Json) -> str:
    """Of who wrote it, a person or a program."""
    profile = find_object(message, "user_profile")
    name = find_text(profile, "display_name") or find_text(profile, "real_name")
    return name or find_text(message, "username") or find_text(message, "bot_profile", "name")


def _thread_of(message: Json, own: str = "") -> str:
    """The first message of a thread is outside of it."""
    thread = find_text(message, "thread_ts")
    return "" if thread == (own or find_text(message, "ts")) else thread


def _is_direct(chat: str, kind: object = "") -> bool:
    return kind in ("im", "app_home") or chat.startswith("D")


def _sender_of(payload: Json) -> Sender:
    user = find_object(payload, "user")
    return Sender(get_text(user, "id"), find_text(user, "username") or find_text(user, "name"))


NEW_CHAT = "assistant_app_thread"
"""Slack's own line, at the beginning of a chat in its pane for assistants."""
FEATURE = "the first message of a thread in {}"


class SlackRoots(Lookups):
    """Fetches them, and keeps the latest."""

    def __init__(self, host: Host, parser: EventParser) -> None:
        self._host, self._parser, self._web = host, parser, parser.web
        super().__init__(
            "Slack", "Slack does not show it to the assistant", self._web.timing.root_s
        )

    def remember(self, chat: str, thread: str, rows: Sequence[Json]) -> Json | None:
        """The first of these messages; empty where it is not there, and never will be. No rows:
        Slack does not show them now.
        """
        if not rows:
            return None
        first: Json = next((row for row in rows if row.get("ts") == thread), {})
        self._kept[chat, thread] = first
        return first

    async def _add_references(self, item: InboundMessage) -> InboundMessage:
        chat, thread = item.address.chat, item.address.thread
        if not item.addressed or thread in ("", item.message_id):
            return item
        if await self._host.knows_thread(item.address):
            return item
        row = await self._fetch((chat, thread), partial(self._ask, chat, thread))
        if isinstance(row, dict) and row.get("subtype") == NEW_CHAT:
            return item
        root = self._refer("root", row, partial(self._parser.parse_root, sender=item.sender.id))
        return replace(item, references=(root, *item.references))

    async def _ask(self, chat: str, thread: str) -> Json | None:
        asked = {"channel": chat, "ts": thread, "limit": 1, "inclusive": "true"}
        feature, method = FEATURE.format(chat[:1]), "conversations.replies"
        page = await self._web.optional.attempt(feature, self._web.read, method, **asked)
        return self.remember(chat, thread, find_objects(page, "messages"))
