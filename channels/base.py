"""What a channel is, what it needs of the house, and what can go wrong on the way out.

A channel talks to one account of one platform. It keeps nothing: what came in is the house's as soon as `Host.take` returns, and
only then is it acknowledged to the platform; what goes out stands in the house's outbox until the channel says that it arrived.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    Choice,
    InboundMessage,
    MessagePart,
)


class ChannelError(Exception):
    """Something did not work at the platform. The text is for the owner: what happened, and what to do; it holds no token."""


class Revoked(ChannelError):
    """The platform does not know our token (any more), or refuses what we need: it is of no use to go on until that is mended."""


class Rejected(ChannelError):
    """This message is not taken, now or later: the chat is gone, we were blocked, it is malformed."""


class RetryLater(ChannelError):
    """Nothing was sent; it may be tried again after so many seconds."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


class DeliveryUnknown(ChannelError):
    """The answer was lost on its way: it may have been sent or not. `Channel.find` may know."""


class NotAccepted(Exception):
    """The house could not write it down: do not acknowledge it, the platform is to send it again."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `count` messages in so many `seconds`."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the platform can do. What it cannot has a fallback in the house: no buttons, then /approve is told in words; no edits,
    then there are no drafts; no reactions, then a queued message is not marked.

    limit: characters of one message. keyed: `send` with the same key twice gives one message, if soon after (nonce). finds:
    `find` can tell whether a message is there. drafts: an unfinished text can be shown; `draft_every_s` apart at least.
    `typing_every_s`: how often the typing sign has to be renewed. most_upload, most_fetch: bytes.
    """

    limit: int
    idempotent: bool = False
    can_find: bool = True
    edits: bool = True
    buttons: bool = True
    threads: bool = True
    reactions: bool = True
    drafts: bool = True
    typing: bool = True
    draft_every_s: float = 1.2
    typing_every_s: float = 4.0
    max_upload: int = 10 << 20
    max_download: int = 20 << 20


class Host(Protocol):
    """The house, as a channel sees it."""

    async def accept(self, arrivals: Sequence[Arrival]) -> None:
        """Durable when it returns; in order per conversation; what came before is dropped. Raises NotTaken."""
        ...

    async def press_button(self, press: ButtonPress) -> str:
        """A button was pressed; what to show to who pressed it (a toast, an ephemeral text). Raises NotTaken."""
        ...

    async def run_command(self, inbound: InboundMessage) -> str:
        """A command whose reply the platform wants at once (slash commands); `text` begins with "/". Raises NotTaken."""
        ...

    async def load_cursor(self) -> str:
        """What `keep_cursor` kept last; "" for nothing."""
        ...

    async def save_cursor(self, cursor: str) -> None:
        """Remember how far this account has been read. Raises NotTaken."""
        ...

    async def list_conversations(self) -> Sequence[Address]:
        """Where this channel has talked before, latest first (200 at most): what to look through after a gap."""
        ...

    def report_alive(self) -> None:
        """The platform has answered just now: a poll, a heartbeat, a message."""
        ...

    def report_trouble(self, why: str) -> None:
        """It does not answer, or not as it should; said again as long as that is so, until `alive`."""
        ...

    def list_commands(self) -> Sequence[tuple[str, str]]:
        """(name, help) of the chat commands, to be shown in the platform's own menu."""
        ...


class Channel(Protocol):
    """One account of one platform. Every call to the platform has a timeout."""

    @property
    def name(self) -> str:
        """ "telegram", or "work/telegram" for the further account "work"."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    async def check(self) -> str:
        """Who we are there ("@my_bot"), asked now. Raises Revoked, Later."""
        ...

    async def run(self, host: Host) -> None:
        """Listen until cancelled; mends its own connection, with growing pauses. Raises Revoked."""
        ...

    def rate_limit(self, address: Address) -> RateLimit:
        """How fast one may write there."""
        ...

    def render(self, text: str) -> Sequence[MessagePart]:
        """Markdown as pieces that each fit into a message; always the same for the same text, at least one."""
        ...

    async def send(
        self,
        address: Address,
        piece: MessagePart,
        key: str,
        *,
        choices: Sequence[Choice] = (),
        reply_to: str = "",
    ) -> str:
        """Send; the message's id. `key` names this message for ever. Raises Refused, Later, Unclear, Revoked."""
        ...

    async def edit(
        self,
        address: Address,
        message_id: str,
        piece: MessagePart,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        """Replace a message of ours; may be repeated without harm. Without choices its buttons go. Raises as `send`."""
        ...

    async def find(self, address: Address, key: str, piece: MessagePart, since: datetime) -> str:
        """The id of the message that was sent under this key since then, if the platform can tell; "" when it is not there, or
        nobody knows. Raises Later, Revoked.
        """
        ...

    async def show_draft(
        self, address: Address, key: str, text: str, shown: str, *, private: bool
    ) -> str:
        """Show this unfinished markdown, in place of message `shown` ("" at first). The id of the message that shows it, which
        the finished text is to replace by `edit`; "" where it goes away by itself. Only the tail of a long one need be seen.
        Raises as `send`.
        """
        ...

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message of ours away; that it is gone already is no error. Raises as `send`."""
        ...

    async def show_typing(self, address: Address, status: str = "") -> None:
        """Show that we are at work, and at what where the platform has a place for it. Raises as `send`."""
        ...

    async def mark_seen(self, address: Address, message_id: str) -> None:
        """Mark somebody's message as seen and waiting, with a reaction. Raises as `send`."""
        ...

    async def upload(
        self, address: Address, file: Path, name: str, caption: MessagePart, key: str
    ) -> str:
        """Send a file; the message's id. Raises as `send`."""
        ...

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Fetch a file that came with a message; never more than `can.most_fetch`. Raises Refused (too big, gone), Later."""
        ...

    async def aclose(self) -> None:
        """Let go of the connection; bounded in time."""
        ...
