"""From markdown, as language models write it, to blocks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from markdown_it.token import Token

from channels.terminal_text import readable
from channels.text.blocks import NOTHING, RULE, Block, Span, merged
from channels.text.parsing import ESCAPED, tokens
from channels.text.tables import Table

LONGEST_LINK = 400
MOST_SPOILERS = 200
DEEPEST_INDENT = 12
MARKS = {"strong": "bold", "em": "italic", "s": "strike"}
TASK = re.compile(r"\[([ xX])\][ \u00a0]")
WRAPPED = re.compile(
    r"(?P<url>https?://[^\s<>\"`|\\^{}\u200b]+)|\|\|(?=\S)(?P<spoiler>[^|\n]*[^|\s])\|\||(?P<br><br\s?/?>)", re.IGNORECASE
)
TRAILING = ".,;:!?'\"*_~)]}"
BLANK = re.compile(
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0]*"
)
HOST = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*://)?(?:[^/\s@]*@)?([^/\s:?#]+\.[^/\s:?#]+)", re.IGNORECASE)


def blocks(markdown: str) -> list[Block]:
    """The text's blocks, from top to bottom; at least one, and never without anything to see."""
    source = readable(markdown)
    parsed = tokens(source)
    found = [Block("text", (Span(source.strip("\n")),))] if parsed is None else _Reader().read(parsed)
    shown = [block for block in found if block.marker or seen(block.text)]
    return shown if any(seen(block.text) for block in shown) else [Block("text", (Span(NOTHING),))]


def seen(text: str) -> bool:
    """Whether there is anything to see."""
    return BLANK.fullmatch(text) is None


@dataclass(slots=True)
class _List:
    indent: int
    ordered: bool
    number: int
    hang: int = 0


@dataclass(slots=True)
class _Reader:
    """Where the walk through the tokens is: in which lists and quotes, and on which line the last block ended."""

    found: list[Block] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    quote: int = 0
    marker: str = ""
    ended: int = 0
    heading: int = 0
    table: Table | None = None

    def read(self, parsed: Sequence[Token]) -> list[Block]:
        for token in parsed:
            self._take(token)
        return self.found

    def _take(self, token: Token) -> None:
        match token.type:
            case "inline" if self.table:
                self.table.cell(spans(token.children or []))
            case "th_open" if self.table:
                self.table.column(str(token.attrs.get("style", "")).endswith("right"))
            case "inline":
                self._paragraph(token)
            case "heading_open":
                self.heading = int(token.tag[1])
            case "heading_close":
                self.heading = 0
            case "fence" | "code_block":
                self._code(token)
            case "hr":
                self._add(Block("text", (Span(RULE),)), token)
            case "blockquote_open":
                self.quote += 1
            case "blockquote_close":
                self.quote -= 1
            case _:
                self._list_or_table(token)

    def _list_or_table(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                above = self.lists[-1].hang if self.lists else 0
                self.lists.append(_List(min(above, DEEPEST_INDENT), token.type[0] == "o", int(token.attrs.get("start", 1))))
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "list_item_open":
                self._item(token.markup)
            case "list_item_close" if self.marker:
                self._add(Block("text", ()), token)
            case "table_open":
                self.table = Table()
            case "tr_open" if self.table:
                self.table.row()
            case "table_close" if self.table:
                table, self.table = self.table, None
                for at, block in enumerate(table.blocks()):
                    self._add(block, token, inner=at > 0)

    def _item(self, sign: str) -> None:
        if self.marker:
            self._add(Block("text", ()), None)
        here = self.lists[-1]
        self.marker = f"{here.number}{sign}" if here.ordered else "•"
        here.number += 1
        here.hang = here.indent + len(self.marker) + 1

    def _paragraph(self, token: Token) -> None:
        told = spans(token.children or [])
        if self.heading:
            self._add(Block("heading", told, level=self.heading), token)
            return
        if self.marker and told and (task := TASK.match(told[0].text)):
            box = "☐" if task[1] == " " else "☑"
            self.marker = box if self.marker == "•" else f"{self.marker} {box}"
            told = merged((Span(told[0].text[task.end() :], told[0].marks, told[0].href), *told[1:]))
        self._add(Block("text", told), token)

    def _code(self, token: Token) -> None:
        if self.marker:
            self._add(Block("text", ()), token)
        lang = token.info.split()[0] if token.info.strip() else ""
        self._add(Block("code", (Span(token.content.removesuffix("\n")),), lang=lang), token)

    def _add(self, block: Block, token: Token | None, inner: bool = False) -> None:
        """Below what stands there already, as near to it as it was written; what is `inner` knows that itself."""
        start, end = token.map if token and token.map else (self.ended, self.ended)
        above = self.found[-1].kind if self.found else ""
        near = start <= self.ended or "code" in (block.kind, above) or above == "heading"
        hang = self.lists[-1].hang if self.lists else 0
        self.found.append(
            replace(
                block,
                gap=1 if near and not inner else block.gap,
                indent=self.lists[-1].indent if self.marker else hang,
                marker=self.marker,
                quote=self.quote,
            )
        )
        self.marker, self.ended = "", max(end, self.ended)


def spans(children: Sequence[Token]) -> tuple[Span, ...]:
    """The spans of a paragraph."""
    told: list[Span] = []
    marks: list[str] = []
    href: list[str] = []
    for child in children:
        kind, _, side = child.type.rpartition("_")
        if kind in MARKS:
            marks.append(MARKS[kind]) if side == "open" else marks.remove(MARKS[kind])
        elif child.type == "link_open":
            href.append(str(child.attrs.get("href", "")))
        elif child.type == "link_close":
            _close_link(told, href.pop())
        else:
            told += _told(child, frozenset(marks), href[-1] if href else "")
    return merged(told)


def _told(child: Token, marks: frozenset[str], href: str) -> list[Span]:
    match child.type:
        case "code_inline":
            return [Span(child.content, marks | {"code"}, href)]
        case "softbreak" | "hardbreak":
            return [Span("\n", marks, href)]
        case "image":
            source = str(child.attrs.get("src", ""))
            return [Span(child.content.replace(ESCAPED, "") or source, marks, href or source)]
        case _:
            return [Span(child.content.replace(ESCAPED, ""), marks, href)] if href else _wrapped(child.content, marks)


def _wrapped(text: str, marks: frozenset[str]) -> list[Span]:
    """Bare addresses as links, ||spoilers||, and the one bit of HTML that models write everywhere: <br>."""
    if text.count("||") > MOST_SPOILERS:
        return [Span(text.replace(ESCAPED, ""), marks)]
    told: list[Span] = []
    at = 0
    for found in WRAPPED.finditer(text):
        told.append(Span(text[at : found.start()].replace(ESCAPED, ""), marks))
        at = found.end()
        if found["url"]:
            url = _without_trailing(found["url"])
            told.append(Span(url, marks, url if len(url) <= LONGEST_LINK else ""))
            at = found.start() + len(url)
        elif found["spoiler"]:
            told.append(Span(found["spoiler"].replace(ESCAPED, ""), marks | {"spoiler"}))
        else:
            told.append(Span("\n", marks))
    return [*told, Span(text[at:].replace(ESCAPED, ""), marks)]


def _without_trailing(url: str) -> str:
    """Without the punctuation of the sentence; a bracket that was opened in the address stays."""
    while url[-1] in TRAILING and not (url[-1] == ")" and url.count("(") >= url.count(")")):
        url = url[:-1]
    return url


def _close_link(told: list[Span], href: str) -> None:
    """A link without text gets its address; where it leads elsewhere than it says, that is said, too."""
    label = ""
    for span in reversed(told):
        if span.href != href:
            break
        label = span.text + label
    if not label:
        told.append(Span(href, frozenset(), href))
    elif len(href) > LONGEST_LINK or elsewhere(label, href):
        told.append(Span(f" ({href})"))


def elsewhere(label: str, href: str) -> bool:
    """Whether the label looks like an address on another host than the link's."""
    said, real = HOST.match(label), HOST.match(href)
    if not said or " " in label.strip():
        return False
    return not real or said[1].lower() != real[1].lower()
