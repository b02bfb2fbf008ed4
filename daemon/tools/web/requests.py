"""web_fetch reads a page of the web; http_request sends a request to any service.

A child process with few rights reads the HTML; the model never sees a secret of a request.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from yarl import URL

from channels.charsets import decode_text
from daemon.core import value
from daemon.core.errors import ConfigError, SecretRefused
from daemon.core.trust import Effect, Label
from daemon.settings.secrets import SecretStore
from daemon.tools.base import (
    Arguments,
    ServiceUnavailable,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
)
from daemon.tools.shell.process import exchange
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.signature import bind, tool
from daemon.tools.web.client import (
    WebClient,
    WebRequest,
    WebResponse,
    check_first,
    follow_redirects,
)
from daemon.tools.web.guard import AddressRefused, Target, parse_url

EXTRACT_SCRIPT = Path(__file__).with_name("html_extract.py")
EXTRACT_S = 10.0
ACCEPT = {
    "Accept": "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9,"
    " */*;q=0.5"
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
    """Longer pages are cut to `max_chars`; they are read in the sandbox."""

    client: WebClient
    max_chars: int
    sandbox: Sandbox | None = None


@value
class WebPage:
    """`chars`: the length of the text before it was cut; `links`: (address as written, name)."""

    title: str
    base: str
    text: str
    chars: int
    links: list[tuple[str, str]]


@tool(
    effect=Effect.FETCH, parallel=True, idempotent=True, retries=2, timeout_s=90,
    critical=("url",), max_chars=MAX_RESULT_CHARS, returns_outside_text=True,
)  # fmt: skip
async def web_fetch(reader: PageReader, context: ToolContext, url: str) -> ToolOutput:
    """Read a web page or text file: its title, text and links."""
    response = await follow_redirects(reader.client, url, ACCEPT, context.check_address)
    here, status = response.target.url, response.status
    if status >= 400:
        text = f"{here}: HTTP {format_status(status)}"
        return ToolOutput(text, is_error=True, label=Label.UNTRUSTED)
    kind, body = response.media_type, response.body
    if kind in HTML_TYPES or (not kind and body.lstrip()[:1] == b"<"):
        charset = find_charset(response)
        html, _ = await asyncio.to_thread(decode_text, body, charset, is_html=True)
        page = await read_page(html, reader.max_chars, reader.sandbox)
        links = _format_links(reader.client, here, page)
    else:
        text = await asyncio.to_thread(read_text, response)
        if text is None:
            kind = kind if MEDIA_TYPE.fullmatch(kind) else "something unknown"
            raise ToolError(
                f"{response.target.host} sent {kind}, {len(body)} bytes."
                " Only pages and text can be read."
            )
        page, links = WebPage("", "", text[: reader.max_chars], len(text), []), iter(())
    lines = [page.title, str(here), "", page.text or "[no text]"]
    if page.chars > len(page.text):
        lines.append(f"[... {page.chars - len(page.text)} characters left out ...]")
    lines += links
    if response.truncated:
        lines.append(f"[... only the first {len(body)} bytes were read ...]")
    return ToolOutput("\n".join(lines).strip(), label=Label.UNTRUSTED)


async def read_page(
    html: str,
    max_chars: int,
    sandbox: Sandbox | None = None,
    *,
    timeout_s: float = EXTRACT_S,
) -> WebPage:
    """Raises ToolError for a page that takes too much time or memory to read."""
    command = [sys.executable, "-I", str(EXTRACT_SCRIPT), str(max_chars)]
    if sandbox:
        command = sandbox.wrap_own(command, EXTRACT_SCRIPT)
    output = await exchange(command, html.encode("utf-8", "replace"), timeout_s)
    if output is None:
        raise ToolError("the page arrived, but it is too large or too complex to be read")
    return WebPage(**json.loads(output))


def format_status(status: int) -> str:
    """With its standard phrase: not the server's, which could be any text."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def find_charset(response: WebResponse) -> str:
    """The encoding that the server names, or empty."""
    found = CHARSET.search(response.headers.get("content-type", ""))
    return found[1] if found else ""


def read_text(response: WebResponse) -> str | None:
    """The body as text; None if it is none."""
    is_known = TEXT_TYPES.fullmatch(response.media_type) is not None
    if response.media_type and not is_known:
        return None
    text, codec = decode_text(response.body, find_charset(response), keeps_ascii=True)
    return text if "\0" not in text and (codec or is_known) else None


def _format_links(client: WebClient, here: URL, page: WebPage) -> Iterator[str]:
    """Whole addresses, one a line, so that each can be followed as it stands."""
    base, found = here, dict[str, str]()
    for place, name in page.links:
        try:
            base = here.join(URL(page.base)) if page.base else here
            url = client.guard.check(str(base.join(URL(place)).with_fragment(None))).url
        except (ValueError, AddressRefused):
            continue
        if url != here and len(str(url)) <= MAX_LINK_CHARS:
            found[str(url)] = name
    if found:
        yield "\nLinks:"
    for number, (url, name) in enumerate(list(found.items())[:MAX_PAGE_LINKS], 1):
        yield f"{number}. {url} {name}".rstrip()
    if len(found) > MAX_PAGE_LINKS:
        yield f"[... {len(found) - MAX_PAGE_LINKS} links left out ...]"


SECRET = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.-]+)\s*\}\}")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
RESERVED_HEADERS = (
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer",
    "upgrade", "expect", "accept-encoding",
)  # fmt: skip
SHOWN_HEADERS = (
    "content-type", "location", "link", "retry-after", "etag", "last-modified", "allow",
    "www-authenticate",
)  # fmt: skip
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MAX_HEADER_CHARS = 2000
FETCH_METHODS = ("GET", "HEAD")
PLAIN_METHODS = (*FETCH_METHODS, "POST", "OPTIONS")
OVERRIDE = re.compile(
    r"(?:http-?)?method-?(?:override)?$|x-http-method|[?&]_?method=", re.IGNORECASE
)
HARMLESS_HEADERS = {("accept", kind) for kind in ("*/*", "application/json", "text/html")}

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@value
class HttpRequests:
    """`redact` removes every secret from a text; responses are cut to `max_chars`."""

    client: WebClient
    secrets: SecretStore
    redact: Callable[[str], str]
    max_chars: int = 8000

    def fill(self, target: Target, text: str, escape: Callable[[str], str]) -> str:
        """Put secrets in place of their placeholders, at the last moment and for this target."""
        found = SECRET.search(text)
        if found and not target.secure and not self.client.guard.is_allowed(target):
            raise ToolError(
                f"Not sent: the secret {found[1]} would go unencrypted over http; use https."
            )
        try:
            return SECRET.sub(
                lambda found: escape(self.secrets.get_for_host(found[1], target.host_port)), text
            )
        except (ConfigError, SecretRefused) as error:
            raise ToolError(str(error)) from error


def classify_request(arguments: Arguments) -> Effect:
    """GET or HEAD of a plain address only fetches; a body, headers or a secret are sent out; a
    method that changes something may destroy it, under whatever name it travels.
    """
    method = str(arguments.get("method") or "").upper()
    url, headers = str(arguments.get("url") or ""), arguments.get("headers") or {}
    given = headers if isinstance(headers, Mapping) else {"": str(headers)}
    override = OVERRIDE.search(unquote(url)) or any(OVERRIDE.search(str(name)) for name in given)
    if override or method not in PLAIN_METHODS:
        return Effect.DESTRUCTIVE
    told = {(str(name).lower(), str(text)) for name, text in given.items()} - HARMLESS_HEADERS
    sends = told or arguments.get("body") is not None or SECRET.search(url)
    return Effect.EGRESS if sends or method not in FETCH_METHODS else Effect.FETCH


def may_repeat_request(arguments: Arguments) -> bool:
    """GET or HEAD, where nothing in it says another method."""
    method = str(arguments.get("method") or "").upper()
    return method in FETCH_METHODS and classify_request(arguments) is not Effect.DESTRUCTIVE


@tool(
    effect=Effect.EGRESS, timeout_s=90, critical=("url",), max_chars=60_000,
    classify=classify_request, idempotent=may_repeat_request, retries=2,
)  # fmt: skip
async def http_request(
    outgoing: HttpRequests,
    context: ToolContext,
    method: Method,
    url: str,
    headers: dict[str, str] | None = None,
    body: str | dict | list | None = None,
) -> ToolOutput:
    """Send an HTTP request to a service. {{secret:NAME}} in headers, path, query or body
    stands for a stored secret.
    """
    guard = outgoing.client.guard
    target = await check_first(outgoing.client, url, context.check_address)
    fill = partial(outgoing.fill, target)
    if SECRET.search(url):
        filled = guard.check(fill(url, _escape_form))
        if filled.url.origin() != target.url.origin():
            raise ToolError("Not sent: with its secret the URL would lead elsewhere.")
        target = filled
    given = {name.lower(): text for name, text in (headers or {}).items()}
    if body is not None and not isinstance(body, str):
        body, given = json.dumps(body, ensure_ascii=False), {"content-type": JSON, **given}
    kind = given.get("content-type", "")
    escape = (
        _escape_json if kind.startswith(JSON) else _escape_form if kind.startswith(FORM) else str
    )
    data = None if body is None else fill(body, escape).encode("utf-8", "replace")
    for name in given:
        given[name] = fill(given[name], str)
        if not HEADER.fullmatch(name):
            raise ToolError(f"Not sent: {name[:40]!r} is no name of a header.")
        if name in RESERVED_HEADERS or name.startswith("proxy-"):
            raise ToolError(f"Not sent: the header {name} is not yours to set; leave it out.")
        if CONTROL.search(given[name]):  # it would break out of its line
            raise ToolError(f"Not sent: the value of the header {name} must be one line.")
    response = await outgoing.client.send(WebRequest(target, method, given, data))
    text = "\n".join(_format(response, outgoing))
    kind = ServiceUnavailable.__name__ if response.status >= 500 else ""
    return ToolOutput(text, response.status >= 400, label=Label.UNTRUSTED, error_class=kind)


def web_tools(reader: PageReader, outgoing: HttpRequests) -> list[Tool]:
    """They are public but where a service of the owner's answers, or something is sent along."""

    def is_public(arguments: Arguments) -> bool:
        if classify_request({"method": "GET", **arguments}) is not Effect.FETCH:
            return False
        try:
            return not outgoing.client.guard.is_allowed(parse_url(str(arguments.get("url"))))
        except AddressRefused:
            return True  # nothing is sent

    found = bind([web_fetch, http_request], {PageReader: reader, HttpRequests: outgoing})
    return [replace(one, meta=replace(one.meta, public=is_public)) for one in found]


def _escape_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _escape_form(text: str) -> str:
    return quote(text, safe="")


def _format(response: WebResponse, outgoing: HttpRequests) -> Iterator[str]:
    """Redacted before it is cut, so that no part of a secret is left."""
    yield f"HTTP {format_status(response.status)}"
    for name in SHOWN_HEADERS:
        if name in response.headers:
            yield f"{name}: {outgoing.redact(response.headers[name])[:MAX_HEADER_CHARS]}"
    if not response.body:
        return
    yield ""
    text = read_text(response)
    if text is None:
        yield f"[{len(response.body)} bytes that are no text]"
        return
    text = outgoing.redact(text)
    yield text[: outgoing.max_chars]
    if len(text) > outgoing.max_chars:
        yield f"[... {len(text) - outgoing.max_chars} characters left out ...]"
    if response.truncated:
        yield f"[... only the first {len(response.body)} bytes were read ...]"
