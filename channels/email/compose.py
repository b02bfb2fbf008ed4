"""The mails that are sent. The same message gives the same mail, byte for byte: its id, its date
and its boundaries come from what stands in the outbox, so that a retry is no second mail (K14).
"""

import json
import mimetypes
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime
from functools import partial
from hashlib import sha256
from html import escape
from itertools import groupby

from channels import value
from channels.base import Rejected
from channels.email.config import ADDRESS
from channels.markup.blocks import BOLD, NO_MARKS, Block, Span, block_lines, render_nested
from channels.markup.split import split_message
from channels.message import OutboundMessage

LIMIT = 50_000
MAX_SUBJECT, MAX_REFERENCES, MAX_CC = 200, 20, 20
OWN_ID = re.compile(r"<[0-9a-z-]{1,80}\.(?P<thread>[0-9a-f]{16})@")
REPLY_MARK = re.compile(r"(re|aw|sv|antw|r)\s*:\s*", re.IGNORECASE)
MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")
TAGS = (("bold", "<b>", "</b>"), ("italic", "<i>", "</i>"), ("strike", "<s>", "</s>"))
SCHEMES = ("http://", "https://", "mailto:")
PAGE = '<html><body><div style="white-space:pre-wrap;font-family:sans-serif">{}</div></body></html>'


@value
class MailHead:
    """What a mail that we send is about: its subject, the mail that it answers with those before
    it, and who gets it beside the one whom it is addressed to.
    """

    subject: str = ""
    answers: str = ""
    references: Sequence[str] = ()
    cc: Sequence[str] = ()
    to: Sequence[str] = ()

    def to_token(self) -> str:
        """As a message's id, which an answer gets back as `reply_to`."""
        known = {
            "subject": self.subject,
            "id": self.answers,
            "references": list(self.references),
            "cc": list(self.cc),
            "to": list(self.to),
        }
        return json.dumps({k: v for k, v in known.items() if v}, sort_keys=True)

    @classmethod
    def parse(cls, token: str) -> "MailHead":
        """The inverse; nothing that could add a header of its own gets through."""
        try:
            known = json.loads(token) if token else {}
        except ValueError:
            known = {}
        known = known if isinstance(known, Mapping) else {}
        subject = " ".join(str(known.get("subject", "")).split())[:MAX_SUBJECT]
        ids = [str(one) for one in known.get("references") or ()]
        answers = str(known.get("id", ""))
        others = {key: [str(one) for one in known.get(key) or ()] for key in ("cc", "to")}
        people = [*others["cc"], *others["to"]]
        if bad := [one for one in people if not ADDRESS.fullmatch(one)]:
            raise Rejected(f"{bad[0]!r} is no mail address")
        subject = "".join(sign for sign in subject if sign.isprintable())
        return cls(
            subject.replace("=?", "= ?"),  # what looks like an encoded word would be decoded again
            answers if MESSAGE_ID.fullmatch(answers) else "",
            tuple(one for one in ids if MESSAGE_ID.fullmatch(one))[:MAX_REFERENCES],
            tuple(others["cc"])[:MAX_CC],
            tuple(others["to"])[:MAX_CC],
        )


def find_thread(sender: str, message_id: str, references: Sequence[str], proven: bool) -> str:
    """The thread's name: the same for all mails of this sender that go back to one mail. Mails
    whose sender is not proven have threads of their own.
    """
    chain = [*references, message_id]
    own = next((found for one in chain if (found := OWN_ID.match(one))), None)
    if own:
        return own["thread"] if proven else f"u{own['thread']}"
    thread = sha256(f"{sender}\n{chain[0]}".encode()).hexdigest()[:16]
    return thread if proven else f"u{thread}"


def make_message_id(key: str, thread: str, address: str) -> str:
    """The same for one message at every try; it names the thread, for the answers to it."""
    domain = address.rpartition("@")[2]
    return f"<{key or 'aidaemon'}.{thread.removeprefix('u') or '0' * 16}@{domain}>"


def compose(message: OutboundMessage, address: str, data: bytes = b"") -> EmailMessage:
    """The mail; `data` is its file. Raises Rejected for an address that is none."""
    to, head = message.address.chat, MailHead.parse(message.reply_to)
    if not ADDRESS.fullmatch(to):
        raise Rejected(f"{to!r} is no mail address")
    mail = EmailMessage(policy.SMTP)
    mail["From"], mail["To"] = address, ", ".join(dict.fromkeys((to, *head.to)))
    if head.cc:
        mail["Cc"] = ", ".join(head.cc)
    subject = head.subject or "A message from your assistant"
    if head.answers:
        subject = f"Re: {REPLY_MARK.sub('', subject, count=1)}"
        mail["In-Reply-To"] = head.answers
        mail["References"] = " ".join(dict.fromkeys((*head.references, head.answers)))
    mail["Subject"] = subject
    mail["Date"] = format_datetime(message.created_at or datetime.now(UTC))
    mail["Message-ID"] = make_message_id(message.key, message.address.thread, address)
    mail["Auto-Submitted"] = "auto-replied" if head.answers else "auto-generated"
    mail.set_content(message.part.plain + "\n", cte="quoted-printable")
    if message.part.text and message.part.text != message.part.plain:
        html = PAGE.format(message.part.text)
        mail.add_alternative(html, subtype="html", cte="quoted-printable")
    if message.file:
        kind = (mimetypes.guess_type(message.name)[0] or "application/octet-stream").partition("/")
        mail.add_attachment(data, kind[0], kind[2], filename=message.name)
    for number, part in enumerate(part for part in mail.walk() if part.is_multipart()):
        part.set_boundary(f"=_{message.key}_{number}")
    return mail


def _to_html(blocks: Sequence[Block]) -> str:
    parts: list[str] = []
    for is_quote, group in groupby(blocks, lambda block: bool(block.quote)):
        first, *others = group
        inner = _render_block(first)
        inner += "".join("\n" * block.gap + _render_block(block) for block in others)
        parts += ["\n" * first.gap] if parts else []
        parts.append(f"<blockquote>{inner}</blockquote>" if is_quote else inner)
    return "".join(parts)


def _render_block(block: Block) -> str:
    if block.kind == "code":
        return f"<pre>{escape(block.text)}</pre>"
    marks = BOLD if block.kind == "heading" else NO_MARKS
    lines = (
        escape(lead) + render_nested(spans, TAGS, _render_span)
        for lead, spans in block_lines(block, marks)
    )
    return "\n".join(lines)


def _render_span(span: Span) -> str:
    text, href = escape(span.text), span.href
    if "code" in span.marks:
        text = f"<code>{text}</code>"
    if href.lower().startswith(SCHEMES):
        return f'<a href="{escape(href)}">{text}</a>'
    return text if href in ("", span.text) else f"{text} ({escape(href)})"


render_parts = partial(split_message, render=_to_html, limit=LIMIT)
"""Markdown as HTML and plain text; a very long answer becomes several mails."""
