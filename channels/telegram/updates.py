"""Telegram's updates as the channel's messages. Each is parsed, ignored or set aside; nothing here
raises.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from telegram import Message
from telegram.constants import UpdateType

from channels.content import (
    NO_WORDS,
    STRUCK,
    UNREADABLE_PART,
    WORDLESS,
    Card,
    Content,
    Poll,
    name_file,
    shorten,
    show_links,
)
from channels.json_access import (
    Json,
    UnreadablePayload,
    find_number,
    find_object,
    find_objects,
    find_text,
    get_number,
    get_object,
    get_objects,
    get_text,
)
from channels.markup.split import utf16_length
from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    ChatMoved,
    InboundMessage,
    Reaction,
    Reference,
    Sender,
    UnreadableUpdate,
)

UPDATE_KINDS = ("message", "edited_message", "callback_query", "message_reaction")
IGNORED_KINDS = frozenset(UpdateType)
DATA_ENTITIES = ("blockquote", "expandable_blockquote", "pre")
MOVES = frozenset(("migrate_to_chat_id", "migrate_from_chat_id"))
UNSHOWN = ("story", "game", "invoice", "paid_media", "gift", "unique_gift")
UNSHOWN += ("giveaway", "giveaway_winners")
NAMES = ("title", "text", "prize_description")
OLD = "forward_from forward_from_chat user_shared new_chat_member new_chat_participant"
KNOWN = frozenset(Message.__slots__).union(
    f"message_id date chat from origin left_chat_participant {OLD}".split()
)
"""Fields of a message, with those that are sent for old programs alone."""
POINTERS = ("reply_to_message", "external_reply", "reply_to_story")
BY_OTHERS = ("forward_origin", "forward_date", "via_bot")
LONG_TEXT, MOST_TEXT = 3_000, 4_096  # what the app may have cut; UTF-16 units of one message
MAX_VCARD = 2_000
LATEST = 1 << 37
"""No date is later."""
COMMAND = re.compile(r"(/[A-Za-z0-9_]+)@([A-Za-z0-9_]+)")
CHANNEL_FORWARDER = 777000  # writes into groups what was posted in their channel
FILE_KINDS = (
    ("photo", "photo", "image/jpeg"),
    ("document", "document", "application/octet-stream"),
    ("sticker", "photo", "image/webp"),
    ("voice", "voice", "audio/ogg"),
    ("audio", "audio", "audio/mpeg"),
    ("video", "video", "video/mp4"),
    ("video_note", "video", "video/mp4"),
    ("animation", "video", "video/mp4"),
    ("live_photo", "video", "video/mp4"),
)
ENTITIES = frozenset(("entities", "caption_entities"))
FILES, POLLS = frozenset(kind[0] for kind in FILE_KINDS), frozenset(("poll", "checklist"))


class TelegramIdentity(NamedTuple):
    """Who the bot is. `channel`: the name of the channel."""

    id: int
    username: str
    channel: str


def parse_update(raw: object, me: TelegramIdentity) -> Arrival | None:
    """One update; None where it is of no concern."""
    try:
        if not isinstance(raw, dict):
            raise UnreadablePayload("it is not an object")
        if query := get_object(raw, "callback_query"):
            return _parse_press(query, me)
        if change := get_object(raw, "message_reaction"):
            return _parse_reaction(change, me)
        if message := get_object(raw, "message") or get_object(raw, "edited_message"):
            moved = _parse_move(message, me) if MOVES & message.keys() else None
            return moved or _parse_message(message, me, edited=not raw.get("message"))
        if IGNORED_KINDS & raw.keys():
            return None
        raise UnreadablePayload("its kind is unknown")
    except UnreadablePayload as error:
        number = find_number(raw, "update_id") or None
        return UnreadableUpdate.of(me.channel, "update", raw, error, number)


def _parse_press(query: Json, me: TelegramIdentity) -> ButtonPress | None:
    """None where it cannot be ours."""
    message, sender, data = get_object(query, "message"), _user(query), get_text(query, "data", "")
    if not message or "data" not in query or get_object(query, "from").get("is_bot"):
        return None
    return ButtonPress(_address(message, me), sender, data, str(get_number(message, "message_id")))


def _parse_move(message: Json, me: TelegramIdentity) -> ChatMoved | None:
    """A group has become a supergroup: Telegram says so in both of its chats."""
    here = str(get_number(get_object(message, "chat"), "id"))
    if new := get_number(message, "migrate_to_chat_id", 0):
        return ChatMoved(me.channel, here, str(new))
    old = get_number(message, "migrate_from_chat_id", 0)
    return ChatMoved(me.channel, str(old), here) if old else None


def _parse_message(message: Json, me: TelegramIdentity, *, edited: bool) -> InboundMessage | None:
    number, sender = get_number(message, "message_id"), get_object(message, "from")
    kind, address = get_text(get_object(message, "chat"), "type", "private"), _address(message, me)
    content = _read_content(message)
    shared_by_others = not content.text and any(map(message.get, ("contact", "venue", "poll")))
    if edited and not (content.text or content.files):
        return None  # a shared place that moves, votes in a poll: nothing new was said
    if not sender or sender.get("is_bot") or sender.get("id") == CHANNEL_FORWARDER:
        return None
    text = content.render()
    if message.get("sender_chat") or kind == "channel" or not (text or content.files):
        return None
    is_addressed = False
    if "@" in text or text.startswith("/"):
        text, is_addressed = strip_mention(text, me.username)
        text = text if text or content.files else NO_WORDS
    points = any(map(message.get, POINTERS))
    references = _read_references(message, me) if points else ()
    replied = find_object(message, "reply_to_message")
    named = _list_named(message) if ENTITIES & message.keys() else ()
    answers_us = find_object(replied, "from").get("id") == me.id and not _opens_topic(replied)
    external_id, edits, seconds = f"{address.chat}/{number}", "", get_number(message, "date", 0)
    if edited:
        edits, edit_date = external_id, get_number(message, "edit_date", 0)
        # dates are whole seconds: the checksum tells two edits within one second apart
        external_id += f"/{edit_date}/{zlib.crc32(text.encode(errors='replace')):08x}"
        seconds = edit_date or seconds
    return InboundMessage(
        address,
        _user(message),
        external_id,
        text,
        str(number),
        content.files,
        private=kind == "private",
        addressed=kind == "private" or is_addressed or answers_us or me.id in named,
        forwarded=shared_by_others or any(map(message.get, BY_OTHERS)),
        author=_origin(origin) if (origin := find_object(message, "forward_origin")) else "",
        references=references,
        edits=edits,
        sent_at=datetime.fromtimestamp(seconds, UTC) if 0 < seconds < LATEST else None,
        data=(*content.data, *content.beside),
    )


def _list_named(message: Json) -> list[object]:
    """The ids of people who are mentioned without a name of their own."""
    entities = get_objects(message, "entities") + get_objects(message, "caption_entities")
    return [get_object(entity, "user").get("id") for entity in entities]


def _read_references(message: Json, me: TelegramIdentity) -> tuple[Reference, ...]:
    """What the message points at never costs the message itself."""
    try:
        return tuple(_list_references(message, me))
    except UnreadablePayload:
        return (Reference("reply", UNREADABLE_PART.format(kind="the message that is answered")),)


def _list_references(message: Json, me: TelegramIdentity) -> Iterator[Reference]:
    """The message that is answered, and the part of it that was marked. A message of another chat
    comes without its text, with a preview of what it holds.
    """
    replied = find_object(message, "reply_to_message")
    external = find_object(message, "external_reply")
    if _opens_topic(replied):
        replied = {}  # in a topic, all that replies to nothing else replies to its opening
    whole = replied or external
    if find_object(message, "reply_to_story"):
        yield Reference("reply", UNREADABLE_PART.format(kind="a story"))
    if not whole:
        return
    author, sender = find_object(replied, "from"), find_object(message, "from")
    is_passed = any(map(replied.get, (*BY_OTHERS, "sender_chat")))
    writer = author.get("id")
    by = "assistant" if writer == me.id else "sender" if writer == sender.get("id") else "other"
    content = _read_content(whole)
    if by == "sender" and is_passed:
        by = "other"
    named = _origin(find_object(whole, "forward_origin") or find_object(external, "origin"))
    named = named or _name(author) or find_text(find_object(replied, "sender_chat"), "title")
    number = str(find_number(whole, "message_id") or "")
    marked = find_text(message, "quote", "text") or _find_answered_line(message, whole)
    if marked:
        yield Reference("part", marked, "other" if by == "sender" else by, named, number)
    else:
        link = find_text(whole, "link_preview_options", "url")
        found = content.refer("reply", by, named, number)
        yield replace(found, text=link) if link and found.text == WORDLESS else found


def _find_answered_line(message: Json, whole: Json) -> str:
    """The task of a list, or the option of a poll, that is answered, below what it belongs to."""
    task = find_number(message, "reply_to_checklist_task_id")
    for row in find_objects(whole, "checklist", "tasks"):
        if task and find_number(row, "id") == task:
            return f"{find_text(whole, 'checklist', 'title')}: {find_text(row, 'text')}"
    option = find_text(message, "reply_to_poll_option_id")
    for row in find_objects(whole, "poll", "options"):
        if option and find_text(row, "persistent_id") == option:
            return f"{find_text(whole, 'poll', 'question')}: {find_text(row, 'text')}"
    return ""


def _opens_topic(replied: Json) -> bool:
    return replied.get("forum_topic_created") is not None


def _origin(origin: Json) -> str:
    """Who wrote what is passed on, as far as Telegram says."""
    user = find_object(origin, "sender_user")
    chat = find_object(origin, "sender_chat") or find_object(origin, "chat")
    name = _name(user) or find_text(origin, "sender_user_name")
    return name or find_text(chat, "title")


def _read_content(message: Json) -> Content:
    """All that a person sees in the message. Of its text what stands in quotation blocks and code,
    and the addresses under other words, are data.
    """
    text, data = get_text(message, "text", "") or get_text(message, "caption", ""), ()
    if ENTITIES & message.keys():
        text, data = _read_entities(message, text)
    content = Content(
        text,
        data=data,
        cards=tuple(_list_buttons(message)) if "reply_markup" in message else (),
        polls=tuple(_list_polls(message)) if POLLS & message.keys() else (),
        notes=tuple(filter(None, _describe_shared(message))),
        files=_attachments(message) if FILES & message.keys() else (),
    )
    if content.files or content.render():
        return content
    unknown = (key for key, value in message.items() if isinstance(value, dict | list))
    return replace(content, notes=tuple(_name_kind(key) for key in unknown if key not in KNOWN))


def _read_entities(message: Json, whole: str) -> tuple[str, tuple[str, ...]]:
    """The text with the addresses under its words; and what of it is data."""
    units = whole.encode("utf-16-le", "surrogatepass")  # Telegram counts in these
    links, blocks = list[tuple[int, int, str]](), list[tuple[int, int]]()
    for entity in get_objects(message, "entities") or get_objects(message, "caption_entities"):
        first, length = get_number(entity, "offset", 0), get_number(entity, "length", 0)
        start, end = (
            len(units[: 2 * place].decode("utf-16-le", "replace"))
            for place in (first, first + length)
        )
        is_struck = entity.get("type") == "strikethrough"
        if address := STRUCK if is_struck else find_text(entity, "url"):
            links.append((start, end, address))
        elif entity.get("type") in DATA_ENTITIES:
            blocks.append((start, end))
    text, hidden = show_links(whole, links) if links else (whole, ())
    quotations = (
        show_links(whole[start:end], [(a - start, b - start, u) for a, b, u in links if a >= start])
        for start, end in blocks
    )
    return text, (*(shown.strip() for shown, _ in quotations), *hidden)


def _list_buttons(message: Json) -> Iterator[Card]:
    """Those that a program has put under its message, with where they lead."""
    rows = find_object(message, "reply_markup").get("inline_keyboard")
    rows = rows if isinstance(rows, list) else ()
    found = (one for row in rows for one in find_objects(row))
    labels = ((find_text(one, "text"), find_text(one, "url")) for one in found)
    shown = [f"[{label}]({url})".removesuffix("()") for label, url in labels if label]
    if shown:
        yield Card(text="\n".join(shown))


def _list_polls(message: Json) -> Iterator[Poll]:
    """A poll, with the votes where there are any, or a list to tick off."""
    if poll := find_object(message, "poll"):
        options = []
        for one in find_objects(poll, "options"):
            text, count = find_text(one, "text"), find_number(one, "voter_count")
            options.append(f"{text} ({count})" if count else text)
        yield Poll(find_text(poll, "question"), tuple(options))
    if checklist := find_object(message, "checklist"):
        tasks = find_objects(checklist, "tasks")
        done = (place for place, task in enumerate(tasks) if task.get("completion_date"))
        texts = tuple(find_text(task, "text") for task in tasks)
        yield Poll(find_text(checklist, "title"), texts, "checklist", frozenset(done))


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
    for pattern in (
        rf"^\s*{mention}[ \t]*[,:]?\s*",
        rf"(?m)^{mention}[ \t]*",
        rf"(?:,|(?<![ \t]))[ \t]*{mention}(?=\s*([.!?]|$))",
        rf"(?<![ \t])[ \t]*{mention}",  # the look-behind: each run of spaces is looked at once
    ):
        text = re.sub(pattern, "", text, flags=re.IGNORECASE)
    return text.strip(), True


def _describe_shared(message: Json) -> Iterator[str]:
    """Words for what is neither text, poll nor file. What nobody says, such as a new title, has
    none; what nobody knows here is named.
    """
    place, contact = (find_object(message, key) for key in ("location", "contact"))
    where = f" {place.get('latitude')}, {place.get('longitude')}" if place else ""
    if venue := find_object(message, "venue"):
        yield f"[place: {find_text(venue, 'title')}, {find_text(venue, 'address')}{where}]"
    elif place:
        yield f"[location: {where.strip()}]"
    if contact:
        card = shorten(find_text(contact, "vcard").strip(), MAX_VCARD)
        named = f"[contact: {_name(contact)}, {find_text(contact, 'phone_number')}]"
        yield f"{named}\n{card}".strip()
    audio = find_object(message, "audio")
    if tune := " - ".join(filter(None, (find_text(audio, key) for key in ("performer", "title")))):
        yield f"[audio: {tune}]"
    if dice := find_object(message, "dice"):
        yield f"{find_text(dice, 'emoji')} {find_number(dice, 'value')}"
    for key in UNSHOWN:
        if found := find_object(message, key):
            yield _name_kind(key, next(filter(None, (find_text(found, one) for one in NAMES)), ""))
    yield find_text(find_object(message, "sticker"), "emoji")


def _name_kind(key: str, name: str = "") -> str:
    return UNREADABLE_PART.format(kind=f"{key.replace('_', ' ')} {name}".strip())


def _attachments(message: Json) -> tuple[Attachment, ...]:
    """Where Telegram has no name for a file, one is made up."""
    number, attachments = find_number(message, "message_id"), []
    photos = find_objects(message, "photo")
    largest = max(photos, key=lambda size: find_number(size, "file_size"), default={})
    for key, kind, mime in FILE_KINDS:
        file = largest if key == "photo" else find_object(message, key)
        if not file or (
            key == "document" and message.get("animation")
        ):  # an animation comes as both
            continue
        if file.get("is_animated"):
            kind, mime = "document", "application/x-tgsticker"
        elif file.get("is_video"):
            kind, mime = "video", "video/webm"
        mime, name = get_text(file, "mime_type", mime), find_text(file, "file_name")
        size, ref = find_number(file, "file_size"), get_text(file, "file_id")
        shown = name or name_file(kind, number, mime)
        attachments.append(Attachment(kind, shown, mime, size, ref, bool(name)))
    return tuple(attachments)


def _parse_reaction(change: Json, me: TelegramIdentity) -> Reaction | None:
    before = [one.get("emoji") for one in get_objects(change, "old_reaction")]
    chosen, user = get_objects(change, "new_reaction"), get_object(change, "user")
    now = [emoji for one in chosen if (emoji := get_text(one, "emoji", ""))]
    if not user or user.get("is_bot") or (chosen and not now):  # a custom emoji has no character
        return None
    latest = [emoji for emoji in now if emoji not in before] or now or [""]
    number = str(get_number(change, "message_id"))
    return Reaction(_address(change, me), _user(change, "user"), number, latest[-1])


def _address(message: Json, me: TelegramIdentity) -> Address:
    thread = get_number(message, "message_thread_id", 0) if message.get("is_topic_message") else ""
    chat = get_number(get_object(message, "chat"), "id")
    return Address(me.channel, str(chat), str(thread or ""))


def _user(data: Json, key: str = "from") -> Sender:
    user = get_object(data, key)
    return Sender(str(get_number(user, "id")), _name(user) or get_text(user, "username", ""))


def _name(user: Json) -> str:
    return f"{find_text(user, 'first_name')} {find_text(user, 'last_name')}".strip()


def album_of(raw: object) -> str:
    """The id of the album to which a new message belongs; "" for none. Edits belong to none."""
    return find_text(raw, "message", "media_group_id")


def without_last_album(updates: Sequence[object]) -> list[object]:
    """The updates before the album with which they end; all where there are no others."""
    album = album_of(updates[-1])
    start = next((at for at, raw in enumerate(updates) if album and album_of(raw) == album), 0)
    return list(updates[:start] or updates)


def is_unfinished(raw: object) -> bool:
    """More of it may follow at once: of an album, of a text that the app has split, or of what is
    passed on.
    """
    message = find_object(raw, "message")
    return bool(album_of(raw)) or _is_long(message) or "forward_origin" in message


def _is_long(message: Json) -> bool:
    return utf16_length(find_text(message, "text")) >= LONG_TEXT


def goes_on(before: object, raw: object) -> bool:
    """The text goes on with that of the message before it: apps split a long one, and send its
    parts within a second.
    """
    first, second = find_object(before, "message"), find_object(raw, "message")
    if not _is_long(first) or not find_text(second, "text"):
        return False
    if any(map(second.get, ("reply_to_message", *BY_OTHERS))) or any(map(first.get, BY_OTHERS)):
        return False
    if find_text(second, "text").startswith("/"):
        return False
    places = ("chat", "id"), ("from", "id"), ("message_thread_id",)
    is_same = all(find_number(first, *keys) == find_number(second, *keys) for keys in places)
    return is_same and 0 <= find_number(second, "date") - find_number(first, "date") <= 1


def merge_parts(parts: Sequence[InboundMessage]) -> InboundMessage:
    """The pictures of an album, or the parts of a text, as the one message that was sent. The id of
    a text tells how many parts there are: if only the first came before a crash, the whole counts
    as new.
    """
    if parts[0].attachments:
        return _merge_album(parts)
    text = ""
    for part in parts:
        is_cut_in_word = utf16_length(text) % MOST_TEXT == 0
        text += part.text if is_cut_in_word else f"\n{part.text}"
    name = f"{parts[0].external_id}+{len(parts) - 1}"
    return replace(_join(parts), text=text, external_id=name, attachments=())


def _merge_album(photos: Sequence[InboundMessage]) -> InboundMessage:
    """The messages of an album, which may come twice, as one."""
    photos = list({photo.external_id: photo for photo in photos}.values())
    text = "\n".join(dict.fromkeys(photo.text for photo in photos if photo.text))
    files = tuple(file for photo in photos for file in photo.attachments)
    return replace(_join(photos), text=text, attachments=files)


def _join(parts: Sequence[InboundMessage]) -> InboundMessage:
    """The first, with what the others say beside their texts and files."""
    return replace(
        parts[0],
        addressed=any(part.addressed for part in parts),
        forwarded=any(part.forwarded for part in parts),
        references=next((part.references for part in parts if part.references), ()),
        data=tuple(one for part in parts for one in part.data),
    )
