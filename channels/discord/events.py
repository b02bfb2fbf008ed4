"""From what Discord's gateway and history send to what the house takes. Pure; what cannot be read becomes `Poison` (A13)."""

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b

from pydantic import BaseModel, Field, ValidationError

from channels.discord.directory import ChannelInfo
from channels.discord.payloads import Payload
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

MESSAGE_TYPES = (0, 19)
"""A message, and a reply; all other types are the platform's own notes."""
VOICE_FLAG = 1 << 13
FORWARD_TYPE = 1
PRIVATE_CHANNEL_CONTEXT = 2
"""A command was used in a chat of people, in which the bot is not: nothing can be told there but the reply."""
MAX_RAW = 20_000
SECRETS_IN_PAYLOAD = re.compile(r'("token": ?")[^"]*')
"""With it whoever reads it could answer in our name for a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class DiscordIdentity:
    """Who reads. `channel`: the channel's name in the house; `roles` stand for the bot alone; `only`: its only guild, or ""."""

    channel: str
    id: str
    roles: Set[str]
    only: str = ""


class _User(BaseModel):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False
    system: bool = False


class _Member(BaseModel):
    nick: str | None = None
    user: _User | None = None


class _Attachment(BaseModel):
    filename: str = "file"
    content_type: str | None = None
    size: int = 0
    url: str


class _Sticker(BaseModel):
    name: str = ""


class _Content(BaseModel):
    """What somebody said, there or elsewhere."""

    content: str = ""
    attachments: list[_Attachment] = Field(default_factory=list)
    sticker_items: list[_Sticker] = Field(default_factory=list)
    flags: int = 0


class _Snapshot(BaseModel):
    message: _Content


class _Reference(BaseModel):
    type: int = 0


class _Referenced(_Content):
    author: _User | None = None


class _Message(_Content):
    id: str
    channel_id: str
    guild_id: str | None = None
    author: _User
    member: _Member | None = None
    type: int = 0
    webhook_id: str | None = None
    timestamp: datetime | None = None
    edited_timestamp: datetime | None = None
    mentions: list[_User] = Field(default_factory=list)
    mention_roles: list[str] = Field(default_factory=list)
    message_reference: _Reference | None = None
    message_snapshots: list[_Snapshot] = Field(default_factory=list)
    referenced_message: _Referenced | None = None


class _Emoji(BaseModel):
    id: str | None = None
    name: str | None = None


class _ReactionEvent(BaseModel):
    user_id: str
    channel_id: str
    message_id: str
    guild_id: str | None = None
    member: _Member | None = None
    emoji: _Emoji
    message_author_id: str | None = None


class _Option(BaseModel):
    name: str
    value: str | int | float | bool = ""


class _InteractionData(BaseModel):
    custom_id: str = ""
    name: str = ""
    options: list[_Option] = Field(default_factory=list)


class _InteractionMessage(BaseModel):
    id: str = ""


class _InteractionEvent(BaseModel):
    id: str
    application_id: str
    token: str
    type: int
    channel_id: str = ""
    guild_id: str | None = None
    context: int | None = None
    member: _Member | None = None
    user: _User | None = None
    data: _InteractionData = Field(default_factory=_InteractionData)
    message: _InteractionMessage = Field(default_factory=_InteractionMessage)


@dataclass(frozen=True, slots=True)
class Interaction:
    """An interaction: it has to be answered by its own token, within 3 seconds."""

    id: str
    app: str
    token: str
    what: ButtonPress | InboundMessage


def parse_event(
    event: str, payload: Payload, place: ChannelInfo | None, me: DiscordIdentity
) -> Arrival | None:
    """What this event is to the house; None for what does not concern it."""
    try:
        if event.startswith("MESSAGE_REACTION"):
            return _parse_reaction(
                _ReactionEvent.model_validate(payload), me, added=event.endswith("ADD")
            )
        if not _is_from_person(payload, me):
            return None
        return _parse_message(
            _Message.model_validate(payload), place, me, edited=event == "MESSAGE_UPDATE"
        )
    except ValidationError as unread:
        return unreadable(event, payload, first_error(unread), me.channel)


def parse_interaction(
    payload: Payload, place: ChannelInfo | None, me: DiscordIdentity
) -> Interaction | UnreadableUpdate | None:
    """A press of a button, or a command of the platform's menu."""
    try:
        wire = _InteractionEvent.model_validate(payload)
    except ValidationError as unread:
        return unreadable("INTERACTION_CREATE", payload, first_error(unread), me.channel)
    user = wire.user or (wire.member.user if wire.member else None)
    if user is None or user.bot or (me.only and wire.guild_id not in (None, me.only)):
        return None
    address, sender = Address(me.channel, wire.channel_id), _sender_of(user, wire.member)
    match wire.type:
        case 3:
            return Interaction(
                wire.id,
                wire.application_id,
                wire.token,
                ButtonPress(address, sender, wire.data.custom_id, wire.message.id),
            )
        case 2:
            text = " ".join(str(option.value) for option in wire.data.options)
            private = (
                wire.guild_id is None
                and not (place and place.guild)
                and wire.context != PRIVATE_CHANNEL_CONTEXT
            )
            said = InboundMessage(
                address,
                sender,
                wire.id,
                f"/{wire.data.name} {text}".strip(),
                wire.id,
                private=private,
            )
            return Interaction(wire.id, wire.application_id, wire.token, said)
        case _:
            return None


def unreadable(event: str, raw: object, why: str, channel: str) -> UnreadableUpdate:
    """What could not be read, under an id that is the same whenever it comes again."""
    text = SECRETS_IN_PAYLOAD.sub(
        r"\1…", raw if isinstance(raw, str) else json.dumps(raw, default=repr, ensure_ascii=False)
    )
    return UnreadableUpdate(
        channel,
        f"{event}/{blake2b(text.encode(errors='replace'), digest_size=12).hexdigest()}",
        text[:MAX_RAW],
        why,
    )


def first_error(unread: ValidationError) -> str:
    """What is wrong, in a line without the input."""
    error = unread.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}"


def _is_from_person(payload: Payload, me: DiscordIdentity) -> bool:
    """Whether a person said it, where we listen; what is malformed counts as said, to be found out later."""
    author = payload.get("author")
    if me.only and payload.get("guild_id") not in (None, me.only):
        return False
    if payload.get("type", 0) not in MESSAGE_TYPES or payload.get("webhook_id"):
        return False
    if not isinstance(author, Mapping):
        return "author" in payload
    return not (author.get("bot") or author.get("system") or author.get("id") == me.id)


def _parse_message(
    wire: _Message, place: ChannelInfo | None, me: DiscordIdentity, *, edited: bool
) -> InboundMessage | None:
    if edited and wire.edited_timestamp is None:
        return None
    forwarded = bool(wire.message_snapshots) and (
        wire.message_reference is None or wire.message_reference.type == FORWARD_TYPE
    )
    words = wire.message_snapshots[0].message if forwarded else wire
    text, files = (
        _message_text(words, wire, me),
        tuple(_attachment_of(file, words) for file in words.attachments),
    )
    if not text and not files:
        return None
    private = wire.guild_id is None and not (place and place.guild)
    stamp = wire.edited_timestamp.isoformat() if edited and wire.edited_timestamp else ""
    return InboundMessage(
        Address(me.channel, wire.channel_id),
        _sender_of(wire.author, wire.member),
        f"{wire.id}/{stamp}" if edited else wire.id,
        text,
        wire.id,
        files,
        private,
        private or _is_addressed(wire, place, me),
        forwarded,
        _quoted_text(wire, me),
        wire.id if edited else "",
        wire.timestamp,
        _quotes_own(wire),
    )


def _is_addressed(wire: _Message, place: ChannelInfo | None, me: DiscordIdentity) -> bool:
    answers = wire.referenced_message is not None and wire.referenced_message.author is not None
    if (
        answers
        and wire.referenced_message
        and wire.referenced_message.author
        and wire.referenced_message.author.id == me.id
    ):
        return True
    mentioned = any(user.id == me.id for user in wire.mentions) or not me.roles.isdisjoint(
        wire.mention_roles
    )
    return mentioned or bool(place and place.is_member)


def _quoted_text(wire: _Message, me: DiscordIdentity) -> str:
    other = wire.referenced_message
    return other.content if other and other.author and other.author.id != me.id else ""


def _quotes_own(wire: _Message) -> bool:
    """What they passed on has no words of its own, and webhooks are nobody's."""
    other = wire.referenced_message
    return bool(other and other.author and other.author.id == wire.author.id)


def _message_text(words: _Content, wire: _Message, me: DiscordIdentity) -> str:
    """The words, without the mention of us, and others by their names; a sticker by its name."""
    names = {user.id: user.global_name or user.username for user in wire.mentions}

    def named(mention: re.Match[str]) -> str:
        role, number = mention["role"], mention["number"]
        if number in me.roles if role else number == me.id:
            return " "
        return mention[0] if role or number not in names else f"@{names[number]}"

    text = re.sub(
        r" ?<@(?:!|(?P<role>&))?(?P<number>\d{1,20})> ?",
        lambda m: _keep_space(m, named(m)),
        words.content,
    ).strip()
    return text or " ".join(f"[sticker: {sticker.name}]" for sticker in words.sticker_items)


def _keep_space(mention: re.Match[str], instead: str) -> str:
    whole = mention[0]
    if not instead.strip():
        return " " if whole.startswith(" ") and whole.endswith(" ") else ""
    before, after = " " * whole.startswith(" "), " " * whole.endswith(" ")
    return f"{before}{instead.strip()}{after}"


def _attachment_of(file: _Attachment, words: _Content) -> Attachment:
    mime = (file.content_type or "application/octet-stream").partition(";")[0].strip()
    kinds = {"image": "photo", "audio": "audio", "video": "video"}
    kind = "voice" if words.flags & VOICE_FLAG else kinds.get(mime.partition("/")[0], "document")
    return Attachment(kind, file.filename, mime, file.size, file.url)


def _sender_of(user: _User, member: _Member | None) -> Sender:
    return Sender(user.id, (member.nick if member else None) or user.global_name or user.username)


def _parse_reaction(wire: _ReactionEvent, me: DiscordIdentity, *, added: bool) -> Reaction | None:
    by_us = wire.message_author_id in (None, me.id)
    foreign = me.only and wire.guild_id not in (None, me.only)
    bot = wire.member is not None and wire.member.user is not None and wire.member.user.bot
    if wire.user_id == me.id or bot or not by_us or foreign:
        return None
    user = wire.member.user if wire.member and wire.member.user else _User(id=wire.user_id)
    emoji = (f":{wire.emoji.name}:" if wire.emoji.id else wire.emoji.name or "") if added else ""
    return Reaction(
        Address(me.channel, wire.channel_id), _sender_of(user, wire.member), wire.message_id, emoji
    )
