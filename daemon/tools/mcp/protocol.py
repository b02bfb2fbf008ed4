"""Shared by the MCP client and its users: addresses, tool definitions, answers, errors."""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256

from daemon.core import value
from daemon.core.errors import AidaemonError

OnChanged = Callable[[], None]
OnStderrLine = Callable[[str], None]


class NotSent(AidaemonError):
    """There is no connection, so the request did not reach the server: nothing has happened."""


class NoAnswer(AidaemonError):
    """The request was sent and no answer came: its effect may or may not have happened."""


@value
class ServerTool:
    """A tool as its server describes it. `schema` and `annotations` are JSON with sorted keys."""

    name: str
    description: str
    schema: str
    annotations: str = "{}"

    @property
    def digest(self) -> str:
        """Equal for equal definitions only."""
        text = json.dumps([self.name, self.description, self.schema, self.annotations])
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@value
class ProcessAddress:
    """A server that is our child process."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


@value
class UrlAddress:
    """A server that listens at a URL."""

    url: str
    headers: Mapping[str, str]


def stable_json(table: object) -> str:
    """The same text for the same value."""
    return json.dumps(table, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
