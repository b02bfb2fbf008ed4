"""What a channel is, what it needs of the daemon, and what can go wrong.

A channel of your own is a class that implements `Channel`, has its settings as `Config`, a pydantic
model (`channels.settings.BotAccount` has the common keys), and is made by `YourChannel(config, *,
name)`; an entry point of the group `aidaemon.channels` names it. `channels.telegram.channel` is an
example, `channels.transport` has HTTP calls, pauses and downloads to build on.

A channel talks to one account of one platform and stores nothing. It acknowledges what came in to
the platform only when `Host.accept` has returned; the daemon keeps what goes out until the channel
says that it arrived.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import BinaryIO, NamedTuple, Protocol

from channels import value
from channels.message import (
    Address,
    Arrival,
    Attachment,
    ButtonPress,
    InboundMessage,
    MessagePart,
    OutboundMessage,
)


class ChannelError(Exception):
    """A call to the platform failed. The text is for the owner: what happened, what to do; it holds
    no token.
    """


class Revoked(ChannelError):
    """The platform does not accept our token (any more), or rejects what we need: somebody has to
    mend that.
    """


class Rejected(ChannelError):
    """The platform does not take this message, now or later: we were blocked, it is malformed."""


class Gone(Rejected):
    """The chat or message is not there (any more), or not for us."""


class Moved(Gone):
    """The chat goes on under another id, `chat`. Nothing was sent."""

    def __init__(self, text: str, chat: str) -> None:
        super().__init__(text)
        self.chat = chat


class Unsupported(Rejected):
    """The platform does not offer this method to us: there is no use in asking again."""


class RetryLater(ChannelError):
    """Nothing was sent; it may be tried again after so many seconds."""

    def __init__(self, text: str, after_s: float = 0.0) -> None:
        super().__init__(text)
        self.after_s = after_s


class DeliveryUnknown(ChannelError):
    """The answer was lost: it may have been sent or not. `Channel.find` may know."""


TRANSIENT = (Rejected, RetryLater, DeliveryUnknown)
"""All but Revoked: with time, it may work."""


class NotAccepted(Exception):
    """The daemon could not save it: do not acknowledge it, so that the platform sends it again."""


class RateLimit(NamedTuple):
    """At most `count` messages in so many `seconds`."""

    count: int
    seconds: float


@value
class Capabilities:
    """What the platform can do. For what it cannot the daemon has a fallback: without buttons,
    people write /approve.

    limit: characters of one message. idempotent: `send` with the same key soon again gives one
    message. can_find: `find` can tell whether a message is there. `draft_every_s`: least time
    between two drafts; `typing_every_s`: how often the typing sign has to be renewed. max_upload,
    max_download: bytes.
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
    """The daemon, as a channel sees it."""

    async def accept(self, arrivals: Sequence[Arrival]) -> None:
        """Saved when it returns; in order per conversation; duplicates are dropped. Raises
        NotAccepted.
        """

    async def press_button(self, press: ButtonPress) -> str:
        """What to show to who pressed (a toast, an ephemeral text). Raises NotAccepted."""

    async def run_command(self, inbound: InboundMessage) -> str:
        """The reply to a slash command, which the platform wants at once; `text` begins with "/".
        Raises NotAccepted.
        """

    async def load_cursor(self) -> str:
        """What `save_cursor` saved last; "" for nothing. Raises NotAccepted."""

    async def save_cursor(self, cursor: str) -> None:
        """Remember how far this account has been read. Raises NotAccepted."""

    async def list_conversations(self) -> Sequence[Address]:
        """Where this channel has talked before, latest first (200 at most): what to look through
        after a gap.
        """

    async def knows_thread(self, address: Address) -> bool:
        """The conversation has begun there, so that the first message of the thread is known.
        Raises NotAccepted.
        """

    def report_alive(self) -> None:
        """The platform has answered just now: a poll, a heartbeat, a message."""

    def report_trouble(self, why: str) -> None:
        """It does not answer, or not as it should; repeated until `report_alive`."""

    def list_commands(self) -> Sequence[tuple[str, str]]:
        """(name, help) of the chat commands, for the platform's own menu."""


class Channel(Protocol):
    """One account of one platform. Every call to the platform has a timeout."""

    @property
    def name(self) -> str:
        """ "telegram", or "work/telegram" for the further account "work"."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def check(self) -> str:
        """Who we are there ("@my_bot"), asked now. Raises Revoked, RetryLater."""

    async def run(self, host: Host) -> None:
        """Listen until cancelled; reconnects by itself, with growing pauses. Raises Revoked."""

    def rate_limit(self, address: Address) -> RateLimit:
        """How fast one may write there."""

    def render(self, text: str) -> Sequence[MessagePart]:
        """Markdown as parts that each fit into a message; always the same for the same text, at
        least one.
        """

    async def send(self, message: OutboundMessage) -> str:
        """Send; the message's id. Raises Rejected, Moved, RetryLater, DeliveryUnknown, Revoked."""

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        """Replace a message of ours, in text and buttons; repeating it does no harm. Raises as
        `send`.
        """

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """The id of this message, if it was sent since then; "" when there is none, or the
        platform cannot tell. Raises RetryLater, Revoked.
        """

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """Show this unfinished markdown, in place of message `shown` ("" at first). The id of the
        message that shows it, which the finished text replaces by `edit`; "" where it goes away by
        itself. The end of a long one is enough. Raises as `send`.
        """

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete a message of ours; that it is gone already is no error. Raises as `send`."""

    async def show_typing(self, address: Address, status: str = "") -> None:
        """Show that we are at work, and at what, where the platform has a place for it. Raises as
        `send`.
        """

    async def mark_seen(self, address: Address, message_id: str) -> None:
        """Mark a person's message as seen and waiting, with a reaction. Raises as `send`."""

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Copy a file that came with a message; never more than `max_download`. Raises Rejected,
        RetryLater.
        """

    async def aclose(self) -> None:
        """Close the connections; bounded in time."""
