"""What a page says, told by a child process: `python -I extract.py MAX_CHARS < page > JSON` (imports nothing of the house).

HTML from strangers is read here, with little memory, little time and no right to write. With the extra `web` trafilatura finds
the text; without it, or where it finds nothing, everything a browser would show is the text.
"""

import json
import re
import resource
import sys
from collections.abc import Iterator
from html.parser import HTMLParser

try:
    import trafilatura
except ImportError:
    trafilatura = None

MEMORY_BYTES, CPU_S = 1_500_000_000, 10
MAX_LINKS, MAX_LINK, MAX_LINK_NAME = 300, 2000, 80
SKIPPED_TAGS = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "math",
    "iframe",
    "object",
    "select",
    "textarea",
)
MENU_TAGS = ("nav", "header", "footer", "aside")
BLOCK_TAGS = (
    "p", "div", "br", "li", "ul", "ol", "tr", "table",
    "section", "article", "pre", "blockquote", *(f"h{n}" for n in range(1, 7)),
)  # fmt: skip
CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
BLANKS, LINES = re.compile(r"[^\S\n]+"), re.compile(r"\s*\n\s*")


class PageParser(HTMLParser):
    """Title, text, links and the base of a page; links of the text before those of menus."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self.base, self.text = "", "", ""
        self.links: list[tuple[bool, str, str]] = []
        self._open: dict[str, int] = {}
        self._words: list[str] = []
        self._link: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        if tag in (*SKIPPED_TAGS, *MENU_TAGS, "title"):
            self._open[tag] = self._open.get(tag, 0) + 1
        if tag in BLOCK_TAGS:
            self._words.append("\n")
        place = dict(attrs).get("href")
        if tag == "base" and place and not self.base:
            self.base = place
        if tag == "a" and place and len(place) <= MAX_LINK:
            self._link = [place]

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if self._open.get(tag):
            self._open[tag] -= 1
        if tag in BLOCK_TAGS:
            self._words.append("\n")
        if tag == "a" and self._link:
            name = " ".join(" ".join(self._link[1:]).split())[:MAX_LINK_NAME]
            self.links.append((any(self._open.get(one) for one in MENU_TAGS), self._link[0], name))
            self._link = None

    def handle_data(self, data: str) -> None:
        """Words."""
        if self._open.get("title") and not self.title:
            self.title = " ".join(data.split())
            return
        if any(self._open.get(one) for one in SKIPPED_TAGS):
            return
        self._words.append(data)
        if self._link:
            self._link.append(data)

    def plain_text(self) -> str:
        """All of its text."""
        return LINES.sub("\n", BLANKS.sub(" ", "".join(self._words))).strip()

    def iter_links(self) -> Iterator[tuple[str, str]]:
        """(address as it stands, name) of its links, the text's own first."""
        for _, place, name in sorted(self.links, key=lambda link: link[0]):
            yield place.strip(), name


def decode_page(page: bytes, charset: str) -> str:
    """The page as text: in the encoding that is told, else UTF-8 as far as it goes."""
    found = CHARSET.search(page[:4096])
    for name in (charset, found[1].decode() if found else "", "utf-8"):
        try:
            return page.decode(name)
        except (LookupError, UnicodeDecodeError):
            continue
    return page.decode("utf-8", "replace")


def extract_main_text(page: str) -> str:
    """The text without menus and the like; empty if it cannot be told apart, or nobody is there who can."""
    if trafilatura is None:
        return ""
    return (
        trafilatura.extract(page, include_comments=False, include_tables=True, with_metadata=False)
        or ""
    )


def extract(page: bytes, charset: str, max_chars: int) -> dict[str, object]:
    """Everything that is told of a page."""
    source = decode_page(page, charset)
    parser = PageParser()
    parser.feed(source)
    parser.close()
    text = extract_main_text(source) or parser.plain_text()
    links = list(dict(parser.iter_links()).items())[:MAX_LINKS]
    return {
        "title": parser.title[:300],
        "base": parser.base,
        "text": text[:max_chars],
        "chars": len(text),
        "links": links,
    }


def set_limits() -> None:
    """Little memory, little time, nothing written."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    set_limits()
    sys.stdout.write(json.dumps(extract(sys.stdin.buffer.read(), sys.argv[2], int(sys.argv[1]))))
