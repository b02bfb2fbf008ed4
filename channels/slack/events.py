"""Slack's events and interactions as the channel's messages (A13, A14)."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b

from channels.json_access import (
    Json,
    UnreadablePayload,
    find_object,
    find_objects,
    find_text,
    get_text,
)
from channels.message import (
    MEDIA_KINDS,
    Address,
    Attachment,
    ButtonPress,
    InboundMessage,
    Reaction,
    Sender,
)

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
ENTITY = re.compile(r"<([^<>\n]+)>")
BANG_COMMAND = re.compile(r"!([A-Za-z][\w-]*)(?=\s|$)")
SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)")


@dataclass(frozen=True, slots=True)
class EventParser:
    """For one account. `bot`: our member id; `is_joined(chat, thread)`: the assistant takes part in
    this thread; `commands`: names that are slash commands of their own.
    """

    channel: str
    bot: str
    use_threads: bool
    is_joined: Callable[[str, str], bool]
    commands: frozenset[str] = frozenset()

    def parse_event(self, event: Json) -> InboundMessage | Reaction | None:
        """A message or a reaction; None for what is of no concern. Raises UnreadablePayload."""
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
        chat = find_text(find_object(payload, "channel"), "id") or get_text(container, "channel_id")
        message_id = find_text(message, "ts") or get_text(container, "message_ts")
        action = next(iter(find_objects(payload, "actions")), {})
        data = find_text(action, "value") or find_text(
            find_object(action, "selected_option"), "value"
        )
        thread = _thread_of(message) or _thread_of(container, message_id)
        return ButtonPress(
            Address(self.channel, chat, thread), _sender_of(payload), data, message_id
        )

    def parse_slash(self, payload: Json) -> InboundMessage:
        """ "/aidaemon status" is "/status", and so is "/status" where that is registered. Raises
        UnreadablePayload.
        """
        name, words = (
            get_text(payload, "command").removeprefix("/"),
            find_text(payload, "text").strip(),
        )
        is_own = name in self.commands
        command = f"/{name} {words}".strip() if is_own else "/" + (words.lstrip("/!") or "help")
        sender = Sender(get_text(payload, "user_id"), find_text(payload, "user_name"))
        address = Address(self.channel, get_text(payload, "channel_id"))
        return self._command(address, sender, to_plain(command), payload)

    def parse_shortcut(self, payload: Json) -> InboundMessage:
        """An entry of the app in a message's menu, about the conversation of that message. Raises
        UnreadablePayload.
        """
        chat, message = (
            get_text(find_object(payload, "channel"), "id"),
            find_object(payload, "message"),
        )
        opened = find_text(message, "ts") if self.use_threads and not _is_direct(chat) else ""
        address = Address(self.channel, chat, _thread_of(message) or opened)
        command = "/" + get_text(payload, "callback_id").lstrip("/")
        return self._command(address, _sender_of(payload), command, payload)

    def _command(
        self, address: Address, sender: Sender, text: str, payload: Json
    ) -> InboundMessage:
        trigger = find_text(payload, "trigger_id") or find_text(payload, "action_ts")
        trigger = trigger or get_text(payload, "envelope_id")
        # a hash: with the trigger anybody could act in the sender's name, and the journal keeps it
        key = blake2b(trigger.encode(errors="replace"), digest_size=12).hexdigest()
        external_id = f"{address.chat}/command/{key}"
        return InboundMessage(
            address, sender, external_id, text, "", private=_is_direct(address.chat)
        )

    def _parse_message(self, event: Json) -> InboundMessage | None:
        user = find_text(event, "user")
        if (
            find_text(event, "subtype") not in PERSONAL_SUBTYPES
            or event.get("bot_id")
            or user == self.bot
        ):
            return None
        chat, ts, user = get_text(event, "channel"), get_text(event, "ts"), get_text(event, "user")
        raw, is_direct = _raw_text(event), _is_direct(chat, find_text(event, "channel_type"))
        is_asked = event.get("type") == "app_mention" or has_mention(raw, self.bot)
        thread = _thread_of(event)
        is_addressed = is_direct or is_asked or bool(thread and self.is_joined(chat, thread))
        if is_asked and not thread and self.use_threads and not is_direct:
            thread = ts
        text = to_plain(strip_mention(raw, self.bot))
        if BANG_COMMAND.match(text):  # Slack keeps words that begin with "/" to itself
            text = "/" + text[1:]
        shared, profile = _shared_text(event), find_object(event, "user_profile")
        name = find_text(profile, "display_name") or find_text(profile, "real_name")
        files = [
            file for file in find_objects(event, "files") if find_text(file, "mode") != "tombstone"
        ]
        return InboundMessage(
            address=Address(self.channel, chat, thread),
            sender=Sender(user, name or find_text(event, "username")),
            external_id=f"{chat}/{ts}",
            text=text or shared,
            message_id=ts,
            attachments=tuple(map(_attachment_of, files)),
            private=is_direct,
            addressed=is_addressed,
            forwarded=bool(shared and not text),
            quoted=shared if text else "",
            sent_at=_timestamp(ts),
        )

    def _parse_edit(self, event: Json) -> InboundMessage | None:
        message, before = find_object(event, "message"), find_object(event, "previous_message")
        edited = find_text(find_object(message, "edited"), "ts")
        if not edited or (before and _raw_text(message) == _raw_text(before)):
            return None  # a preview of a link was added, or an answer in the thread
        context = {
            "type": "message",
            "channel": event.get("channel"),
            "channel_type": event.get("channel_type"),
        }
        read = self._parse_message({**message, **context})
        if read is None:
            return None
        external_id = f"{read.external_id}/{edited}"
        return replace(
            read, external_id=external_id, edits=read.external_id, sent_at=_timestamp(edited)
        )

    def _parse_reaction(self, event: Json) -> Reaction | None:
        item, user = find_object(event, "item"), get_text(event, "user")
        is_ours = find_text(event, "item_user") in ("", self.bot)
        if find_text(item, "type") not in ("", "message") or not is_ours or user == self.bot:
            return None
        name = get_text(event, "reaction")
        emoji = EMOJI.get(name.partition("::")[0], f":{name}:")
        address = Address(self.channel, get_text(item, "channel"))
        is_added = event.get("type") == "reaction_added"
        return Reaction(address, Sender(user), get_text(item, "ts"), emoji if is_added else "")


def strip_mention(text: str, bot: str) -> str:
    """The text without what addresses the bot."""
    # the look-behind: each run of spaces is looked at once
    return re.sub(rf"(?<![ \t])[ \t]*<@{re.escape(bot)}(?:\|[^<>]*)?>[:,]?", "", text).strip()


def has_mention(text: str, bot: str) -> bool:
    """The bot is addressed by name."""
    return re.search(rf"<@{re.escape(bot)}(?:\|[^<>]*)?>", text) is not None


def to_plain(text: str) -> str:
    """Mentions as @names, links as markdown, no escapes."""
    plain = ENTITY.sub(_replace_entity, text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _replace_entity(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    match target[:1]:
        case "@":
            return "@" + (label.removeprefix("@") or target[1:])
        case "#":
            return "#" + (label or target[1:])
        case "!":
            return label or "@" + target[1:].partition("^")[0]
    bare = SCHEME.sub("", target)
    if not label or label in (target, bare):
        return bare if target.startswith(("mailto:", "tel:")) else target
    return f"[{label}]({target})"


def _shared_text(message: Json) -> str:
    """The words of other people's messages that were passed on with this one."""
    shared = [
        row
        for row in find_objects(message, "attachments")
        if row.get("is_share") or row.get("is_msg_unfurl")
    ]
    texts = [find_text(row, "text") or find_text(row, "fallback") for row in shared]
    return "\n\n".join(to_plain(text) for text in texts if text)


def _raw_text(message: Json) -> str:
    value = message.get("text")
    if value is not None and not isinstance(value, str):
        raise UnreadablePayload(f"text is {type(value).__name__}, expected a text")
    return value or ""


def _thread_of(message: Json, own: str = "") -> str:
    """The first message of a thread is outside of it."""
    thread = find_text(message, "thread_ts")
    return "" if thread == (own or find_text(message, "ts")) else thread


def _is_direct(chat: str, kind: str = "") -> bool:
    return kind in ("im", "app_home") or chat.startswith("D")


def _timestamp(ts: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(ts), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UnreadablePayload("ts is no time") from error


def _sender_of(payload: Json) -> Sender:
    user = find_object(payload, "user")
    return Sender(get_text(user, "id"), find_text(user, "username") or find_text(user, "name"))


def _attachment_of(file: Json) -> Attachment:
    mime, size = find_text(file, "mimetype") or "application/octet-stream", file.get("size")
    kind = MEDIA_KINDS.get(mime.partition("/")[0], "document")
    if find_text(file, "subtype") == "slack_audio":
        kind = "voice"
    ref = (
        find_text(file, "url_private_download")
        or find_text(file, "url_private")
        or get_text(file, "id")
    )
    name = find_text(file, "name") or find_text(file, "title") or "file"
    return Attachment(kind, name, mime, size if isinstance(size, int) else 0, ref)
