"""What the house needs of an MCP server: its list of tools, and calls. The package that speaks the protocol is behind this.

What the house knows of MCP servers that run; no more of them is imported unless the config has some.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Protocol

from daemon.core import value
from daemon.core.errors import AidaemonError


class ServerLost(AidaemonError):
    """The connection to the server is gone."""


class NotSent(AidaemonError):
    """The request did not reach the server: nothing has happened."""


class NoAnswer(AidaemonError):
    """The request went out and no answer came: what was asked may or may not have happened."""


@value
class ServerTool:
    """A tool as its server describes it. `schema` and `annotations` are JSON, keys in order."""

    name: str
    description: str
    schema: str
    annotations: str = "{}"

    @property
    def digest(self) -> str:
        """The same for the same definition only (A6 of the reference)."""
        text = json.dumps([self.name, self.description, self.schema, self.annotations])
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@value
class CallAnswer:
    """What a server answered to a call, as it came: nothing of it has been cleaned."""

    text: str
    is_error: bool = False


@value
class ProcessAddress:
    """A server that is a process of ours."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


@value
class UrlAddress:
    """A server that listens somewhere."""

    url: str
    headers: Mapping[str, str]


class McpSession(Protocol):
    """A conversation with one server. It ends when the context that gave it is left."""

    async def list_tools(self) -> tuple[ServerTool, ...]:
        """All tools that the server offers now. Raises ServerLost."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> CallAnswer:
        """Ask once, never again by itself. Raises NotSent and NoAnswer; what the server refuses is an answer, too."""
        ...

    async def wait_lost(self) -> str:
        """Waits until the connection is gone; why it is."""
        ...


OnChanged = Callable[[], None]
OnStderrLine = Callable[[str], None]


class Connect(Protocol):
    """How a conversation begins. `changed` is called when the server says that its tools are others now, `heard` with every
    line that a process prints on its stderr. Entering raises ServerLost.
    """

    def __call__(
        self, place: ProcessAddress | UrlAddress, *, changed: OnChanged, heard: OnStderrLine
    ) -> AbstractAsyncContextManager[McpSession]:
        """The session, for as long as the context lasts."""
        ...


Notify = Callable[[str], Awaitable[None]]


def stable_json(value: object) -> str:
    """Always the same text for the same value."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class McpServers(Protocol):
    """See servers.Servers."""

    async def ready(self, seconds: float) -> bool:
        """Wait until every server has shown its tools or has failed once; False when that takes longer than these seconds."""
        ...

    def names(self) -> tuple[str, ...]:
        """All that are configured."""
        ...

    def problems(self) -> Mapping[str, str]:
        """Why a server's tools cannot be used just now, by its name."""
        ...

    async def approve(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """Take a change of its tools as the owner has seen it; KeyError for a server that is not configured."""
        ...
