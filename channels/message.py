"""What passes between a platform and the house. Frozen values; ids are the platform's own, as text."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Address:
    """Where a conversation is. `channel`: the channel's name in this house ("telegram", "work/slack"); `thread` "" for none."""

    channel: str
    chat: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class Sender:
    """Whom the platform says a message is from. `id` is what allow-lists hold; `name` is chosen by them, so it proves nothing."""

    id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, not fetched yet. kind: document, photo, voice, audio, video. `ref` is what `Channel.fetch`
    needs; `size` in bytes, 0 where the platform does not say.
    """

    kind: str
    name: str
    mime: str
    size: int
    ref: str


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message. `external_id` is unique in its channel and the same at every redelivery.

    `private`: nobody else reads this chat. `addressed`: it is meant for the assistant (a private chat, a mention, a reply to
    it, a command, a thread that it takes part in). `forwarded`: the words are somebody else's. `quoted`: what it answers to,
    where the assistant did not write that; `quotes_own`: its sender did, in their own words. `edits`: the external id of the
    message whose text it replaces.
    """

    address: Address
    sender: Sender
    external_id: str
    text: str
    message_id: str
    attachments: tuple[Attachment, ...] = ()
    private: bool = False
    addressed: bool = True
    forwarded: bool = False
    quoted: str = ""
    edits: str = ""
    sent_at: datetime | None = None
    quotes_own: bool = False


@dataclass(frozen=True, slots=True)
class ButtonPress:
    """A button was pressed. `data` is the choice's; `message_id` that of the message with the button."""

    address: Address
    sender: Sender
    data: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Reaction:
    """Somebody reacted to a message of the assistant. `emoji` "" takes the reaction back."""

    address: Address
    sender: Sender
    message_id: str
    emoji: str


@dataclass(frozen=True, slots=True)
class UnreadableUpdate:
    """What the platform sent and nobody can read: set aside, so that what stands behind it is not held up."""

    channel: str
    external_id: str
    raw: str
    reason: str


Arrival = InboundMessage | ButtonPress | Reaction | UnreadableUpdate


@dataclass(frozen=True, slots=True)
class Choice:
    """A button. `data` comes back in a `Press`: at most 64 bytes. style: "", "good", "bad"."""

    label: str
    data: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a text that fits into one message, in the platform's own dialect; `plain` is the same without any markup, for
    when the platform refuses the dialect.
    """

    text: str
    plain: str
