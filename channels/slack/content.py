"""What a person sees in a message of Slack: text, blocks, attachments of programs, files, and the
messages that it passes on.
"""

import re
from collections.abc import Iterator
from itertools import chain

from channels.content import UNREADABLE_PART, Card, Content
from channels.json_access import Json, find_number, find_object, find_objects, find_text, get_text
from channels.message import MEDIA_KINDS, Attachment, Reference

ENTITY = re.compile(r"<([^<>\n]+)>")
ADDRESS = re.compile(r"@|\w\.[^\W\d]{2}|\d\.\d+\.\d|^\S*\.\S*$")  # where a link says it leads
SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)")
BACKTICKS = re.compile("`+")
PLAIN_TEXTS = ("plain_text", "raw_text", "raw_number")
SHOWN_KEYS = ("text", "title", "alt_text", "description", "caption", "name")
HIDDEN_KEYS = ("confirm", "icon", "rows")
GONE_FILES = {"tombstone": "a file that was deleted", "hidden_by_limit": "a file that is too old"}
BESIDE_PASSED = ("pretext", "title", "title_link", "fields", "image_url", "actions")
"""What a message that is passed on has beside its words."""
MAX_DEPTH = 24


def read_content(message: Json, bot: str = "") -> Content:
    """All of it but the messages that it passes on; `bot`: whose mentions are left out."""
    words, program = read_words(message), "\n".join(_read_other_blocks(message))
    if not any(_read_rich_blocks(message)) and _says(program, words):
        words = ""  # blocks are shown in place of the text
    attachments = find_objects(message, "attachments")
    cards = (_read_attachment(row) for row in attachments if not is_passed(row))
    files = [_attachment_of(file) for file in find_objects(message, "files")]
    return Content(
        to_plain(strip_mention(words, bot)) if bot else to_plain(words).strip(),
        data=list_unseen(words),
        cards=tuple(filter(Card.render, (Card(text=program), *cards))),
        notes=tuple(UNREADABLE_PART.format(kind=one.name) for one in files if not one.ref),
        files=tuple(one for one in files if one.ref),
    )


def read_words(message: Json) -> str:
    """The text that was typed, with Slack's marks: once, where text and blocks say the same."""
    text, rich = get_text(message, "text", ""), "\n".join(_read_rich_blocks(message))
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
    program = "\n".join(chain(_read_rich_blocks(row, plain=True), _read_other_blocks(row)))
    texts = [plain.get("pretext", ""), plain.get("text", ""), program]
    picture = plain.get("image_url") or plain.get("thumb_url", "")
    files = [find_text(file, "name") for file in find_objects(row, "files")]
    extra = [("image", picture), *(("file", name) for name in files)]
    buttons = [("", f"[{text}]") for one in find_objects(row, "actions") if (text := _label(one))]
    card = Card(
        plain.get("title", ""),
        "\n".join(filter(None, texts)),
        find_text(row, "title_link") or find_text(row, "from_url"),
        plain.get("author_name", "") or plain.get("service_name", ""),
        (*_read_fields(row), *(pair for pair in extra if pair[1]), *buttons),
        plain.get("footer", ""),
    )
    return card if card.render() else Card(text=plain.get("fallback", ""))


def _read_fields(row: Json) -> tuple[tuple[str, str], ...]:
    return tuple(
        (to_plain(find_text(one, "title")), to_plain(find_text(one, "value")))
        for one in find_objects(row, "fields")
    )


def _read_rich_blocks(message: Json, *, plain: bool = False) -> Iterator[str]:
    """What was typed, or formatted as if it were."""
    for block in find_objects(message, "blocks"):
        if block.get("type") == "rich_text":
            text = _read_rich(block)
            yield to_plain(text) if plain else text


def _read_other_blocks(message: Json) -> Iterator[str]:
    """What a program has laid out. What is of an unknown kind is named."""
    for block in find_objects(message, "blocks"):
        kind = find_text(block, "type")
        if kind not in ("rich_text", "divider"):
            shown = _read_block(block, MAX_DEPTH)
            yield shown or UNREADABLE_PART.format(kind=kind.replace("_", " ") or "a block")


def _read_block(block: object, depth: int) -> str:
    """The texts in it, in order. Kinds that nobody knows here have theirs in the same places."""
    if isinstance(block, list):
        parts = (_read_block(part, depth - 1) for part in block) if depth else ()
        return "\n".join(filter(None, parts))
    if not isinstance(block, dict) or not depth:
        return ""
    kind, rows = find_text(block, "type"), block.get("rows")
    match kind:
        case "mrkdwn":
            return to_plain(find_text(block, "text"))
        case _ if kind in PLAIN_TEXTS:
            text = block.get("text", block.get("value"))
            return "" if text is None else str(text)
        case "rich_text":
            return to_plain(_read_rich(block))
        case "image" | "video":
            name = _label(block) or find_text(block, "alt_text")
            shown = f"[{kind}: {name}]({find_text(block, f'{kind}_url')})".removesuffix("()")
            return f"{shown}\n{_read_block(block.get('description'), depth - 1)}".strip()
        case "button" | "workflow_button" | "url" if label := _label(block):
            return f"[{label}]({find_text(block, 'url')})".removesuffix("()")
        case "context" | "context_actions":
            return _read_block(block.get("elements"), depth - 1).replace("\n", " ")
        case "file":
            return f"[file: {find_text(block, 'external_id')}]"
    lines = [_read_row(row, depth - 1) for row in rows] if isinstance(rows, list) else []
    for key, part in block.items():
        if key in SHOWN_KEYS and isinstance(part, str):
            lines.append(part)
        elif key not in HIDDEN_KEYS:
            lines.append(_read_block(part, depth - 1))
    return "\n".join(filter(None, lines))


def _read_row(row: object, depth: int) -> str:
    """Of a table, on one line."""
    cells = row if isinstance(row, list) else [row]
    return " | ".join(" ".join(_read_block(cell, depth).split()) for cell in cells)


def _label(element: Json) -> str:
    """Of a button, or an image: a text object, or just the words."""
    found = (element.get("text"), element.get("title"))
    texts = (one if isinstance(one, str) else _read_block(one, 2) for one in found)
    return next(filter(None, texts), "")


def _read_rich(block: Json) -> str:
    """With Slack's marks, as it writes the same in the text of a message."""
    lines = list[str]()
    for part in find_objects(block, "elements"):
        match find_text(part, "type"):
            case "rich_text_list":
                indent = "    " * min(8, max(0, find_number(part, "indent")))
                first, is_ordered = find_number(part, "offset") + 1, part.get("style") == "ordered"
                lines += (
                    f"{indent}{f'{number}.' if is_ordered else '•'} {_read_line(item)}"
                    for number, item in enumerate(find_objects(part, "elements"), first)
                )
            case "rich_text_quote":
                lines += (f"&gt; {line}" for line in _read_line(part).split("\n"))
            case "rich_text_preformatted":
                text = _read_line(part)
                runs = map(len, BACKTICKS.findall(text))
                fence = "`" * max(3, 1 + max(runs, default=0))
                lines += (fence, text, fence)
            case _:
                lines.append(_read_line(part))
    return "\n".join(lines)


def _read_line(part: Json) -> str:
    elements = find_objects(part, "elements")
    return "".join(map(_read_element, elements)) if elements else _read_element(part)


def _read_element(element: Json) -> str:
    """A piece of a line. What is of an unknown kind is named."""
    kind, text = find_text(element, "type"), find_text(element, "text")
    url = find_text(element, "url").replace("<", "%3C").replace(">", "%3E").replace("|", "%7C")
    match kind:
        case "link" if url:
            label = " ".join(escape(text).split())
            return f"<{url}|{label}>" if label and text != url else f"<{url}>"
        case "user" | "channel" | "usergroup" | "team":
            sign = {"user": "@", "channel": "#", "usergroup": "!subteam^"}.get(kind, "!team^")
            return f"<{sign}{find_text(element, f'{kind}_id')}>"
        case "broadcast":
            return f"<!{find_text(element, 'range')}>"
        case "emoji":
            return f":{find_text(element, 'name')}:"
        case "date":
            return escape(find_text(element, "fallback") or str(element.get("timestamp", "")))
        case "color":
            return escape(find_text(element, "value"))
        case _ if text:
            is_code = find_object(element, "style").get("code")
            return f"`{escape(text)}`" if is_code else escape(text)
        case "text" | "rich_text_section" | "rich_text_quote" | "rich_text_preformatted":
            return ""
        case _:
            return UNREADABLE_PART.format(kind=escape(kind.replace("_", " ")) or "a part of a line")


def escape(text: str) -> str:
    """As Slack writes it beside its own marks."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
        return label or "@" + name.partition("^")[0]
    bare = SCHEME.sub("", target)
    if not label or label in (target, bare):
        return bare if target.startswith(("mailto:", "tel:")) else target
    return f"[{label}]({target})"


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
    if file.get("subtype") == "slack_audio":
        kind = "voice"
    url = find_text(file, "url_private_download") or find_text(file, "url_private")
    name = find_text(file, "name") or find_text(file, "title") or "file"
    if gone := GONE_FILES.get(find_text(file, "mode")):
        return Attachment(kind, gone, mime, 0, "")
    size = size if isinstance(size, int) else 0
    return Attachment(kind, name, mime, size, url or find_text(file, "id"))
