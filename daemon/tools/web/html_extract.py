"""Extracts text and links from HTML in UTF-8: `python -I html_extract.py MAX_CHARS < page > JSON`.

Runs as a child process that imports nothing of ours: HTML from strangers is read with little
memory, little time and no right to write. With the extra `web`, trafilatura finds the text; without
it, or where it finds nothing, everything a browser would show is the text.
"""

import json
import re
import resource
import sys
from collections import Counter
from html.parser import HTMLParser

try:
    import trafilatura
except ImportError:
    trafilatura = None

MEMORY_BYTES, CPU_S = 1_500_000_000, 10
MAX_LINKS, MAX_LINK, MAX_LINK_NAME = 300, 2000, 80
HIDDEN_TAGS = frozenset(
    ("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "select",
     "textarea")
)  # fmt: skip
MENU_TAGS = frozenset(("nav", "header", "footer", "aside"))
BLOCK_TAGS = frozenset(
    ("p", "div", "br", "li", "ul", "ol", "tr", "table", "section", "article", "pre", "blockquote",
     "h1", "h2", "h3", "h4", "h5", "h6")
)  # fmt: skip
BLANKS, LINES = re.compile(r"[^\S\n]+"), re.compile(r"\s*\n\s*")


class PageParser(HTMLParser):
    """Collects title, base, text and links; `links` hold (in a menu, address, name)."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self.base = "", ""
        self.words: list[str] = []
        self.links: list[tuple[bool, str, str]] = []
        self._open = Counter[str]()
        self._link: tuple[str, int] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        if tag in HIDDEN_TAGS | MENU_TAGS | {"title"}:
            self._open[tag] += 1
        if tag in BLOCK_TAGS:
            self.words.append("\n")
        address = dict(attrs).get("href") or ""
        if tag == "base" and not self.base:
            self.base = address
        if tag == "a" and address and len(address) <= MAX_LINK:
            self._link = address.strip(), len(self.words)

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if self._open[tag]:
            self._open[tag] -= 1
        if tag in BLOCK_TAGS:
            self.words.append("\n")
        if tag == "a" and self._link:
            address, start = self._link
            name = " ".join("".join(self.words[start:]).split())[:MAX_LINK_NAME]
            self.links.append((any(map(self._open.get, MENU_TAGS)), address, name))
            self._link = None

    def handle_data(self, data: str) -> None:
        """Words."""
        if self._open["title"] and not self.title:
            self.title = " ".join(data.split())
        elif not any(map(self._open.get, HIDDEN_TAGS)):
            self.words.append(data)


def extract(source: str, max_chars: int) -> dict[str, object]:
    """Everything that is reported of a page: the links of its text before those of its menus."""
    parser = PageParser()
    parser.feed(source)
    parser.close()
    text = ""
    if trafilatura:
        text = trafilatura.extract(source, include_comments=False, include_tables=True) or ""
    text = text or LINES.sub("\n", BLANKS.sub(" ", "".join(parser.words))).strip()
    links = dict(link[1:] for link in sorted(parser.links, key=lambda link: link[0]))
    return {
        "title": parser.title[:300],
        "base": parser.base,
        "text": text[:max_chars],
        "chars": len(text),
        "links": list(links.items())[:MAX_LINKS],
    }


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    for forbidden in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(forbidden, (0, 0))
    found = extract(sys.stdin.buffer.read().decode("utf-8", "replace"), int(sys.argv[1]))
    sys.stdout.write(json.dumps(found))
