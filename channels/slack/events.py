"""What people wrote, from Slack's own signs into plain text with markdown links (A14).

What Slack sent, as the house takes it. Nothing here talks to anybody (A13, A14).
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from channels.message import (
    Address,
    Attachment,
    ButtonPress,
    InboundMessage,
    Reaction,
    Sender,
)
from channels.slack.web import (
    Json,
    UnreadablePayload,
    find_text,
    get_int,
    get_object,
    get_objects,
    get_text,
)

MAX_THREADS = 2000


ThreadKey = tuple[str, str]


class ThreadMembership:
    """The latest ones; the oldest are forgotten. `members`: those of the allow-list. Threads in which only others have mentioned
    the assistant are kept apart, so that these push out none in which it has answered, or a member takes part.
    """

    def __init__(self, members: Iterable[str] = (), most: int = MAX_THREADS) -> None:
        self._members, self._most = frozenset(members), most
        self._people: OrderedDict[ThreadKey, str] = OrderedDict()
        self._guests: OrderedDict[ThreadKey, str] = OrderedDict()

    def is_member(self, person: str) -> bool:
        """Somebody of the allow-list."""
        return person in self._members

    def is_joined(self, chat: str, thread: str) -> bool:
        """The assistant takes part in this thread."""
        return (chat, thread) in self._people or (chat, thread) in self._guests

    def join(self, address: Address, person: str = "") -> None:
        """It does so from now on; `person` wrote there, and an answer is for them. Without a person: it wrote itself."""
        if not address.thread:
            return
        place = address.chat, address.thread
        before = self._people.get(place) or self._guests.get(place, "")
        if place in self._people or not person or person in self._members:
            self._guests.pop(place, None)
            self._remember(self._people, place, person or before)
        else:
            self._remember(self._guests, place, person)

    def last_author(self, address: Address) -> str:
        """Who wrote there last; "" if nobody is known."""
        place = address.chat, address.thread
        return self._people.get(place) or self._guests.get(place, "")

    def latest(self, most: int, chats: Iterable[str]) -> list[ThreadKey]:
        """(chat, thread), the latest first, in these chats; those that only strangers know come last."""
        among = set(chats)
        places = [*reversed(self._people), *reversed(self._guests)]
        return [place for place in places if place[0] in among][:most]

    def _remember(self, kept: OrderedDict[ThreadKey, str], place: ThreadKey, person: str) -> None:
        kept[place] = person
        kept.move_to_end(place)
        if len(kept) > self._most:
            kept.popitem(last=False)


SIGN = re.compile(r"<([^<>\n]+)>")
BANG = re.compile(r"!([A-Za-z][\w-]*)(?=\s|$)")
SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)")


def strip_mention(text: str, bot: str) -> str:
    """The text without what addresses the bot."""
    return re.sub(
        rf"(?<![ \t])[ \t]*<@{re.escape(bot)}(?:\|[^<>]*)?>[:,]?", "", text
    ).strip()  # spaces are looked at once


def has_mention(text: str, bot: str) -> bool:
    """The bot is addressed by name."""
    return re.search(rf"<@{re.escape(bot)}(?:\|[^<>]*)?>", text) is not None


def to_plain(text: str) -> str:
    """Mentions as @names, links as markdown, no escapes."""
    plain = SIGN.sub(lambda match: _replace_sign(match[1]), text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def parse_bang(text: str) -> str:
    """Slack keeps words that begin with "/" to itself: "!status" is "/status"."""
    return "/" + text[1:] if BANG.match(text) else text


def shared_text(message: Json) -> str:
    """The words of somebody else's messages that were passed on with this one."""
    shared = [
        row
        for row in get_objects(message, "attachments")
        if row.get("is_share") or row.get("is_msg_unfurl")
    ]
    return "\n\n".join(
        to_plain(words)
        for row in shared
        if (words := find_text(row, "text") or find_text(row, "fallback"))
    )


def _replace_sign(inside: str) -> str:
    target, _, label = inside.partition("|")
    match target[:1]:
        case "@":
            return "@" + (label.removeprefix("@") or target[1:])
        case "#":
            return "#" + (label or target[1:])
        case "!":
            return label or "@" + target[1:].partition("^")[0]
        case _:
            return _link(target, label)


def _link(target: str, label: str) -> str:
    bare = SCHEME.sub("", target)
    if not label or label in (target, bare):
        return bare if target.startswith(("mailto:", "tel:")) else target
    return f"[{label}]({target})"


WRITTEN = ("", "file_share", "thread_broadcast", "me_message")
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
Joined = Callable[[str, str], bool]
"""(chat, thread): does the assistant take part in this thread?"""


@dataclass(frozen=True, slots=True)
class EventParser:
    """Reads for one account. `bot`: our member id; `commands`: names that are slash commands of their own."""

    channel: str
    bot: str
    use_threads: bool
    is_joined: Joined
    commands: frozenset[str] = frozenset()

    def parse_event(self, event: Json) -> InboundMessage | Reaction | None:
        """A message or a reaction; None for what is nobody's business here. Raises Unreadable."""
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
        """A button under a message. Raises Unreadable."""
        message = get_object(payload, "message")
        chat = find_text(get_object(payload, "channel"), "id") or get_text(
            get_object(payload, "container"), "channel_id"
        )
        message_id = find_text(message, "ts") or get_text(
            get_object(payload, "container"), "message_ts"
        )
        action = next(iter(get_objects(payload, "actions")), {})
        data = find_text(action, "value") or find_text(
            get_object(action, "selected_option"), "value"
        )
        address = Address(
            self.channel,
            chat,
            _thread_of(message) or _thread_of(get_object(payload, "container"), message_id),
        )
        return ButtonPress(address, _sender_of(get_object(payload, "user")), data, message_id)

    def parse_slash(self, payload: Json) -> InboundMessage:
        """A slash command: "/aidaemon status" is "/status", and so is "/status" where that is registered. Raises Unreadable."""
        name, words = (
            get_text(payload, "command").removeprefix("/"),
            find_text(payload, "text").strip(),
        )
        own = name in self.commands
        command = f"/{name} {words}".strip() if own else "/" + (words.lstrip("/!") or "help")
        sender = Sender(get_text(payload, "user_id"), find_text(payload, "user_name"))
        chat = get_text(payload, "channel_id")
        return self._command_message(
            Address(self.channel, chat), sender, to_plain(command), payload
        )

    def parse_shortcut(self, payload: Json) -> InboundMessage:
        """An entry of the app's in a message's menu, about the conversation in which it stands. Raises Unreadable."""
        chat, message = (
            get_text(get_object(payload, "channel"), "id"),
            get_object(payload, "message"),
        )
        opened = find_text(message, "ts") if self.use_threads and not _is_direct(chat) else ""
        address = Address(self.channel, chat, _thread_of(message) or opened)
        return self._command_message(
            address,
            _sender_of(get_object(payload, "user")),
            "/" + get_text(payload, "callback_id").lstrip("/"),
            payload,
        )

    def _command_message(
        self, address: Address, sender: Sender, words: str, payload: Json
    ) -> InboundMessage:
        told = (
            find_text(payload, "trigger_id")
            or find_text(payload, "action_ts")
            or get_text(payload, "envelope_id")
        )
        key = blake2b(
            told.encode(errors="replace"), digest_size=12
        ).hexdigest()  # it opens things; a journal is for ever
        return InboundMessage(
            address,
            sender,
            f"{address.chat}/command/{key}",
            words,
            "",
            private=_is_direct(address.chat),
        )

    def _parse_message(self, event: Json) -> InboundMessage | None:
        user = find_text(event, "user")
        if find_text(event, "subtype") not in WRITTEN or event.get("bot_id") or user == self.bot:
            return None
        chat, ts, sender = (
            get_text(event, "channel"),
            get_text(event, "ts"),
            Sender(get_text(event, "user"), _display_name(event)),
        )
        raw, direct = _raw_text(event), _is_direct(chat, find_text(event, "channel_type"))
        asked = event.get("type") == "app_mention" or has_mention(raw, self.bot)
        thread = _thread_of(event)
        addressed = direct or asked or bool(thread and self.is_joined(chat, thread))
        if asked and not thread and self.use_threads and not direct:
            thread = ts
        words, others = parse_bang(to_plain(strip_mention(raw, self.bot))), shared_text(event)
        return InboundMessage(
            address=Address(self.channel, chat, thread),
            sender=sender,
            external_id=f"{chat}/{ts}",
            text=words or others,
            message_id=ts,
            attachments=tuple(
                _attachment_of(file)
                for file in get_objects(event, "files")
                if find_text(file, "mode") != "tombstone"
            ),
            private=direct,
            addressed=addressed,
            forwarded=bool(others and not words),
            quoted=others if words else "",
            sent_at=_timestamp(ts),
        )

    def _parse_edit(self, event: Json) -> InboundMessage | None:
        message, before = get_object(event, "message"), get_object(event, "previous_message")
        edited = find_text(get_object(message, "edited"), "ts")
        if not edited or (before and _raw_text(message) == _raw_text(before)):
            return None  # a preview of a link was added, or an answer in the thread
        chat = get_text(event, "channel")
        read = self._parse_message(
            {
                **message,
                "type": "message",
                "channel": chat,
                "channel_type": find_text(event, "channel_type"),
            }
        )
        if read is None:
            return None
        return InboundMessage(
            address=read.address,
            sender=read.sender,
            external_id=f"{read.external_id}/{edited}",
            text=read.text,
            message_id=read.message_id,
            attachments=read.attachments,
            private=read.private,
            addressed=read.addressed,
            forwarded=read.forwarded,
            quoted=read.quoted,
            edits=read.external_id,
            sent_at=_timestamp(edited),
        )

    def _parse_reaction(self, event: Json) -> Reaction | None:
        item, author, user = (
            get_object(event, "item"),
            find_text(event, "item_user"),
            get_text(event, "user"),
        )
        if (
            find_text(item, "type") not in ("", "message")
            or author not in ("", self.bot)
            or user == self.bot
        ):
            return None
        name = get_text(event, "reaction")
        emoji = (
            EMOJI.get(name.partition("::")[0], f":{name}:")
            if event.get("type") == "reaction_added"
            else ""
        )
        return Reaction(
            Address(self.channel, get_text(item, "channel")),
            Sender(user),
            get_text(item, "ts"),
            emoji,
        )


def event_ts(event: Json) -> str:
    """When it happened, as Slack counts; "" where that cannot be told."""
    return find_text(event, "ts") or find_text(event, "event_ts")


def _raw_text(message: Json) -> str:
    value = message.get("text")
    if value is not None and not isinstance(value, str):
        raise UnreadablePayload(f"text is {type(value).__name__}, expected a text")
    return value or ""


def _thread_of(message: Json, own: str = "") -> str:
    """The thread in which a message stands; the first message of a thread stands outside."""
    thread = find_text(message, "thread_ts")
    return "" if thread == (own or find_text(message, "ts")) else thread


def _is_direct(chat: str, kind: str = "") -> bool:
    return kind in ("im", "app_home") or chat.startswith("D")


def _timestamp(ts: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError) as no:
        raise UnreadablePayload("ts is no time") from no


def _display_name(event: Json) -> str:
    profile = get_object(event, "user_profile")
    return (
        find_text(profile, "display_name")
        or find_text(profile, "real_name")
        or find_text(event, "username")
    )


def _sender_of(user: Json) -> Sender:
    return Sender(get_text(user, "id"), find_text(user, "username") or find_text(user, "name"))


def _attachment_of(file: Json) -> Attachment:
    mime = find_text(file, "mimetype") or "application/octet-stream"
    kinds = {"image": "photo", "audio": "audio", "video": "video"}
    kind = (
        "voice"
        if find_text(file, "subtype") == "slack_audio"
        else kinds.get(mime.partition("/")[0], "document")
    )
    ref = (
        find_text(file, "url_private_download")
        or find_text(file, "url_private")
        or get_text(file, "id")
    )
    return Attachment(
        kind,
        find_text(file, "name") or find_text(file, "title") or "file",
        mime,
        get_int(file, "size"),
        ref,
    )
