"""http_request: asking any service, with secrets that the model never sees."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, Protocol
from urllib.parse import quote

from daemon.core import value
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolError, ToolOutput
from daemon.tools.signature import tool
from daemon.tools.web.client import WebClient, WebRequest, WebResponse
from daemon.tools.web.fetch import decode_text, format_status
from daemon.tools.web.guard import Target

SECRET = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.-]+)\s*\}\}")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
RESERVED_HEADERS = (
    "host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
    "accept-encoding",
)  # fmt: skip
SHOWN_HEADERS = (
    "content-type",
    "location",
    "link",
    "retry-after",
    "etag",
    "last-modified",
    "allow",
    "www-authenticate",
)
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MAX_HEADER_CHARS = 2000

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class SecretSource(Protocol):
    """Secrets by name, each for one host."""

    def value(self, name: str, host: str) -> str:
        """The secret itself, for this `host:port`. Raises ToolError for one that there is not, or that is for another host."""
        ...


@value
class HttpRequests:
    """What a request needs. `redact` takes every secret out of a text; longer answers than `max_chars` are cut."""

    client: WebClient
    secrets: SecretSource
    redact: Callable[[str], str]
    max_chars: int = 8000


@tool(effect=Effect.EGRESS, timeout_s=90, critical=("url",), max_chars=60_000)
async def http_request(
    outgoing: HttpRequests,
    method: Method,
    url: str,
    headers: dict[str, str] | None = None,
    body: str | dict | list | None = None,
) -> ToolOutput:
    """Send an HTTP request to a service. {{secret:NAME}} in headers, path, query or body stands for a stored secret."""
    target = outgoing.client.guard.check(url)
    given = {name.lower(): value for name, value in (headers or {}).items()}
    if body is not None and not isinstance(body, str):
        body, given = json.dumps(body, ensure_ascii=False), {"content-type": JSON, **given}
    filled = _SecretFiller(outgoing, target)
    ask = WebRequest(
        filled.url(url),
        method,
        filled.headers(given),
        filled.body(body, given.get("content-type", "")),
    )
    answer = await outgoing.client.send(ask)
    text = "\n".join(_format(answer, outgoing))
    return ToolOutput(text, is_error=answer.status >= 400, label=Label.UNTRUSTED)


@value
class _SecretFiller:
    """Secrets put in their places, at the last moment, for this one target."""

    outgoing: HttpRequests
    target: Target

    def url(self, url: str) -> Target:
        """The target with its secrets; it is still the same place."""
        if not SECRET.search(url):
            return self.target
        whole = self.outgoing.client.guard.check(
            self._fill(url, lambda value: quote(value, safe=""))
        )
        if whole.origin != self.target.origin:
            raise ToolError("Not sent: with its secret the URL would lead elsewhere.")
        return whole

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers with their secrets, none of which can break out of its line."""
        return {
            _check_header(name): _check_value(name, self._fill(value, str))
            for name, value in headers.items()
        }

    def body(self, body: str | None, kind: str) -> bytes | None:
        """The body with its secrets, written as its kind wants them."""
        if body is None:
            return None
        write = (
            _escape_json
            if kind.startswith(JSON)
            else _escape_form
            if kind.startswith(FORM)
            else str
        )
        return self._fill(body, write).encode("utf-8", "replace")

    def _fill(self, text: str, write: Callable[[str], str]) -> str:
        return SECRET.sub(lambda found: write(self._secret(found[1])), text)

    def _secret(self, name: str) -> str:
        if not self.target.secure and not self.outgoing.client.guard.is_allowed(self.target):
            raise ToolError(
                f"Not sent: the secret {name} would go unencrypted over http; use https."
            )
        return self.outgoing.secrets.value(name, self.target.host_port)


def _escape_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _escape_form(value: str) -> str:
    return quote(value, safe="")


def _check_header(name: str) -> str:
    if not HEADER.fullmatch(name):
        raise ToolError(f"Not sent: {name[:40]!r} is no name of a header.")
    if name in RESERVED_HEADERS or name.startswith("proxy-"):
        raise ToolError(f"Not sent: the header {name} is not yours to set; leave it out.")
    return name


def _check_value(name: str, value: str) -> str:
    if CONTROL.search(value):
        raise ToolError(f"Not sent: the value of the header {name} must be one line.")
    return value


def _format(answer: WebResponse, outgoing: HttpRequests) -> Iterator[str]:
    """Status, the headers that matter, and the body. Secrets go before anything is cut, so that no part of one is left."""
    yield f"HTTP {format_status(answer.status)}"
    for name in SHOWN_HEADERS:
        if name in answer.headers:
            yield f"{name}: {outgoing.redact(answer.headers[name])[:MAX_HEADER_CHARS]}"
    if answer.body:
        yield ""
        yield from _format_body(answer, outgoing)


def _format_body(answer: WebResponse, outgoing: HttpRequests) -> Iterator[str]:
    text = decode_text(answer)
    if text is None:
        yield f"[{len(answer.body)} bytes that are no text]"
        return
    text = outgoing.redact(text)
    yield text[: outgoing.max_chars]
    if len(text) > outgoing.max_chars:
        yield f"[... {len(text) - outgoing.max_chars} characters left out ...]"
    if answer.truncated:
        yield f"[... only the first {len(answer.body)} bytes were read ...]"
