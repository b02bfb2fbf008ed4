"""What a person sees in a message of Slack: text, blocks, attachments of programs, files, and the
messages that it passes on.
"""

import html
import re
from collections.abc import Iterator
from functools import partial
from itertools import count

from channels.content import (
    DESCRIPTION,
    UNREADABLE_PART,
    Card,
    Content,
    name_file,
    show_moment,
)
from channels.json_access import Json, find_number, find_object, find_objects, find_text, get_text
from channels.message import MEDIA_KINDS, Attachment, Reference

ENTITY = re.compile(r"<([^<>\n]+)>")
ADDRESS = re.compile(r"@|\w\.[^\W\d]{2}|\d\.\d+\.\d|^\S*\.\S*$")  # where a link says it leads
SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)")
BACKTICKS = re.compile("`+")
SHOWN_KEYS = (
    *("text", "title", "alt_text", "description", "caption", "name", "initial_value"),
    *("url", "join_url", "title_url"),
)
HIDDEN_KEYS = ("confirm", "icon")
MARKS = {
    "user": ("<@{}>", "user_id"), "channel": ("<#{}>", "channel_id"), "color": ("{}", "value"),
    "usergroup": ("<!subteam^{}>", "usergroup_id"), "team": ("<!team^{}>", "team_id"),
    "broadcast": ("<!{}>", "range"), "emoji": (":{}:", "name"),
    "file": ("[file: {}]", "external_id"),
}  # fmt: skip
"""How Slack writes an element that has one text, and where that is."""
RICH = (
    "rich_text",
    *(f"rich_text_{kind}" for kind in ("section", "list", "quote", "preformatted")),
)
MAY_BE_EMPTY = ("divider", "text", *RICH)
"""Kinds that are not missed where nothing stands in them."""
READ_KEYS = frozenset(
    (
        *(
            "blocks",
            "message_blocks",
            "fields",
            "files",
            "text",
            "title",
            "pretext",
            "footer",
            "type",
        ),
        *("author_name", "name", "alt_text", "description", "caption", "url", "metadata"),
    )
)
"""Keys of an attachment that are read by name, or hold nothing that is seen."""
SHOWN_FILES = ("email", "snippet")
GONE_FILES = {"tombstone": "a file that was deleted", "hidden_by_limit": "a file that is too old"}
BESIDE_PASSED = ("pretext", "title", "title_link", "fields", "image_url", "actions")
"""What a message that is passed on has beside its words."""
MAX_DEPTH = 24
escape = partial(html.escape, quote=False)
"""As Slack writes it beside its own marks."""


def read_content(message: Json, bot: str = "") -> Content:
    """All of it but the messages that it passes on; `bot`: whose mentions are left out."""
    words, (rich, others) = read_words(message), _split_blocks(message)
    program = to_plain(_read_blocks(others))
    if not _read_blocks(rich) and _says(program, words):
        words = ""  # blocks are shown in place of the text
    attachments = find_objects(message, "attachments")
    cards = (_read_attachment(row) for row in attachments if not is_passed(row))
    rows = find_objects(message, "files")
    files = list(map(_attachment_of, rows))
    described = ((find_text(row, "name"), find_text(row, "alt_txt")) for row in rows)
    return Content(
        to_plain(strip_mention(words, bot)) if bot else to_plain(words).strip(),
        data=list_unseen(words),
        cards=tuple(filter(Card.render, (Card(text=program), *cards, *map(_read_file, rows)))),
        notes=(
            *(UNREADABLE_PART.format(kind=one.name) for one in files if not one.ref),
            *(DESCRIPTION.format(name=name, text=text) for name, text in described if text),
        ),
        files=tuple(one for one in files if one.ref),
    )


def read_words(message: Json) -> str:
    """The text that was typed, with Slack's marks: once, where text and blocks say the same."""
    text, rich = get_text(message, "text", ""), _read_blocks(_split_blocks(message)[0])
    if _says(text, rich):
        return text
    return rich if _says(rich, text) else f"{text}\n{rich}".strip()


def read_whole(message: Json) -> str:
    """All that a person sees, as text."""
    content = read_content(message)
    passed = (Card(text=one.text, author=one.author).render() for one in list_passed(message, ""))
    return "\n\n".join(filter(None, (content.render(with_files=True), *passed)))


def is_passed(attachment: Json) -> bool:
    """It is a message that was passed on, or whose link was posted."""
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl"))


def list_passed(message: Json, bot: str) -> Iterator[Reference]:
    """The messages that this one passes on, with their authors."""
    for row in filter(is_passed, find_objects(message, "attachments")):
        inner = [find_object(one, "message") for one in find_objects(row, "message_blocks")]
        whole: Json = {"text": find_text(row, "text")}
        for key in ("blocks", "attachments", "files"):
            whole[key] = [part for one in (*inner, row) for part in find_objects(one, key)]
        text = read_whole(whole)
        rest = _read_attachment({key: row[key] for key in BESIDE_PASSED if key in row})
        text = "\n\n".join(filter(None, (text, rest.render())))
        if not text:
            fallback = to_plain(find_text(row, "fallback"))
            text = UNREADABLE_PART.format(kind=f"a message passed on. {fallback}".strip())
        writer = find_text(row, "author_id")
        names = map(find_text, [row] * 3, ("author_name", "author_subname", "author_id"))
        by = "assistant" if writer and writer == bot else "other"
        yield Reference("passed", text, by, next(filter(None, names), ""), find_text(row, "ts"))


def _read_attachment(row: Json) -> Card:
    """What a program adds to a message, the preview of a link among it."""
    plain = {key: to_plain(value) for key, value in row.items() if isinstance(value, str)}
    blocks = to_plain(_read_blocks(find_objects(row, "blocks")))
    fields = [
        (find_text(one, "title"), find_text(one, "value")) for one in find_objects(row, "fields")
    ]
    beside = [
        ("image", plain.get("image_url") or plain.get("thumb_url", "")),
        *(("file", find_text(file, "name")) for file in find_objects(row, "files")),
        ("", to_plain(_read({key: row[key] for key in row if key not in READ_KEYS}))),
    ]
    card = Card(
        plain.get("title", ""),
        "\n".join(filter(None, (plain.get("pretext"), plain.get("text"), blocks))),
        find_text(row, "title_link") or find_text(row, "from_url"),
        plain.get("author_name", "") or plain.get("service_name", ""),
        (
            *((to_plain(name), to_plain(text)) for name, text in fields),
            *(pair for pair in beside if pair[1]),
        ),
        plain.get("footer", ""),
    )
    return card if card.render() else Card(text=plain.get("fallback", ""))


def _read_file(row: Json) -> Card:
    """What Slack shows of a mail or a snippet."""
    if find_text(row, "mode") not in SHOWN_FILES:
        return Card()
    keys = ("plain_text", "preview_plain_text", "preview")
    text = next(filter(None, (find_text(row, key) for key in keys)), "")
    writers = (find_text(one, "original") for one in find_objects(row, "from"))
    return Card(find_text(row, "subject"), text, author=", ".join(filter(None, writers)))


def _split_blocks(message: Json) -> tuple[list[Json], list[Json]]:
    """What was typed, or formatted as if it were, and what a program has laid out."""
    blocks = find_objects(message, "blocks")
    rich = [one for one in blocks if one.get("type") == "rich_text"]
    return rich, [one for one in blocks if one not in rich]


def _read_blocks(blocks: list[Json]) -> str:
    return "\n".join(filter(None, map(_read_or_name, blocks)))


def _read_or_name(part: Json, depth: int = MAX_DEPTH) -> str:
    """What cannot be read is named by its kind."""
    kind = find_text(part, "type")
    shown = _read(part, depth)
    if shown or kind in MAY_BE_EMPTY:
        return shown
    return UNREADABLE_PART.format(kind=escape(kind.replace("_", " ")) or "a part of no kind")


def _read(part: object, depth: int = MAX_DEPTH) -> str:
    """The texts in it, in order, with Slack's marks, as it writes the same in the text of a
    message. Kinds that nobody knows here have theirs in the same places.
    """
    if isinstance(part, list):
        return "\n".join(filter(None, (_read(one, depth - 1) for one in part)))
    if not isinstance(part, dict) or depth <= 0:
        return ""
    kind, text, url = (find_text(part, key) for key in ("type", "text", "url"))
    if kind in RICH:
        return _read_rich(part, kind, depth - 1)
    if kind in MARKS:
        mark, key = MARKS[kind]
        tone = find_number(part, "skin_tone")
        return mark.format(escape(find_text(part, key))) + f":skin-tone-{tone}:" * bool(tone)
    match kind:
        case "mrkdwn":
            return text
        case "text" if text and (signs := _list_signs(part)):
            return f"{signs}{escape(text)}{signs[::-1]}"
        case "link" if url:
            label = " ".join(escape(text).split())
            url = url.replace("<", "%3C").replace(">", "%3E").replace("|", "%7C")
            return f"<{url}|{label}>" if label and text != url else f"<{url}>"
        case "date" | "raw_number":
            return escape(_read_value(part, kind))
        case "image" | "video":
            name = _read(part.get("title"), depth - 1) or escape(find_text(part, "alt_text"))
            shown = _link(f"{kind}: {name}", find_text(part, f"{kind}_url"))
            return f"{shown}\n{_read(part.get('description'), depth - 1)}".strip()
        case "button" | "workflow_button" | "url":
            label = _read({"text": part.get("text"), "title": part.get("title")}, depth)
            return _link(label, url) if label else ""
    lines = list[str]()
    for key, inner in part.items():
        if key in SHOWN_KEYS and isinstance(inner, str | int | float):
            lines.append(escape(str(inner)))
        elif key == "rows" and isinstance(inner, list):
            lines += (_read_row(row, depth - 1) for row in inner)
        elif key not in HIDDEN_KEYS:
            lines.append(_read(inner, depth - 1))
    shown = "\n".join(filter(None, lines))
    return shown.replace("\n", " ") if kind.startswith("context") else shown


def _list_signs(part: Json) -> str:
    """Of styles that change what is said."""
    style = find_object(part, "style")
    return "~" * bool(style.get("strike")) + "`" * bool(style.get("code"))


def _read_value(part: Json, kind: str) -> str:
    """A number, or a moment."""
    told = (part.get(key) for key in ("text", "fallback", "value", "timestamp"))
    shown = str(next((one for one in told if one not in (None, "")), ""))
    is_moment = kind == "date" and shown == str(part.get("timestamp"))
    return _show_command(kind, shown, find_text(part, "format")) if is_moment else shown


def _link(label: str, url: str) -> str:
    return f"[{label}]({escape(url)})".removesuffix("()")


def _read_row(row: object, depth: int) -> str:
    """Of a table, on one line."""
    cells = row if isinstance(row, list) else [row]
    return " | ".join(" ".join(_read(cell, depth).split()) for cell in cells)


def _read_rich(part: Json, kind: str, depth: int) -> str:
    """A formatted text, or a part of it."""
    inner = [_read_or_name(one, depth) for one in find_objects(part, "elements")]
    text = "".join(inner) or escape(find_text(part, "text"))
    match kind:
        case "rich_text":
            return "\n".join(inner)
        case "rich_text_list":
            indent = "    " * min(8, max(0, find_number(part, "indent")))
            first, is_ordered = find_number(part, "offset") + 1, part.get("style") == "ordered"
            signs = (f"{at}." if is_ordered else "•" for at in count(first))
            return "\n".join(
                f"{indent}{sign} {item}" for item, sign in zip(inner, signs, strict=False)
            )
        case "rich_text_quote":
            return "\n".join(f"&gt; {line}" for line in text.split("\n"))
        case "rich_text_preformatted":
            fence = "`" * max(3, 1 + max(map(len, BACKTICKS.findall(text)), default=0))
            return f"{fence}\n{text}\n{fence}"
        case _:
            return text


def _says(whole: str, part: str) -> bool:
    """The part stands in the whole, in whatever way it is written."""
    signs = _alphanumerics(part)
    return signs in _alphanumerics(whole) if signs else part.strip() in whole


def _alphanumerics(text: str) -> str:
    """What two ways to write the same have in common."""
    bare = ENTITY.sub(lambda match: match[1].partition("|")[0], text)
    return "".join(filter(str.isalnum, to_plain(bare)))


def strip_mention(text: str, bot: str) -> str:
    """The text without what addresses the bot."""
    # the look-behind: each run of spaces is looked at once
    return re.sub(rf"(?<![ \t])[ \t]*<@{re.escape(bot)}(?:\|[^<>]*)?>[:,]?", "", text).strip()


def has_mention(text: str, bot: str) -> bool:
    """The bot is addressed by name."""
    return strip_mention(text, bot) != text.strip()


def to_plain(text: str) -> str:
    """Mentions as @names, links as markdown, no escapes."""
    plain = ENTITY.sub(_replace_entity, text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _replace_entity(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    kind, name = target[:1], target[1:]
    if kind in ("@", "#"):
        return kind + (label.removeprefix(kind) or name)
    if kind == "!":
        return label or _show_command(*name.split("^"))
    bare = SCHEME.sub("", target)
    if not label or label in (target, bare):
        return bare if target.startswith(("mailto:", "tel:")) else target
    return f"[{label}]({target})"


def _show_command(kind: str, *given: str) -> str:
    """A moment, or whom Slack notifies."""
    seconds, form = (*given, "", "")[:2]
    if kind == "date" and seconds.removeprefix("-").isdecimal():
        return show_moment(int(seconds[:12]), form or "{date} {time}")
    return f"@{kind}"


def list_unseen(text: str) -> tuple[str, ...]:
    """The targets of links that show another address, alone or among other words: nobody has read
    them.
    """
    found = []
    for match in ENTITY.finditer(text):
        target, label = map(to_plain, match[1].partition("|")[::2])
        if ADDRESS.search(label) and to_plain(match[0]) == f"[{label}]({target})":
            found.append(target)
    return tuple(found)


def _attachment_of(file: Json) -> Attachment:
    """Without a `ref` where it is not there any more, or nobody says where it is."""
    mime, size = find_text(file, "mimetype") or "application/octet-stream", file.get("size")
    kind = MEDIA_KINDS.get(mime.partition("/")[0], "document")
    url = find_text(file, "url_private_download") or find_text(file, "url_private")
    name = find_text(file, "name") or find_text(file, "title") or "file"
    if gone := GONE_FILES.get(find_text(file, "mode")):
        return Attachment(kind, gone, mime, 0, "")
    size, ref = size if isinstance(size, int) else 0, url or find_text(file, "id")
    if file.get("subtype") == "slack_audio":
        name = name_file("voice", find_text(file, "id"), mime)
        return Attachment("voice", name, mime, size, ref, named=False)
    return Attachment(kind, name, mime, size, ref)
