"""What a person sees in a message of Discord: text, embeds, polls, stickers, components, files, and
the messages that it passes on.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial

from markdown_it import MarkdownIt

from channels.content import (
    DESCRIPTION,
    UNREADABLE_PART,
    WORDLESS,
    Card,
    Content,
    Poll,
    name_file,
    show_moment,
)
from channels.json_access import Json, find_number, find_object, find_objects, find_text
from channels.message import MEDIA_KINDS, Attachment, Reference

VOICE_FLAG, MAX_DEPTH, MAX_MARKDOWN = 1 << 13, 12, 16_000
BUTTON, SEPARATOR, FILE = 2, 14, 13
FORWARD = 1
TIME = re.compile(r"<t:(-?\d{1,10})(?::[A-Za-z])?>")
NAMED = re.compile(r"<a?(:\w{1,32}:)\d+>|<(/[\w -]{1,100}):\d+>")
"""Emoji of a guild, and commands."""
MARK = re.compile(r"<(?:#|@[&!]?)\d+>")
Names = Mapping[str, str]
"""What people see for the mark of a channel or role."""
TEXT_KEYS = ("label", "content", "description", "placeholder")
CHILD_KEYS = ("components", "items", "options")


def read_content(message: Json, bot: str, names: Names, roles: Iterable[str] = ()) -> Content:
    """All of it but the messages that it passes on. Mentions of the bot and its roles are left out,
    others are by their names.
    """
    text = _read_text(message, bot, names, roles)
    files = _list_files(message)
    show = partial(_show_marks, users=_name_users(message, bot), names=names)
    cards = [_read_embed(embed, show) for embed in find_objects(message, "embeds")]
    rows = (show(_read_component(one, MAX_DEPTH)) for one in find_objects(message, "components"))
    stickers = find_objects(message, "sticker_items") or find_objects(message, "stickers")
    return Content(
        text,
        data=tuple(_list_masked(text)),
        cards=tuple(filter(Card.render, (*cards, Card(text="\n".join(filter(None, rows)))))),
        polls=tuple(_list_polls(message)),
        notes=(
            *(f"[sticker: {find_text(one, 'name')}]" for one in stickers),
            *(UNREADABLE_PART.format(kind=one.name) for one in files if not one.ref),
            *_list_descriptions(message),
        ),
        files=tuple(one for one in files if one.ref),
    )


def read_whole(message: Json, bot: str, names: Names) -> str:
    """All that a person sees, as text."""
    passed = (Card(text=one.text).render() for one in list_passed(message, bot, names))
    content = read_content(message, bot, names)
    parts = filter(None, (content.render(with_files=True), *passed))
    return "\n\n".join(parts) or WORDLESS


def list_passed(message: Json, bot: str, names: Names) -> Iterator[Reference]:
    """The messages that this one passes on; Discord does not say who wrote them."""
    origin = find_object(message, "message_reference")
    if origin.get("type", FORWARD) != FORWARD:
        return
    number = find_text(origin, "message_id")
    snapshots = find_objects(message, "message_snapshots")
    texts = [read_whole(find_object(one, "message"), bot, names) for one in snapshots]
    if "type" in origin and not snapshots:
        texts = [UNREADABLE_PART.format(kind="a message passed on")]
    for text in texts:
        yield Reference("passed", text, message_id=number)


def list_passed_files(message: Json) -> list[Attachment]:
    """The files of the messages that this one passes on."""
    snapshots = find_objects(message, "message_snapshots")
    files = (file for one in snapshots for file in _list_files(find_object(one, "message")))
    return [file for file in files if file.ref]


def as_word(name: str) -> str:
    """People choose their names, and these stand among the sender's own words."""
    return "_".join(re.findall(r"[\w-]+", name))


def name_of(user: Json) -> str:
    """As people see it."""
    return find_text(user, "global_name") or find_text(user, "username")


def _read_text(message: Json, bot: str, names: Names, roles: Iterable[str]) -> str:
    ours = "|".join([f"<@!?{re.escape(bot)}>", *(f"<@&{re.escape(role)}>" for role in roles)])
    text = re.sub(rf" (?:{ours})(?= )", "", find_text(message, "content"))
    text = re.sub(rf" ?(?:{ours}) ?", "", text).strip()
    return _show_marks(text, _name_users(message, bot), names)


def _name_users(message: Json, bot: str) -> Names:
    """Those whom it mentions, by their marks."""
    users = {
        find_text(one, "id"): as_word(name_of(one)) for one in find_objects(message, "mentions")
    }
    named = ((number, name) for number, name in users.items() if number not in ("", bot))
    return {f"<@{sign}{number}>": f"@{name}" for number, name in named for sign in ("", "!")}


def _show_marks(text: str, users: Names, names: Names) -> str:
    """The text with moments and names in place of Discord's marks."""
    text = NAMED.sub(r"\1\2", TIME.sub(lambda found: show_moment(int(found[1])), text))
    return MARK.sub(lambda found: users.get(found[0]) or names.get(found[0], found[0]), text)


@cache
def _link_parser() -> MarkdownIt:
    parser = MarkdownIt("zero").enable(["backticks", "escape", "fence", "link"])
    parser.normalizeLink = lambda url: url  # as it was written
    return parser


def _list_masked(text: str) -> Iterator[str]:
    """The addresses under other words: nobody has read them."""
    if "](" not in text:
        return
    for token in _link_parser().parse(text[:MAX_MARKDOWN], {}):
        address = label = ""
        for part in token.children or []:
            if part.type == "link_open":
                address, label = str(part.attrs.get("href", "")), ""
            elif part.type == "link_close" and address != label:
                yield address
            label += part.content


def _read_embed(embed: Json, show: Callable[[str], str]) -> Card:
    media = [(key, find_object(embed, key)) for key in ("image", "thumbnail", "video")]
    fields = [
        (show(find_text(one, "name")), show(find_text(one, "value")))
        for one in find_objects(embed, "fields")
    ]
    pictures = ((key, find_text(one, "description") or find_text(one, "url")) for key, one in media)
    author = find_text(embed, "author", "name") or find_text(embed, "provider", "name")
    return Card(
        show(find_text(embed, "title")),
        show(find_text(embed, "description")),
        find_text(embed, "url"),
        author,
        (*fields, *(pair for pair in pictures if pair[1])),
        find_text(embed, "footer", "text"),
    )


def _list_polls(message: Json) -> Iterator[Poll]:
    """The poll; with the votes, where there are any."""
    if not (poll := find_object(message, "poll")):
        return
    votes = {
        str(one.get("id")): find_number(one, "count")
        for one in find_objects(poll, "results", "answer_counts")
    }
    options = []
    for answer in find_objects(poll, "answers"):
        media = find_object(answer, "poll_media")
        text = " ".join(filter(None, (find_text(media, "emoji", "name"), find_text(media, "text"))))
        count = votes.get(str(answer.get("answer_id")))
        options.append(f"{text} ({count})" if count else text)
    yield Poll(find_text(poll, "question", "text"), tuple(options))


def _read_component(component: Json, depth: int) -> str:
    """The texts in it, in order. What is of an unknown kind and has none is named."""
    kind, url = component.get("type"), find_text(component, "url")
    if kind == SEPARATOR or not depth:
        return ""
    if kind == BUTTON:
        label = find_text(component, "label") or find_text(component, "emoji", "name")
        return f"[{label}]({url})".removesuffix("()")
    media = find_text(component, "media", "url") or find_text(component, "file", "url")
    lines = [find_text(component, key) for key in TEXT_KEYS]
    if media:
        name = find_text(component, "name") or " ".join(filter(None, lines))
        return f"[{'file' if kind == FILE else 'media'}: {name}]({media})"
    children = [find_object(component, "component"), find_object(component, "accessory")]
    inner = [one for key in CHILD_KEYS for one in find_objects(component, key)]
    parts = (_read_component(one, depth - 1) for one in (*inner, *filter(None, children)))
    shown = "\n".join(filter(None, (*lines, *parts)))
    return shown or UNREADABLE_PART.format(kind=f"component {kind}")


def _name_of_file(file: Json) -> str:
    """As it was sent: of a name with letters that Discord does not take, the title is left."""
    name, title = find_text(file, "filename") or "file", find_text(file, "title")
    ending = name[name.rindex(".") :] if "." in name else ""
    return title.removesuffix(ending) + ending if title else name


def _list_descriptions(message: Json) -> Iterator[str]:
    """What the sender says of each picture, for who cannot see it."""
    for file in find_objects(message, "attachments"):
        if text := find_text(file, "description"):
            yield DESCRIPTION.format(name=_name_of_file(file), text=text)


def _list_files(message: Json) -> list[Attachment]:
    """Without a `ref` where Discord does not say where it is."""
    is_voice, files = find_number(message, "flags") & VOICE_FLAG, []
    for file in find_objects(message, "attachments"):
        mime = find_text(file, "content_type") or "application/octet-stream"
        mime = mime.partition(";")[0].strip()
        kind = "voice" if is_voice else MEDIA_KINDS.get(mime.partition("/")[0], "document")
        name, size = _name_of_file(file), find_number(file, "size")
        if is_voice:
            number = find_text(message, "id") or find_text(file, "id")
            name = name_file(kind, number, mime)
        url = find_text(file, "url")
        files.append(Attachment(kind, name, mime, size, url, not is_voice))
    return files
