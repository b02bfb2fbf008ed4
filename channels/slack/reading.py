"""What Slack sent, as the house takes it. Nothing here talks to anybody (A13, A14)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from channels.message import Address, Attachment, Inbound, Press, Reaction, Sender
from channels.slack.shape import Json, Unreadable, maybe, rows, table, text, whole
from channels.slack.wording import as_command, mentions, passed_on, readable, without_mention

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
class Reader:
    """Reads for one account. `bot`: our member id; `commands`: names that are slash commands of their own."""

    channel: str
    bot: str
    use_threads: bool
    joined: Joined
    commands: frozenset[str] = frozenset()

    def event(self, event: Json) -> Inbound | Reaction | None:
        """A message or a reaction; None for what is nobody's business here. Raises Unreadable."""
        match event.get("type"):
            case "message" if event.get("subtype") == "message_changed":
                return self._edited(event)
            case "message" | "app_mention":
                return self._message(event)
            case "reaction_added" | "reaction_removed":
                return self._reaction(event)
            case _:
                return None

    def pressed(self, payload: Json) -> Press:
        """A button under a message. Raises Unreadable."""
        message = table(payload, "message")
        chat = maybe(table(payload, "channel"), "id") or text(table(payload, "container"), "channel_id")
        message_id = maybe(message, "ts") or text(table(payload, "container"), "message_ts")
        action = next(iter(rows(payload, "actions")), {})
        data = maybe(action, "value") or maybe(table(action, "selected_option"), "value")
        address = Address(self.channel, chat, _thread(message) or _thread(table(payload, "container"), message_id))
        return Press(address, _person(table(payload, "user")), data, message_id)

    def slash(self, payload: Json) -> Inbound:
        """A slash command: "/aidaemon status" is "/status", and so is "/status" where that is registered. Raises Unreadable."""
        name, words = text(payload, "command").removeprefix("/"), maybe(payload, "text").strip()
        own = name in self.commands
        command = f"/{name} {words}".strip() if own else "/" + (words.lstrip("/!") or "help")
        sender = Sender(text(payload, "user_id"), maybe(payload, "user_name"))
        chat = text(payload, "channel_id")
        return self._command(Address(self.channel, chat), sender, readable(command), payload)

    def shortcut(self, payload: Json) -> Inbound:
        """An entry of the app's in a message's menu, about the conversation in which it stands. Raises Unreadable."""
        chat, message = text(table(payload, "channel"), "id"), table(payload, "message")
        opened = maybe(message, "ts") if self.use_threads and not _is_direct(chat) else ""
        address = Address(self.channel, chat, _thread(message) or opened)
        return self._command(address, _person(table(payload, "user")), "/" + text(payload, "callback_id").lstrip("/"), payload)

    def _command(self, address: Address, sender: Sender, words: str, payload: Json) -> Inbound:
        told = maybe(payload, "trigger_id") or maybe(payload, "action_ts") or text(payload, "envelope_id")
        key = blake2b(told.encode(errors="replace"), digest_size=12).hexdigest()  # it opens things; a journal is for ever
        return Inbound(address, sender, f"{address.chat}/command/{key}", words, "", private=_is_direct(address.chat))

    def _message(self, event: Json) -> Inbound | None:
        user = maybe(event, "user")
        if maybe(event, "subtype") not in WRITTEN or event.get("bot_id") or user == self.bot:
            return None
        chat, ts, sender = text(event, "channel"), text(event, "ts"), Sender(text(event, "user"), _name(event))
        raw, direct = _raw(event), _is_direct(chat, maybe(event, "channel_type"))
        asked = event.get("type") == "app_mention" or mentions(raw, self.bot)
        thread = _thread(event)
        addressed = direct or asked or bool(thread and self.joined(chat, thread))
        if asked and not thread and self.use_threads and not direct:
            thread = ts
        words, others = as_command(readable(without_mention(raw, self.bot))), passed_on(event)
        return Inbound(
            address=Address(self.channel, chat, thread),
            sender=sender,
            external_id=f"{chat}/{ts}",
            text=words or others,
            message_id=ts,
            attachments=tuple(_attachment(file) for file in rows(event, "files") if maybe(file, "mode") != "tombstone"),
            private=direct,
            addressed=addressed,
            forwarded=bool(others and not words),
            quoted=others if words else "",
            sent_at=_at(ts),
        )

    def _edited(self, event: Json) -> Inbound | None:
        message, before = table(event, "message"), table(event, "previous_message")
        edited = maybe(table(message, "edited"), "ts")
        if not edited or (before and _raw(message) == _raw(before)):
            return None  # a preview of a link was added, or an answer in the thread
        chat = text(event, "channel")
        read = self._message({**message, "type": "message", "channel": chat, "channel_type": maybe(event, "channel_type")})
        if read is None:
            return None
        return Inbound(
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
            sent_at=_at(edited),
        )

    def _reaction(self, event: Json) -> Reaction | None:
        item, author, user = table(event, "item"), maybe(event, "item_user"), text(event, "user")
        if maybe(item, "type") not in ("", "message") or author not in ("", self.bot) or user == self.bot:
            return None
        name = text(event, "reaction")
        emoji = EMOJI.get(name.partition("::")[0], f":{name}:") if event.get("type") == "reaction_added" else ""
        return Reaction(Address(self.channel, text(item, "channel")), Sender(user), text(item, "ts"), emoji)


def ts_of(event: Json) -> str:
    """When it happened, as Slack counts; "" where that cannot be told."""
    return maybe(event, "ts") or maybe(event, "event_ts")


def _raw(message: Json) -> str:
    value = message.get("text")
    if value is not None and not isinstance(value, str):
        raise Unreadable(f"text is {type(value).__name__}, expected a text")
    return value or ""


def _thread(message: Json, own: str = "") -> str:
    """The thread in which a message stands; the first message of a thread stands outside."""
    thread = maybe(message, "thread_ts")
    return "" if thread == (own or maybe(message, "ts")) else thread


def _is_direct(chat: str, kind: str = "") -> bool:
    return kind in ("im", "app_home") or chat.startswith("D")


def _at(ts: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError) as no:
        raise Unreadable("ts is no time") from no


def _name(event: Json) -> str:
    profile = table(event, "user_profile")
    return maybe(profile, "display_name") or maybe(profile, "real_name") or maybe(event, "username")


def _person(user: Json) -> Sender:
    return Sender(text(user, "id"), maybe(user, "username") or maybe(user, "name"))


def _attachment(file: Json) -> Attachment:
    mime = maybe(file, "mimetype") or "application/octet-stream"
    kinds = {"image": "photo", "audio": "audio", "video": "video"}
    kind = "voice" if maybe(file, "subtype") == "slack_audio" else kinds.get(mime.partition("/")[0], "document")
    ref = maybe(file, "url_private_download") or maybe(file, "url_private") or text(file, "id")
    return Attachment(kind, maybe(file, "name") or maybe(file, "title") or "file", mime, whole(file, "size"), ref)
