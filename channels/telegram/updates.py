"""What Telegram sends, as far as the house reads it. Fields it does not know are passed over.

What a message says, in words, also where it is none.

The files of a message.

What Telegram sent, as the house reads it. Whatever it is, it is read, passed over or set aside; nothing here raises.

Albums: what somebody sends as one comes as a message for each picture, and is one message of theirs (A14).
"""

import hashlib
import json
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
from channels.telegram.api import UpdateType


class _Wire(BaseModel):
    """Something that came from Telegram."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class _User(_Wire):
    """An account; bots are users too."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str | None = None
    username: str | None = None


class _Chat(_Wire):
    """type: private, group, supergroup, channel."""

    id: int
    type: str = "private"


class _Entity(_Wire):
    """A part of a text that means something."""

    type: str
    user: _User | None = None


class _File(_Wire):
    """A document, a picture, a voice message, a sticker ..."""

    file_id: str
    file_name: str | None = None
    mime_type: str | None = None
    file_size: int | None = None
    emoji: str | None = None
    is_animated: bool | None = None
    is_video: bool | None = None


class _Location(_Wire):
    """Where somebody is."""

    latitude: float
    longitude: float


class _Venue(_Wire):
    """A place that has a name."""

    title: str = ""
    address: str = ""


class _Contact(_Wire):
    """Somebody's card."""

    phone_number: str = ""
    first_name: str = ""
    last_name: str | None = None


class _Poll(_Wire):
    """A question with answers to choose from."""

    question: str = ""


class _Dice(_Wire):
    """A throw."""

    emoji: str = ""
    value: int = 0


class _Quote(_Wire):
    """The part of a message that is answered to."""

    text: str = ""


class _RepliedTo(_Wire):
    """The message that is answered to. `forum_topic_created`: it only opens the topic."""

    message_id: int = 0
    sender: _User | None = Field(None, alias="from")
    text: str | None = None
    caption: str | None = None
    forum_topic_created: object | None = None
    sender_chat: object | None = None
    forward_origin: object | None = None
    forward_date: object | None = None
    via_bot: object | None = None


class _Message(_Wire):
    """A message."""

    message_id: int
    chat: _Chat
    date: int = 0
    edit_date: int | None = None
    sender: _User | None = Field(None, alias="from")
    sender_chat: object | None = None
    message_thread_id: int | None = None
    is_topic_message: bool | None = None
    forward_origin: object | None = None
    forward_date: object | None = None
    via_bot: object | None = None
    reply_to_message: _RepliedTo | None = None
    quote: _Quote | None = None
    text: str | None = None
    caption: str | None = None
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
    venue: _Venue | None = None
    contact: _Contact | None = None
    poll: _Poll | None = None
    dice: _Dice | None = None


class _ButtonMessage(_Wire):
    """The message under which a button was pressed; of old ones only this is left."""

    message_id: int
    chat: _Chat
    message_thread_id: int | None = None
    is_topic_message: bool | None = None


class _CallbackQuery(_Wire):
    """A button was pressed."""

    id: str
    sender: _User = Field(alias="from")
    message: _ButtonMessage | None = None
    data: str | None = None


class _ReactionEmoji(_Wire):
    """One reaction; one's own pictures have no `emoji`."""

    emoji: str | None = None


class _MessageReaction(_Wire):
    """Somebody's reactions to a message, before and after."""

    chat: _Chat
    message_id: int
    user: _User | None = None
    old_reaction: tuple[_ReactionEmoji, ...] = ()
    new_reaction: tuple[_ReactionEmoji, ...] = ()


class _Update(_Wire):
    """One thing that happened."""

    update_id: int
    message: _Message | None = None
    edited_message: _Message | None = None
    callback_query: _CallbackQuery | None = None
    message_reaction: _MessageReaction | None = None


def message_text(message: _Message) -> str:
    """Its text, or its caption, or what stands for it; "" for what is not said by anybody, such as a new title."""
    return message.text or message.caption or _describe_shared(message)


def is_passed_on(message: _Message) -> bool:
    """What stands for it was written by others: a card, a place, a poll that the sender only passes on."""
    return not (message.text or message.caption) and bool(
        message.contact or message.venue or message.poll
    )


def _describe_shared(message: _Message) -> str:
    if message.sticker:
        return message.sticker.emoji or ""
    if message.venue:
        return f"[place: {message.venue.title}, {message.venue.address}{_coordinates(message)}]"
    if message.location:
        return f"[location: {_coordinates(message).strip()}]"
    if message.contact:
        name = f"{message.contact.first_name} {message.contact.last_name or ''}".strip()
        return f"[contact: {name}, {message.contact.phone_number}]"
    if message.poll:
        return f"[poll: {message.poll.question}]"
    return f"{message.dice.emoji} {message.dice.value}" if message.dice else ""


def _coordinates(message: _Message) -> str:
    return f" {message.location.latitude}, {message.location.longitude}" if message.location else ""


WEBP, WEBM, LOTTIE = (
    ("photo", "image/webp"),
    ("video", "video/webm"),
    ("document", "application/x-tgsticker"),
)


def list_attachments(message: _Message) -> tuple[Attachment, ...]:
    """What can be fetched of it; names are made up where Telegram has none."""
    return tuple(
        _attachment(file, kind, mime, message.message_id)
        for file, kind, mime in _list_files(message)
    )


def _list_files(message: _Message) -> Iterator[tuple[_File, str, str]]:
    if message.photo:
        yield max(message.photo, key=lambda size: size.file_size or 0), "photo", "image/jpeg"
    if message.document and not message.animation:  # an animation comes as both
        yield message.document, "document", "application/octet-stream"
    if message.sticker:
        yield message.sticker, *_sticker(message.sticker)
    for file, kind, mime in (
        (message.voice, "voice", "audio/ogg"),
        (message.audio, "audio", "audio/mpeg"),
        (message.video, "video", "video/mp4"),
        (message.video_note, "video", "video/mp4"),
        (message.animation, "video", "video/mp4"),
    ):
        if file:
            yield file, kind, mime


def _sticker(sticker: _File) -> tuple[str, str]:
    if sticker.is_animated:
        return LOTTIE
    return WEBM if sticker.is_video else WEBP


def _attachment(file: _File, kind: str, mime: str, number: int) -> Attachment:
    mime = file.mime_type or mime
    name = file.file_name or f"{kind}_{number}{_ending(mime)}"
    return Attachment(kind, name, mime, file.file_size or 0, file.file_id)


def _ending(mime: str) -> str:
    return ".ogg" if mime == "audio/ogg" else mimetypes.guess_extension(mime) or ".bin"


UPDATE_KINDS = ("message", "edited_message", "callback_query", "message_reaction")
KNOWN_KINDS = frozenset(UpdateType)
COMMAND = re.compile(r"(/[A-Za-z0-9_]+)@([A-Za-z0-9_]+)")
CHANNEL_FORWARDER = 777000  # writes into groups what was posted in their channel
MAX_RAW = 20_000


@dataclass(frozen=True, slots=True)
class TelegramIdentity:
    """Who we are there. `channel`: what the house calls this bot."""

    id: int
    username: str
    channel: str


@dataclass(frozen=True, slots=True)
class CallbackPress:
    """A button was pressed, and whoever did it waits for an answer to `query`; press is None where it cannot be ours."""

    query: str
    press: ButtonPress | None


def update_id_of(raw: object) -> int | None:
    """An update's number, by which it is acknowledged; None where it has none."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def parse_update(raw: object, me: TelegramIdentity) -> Arrival | CallbackPress | None:
    """One update; None where there is nothing in it for the house."""
    if not isinstance(raw, dict):
        return _unreadable(raw, me, "it is no object")
    if not any(raw.get(kind) is not None for kind in UPDATE_KINDS):
        return (
            None
            if KNOWN_KINDS & raw.keys() - set(UPDATE_KINDS)
            else _unreadable(raw, me, "nobody knows what it is")
        )
    try:
        update = _Update.model_validate(raw)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return _unreadable(raw, me, f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}")
    if update.callback_query:
        return _parse_press(update.callback_query, me)
    if update.message_reaction:
        return _parse_reaction(update.message_reaction, me)
    message = update.message or update.edited_message
    return _parse_message(message, me, edited=update.message is None) if message else None


def _parse_message(
    message: _Message, me: TelegramIdentity, *, edited: bool
) -> InboundMessage | None:
    sender, files = message.sender, list_attachments(message)
    written = message_text(message)
    if edited and not (message.text or message.caption or files):
        return None  # a shared place that moves, votes in a poll: nobody has said anything anew
    if sender is None or not _is_person(message, sender) or not (written or files):
        return None
    text, named = strip_mention(written, me.username)
    answered = _replied_message(message)
    private = message.chat.type == "private"
    said = InboundMessage(
        _address_of(message, me),
        _sender_of(sender),
        f"{message.chat.id}/{message.message_id}",
        text,
        str(message.message_id),
        files,
        private,
        private or named or _is_directed_at(message, answered, me),
        bool(message.forward_origin or message.forward_date or message.via_bot)
        or is_passed_on(message),
        _quoted_text(message, answered, me),
        sent_at=_timestamp(message.date),
        quotes_own=_quotes_own(sender, answered),
    )
    return _as_edit(said, message) if edited else said


def _as_edit(said: InboundMessage, message: _Message) -> InboundMessage:
    # dates are whole seconds: of two edits within one the second would be taken for the first, come again
    unlike = f"{zlib.crc32(said.text.encode()):08x}"
    name = f"{said.external_id}/{message.edit_date or 0}/{unlike}"
    return replace(
        said,
        external_id=name,
        edits=said.external_id,
        sent_at=_timestamp(message.edit_date or message.date),
    )


def _is_person(message: _Message, sender: _User) -> bool:
    return not (
        sender.is_bot
        or sender.id == CHANNEL_FORWARDER
        or message.sender_chat
        or message.chat.type == "channel"
    )


def strip_mention(text: str, username: str) -> tuple[str, bool]:
    """The text without our name, and whether it names us: by a mention, or as a command that names no other bot."""
    command = COMMAND.match(text)
    if command:
        ours = command.group(2).lower() == username.lower()
        return (command.group(1) + text[command.end() :] if ours else text), ours
    mention = rf"(?<![\w@])@{re.escape(username)}\b"
    if not username or not re.search(mention, text, re.IGNORECASE):
        return text, text.startswith("/")
    rest = re.sub(rf"^\s*{mention}[ \t]*[,:]?\s*", "", text, flags=re.IGNORECASE)
    rest = re.sub(rf"^{mention}[ \t]*", "", rest, flags=re.IGNORECASE | re.MULTILINE)
    rest = re.sub(
        rf"(?:,|(?<![ \t]))[ \t]*{mention}(?=\s*([.!?]|$))", "", rest, flags=re.IGNORECASE
    )
    return re.sub(
        rf"(?<![ \t])[ \t]*{mention}", "", rest, flags=re.IGNORECASE
    ).strip(), True  # spaces are looked at once


def _is_directed_at(message: _Message, answered: _RepliedTo | None, me: TelegramIdentity) -> bool:
    entities = (message.entities or ()) + (message.caption_entities or ())
    return _is_from(answered, me) or any(
        entity.user is not None and entity.user.id == me.id for entity in entities
    )


def _replied_message(message: _Message) -> _RepliedTo | None:
    """What it answers to. In a topic all that answers to nothing else is an answer to the topic's opening."""
    answered = message.reply_to_message
    return answered if answered is not None and answered.forum_topic_created is None else None


def _is_from(answered: _RepliedTo | None, me: TelegramIdentity) -> bool:
    return answered is not None and answered.sender is not None and answered.sender.id == me.id


def _quoted_text(message: _Message, answered: _RepliedTo | None, me: TelegramIdentity) -> str:
    if _is_from(answered, me):
        return ""
    if message.quote and message.quote.text:
        return message.quote.text
    return (answered.text or answered.caption or "") if answered else ""


def _quotes_own(sender: _User, answered: _RepliedTo | None) -> bool:
    """Nothing that they passed on, or that another bot wrote in their name."""
    if answered is None or answered.sender is None or answered.sender.id != sender.id:
        return False
    return not (
        answered.forward_origin or answered.forward_date or answered.via_bot or answered.sender_chat
    )


def _parse_press(query: _CallbackQuery, me: TelegramIdentity) -> CallbackPress:
    if query.message is None or query.data is None or query.sender.is_bot:
        return CallbackPress(query.id, None)
    press = ButtonPress(
        _address_of(query.message, me),
        _sender_of(query.sender),
        query.data,
        str(query.message.message_id),
    )
    return CallbackPress(query.id, press)


def _parse_reaction(reacted: _MessageReaction, me: TelegramIdentity) -> Reaction | None:
    if reacted.user is None or reacted.user.is_bot:
        return None
    before = [one.emoji for one in reacted.old_reaction]
    new = [one.emoji for one in reacted.new_reaction if one.emoji]
    if not new and reacted.new_reaction:
        return None  # a picture of somebody's own says nothing to us
    latest = next((emoji for emoji in reversed(new) if emoji not in before), new[-1] if new else "")
    return Reaction(
        Address(me.channel, str(reacted.chat.id)),
        _sender_of(reacted.user),
        str(reacted.message_id),
        latest,
    )


def _address_of(message: _Message | _ButtonMessage, me: TelegramIdentity) -> Address:
    thread = message.message_thread_id if message.is_topic_message else None
    return Address(me.channel, str(message.chat.id), str(thread) if thread else "")


def _sender_of(user: _User) -> Sender:
    return Sender(
        str(user.id), f"{user.first_name} {user.last_name or ''}".strip() or user.username or ""
    )


def _timestamp(seconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None


def _unreadable(raw: object, me: TelegramIdentity, why: str) -> UnreadableUpdate:
    told = json.dumps(raw)
    number = update_id_of(raw)
    name = f"?{hashlib.sha256(told.encode()).hexdigest()[:16]}" if number is None else str(number)
    return UnreadableUpdate(me.channel, f"update/{name}", told[:MAX_RAW], why)


def album_of(raw: object) -> str:
    """The id of the album to which a new message belongs; "" for none. Edits of its messages are not in it."""
    message = raw.get("message") if isinstance(raw, dict) else None
    album = message.get("media_group_id") if isinstance(message, dict) else None
    return album if isinstance(album, str) else ""


def without_last_album(updates: Sequence[object]) -> list[object]:
    """What came before the album with which they end; all of them, where they end with none, or are nothing else."""
    album = album_of(updates[-1]) if updates else ""
    begins = next(
        (place for place, raw in enumerate(updates) if album and album_of(raw) == album), 0
    )
    return list(updates[:begins] or updates)


def merge_albums(
    heard: Iterable[tuple[str, Arrival | CallbackPress]],
) -> list[Arrival | CallbackPress]:
    """What was heard, each with the id of its album ("" for none): an album as one message, where its first picture stood."""
    places: dict[tuple[Address, str, str], int] = {}
    albums: dict[int, dict[str, InboundMessage]] = {}
    out: list[Arrival | CallbackPress] = []
    for album, one in heard:
        if not isinstance(one, InboundMessage) or not album:
            out.append(one)
            continue
        place = places.setdefault((one.address, one.sender.id, album), len(out))
        if place == len(out):
            out.append(one)
        albums.setdefault(place, {}).setdefault(one.external_id, one)
    for place, pictures in albums.items():
        out[place] = _merge_photos(list(pictures.values()))
    return out


def _merge_photos(pictures: Sequence[InboundMessage]) -> InboundMessage:
    captions = dict.fromkeys(picture.text for picture in pictures if picture.text)
    return replace(
        pictures[0],
        text="\n".join(captions),
        attachments=tuple(file for picture in pictures for file in picture.attachments),
        addressed=any(picture.addressed for picture in pictures),
        forwarded=any(picture.forwarded for picture in pictures),
        quoted=next((picture.quoted for picture in pictures if picture.quoted), ""),
        quotes_own=all(picture.quotes_own for picture in pictures if picture.quoted),
    )
