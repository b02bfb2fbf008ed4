"""HTML made into text and links, by a child process that may do nothing else.

web_fetch: reading a page of the web.
"""

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from yarl import URL

from daemon.core import value
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolError, ToolOutput
from daemon.tools.signature import tool
from daemon.tools.web.client import WebClient, WebResponse, follow_redirects
from daemon.tools.web.guard import AddressRefused

EXTRACT_SCRIPT = Path(__file__).with_name("extract.py")
EXTRACT_S = 10.0


@value
class WebPage:
    """What a page says. `chars`: how long its text was before it was cut; `links`: (address as it stands there, name)."""

    title: str
    base: str
    text: str
    chars: int
    links: tuple[tuple[str, str], ...]


async def read_page(
    html: bytes, charset: str, max_chars: int, *, timeout_s: float = EXTRACT_S
) -> WebPage:
    """The page's text, at most `max_chars` of it. Raises ToolError for a page that takes too much time or memory to read."""
    told = await ask_child(
        [sys.executable, "-I", str(EXTRACT_SCRIPT), str(max_chars), charset], html, timeout_s
    )
    if told is None:
        raise ToolError("the page came, but it is too large or too tangled to be read")
    read = json.loads(told)
    links = tuple((place, name) for place, name in read["links"])
    return WebPage(read["title"], read["base"], read["text"], read["chars"], links)


async def ask_child(argv: Sequence[str], asked: bytes, timeout_s: float) -> bytes | None:
    """What a child of ours prints when it is told this; None if it failed or took longer. It is dead when this returns."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/nonexistent"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(timeout_s):
            printed, _ = await process.communicate(asked)
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return printed if process.returncode == 0 else None


ACCEPT = {
    "Accept": "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5"
}
HTML_TYPES = ("text/html", "application/xhtml+xml")
TEXT_TYPES = re.compile(
    r"text/[a-z0-9.+-]+|application/([a-z0-9.-]+\+|x-)?(json|ndjson|xml|yaml|javascript)"
)
MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
MAX_PAGE_LINKS, MAX_LINK_CHARS = 40, 500
MAX_RESULT_CHARS = 250_000


@value
class PageReader:
    """How pages are read. `max_chars`: longer ones are cut."""

    client: WebClient
    max_chars: int


@tool(
    effect=Effect.FETCH, parallel=True, idempotent=True, retries=2, timeout_s=90,
    critical=("url",), max_chars=MAX_RESULT_CHARS, outside=True,
)  # fmt: skip
async def web_fetch(reading: PageReader, url: str) -> ToolOutput:
    """Read a web page or text file: its title, text and links."""
    answer = await follow_redirects(reading.client, url, ACCEPT)
    if answer.status >= 400:
        return ToolOutput(
            f"{answer.target.url}: HTTP {format_status(answer.status)}",
            is_error=True,
            label=Label.UNTRUSTED,
        )
    return ToolOutput(await _format(reading, answer), label=Label.UNTRUSTED)


def format_status(status: int) -> str:
    """A status with its usual word: not the server's, which could be any text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def find_charset(answer: WebResponse) -> str:
    """The encoding that the server tells; empty if it tells none."""
    found = CHARSET.search(answer.headers.get("content-type", ""))
    return found[1] if found else ""


def decode_text(answer: WebResponse) -> str | None:
    """The body as text; None if it is none."""
    known = TEXT_TYPES.fullmatch(answer.media_type) is not None
    if b"\0" in answer.body or (answer.media_type and not known):
        return None
    try:
        return answer.body.decode(find_charset(answer) or "utf-8", "replace" if known else "strict")
    except (LookupError, UnicodeDecodeError):
        return answer.body.decode("utf-8", "replace") if known else None


async def _format(reading: PageReader, answer: WebResponse) -> str:
    if answer.media_type in HTML_TYPES or (
        not answer.media_type and answer.body.lstrip()[:1] == b"<"
    ):
        page = await read_page(answer.body, find_charset(answer), reading.max_chars)
        lines = [
            page.title,
            str(answer.target.url),
            "",
            *_format_text(page.text, page.chars),
            *_format_links(reading, answer, page),
        ]
        return "\n".join([*lines, *_format_truncation(answer)]).strip()
    text = decode_text(answer)
    if text is None:
        kind = answer.media_type if MEDIA_TYPE.fullmatch(answer.media_type) else "something unknown"
        raise ToolError(
            f"{answer.target.host} sent {kind}, {len(answer.body)} bytes. Only pages and text can be read."
        )
    return "\n".join(
        [
            str(answer.target.url),
            "",
            *_format_text(text[: reading.max_chars], len(text)),
            *_format_truncation(answer),
        ]
    )


def _format_text(text: str, chars: int) -> Iterator[str]:
    yield text or "[no text]"
    if chars > len(text):
        yield f"[... {chars - len(text)} characters left out ...]"


def _format_truncation(answer: WebResponse) -> Iterator[str]:
    if answer.truncated:
        yield f"[... only the first {len(answer.body)} bytes were read ...]"


def _format_links(reading: PageReader, answer: WebResponse, page: WebPage) -> Iterator[str]:
    """Whole addresses, one a line, so that one can be followed as it stands."""
    found = dict(_resolve_links(reading, answer, page))
    if found:
        yield "\nLinks:"
    for number, (place, name) in enumerate(list(found.items())[:MAX_PAGE_LINKS], 1):
        yield f"{number}. {place} {name}".rstrip()
    if len(found) > MAX_PAGE_LINKS:
        yield f"[... {len(found) - MAX_PAGE_LINKS} links left out ...]"


def _resolve_links(
    reading: PageReader, answer: WebResponse, page: WebPage
) -> Iterator[tuple[str, str]]:
    here = answer.target.url
    for place, name in page.links:
        try:
            whole = (
                here.join(URL(page.base)).join(URL(place)) if page.base else here.join(URL(place))
            )
            target = reading.client.guard.check(str(whole.with_fragment(None)))
        except (ValueError, AddressRefused):
            continue
        if target.url != here and len(str(target.url)) <= MAX_LINK_CHARS:
            yield str(target.url), name
