"""http_request: sends a request to any service, with secrets that the model never sees."""

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal
from urllib.parse import quote

from daemon.core import value
from daemon.core.errors import ConfigError, SecretRefused
from daemon.core.trust import Effect, Label
from daemon.settings.secrets import SecretStore
from daemon.tools.base import ToolError, ToolOutput
from daemon.tools.signature import tool
from daemon.tools.web.client import WebClient, WebRequest, WebResponse
from daemon.tools.web.fetch import decode_text, format_status
from daemon.tools.web.guard import Target

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

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
Escape = Callable[[str], str]


@value
class HttpRequests:
    """`redact` removes every secret from a text; responses are cut to `max_chars`."""

    client: WebClient
    secrets: SecretStore
    redact: Callable[[str], str]
    max_chars: int = 8000

    def fill(self, target: Target, text: str, escape: Escape) -> str:
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


@tool(effect=Effect.EGRESS, timeout_s=90, critical=("url",), max_chars=60_000)
async def http_request(
    outgoing: HttpRequests,
    method: Method,
    url: str,
    headers: dict[str, str] | None = None,
    body: str | dict | list | None = None,
) -> ToolOutput:
    """Send an HTTP request to a service. {{secret:NAME}} in headers, path, query or body
    stands for a stored secret.
    """
    guard = outgoing.client.guard
    target = guard.check(url)
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
        given[name] = _check_header(name, fill(given[name], str))
    response = await outgoing.client.send(WebRequest(target, method, given, data))
    text = "\n".join(_format(response, outgoing))
    return ToolOutput(text, is_error=response.status >= 400, label=Label.UNTRUSTED)


def _escape_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _escape_form(text: str) -> str:
    return quote(text, safe="")


def _check_header(name: str, text: str) -> str:
    """No header may break out of its line."""
    if not HEADER.fullmatch(name):
        raise ToolError(f"Not sent: {name[:40]!r} is no name of a header.")
    if name in RESERVED_HEADERS or name.startswith("proxy-"):
        raise ToolError(f"Not sent: the header {name} is not yours to set; leave it out.")
    if CONTROL.search(text):
        raise ToolError(f"Not sent: the value of the header {name} must be one line.")
    return text


def _format(response: WebResponse, outgoing: HttpRequests) -> Iterator[str]:
    """Redacted before it is cut, so that no part of a secret is left."""
    yield f"HTTP {format_status(response.status)}"
    for name in SHOWN_HEADERS:
        if name in response.headers:
            yield f"{name}: {outgoing.redact(response.headers[name])[:MAX_HEADER_CHARS]}"
    if not response.body:
        return
    yield ""
    text = decode_text(response)
    if text is None:
        yield f"[{len(response.body)} bytes that are no text]"
        return
    text = outgoing.redact(text)
    yield text[: outgoing.max_chars]
    if len(text) > outgoing.max_chars:
        yield f"[... {len(text) - outgoing.max_chars} characters left out ...]"
    if response.truncated:
        yield f"[... only the first {len(response.body)} bytes were read ...]"
