"""Telegram's HTML as its servers read it: strict about tags, and about little else."""

import re
from dataclasses import dataclass

from tests.fakes.telegram.refusals import Refusal

KINDS = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
MARK = re.compile(r"&(#x[0-9a-fA-F]+|#[0-9]+|[a-z]+);|<")
TAG = re.compile(
    r"<(/?)([a-zA-Z0-9-]*)((?:\s+[a-zA-Z-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>]+))?)*)\s*>"
)
VALUE = re.compile(r"([a-zA-Z-]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")


@dataclass(frozen=True, slots=True)
class Entity:
    """A stretch of formatted text, in UTF-16 units."""

    kind: str
    offset: int
    length: int
    extra: str = ""


def units(text: str) -> int:
    """How long Telegram takes a text to be."""
    return len(text) + sum(char > "\uffff" for char in text)


def read(markup: str) -> tuple[str, tuple[Entity, ...]]:
    """The text and its formatting. Raises Refusal where Telegram cannot parse it."""
    text, at, open_tags, found = "", 0, [], []
    while mark := MARK.search(markup, at):
        text += markup[at : mark.start()]
        if mark.group().startswith("&"):
            text, at = text + _character(mark), mark.end()
            continue
        tag = _tag(markup, mark.start())
        at = tag.end()
        if not tag.group(1):
            open_tags.append((tag.group(2).lower(), units(text), _extra(tag, markup)))
            continue
        name, start, extra = _closed(open_tags, tag, markup)
        if units(text) > start:
            found.append(Entity(KINDS[name], start, units(text) - start, extra))
    if open_tags:
        raise _wrong(f'can\'t find end tag corresponding to start tag "{open_tags[-1][0]}"')
    return text + markup[at:], tuple(found)


def _character(mark: re.Match[str]) -> str:
    name = mark.group(1)
    if name.startswith("#x"):
        return chr(int(name[2:], 16))
    return chr(int(name[1:])) if name.startswith("#") else NAMED.get(name, mark.group())


def _tag(markup: str, at: int) -> re.Match[str]:
    tag = TAG.match(markup, at)
    where = f"at byte offset {len(markup[:at].encode())}"
    if tag is None:
        raise _wrong(f'unsupported start tag "{markup[at + 1 : at + 9]}" {where}')
    if not tag.group(1) and tag.group(2).lower() not in KINDS:
        raise _wrong(f'unsupported start tag "{tag.group(2)}" {where}')
    if (
        tag.group(2).lower() == "span"
        and not tag.group(1)
        and 'class="tg-spoiler"' not in tag.group(3)
    ):
        raise _wrong(f'tag "span" must have class "tg-spoiler" {where}')
    return tag


def _extra(tag: re.Match[str], markup: str) -> str:
    values = {name.lower(): a or b or c for name, a, b, c in VALUE.findall(tag.group(3))}
    return values.get("href", "") or values.get("class", "").removeprefix("language-")


def _closed(
    open_tags: list[tuple[str, int, str]], tag: re.Match[str], markup: str
) -> tuple[str, int, str]:
    where = f"at byte offset {len(markup[: tag.start()].encode())}"
    if not open_tags:
        raise _wrong(f"unexpected end tag {where}")
    if tag.group(2) and tag.group(2).lower() != open_tags[-1][0]:
        raise _wrong(
            f'unmatched end tag {where}, expected "</{open_tags[-1][0]}>", found "</{tag.group(2)}>"'
        )
    return open_tags.pop()


def _wrong(why: str) -> Refusal:
    return Refusal(400, f"Bad Request: can't parse entities: {why}")
