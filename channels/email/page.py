"""HTML mails as plain text."""

import re
from html.parser import HTMLParser

from channels.email.mime import Work

MAX_HTML, MAX_DEPTH = 1_000_000, 10
HIDDEN_TAGS = frozenset(("script", "style", "head", "template", "noscript", "svg", "title"))
VOID_TAGS = frozenset(("br", "hr", "img", "meta", "link", "input", "area", "base", "col", "wbr"))
BLOCK_TAGS = frozenset(
    ("p", "div", "br", "li", "tr", "table", "blockquote", "h1", "h2", "h3", "h4", "pre", "ul", "ol")
)
HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])",
    re.IGNORECASE,
)
BLANKS, LINES = re.compile(r"[^\S\n]+"), re.compile(r"\n[ \n]*\n")


class TextOfHtml(HTMLParser):
    """What a person sees of an HTML mail, as plain text: links with their addresses, quotes behind
    ">".
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[tuple[int, list[str]]] = [(0, [])]
        self._hidden: list[str] = []
        self._href, self._depth = "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins; what is hidden counts the elements inside it."""
        named = dict(attrs)
        is_hidden = tag in HIDDEN_TAGS or "hidden" in named
        is_hidden = is_hidden or bool(HIDDEN_STYLE.search(named.get("style") or ""))
        if tag not in VOID_TAGS and (self._hidden or is_hidden):
            self._hidden.append(tag)
        if self._hidden:
            return
        if tag == "blockquote":
            self._depth += 1
        if tag in BLOCK_TAGS:
            self._lines.append((self._depth, ["- "] if tag == "li" else []))
        if tag == "a":
            self._href = (named.get("href") or "").strip()

    def handle_endtag(self, tag: str) -> None:
        """An element ends; one that was never begun ends nothing."""
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
            return
        if tag == "a" and self._href.startswith(("http", "mailto:")):
            name = "".join(self._lines[-1][1][-1:]).strip()
            self._lines[-1][1].extend([f" ({self._href})"] if name != self._href else [])
        self._href = "" if tag == "a" else self._href
        if tag == "blockquote" and not self._hidden:
            self._depth = max(0, self._depth - 1)
        if tag in BLOCK_TAGS:
            self._lines.append((self._depth, []))

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._hidden:
            return
        first, *others = data.split("\n")
        self._lines[-1][1].append(first)
        self._lines += [(self._depth, [line]) for line in others]

    def render(self) -> str:
        """The text."""
        shown: list[str] = []
        for depth, words in self._lines:
            line = BLANKS.sub(" ", "".join(words)).strip()
            marks = ">" * min(depth, MAX_DEPTH)
            shown.append(f"{marks} {line}" if marks and line else line)
        return LINES.sub("\n\n", "\n".join(shown)).strip()


def read_html(html: str) -> str:
    """The text of an HTML mail."""
    reader = TextOfHtml()
    Work.attempt(lambda: reader.feed(html[:MAX_HTML]), None)
    Work.attempt(reader.close, None)
    return Work.attempt(reader.render, "")
