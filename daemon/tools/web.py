"""web_fetch: reading a page of the web."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from yarl import URL

from daemon.core.label import Effect, Label
from daemon.tools.base import ToolError, ToolOutput
from daemon.tools.decorate import tool
from daemon.tools.net.client import Answered, WebClient
from daemon.tools.net.errors import Refused
from daemon.tools.net.redirects import follow
from daemon.tools.pages import Page, read_page

ACCEPT = {"Accept": "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5"}
HTML = ("text/html", "application/xhtml+xml")
PLAIN = re.compile(r"text/[a-z0-9.+-]+|application/([a-z0-9.-]+\+|x-)?(json|ndjson|xml|yaml|javascript)")
KIND = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
MOST_LINKS, LONGEST_LINK = 40, 500
ROOM = 250_000


@dataclass(frozen=True, slots=True)
class Reading:
    """How pages are read. `max_chars`: longer ones are cut."""

    client: WebClient
    max_chars: int


@tool(
    effect=Effect.FETCH, parallel=True, idempotent=True, retries=2, timeout_s=90,
    critical=("url",), max_chars=ROOM, outside=True,
)  # fmt: skip
async def web_fetch(reading: Reading, url: str) -> ToolOutput:
    """Read a web page or text file: its title, text and links."""
    answer = await follow(reading.client, url, ACCEPT)
    if answer.status >= 400:
        return ToolOutput(f"{answer.target.url}: HTTP {status_line(answer.status)}", is_error=True, label=Label.UNTRUSTED)
    return ToolOutput(await _told(reading, answer), label=Label.UNTRUSTED)


def status_line(status: int) -> str:
    """A status with its usual word: not the server's, which could be any text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def charset_of(answer: Answered) -> str:
    """The encoding that the server tells; empty if it tells none."""
    found = CHARSET.search(answer.headers.get("content-type", ""))
    return found[1] if found else ""


def plain_text(answer: Answered) -> str | None:
    """The body as text; None if it is none."""
    known = PLAIN.fullmatch(answer.kind) is not None
    if b"\0" in answer.body or (answer.kind and not known):
        return None
    try:
        return answer.body.decode(charset_of(answer) or "utf-8", "replace" if known else "strict")
    except (LookupError, UnicodeDecodeError):
        return answer.body.decode("utf-8", "replace") if known else None


async def _told(reading: Reading, answer: Answered) -> str:
    if answer.kind in HTML or (not answer.kind and answer.body.lstrip()[:1] == b"<"):
        page = await read_page(answer.body, charset_of(answer), reading.max_chars)
        lines = [page.title, str(answer.target.url), "", *_cut(page.text, page.chars), *_links(reading, answer, page)]
        return "\n".join([*lines, *_unread(answer)]).strip()
    text = plain_text(answer)
    if text is None:
        kind = answer.kind if KIND.fullmatch(answer.kind) else "something unknown"
        raise ToolError(f"{answer.target.host} sent {kind}, {len(answer.body)} bytes. Only pages and text can be read.")
    return "\n".join([str(answer.target.url), "", *_cut(text[: reading.max_chars], len(text)), *_unread(answer)])


def _cut(text: str, chars: int) -> Iterator[str]:
    yield text or "[no text]"
    if chars > len(text):
        yield f"[... {chars - len(text)} characters left out ...]"


def _unread(answer: Answered) -> Iterator[str]:
    if answer.cut:
        yield f"[... only the first {len(answer.body)} bytes were read ...]"


def _links(reading: Reading, answer: Answered, page: Page) -> Iterator[str]:
    """Whole addresses, one a line, so that one can be followed as it stands."""
    found = dict(_places(reading, answer, page))
    if found:
        yield "\nLinks:"
    for number, (place, name) in enumerate(list(found.items())[:MOST_LINKS], 1):
        yield f"{number}. {place} {name}".rstrip()
    if len(found) > MOST_LINKS:
        yield f"[... {len(found) - MOST_LINKS} links left out ...]"


def _places(reading: Reading, answer: Answered, page: Page) -> Iterator[tuple[str, str]]:
    here = answer.target.url
    for place, name in page.links:
        try:
            whole = here.join(URL(page.base)).join(URL(place)) if page.base else here.join(URL(place))
            target = reading.client.guard.check(str(whole.with_fragment(None)))
        except (ValueError, Refused):
            continue
        if target.url != here and len(str(target.url)) <= LONGEST_LINK:
            yield str(target.url), name
