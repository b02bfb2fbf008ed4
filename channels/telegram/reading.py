"""What Telegram sent, as the house reads it. Whatever it is, it is read, passed over or set aside; nothing here raises."""

import hashlib
import json
import re
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pydantic import ValidationError

from channels.message import Address, Arrival, Inbound, Poison, Press, Reaction, Sender
from channels.telegram.attachments import attachments
from channels.telegram.lib import UpdateType
from channels.telegram.wire import Answered, Message, Place, Query, Reacted, Update, User
from channels.telegram.words import of_others, words

READ = ("message", "edited_message", "callback_query", "message_reaction")
KNOWN = frozenset(UpdateType)
COMMAND = re.compile(r"(/[A-Za-z0-9_]+)@([A-Za-z0-9_]+)")
FORWARDER = 777000  # writes into groups what was posted in their channel
LONGEST_RAW = 20_000


@dataclass(frozen=True, slots=True)
class Me:
    """Who we are there. `channel`: what the house calls this bot."""

    id: int
    username: str
    channel: str


@dataclass(frozen=True, slots=True)
class Pressed:
    """A button was pressed, and whoever did it waits for an answer to `query`; press is None where it cannot be ours."""

    query: str
    press: Press | None


def number_of(raw: object) -> int | None:
    """An update's number, by which it is acknowledged; None where it has none."""
    number = raw.get("update_id") if isinstance(raw, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def read(raw: object, me: Me) -> Arrival | Pressed | None:
    """One update; None where there is nothing in it for the house."""
    if not isinstance(raw, dict):
        return _poison(raw, me, "it is no object")
    if not any(raw.get(kind) is not None for kind in READ):
        return None if KNOWN & raw.keys() - set(READ) else _poison(raw, me, "nobody knows what it is")
    try:
        update = Update.model_validate(raw)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return _poison(raw, me, f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}")
    if update.callback_query:
        return _pressed(update.callback_query, me)
    if update.message_reaction:
        return _reaction(update.message_reaction, me)
    message = update.message or update.edited_message
    return _inbound(message, me, edited=update.message is None) if message else None


def _inbound(message: Message, me: Me, *, edited: bool) -> Inbound | None:
    sender, files = message.sender, attachments(message)
    written = words(message)
    if edited and not (message.text or message.caption or files):
        return None  # a shared place that moves, votes in a poll: nobody has said anything anew
    if sender is None or not _a_person(message, sender) or not (written or files):
        return None
    text, named = addressed(written, me.username)
    answered = _answered(message)
    private = message.chat.type == "private"
    said = Inbound(
        _address(message, me),
        _sender(sender),
        f"{message.chat.id}/{message.message_id}",
        text,
        str(message.message_id),
        files,
        private,
        private or named or _points_at(message, answered, me),
        bool(message.forward_origin or message.forward_date or message.via_bot) or of_others(message),
        _quoted(message, answered, me),
        sent_at=_moment(message.date),
        quotes_own=_quotes_own(sender, answered),
    )
    return _edit(said, message) if edited else said


def _edit(said: Inbound, message: Message) -> Inbound:
    # dates are whole seconds: of two edits within one the second would be taken for the first, come again
    unlike = f"{zlib.crc32(said.text.encode()):08x}"
    name = f"{said.external_id}/{message.edit_date or 0}/{unlike}"
    return replace(said, external_id=name, edits=said.external_id, sent_at=_moment(message.edit_date or message.date))


def _a_person(message: Message, sender: User) -> bool:
    return not (sender.is_bot or sender.id == FORWARDER or message.sender_chat or message.chat.type == "channel")


def addressed(text: str, username: str) -> tuple[str, bool]:
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
    rest = re.sub(rf"(?:,|(?<![ \t]))[ \t]*{mention}(?=\s*([.!?]|$))", "", rest, flags=re.IGNORECASE)
    return re.sub(rf"(?<![ \t])[ \t]*{mention}", "", rest, flags=re.IGNORECASE).strip(), True  # spaces are looked at once


def _points_at(message: Message, answered: Answered | None, me: Me) -> bool:
    entities = (message.entities or ()) + (message.caption_entities or ())
    return _by(answered, me) or any(entity.user is not None and entity.user.id == me.id for entity in entities)


def _answered(message: Message) -> Answered | None:
    """What it answers to. In a topic all that answers to nothing else is an answer to the topic's opening."""
    answered = message.reply_to_message
    return answered if answered is not None and answered.forum_topic_created is None else None


def _by(answered: Answered | None, me: Me) -> bool:
    return answered is not None and answered.sender is not None and answered.sender.id == me.id


def _quoted(message: Message, answered: Answered | None, me: Me) -> str:
    if _by(answered, me):
        return ""
    if message.quote and message.quote.text:
        return message.quote.text
    return (answered.text or answered.caption or "") if answered else ""


def _quotes_own(sender: User, answered: Answered | None) -> bool:
    """Nothing that they passed on, or that another bot wrote in their name."""
    if answered is None or answered.sender is None or answered.sender.id != sender.id:
        return False
    return not (answered.forward_origin or answered.forward_date or answered.via_bot or answered.sender_chat)


def _pressed(query: Query, me: Me) -> Pressed:
    if query.message is None or query.data is None or query.sender.is_bot:
        return Pressed(query.id, None)
    press = Press(_address(query.message, me), _sender(query.sender), query.data, str(query.message.message_id))
    return Pressed(query.id, press)


def _reaction(reacted: Reacted, me: Me) -> Reaction | None:
    if reacted.user is None or reacted.user.is_bot:
        return None
    before = [one.emoji for one in reacted.old_reaction]
    new = [one.emoji for one in reacted.new_reaction if one.emoji]
    if not new and reacted.new_reaction:
        return None  # a picture of somebody's own says nothing to us
    latest = next((emoji for emoji in reversed(new) if emoji not in before), new[-1] if new else "")
    return Reaction(Address(me.channel, str(reacted.chat.id)), _sender(reacted.user), str(reacted.message_id), latest)


def _address(message: Message | Place, me: Me) -> Address:
    thread = message.message_thread_id if message.is_topic_message else None
    return Address(me.channel, str(message.chat.id), str(thread) if thread else "")


def _sender(user: User) -> Sender:
    return Sender(str(user.id), f"{user.first_name} {user.last_name or ''}".strip() or user.username or "")


def _moment(seconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (OverflowError, ValueError, OSError):
        return None


def _poison(raw: object, me: Me, why: str) -> Poison:
    told = json.dumps(raw)
    number = number_of(raw)
    name = f"?{hashlib.sha256(told.encode()).hexdigest()[:16]}" if number is None else str(number)
    return Poison(me.channel, f"update/{name}", told[:LONGEST_RAW], why)
