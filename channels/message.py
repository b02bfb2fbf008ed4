"""What passes between a platform and the daemon. Frozen values; ids are the platform's own, as
text.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from channels import value

SECRETS = re.compile(r'("(?:token|response_url|trigger_id)": ?")[^"]*')
"""With these whoever reads them could answer in our name for a while."""
MAX_RAW = 20_000
MEDIA_KINDS = {"image": "photo", "audio": "audio", "video": "video"}
"""Kinds of attachments by the first part of their MIME type; all others are documents."""


@value
class Address:
    """Where a conversation is. `channel`: the channel's name ("telegram", "work/slack"); `thread`:
    "" for none.
    """

    channel: str
    chat: str
    thread: str = ""


class Sender(NamedTuple):
    """Whom the platform says a message is from. Allow-lists hold the `id`; people choose the
    `name`, so it proves nothing.
    """

    id: str
    name: str = ""


@value
class Attachment:
    """A file that came with a message, not downloaded yet. kind: document, photo, voice, audio,
    video. `ref` is what `Channel.download` needs; `size` in bytes, 0 where the platform does not
    say. `named`: a person chose the name, a stranger perhaps.
    """

    kind: str
    name: str
    mime: str
    size: int
    ref: str
    named: bool = True


@value
class Reference:
    """A message that another one points at. `kind`: "reply", "part" (of a message, marked by the
    sender), "root" (of the thread), "passed" (on). `by`: who wrote it: "assistant", "sender",
    "other"; `author`: the name of the other. `text`: all that a person sees in it; of one by the
    sender their words alone, and `beside` what stands beside them.
    """

    kind: str
    text: str
    by: str = "other"
    author: str = ""
    message_id: str = ""
    beside: str = ""


@value
class InboundMessage:
    """A message. `external_id` is unique in its channel and the same at every redelivery.

    `private`: nobody else reads this chat. `addressed`: it is meant for the assistant (a private
    chat, a mention, a reply to it, a command, a thread that it takes part in). `forwarded`:
    somebody else wrote the text, `author` by name. `references`: the messages that it points at.
    `edits`: the external id of the message whose text it replaces. `data`: parts of the text that
    are not its sender's own words: quotations, code, cards, addresses under other words.
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
    author: str = ""
    references: tuple[Reference, ...] = ()
    edits: str = ""
    sent_at: datetime | None = None
    data: tuple[str, ...] = ()


@value
class InboundMail(InboundMessage):
    """A mail. Its text is what is new in it; `history` what it quotes of earlier mails.

    `proven`: our own mail server vouches that the sender wrote it, or not, by `why`. `shown_from`
    is what it claims, word for word. `automatic`: why nobody is to answer it, "" for a person's
    mail. `list_id`: of a mailing list. `notes`: what of it was not read. `people`: the addresses in
    To and Cc, in small letters. `returned`: it reports that a mail with this id did not arrive at
    the addresses `missed`, by this `status` of a mail server.
    """

    subject: str = ""
    shown_from: str = ""
    proven: bool = False
    why: str = ""
    automatic: str = ""
    list_id: str = ""
    history: str = ""
    notes: str = ""
    people: tuple[str, ...] = ()
    returned: str = ""
    missed: tuple[str, ...] = ()
    status: str = ""


class ButtonPress(NamedTuple):
    """A button was pressed. `data` is the choice's; `message_id` that of the message with the
    button.
    """

    address: Address
    sender: Sender
    data: str
    message_id: str


class Reaction(NamedTuple):
    """Somebody reacted to a message of the assistant. `emoji`: "" takes the reaction back."""

    address: Address
    sender: Sender
    message_id: str
    emoji: str


class ChatMoved(NamedTuple):
    """The platform says that the chat `old` goes on as `new`: never what somebody wrote there."""

    channel: str
    old: str
    new: str


@value
class UnreadableUpdate:
    """What the platform sent and nobody can read; set aside, it holds up nothing behind it."""

    channel: str
    external_id: str
    raw: str
    reason: str

    @classmethod
    def of(
        cls, channel: str, kind: str, raw: object, reason: object, number: object = None
    ) -> "UnreadableUpdate":
        """Under an id that is the same when it comes again: its `number`, or a hash."""
        text = raw if isinstance(raw, str) else json.dumps(raw, default=repr, ensure_ascii=False)
        text = SECRETS.sub(r"\1…", text)
        if number is None:
            number = blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()
        return cls(channel, f"{kind}/{number}", text[:MAX_RAW], str(reason))


Arrival = InboundMessage | ButtonPress | Reaction | ChatMoved | UnreadableUpdate


class Choice(NamedTuple):
    """A button. A `ButtonPress` brings its `data`, at most 64 bytes. style: "", "good", "bad"."""

    label: str
    data: str
    style: str = ""


class MessagePart(NamedTuple):
    """A part of a text that fits into one message, in the platform's own markup; `plain` is the
    same without markup, for when the platform rejects it.
    """

    text: str
    plain: str


@value
class OutboundMessage:
    """A message to send. No other message has its `key`. `choices` are its buttons; `reply_to` is
    the id of the message that it answers. `file` is sent with it under `name`; then the part is the
    caption. `created_at`: when it was written, the same at each try.
    """

    address: Address
    part: MessagePart
    key: str = ""
    choices: Sequence[Choice] = ()
    reply_to: str = ""
    file: Path | None = None
    name: str = ""
    created_at: datetime | None = None
