"""What a person sees of an HTML mail, as plain text.

Mails leave end tags out, as HTML allows: an element ends where HTML says that it does.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import count, islice

from channels.email.mime import ParseLimit

MAX_HTML, MAX_DEPTH, MAX_NESTED = 1_000_000, 10, 100
HIDDEN_TAGS = frozenset(("script", "style", "template", "svg", "title"))
VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
TABLE_NAMES = "table caption thead tbody tfoot tr td th"
BLOCK_NAMES = (
    "address article aside blockquote body br center dd details div dl dt fieldset figcaption"
    " figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary ul"
)
VOID_TAGS, TABLE_TAGS = frozenset(VOID_NAMES.split()), frozenset(TABLE_NAMES.split())
BLOCK_TAGS = TABLE_TAGS.union(BLOCK_NAMES.split())
CELLS = ("td", "th")
GAPS = ("blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "p", "pre", "table")
"""Elements with an empty line before and behind them."""
LISTS, STRUCK_TAGS, STRUCK = ("ol", "ul"), ("s", "strike", "del"), "~~"
BOXES, NUMBER = {True: "[x] ", False: "[ ] "}, re.compile(r"\s*(\d{1,6})\s*")
SCOPES = frozenset(("table", "ul", "ol", "dl", *CELLS))
ENDED_BY = {
    "p": BLOCK_TAGS - TABLE_TAGS - {"br"} | {"table"},
    "li": ("li",), "dt": ("dt", "dd"), "dd": ("dt", "dd"),
    "td": ("td", "th", "tr", "tbody", "tfoot"), "th": ("td", "th", "tr", "tbody", "tfoot"),
    "tr": ("tr", "tbody", "tfoot"),
}  # fmt: skip
"""By an element whose end tag may be left out, the elements that end it where they begin."""
HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])",
    re.IGNORECASE,
)
KEPT_STYLE = re.compile(r"white-space\s*:\s*(?:pre|break-spaces)", re.IGNORECASE)
BLANKS, LINES = re.compile(r"[^\S\n]+"), re.compile(r"\n[ \n]*\n")


@dataclass(frozen=True, slots=True)
class Element:
    """An element that has not ended. `depth`: how many quotes it is in; `numbers`: of its items;
    `is_kept`: its spaces and ends of lines are shown as they are.
    """

    tag: str
    is_hidden: bool = False
    depth: int = 0
    numbers: Iterator[int] | None = None
    is_kept: bool = False


@dataclass(slots=True)
class Line:
    """A line that is shown. `mark`: what stands before an item of a list."""

    depth: int = 0
    mark: str = ""
    is_kept: bool = False
    words: list[str] = field(default_factory=list)

    def render(self) -> str:
        """Behind the signs of its quotes."""
        text = f"{self.mark}{''.join(self.words)}"
        text = text.rstrip() if self.is_kept else BLANKS.sub(" ", text).strip()
        signs = ">" * min(self.depth, MAX_DEPTH)
        return f"{signs} {text}" if signs and text else text


class TextOfHtml(HTMLParser):
    """Links have their addresses, pictures their descriptions, quotes stand behind ">", items of
    lists behind their numbers, struck words between "~~".
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines = [Line()]
        self._open = [Element("")]
        self._href = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins; what is in a hidden one is hidden, too."""
        self._end_implied(tag)
        named, outer = dict(attrs), self._open[-1]
        is_hidden = outer.is_hidden or tag in HIDDEN_TAGS or "hidden" in named
        is_hidden = is_hidden or bool(HIDDEN_STYLE.search(named.get("style") or ""))
        depth = outer.depth + (tag == "blockquote")
        if tag not in VOID_TAGS:
            first = NUMBER.fullmatch(named.get("start") or "1")
            numbers = count(int(first[1]) if first else 1) if tag == "ol" else None
            is_kept = outer.is_kept or tag == "pre"
            is_kept = is_kept or bool(KEPT_STYLE.search(named.get("style") or ""))
            self._open.append(Element(tag, is_hidden, depth, numbers, is_kept))
        if is_hidden:
            return
        if tag in CELLS:
            self._lines[-1].words.append(" ")
        elif tag == "br":
            self._lines.append(Line(depth))
        elif tag in BLOCK_TAGS:
            self._break(tag, depth, self._mark_item() if tag == "li" else "")
        if tag == "a":
            self._href = (named.get("href") or "").strip()
        else:
            self._lines[-1].words.append(_read_inline(tag, named))

    def _break(self, tag: str, depth: int, mark: str = "") -> None:
        """Begin a line, where one has begun already."""
        line = self._lines[-1]
        is_blank = not any(map(str.strip, line.words))
        if is_blank:
            line.words.clear()  # many breaks look at them no more
        if not is_blank or (mark and line.mark):
            self._lines.append(line := Line())
        if tag in GAPS and not line.mark:
            self._lines.append(line := Line())
        line.depth, line.mark = depth, line.mark or mark

    def _mark_item(self) -> str:
        nearest = islice(reversed(self._open), MAX_NESTED)
        numbers = next((one.numbers for one in nearest if one.tag in LISTS), None)
        return f"{next(numbers)}. " if numbers else "- "

    def handle_endtag(self, tag: str) -> None:
        """An element ends, with those in it; one that was never begun ends nothing."""
        is_hidden = self._open[-1].is_hidden
        if tag in VOID_TAGS:
            return
        self._end(tag)
        if is_hidden:
            return
        if tag == "a" and self._href.startswith(("http", "mailto:")):
            name = "".join(self._lines[-1].words[-1:]).strip()
            self._lines[-1].words.extend([f" ({self._href})"] if name != self._href else [])
        self._href = "" if tag == "a" else self._href
        if tag in STRUCK_TAGS:
            self._lines[-1].words.append(STRUCK)
        if tag in BLOCK_TAGS and tag not in CELLS:
            self._break(tag, self._open[-1].depth)

    def _end_implied(self, tag: str) -> None:
        """End what cannot go on where this element begins."""
        top = len(self._open) - 1
        for at in range(top, max(0, top - MAX_NESTED), -1):
            outer = self._open[at].tag
            if tag in ENDED_BY.get(outer, ()):
                del self._open[at:]
            elif outer in SCOPES:
                return

    def _end(self, tag: str) -> None:
        """End the innermost of these, as far as its end tag reaches."""
        bounds = () if tag in TABLE_TAGS else SCOPES & TABLE_TAGS
        bounds = bounds if tag in BLOCK_TAGS else BLOCK_TAGS
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at].tag == tag:
                del self._open[at:]
                return
            if self._open[at].tag in bounds:
                return

    def handle_data(self, data: str) -> None:
        """Text."""
        element = self._open[-1]
        if element.is_hidden:
            return
        if element.tag == "sup" and data[:1].isalnum():
            data = f"^{data}"
        first, *others = data.split("\n") if element.is_kept else [data.replace("\n", " ")]
        self._lines[-1].words.append(first)
        self._lines[-1].is_kept = element.is_kept
        self._lines += [Line(element.depth, "", element.is_kept, [line]) for line in others]

    def render(self) -> str:
        """The text."""
        return LINES.sub("\n\n", "\n".join(line.render() for line in self._lines)).strip()


def _read_inline(tag: str, named: Mapping[str, str | None]) -> str:
    """What an element without text of its own shows, or the mark of one with text."""
    if tag == "img":
        return " ".join((named.get("alt") or "").split())
    if tag == "input" and (named.get("type") or "").casefold() == "checkbox":
        return BOXES["checked" in named]
    return STRUCK if tag in STRUCK_TAGS else ""


def read_html(html: str) -> str:
    """The text of an HTML mail."""
    reader = TextOfHtml()
    ParseLimit.attempt(lambda: reader.feed(html[:MAX_HTML]), None)
    ParseLimit.attempt(reader.close, None)
    return ParseLimit.attempt(reader.render, "")
