"""For tests of add-ons: a scripted model, a channel in memory, a clock that is set by hand."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from channels.base import Capabilities, Host, RateLimit
from channels.message import (
    Address,
    Attachment,
    InboundMessage,
    MessagePart,
    OutboundMessage,
    Sender,
)
from daemon.core.messages import ModelReply, ModelRequest, ToolCall
from daemon.providers.base import TextCallback

LIMITS = Capabilities(limit=4096, drafts=False, typing=False)


def says(text: str) -> ModelReply:
    """A reply in words."""
    return ModelReply(text)


def calls(name: str, arguments: str = "{}", call_id: str = "call_0") -> ModelReply:
    """A reply that calls a tool; `arguments` is a JSON object."""
    return ModelReply("", (ToolCall(call_id, name, arguments),))


def replay_recorded(record: str) -> str:
    """What the loop would do otherwise on a turn that `aidaemon replay` wrote as a test; "" for
    nothing.
    """
    from daemon.ops.replay.export import read_record  # lazy: brings the whole loop
    from daemon.ops.replay.replay import replay  # lazy: as above

    return asyncio.run(replay(read_record(record))).told


@dataclass(slots=True)
class ScriptedModel:
    """A provider that gives these replies in turn and records what it was asked."""

    script: list[ModelReply] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    name: str = "scripted"

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """The next reply; IndexError when the script is at its end."""
        self.requests.append(request)
        reply = self.script.pop(0)
        if on_text and reply.text:
            on_text(reply.text)
        return reply

    async def aclose(self) -> None:
        """Nothing to close."""


@dataclass(slots=True)
class ManualClock:
    """Time that moves only when `advance` is called."""

    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    seconds: float = 0.0

    def now(self) -> datetime:
        """Wall time."""
        return self.at + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Stopwatch time."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@dataclass(slots=True)
class MemoryChannel:
    """A channel without a platform. `sent` holds what arrived: chat and text, in order."""

    name: str = "memory"
    capabilities: Capabilities = LIMITS
    sent: list[tuple[str, str]] = field(default_factory=list)
    _host: asyncio.Future[Host] = field(default_factory=asyncio.Future)

    async def receive(self, sender: str, text: str, message_id: str) -> None:
        """A person writes; the message is saved when this returns."""
        host = await self._host
        address = Address(self.name, sender)
        said = InboundMessage(address, Sender(sender), message_id, text, message_id, private=True)
        await host.accept([said])

    async def check(self) -> str:
        """Who we are."""
        return "a channel in memory"

    async def run(self, host: Host) -> None:
        """Listen until cancelled."""
        self._host.set_result(host)
        while True:
            host.report_alive()
            await asyncio.sleep(1)

    def rate_limit(self, address: Address) -> RateLimit:
        """No limit to speak of."""
        return RateLimit(1000, 1.0)

    def render(self, text: str) -> Sequence[MessagePart]:
        """Plain parts."""
        limit = self.capabilities.limit
        pieces = [text[at : at + limit] for at in range(0, len(text), limit)] or [""]
        return [MessagePart(piece, piece) for piece in pieces]

    async def send(self, message: OutboundMessage) -> str:
        """Deliver."""
        self.sent.append(
            (message.address.chat, f"[{message.name}] " * bool(message.file) + message.part.text)
        )
        return str(len(self.sent))

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        """Replace a message."""
        self.sent[int(message_id) - 1] = message.address.chat, message.part.text

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """It cannot tell."""
        return ""

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """Drafts are not shown."""
        return ""

    async def delete(self, address: Address, message_id: str) -> None:
        """Blank a message."""
        self.sent[int(message_id) - 1] = address.chat, ""

    async def show_typing(self, address: Address, status: str = "") -> None:
        """Typing is not shown."""

    async def mark_seen(self, address: Address, message_id: str) -> None:
        """Nothing to mark."""

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """No message here has a file."""

    async def aclose(self) -> None:
        """Nothing to close."""
