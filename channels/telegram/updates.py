"""Telegram's updates as the channel's messages. Each is parsed, ignored or set aside; nothing here
raises.
"""

import mimetypes
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    InboundMessage,
    Reaction,
    Sender,
    UnreadableUpdate,
)
from channels.transport import find_object, find_text

UPDATE_KINDS = ("message", "edited_message", "callback_query", "message_reaction")
IGNORED_KINDS = frozenset(
    (
        *("channel_post", "edited_channel_post", "inline_query", "chosen_inline_result", "poll"),
        *("shipping_query", "pre_checkout_query", "poll_answer", "my_chat_member", "chat_member"),
        *("chat_join_request", "message_reaction_count", "chat_boost", "removed_chat_boost"),
        *("business_connection", "business_message", "edited_business_message"),
        *("deleted_business_messages", "purchased_paid_media"),
    )
)
COMMAND = re.compile(r"(/[A-Za-z0-9_]+)@([A-Za-z0-9_]+)")
CHANNEL_FORWARDER = 777000  # writes into groups what was posted in their channel
FILE_KINDS = (
    ("sticker", "photo", "image/webp"),
    ("voice", "voice", "audio/ogg"),
    ("audio", "audio", "audio/mpeg"),
    ("video", "video", "video/mp4"),
    ("video_note", "video", "video/mp4"),
    ("animation", "video", "video/mp4"),
)


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class _User(_Wire):
    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None


class _Chat(_Wire):
    id: int
    type: str = "private"


class _Entity(_Wire):
    user: _User | None = None


class _File(_Wire):
    file_id: str
    file_name: str | None = None
    mime_type: str | None = None
    file_size: int | None = None
    emoji: str | None = None
    is_animated: bool | None = None
    is_video: bool | None = None


class _Location(_Wire):
    latitude: float
    longitude: float


class _Shared(_Wire):
    """A contact, venue, poll or dice."""

    phone_number: str = ""
    first_name: str = ""
    last_name: str | None = None
    title: str = ""
    address: str = ""
    question: str = ""
    emoji: str = ""
    value: int = 0


class _Quote(_Wire):
    text: str = ""


class _Content(_Wire):
    """What a message and the message that it replies to have in common."""

    message_id: int = 0
    sender: _User | None = Field(None, alias="from")
    sender_chat: object | None = None
    forward_origin: object | None = None
    forward_date: object | None = None
    via_bot: object | None = None
    text: str | None = None
    caption: str | None = None

    @property
    def is_by_others(self) -> bool:
        return bool(self.forward_origin or self.forward_date or self.via_bot)


class _RepliedTo(_Content):
    forum_topic_created: object | None = None


class _Place(_Wire):
    """Where a message is; all that is known of an old one with a button."""

    message_id: int
    chat: _Chat
    message_thread_id: int | None = None
    is_topic_message: bool | None = None


class _Message(_Content, _Place):
    date: int = 0
    edit_date: int | None = None
    reply_to_message: _RepliedTo | None = None
    quote: _Quote | None = None
    entities: tuple[_Entity, ...] | None = None
    caption_entities: tuple[_Entity, ...] | None = None
    document: _File | None = None
    photo: tuple[_File, ...] | None = None
    voice: _File | None = None
    audio: _File | None = None
    video: _File | None = None
    video_note: _File | None = None
    animation: _File | None = None
    sticker: _File | None = None
    location: _Location | None = None
    venue: _Shared | None = None
    contact: _Shared | None = None
    poll: _Shared | None = None
    dice: _Shared | None = None


class _CallbackQuery(_Wire):
    id: str
    sender: _User = Field(alias="from")
    message: _Place | None = None
    data: str | None = None


class _Emoji(_Wire):
    emoji: str | None = None


class _ReactionChange(_Wire):
    chat: _Chat
    message_id: int
    user: _User | None = None
    old_reaction: tuple[_Emoji, ...] = ()
    new_reaction: tuple[_Emoji, ...] = ()


class _Update(_Wire):
    message: _Message | None = None
    edited_message: _Message | None = None
    callback_query: _CallbackQuery | None = None
    message_reaction: _ReactionChange | None = None


@dataclass(frozen=True, slots=True)
class TelegramIdentity:
    """Who the bot is. `channel`: the name of the channel."""

    id: int
    username: str
    channel: str


@dataclass(frozen=True, slots=True)
class CallbackPress:
    """A button press that waits for an answer to `query`; press is None where it cannot be ours."""

    query: str
    press: ButtonPress | None


def update_id_of(raw: object) -> int | None:
    """An update's number, by which it is acknowledged; None where it has none."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def parse_update(raw: object, me: TelegramIdentity) -> Arrival | CallbackPress | None:
    """One update; None where it is of no concern."""
    if not isinstance(raw, dict):
        return _unreadable(raw, me, "it is not an object")
    if not any(raw.get(kind) is not None for kind in UPDATE_KINDS):
        return None if IGNORED_KINDS & raw.keys() else _unreadable(raw, me, "its kind is unknown")
    try:
        update = _Update.model_validate(raw)
    except ValidationError as error:
        return _unreadable(raw, me, error)
    if query := update.callback_query:
        if query.message is None or query.data is None or query.sender.is_bot:
            return CallbackPress(query.id, None)
        where, number = _address_of(query.message, me), str(query.message.message_id)
        return CallbackPress(
            query.id, ButtonPress(where, _sender_of(query.sender), query.data, number)
        )
    if update.message_reaction:
        return _parse_reaction(update.message_reaction, me)
    message = update.message or update.edited_message
    return _parse_message(message, me, edited=update.message is None) if message else None


def _unreadable(raw: object, me: TelegramIdentity, reason: object) -> UnreadableUpdate:
    return UnreadableUpdate.of(me.channel, "update", raw, reason, update_id_of(raw))


def _parse_message(
    message: _Message, me: TelegramIdentity, *, edited: bool
) -> InboundMessage | None:
    sender, files, written = message.sender, _attachments(message), message.text or message.caption
    if edited and not (written or files):
        return None  # a shared place that moves, votes in a poll: nothing new was said
    if sender is None or sender.is_bot or sender.id == CHANNEL_FORWARDER:
        return None
    if message.sender_chat or message.chat.type == "channel":
        return None
    if not (words := written or _describe_shared(message)) and not files:
        return None
    text, is_named = strip_mention(words, me.username)
    replied = message.reply_to_message
    if replied is not None and replied.forum_topic_created is not None:
        replied = None  # in a topic, a message that replies to nothing else replies to the topic's opening
    author = replied.sender.id if replied and replied.sender else None
    entities = (message.entities or ()) + (message.caption_entities or ())
    is_private, is_ours = message.chat.type == "private", author == me.id
    is_meant = (
        is_named or is_ours or any(entity.user and entity.user.id == me.id for entity in entities)
    )
    shared_by_others = not written and bool(message.contact or message.venue or message.poll)
    quoted = message.quote.text if message.quote else ""
    if replied and not quoted:
        quoted = replied.text or replied.caption or ""
    external_id = f"{message.chat.id}/{message.message_id}"
    edits, seconds = "", message.date
    if edited:
        # dates are whole seconds: the checksum tells two edits within one second apart
        edits, seconds = external_id, message.edit_date or message.date
        external_id += f"/{message.edit_date or 0}/{zlib.crc32(text.encode()):08x}"
    return InboundMessage(
        address=_address_of(message, me),
        sender=_sender_of(sender),
        external_id=external_id,
        text=text,
        message_id=str(message.message_id),
        attachments=files,
        private=is_private,
        addressed=is_private or is_meant,
        forwarded=message.is_by_others or shared_by_others,
        quoted="" if is_ours else quoted,
        edits=edits,
        sent_at=_timestamp(seconds),
        quotes_own=bool(
            replied and author == sender.id and not (replied.is_by_others or replied.sender_chat)
        ),
    )


def strip_mention(text: str, username: str) -> tuple[str, bool]:
    """The text without our name, and whether it names us: by a mention, or as a command that names
    no other bot.
    """
    if command := COMMAND.match(text):
        is_ours = command.group(2).lower() == username.lower()
        return (command.group(1) + text[command.end() :] if is_ours else text), is_ours
    mention = rf"(?<![\w@])@{re.escape(username)}\b"
    if not username or not re.search(mention, text, re.IGNORECASE):
        return text, text.startswith("/")
    rest = re.sub(rf"^\s*{mention}[ \t]*[,:]?\s*", "", text, flags=re.IGNORECASE)
    rest = re.sub(rf"^{mention}[ \t]*", "", rest, flags=re.IGNORECASE | re.MULTILINE)
    rest = re.sub(
        rf"(?:,|(?<![ \t]))[ \t]*{mention}(?=\s*([.!?]|$))", "", rest, flags=re.IGNORECASE
    )
    # the look-behind: each run of spaces is looked at once
    return re.sub(rf"(?<![ \t])[ \t]*{mention}", "", rest, flags=re.IGNORECASE).strip(), True


def _describe_shared(message: _Message) -> str:
    """Words for what is not text; "" for what nobody says, such as a new title."""
    place = message.location
    where = f" {place.latitude}, {place.longitude}" if place else ""
    if message.sticker:
        return message.sticker.emoji or ""
    if message.venue:
        return f"[place: {message.venue.title}, {message.venue.address}{where}]"
    if place:
        return f"[location: {where.strip()}]"
    if contact := message.contact:
        name = f"{contact.first_name} {contact.last_name or ''}".strip()
        return f"[contact: {name}, {contact.phone_number}]"
    if message.poll:
        return f"[poll: {message.poll.question}]"
    return f"{message.dice.emoji} {message.dice.value}" if message.dice else ""


def _attachments(message: _Message) -> tuple[Attachment, ...]:
    files: list[tuple[_File, str, str]] = []
    if message.photo:
        largest = max(message.photo, key=lambda size: size.file_size or 0)
        files.append((largest, "photo", "image/jpeg"))
    if message.document and not message.animation:  # an animation comes as both
        files.append((message.document, "document", "application/octet-stream"))
    for field, kind, mime in FILE_KINDS:
        if file := getattr(message, field):
            if file.is_animated:
                kind, mime = "document", "application/x-tgsticker"
            elif file.is_video:
                kind, mime = "video", "video/webm"
            files.append((file, kind, mime))
    return tuple(_attachment(file, kind, mime, message.message_id) for file, kind, mime in files)


def _attachment(file: _File, kind: str, mime: str, number: int) -> Attachment:
    """Where Telegram has no name, one is made up."""
    mime = file.mime_type or mime
    ending = ".ogg" if mime == "audio/ogg" else mimetypes.guess_extension(mime) or ".bin"
    return Attachment(
        kind, file.file_name or f"{kind}_{number}{ending}", mime, file.file_size or 0, file.file_id
    )


def _parse_reaction(change: _ReactionChange, me: TelegramIdentity) -> Reaction | None:
    if change.user is None or change.user.is_bot:
        return None
    before = [one.emoji for one in change.old_reaction]
    new = [one.emoji for one in change.new_reaction if one.emoji]
    if not new and change.new_reaction:
        return None  # a custom emoji, which has no character
    latest = next((one for one in reversed(new) if one not in before), new[-1] if new else "")
    address = Address(me.channel, str(change.chat.id))
    return Reaction(address, _sender_of(change.user), str(change.message_id), latest)


def _address_of(message: _Place, me: TelegramIdentity) -> Address:
    thread = message.message_thread_id if message.is_topic_message else None
    return Address(me.channel, str(message.chat.id), str(thread or ""))


def _sender_of(user: _User) -> Sender:
    name = f"{user.first_name} {user.last_name or ''}".strip()
    return Sender(str(user.id), name or user.username or "")


def _timestamp(seconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None


def album_of(raw: object) -> str:
    """The id of the album to which a new message belongs; "" for none. Edits belong to none."""
    return find_text(find_object(raw, "message"), "media_group_id")


def without_last_album(updates: Sequence[object]) -> list[object]:
    """The updates before the album with which they end; all where there are no others."""
    album = album_of(updates[-1])
    start = next((at for at, raw in enumerate(updates) if album and album_of(raw) == album), 0)
    return list(updates[:start] or updates)


def merge_albums(
    parsed: Iterable[tuple[str, Arrival | CallbackPress]],
) -> Iterator[Arrival | CallbackPress]:
    """Items with the id of their album ("" for none): each album becomes one message, in place of
    its first photo.
    """
    items: list[Arrival | CallbackPress] = []
    albums: dict[tuple[Address, str, str], tuple[int, dict[str, InboundMessage]]] = {}
    for album, item in parsed:
        if isinstance(item, InboundMessage) and album:
            key = (item.address, item.sender.id, album)
            if key in albums:
                albums[key][1].setdefault(item.external_id, item)
                continue
            albums[key] = len(items), {item.external_id: item}
        items.append(item)
    for place, photos in albums.values():
        items[place] = _merge_photos(list(photos.values()))
    return iter(items)


def _merge_photos(photos: Sequence[InboundMessage]) -> InboundMessage:
    return replace(
        photos[0],
        text="\n".join(dict.fromkeys(photo.text for photo in photos if photo.text)),
        attachments=tuple(file for photo in photos for file in photo.attachments),
        addressed=any(photo.addressed for photo in photos),
        forwarded=any(photo.forwarded for photo in photos),
        quoted=next((photo.quoted for photo in photos if photo.quoted), ""),
        quotes_own=all(photo.quotes_own for photo in photos if photo.quoted),
    )
