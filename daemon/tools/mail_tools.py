"""The owner's mailbox, for what they ask in their chats: mail_search, mail_read, mail_draft, and
mail_send, which goes out through the send window (F8).
"""

import json
import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from hashlib import sha256
from typing import TypeVar

from channels.base import ChannelError
from channels.email.compose import compose
from channels.email.config import EmailAccount
from channels.email.mailbox import Mailbox, MailQuery
from channels.message import Address, MessagePart, OutboundMessage
from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.messages import MAIL, MessageQueued, build_mail
from daemon.core.trust import Effect, Label
from daemon.tools.base import Arguments, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.signature import bind, tool

T = TypeVar("T")
MAX_FOUND, READ_S = 20, 90.0
MAX_PEOPLE, MAX_SUBJECT, MAX_TEXT = 20, 300, 200_000
# Letters of ASCII only, no quotes, no route: what is read is what is written to.
ADDRESS = re.compile(
    r"(?=.{3,254}\Z)(?=[^@]{1,64}@)[A-Za-z0-9#$&'*+/=?^_{}~-]+(?:\.[A-Za-z0-9#$&'*+/=?^_{}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]"
)
MESSAGE_ID = re.compile(r"<[A-Za-z0-9.!#$%&'*+/=?^_`{|}~@:\[\]-]{1,250}>")
TURNED = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDDEN = ("Cc", "Cs", "Zl", "Zp")
NOTHING_SENT = "nothing was sent"
LEAVES = "queued: {what} leaves at {when}; /undo stops it until then"
AT_ONCE = "queued: {what} leaves at once"
RUNS_LATER = ", once the daemon runs (aidaemon run)"

People = str | list[str]


@value
class MailAccount:
    """A mailbox. `channel` is its channel's name; `works`: it is connected now."""

    channel: str
    config: EmailAccount
    works: bool = True

    @property
    def address(self) -> str:
        """Whom its mails are from."""
        return self.config.address


@value
class MailAccounts:
    """The mailboxes, the first of which counts where none is named, and how long a mail is held."""

    list_accounts: Callable[[], Sequence[MailAccount]]
    get_hold_s: Callable[[], int]

    def find_account(self, name: str, *, sends: bool = False) -> MailAccount:
        """By its channel or its address. Raises ToolError."""
        accounts = [one for one in self.list_accounts() if one.config.smtp_host or not sends]
        named = [one for one in accounts if name in (one.channel, one.address)]
        if not accounts:
            raise ToolError(f"no mail account can send: smtp_host is not set; {NOTHING_SENT}")
        if name and not named:
            known = ", ".join(f"{one.channel} ({one.address})" for one in accounts)
            raise ToolError(f"account: {name!r} is unknown; expected one of {known}")
        return named[0] if name else accounts[0]


@value
class Mail:
    """A mail as it would go out."""

    to: list[str]
    cc: list[str]
    subject: str
    text: str
    answers: str

    @classmethod
    def read(cls, arguments: Arguments) -> "Mail":
        """From the arguments of a call. Raises ToolError, which names the faulty one."""
        to, cc = (_read_people(arguments.get(key) or [], key) for key in ("to", "cc"))
        cc = [one for one in cc if one not in to]
        subject, text = (str(arguments.get(key) or "") for key in ("subject", "text"))
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        answers = str(arguments.get("reply_to") or "").strip()
        if not to:
            raise ToolError(f"to: nobody is named; {NOTHING_SENT}")
        if len(to) + len(cc) > MAX_PEOPLE:
            raise ToolError(f"to: more than {MAX_PEOPLE} people; {NOTHING_SENT}")
        _check_text("subject", subject, MAX_SUBJECT)
        _check_text("text", text, MAX_TEXT, lines=True)
        if answers and not MESSAGE_ID.fullmatch(answers):
            raise ToolError(
                f"reply_to: {answers[:80]!r} is no Message-ID; expected one such as"
                f" <abc@example.com>, as mail_read shows it, not an address; {NOTHING_SENT}"
            )
        return cls(to, cc, subject, text, answers)

    @property
    def head(self) -> dict[str, str | Sequence[str]]:
        """What the channel is told beside the text."""
        references = [self.answers] if self.answers else []
        return {
            "to": self.to, "cc": self.cc, "subject": self.subject, "id": self.answers,
            "references": references,
        }  # fmt: skip

    def render_head(self, sender: str = "") -> str:
        """As its head would stand."""
        rows = {
            "From": sender,
            "To": ", ".join(self.to),
            "Cc": ", ".join(self.cc),
            "Subject": self.subject,
            "In-Reply-To": self.answers,
        }
        return "\n".join(f"{name}: {found}" for name, found in rows.items() if found)


def _read_people(given: object, key: str) -> list[str]:
    parts = given if isinstance(given, list) else str(given).split(",")
    return list(dict.fromkeys(_read_address(str(part), key) for part in parts if part))


def _read_address(given: str, key: str) -> str:
    """The address, its domain in small letters. Raises ToolError."""
    address = given.strip(" ")
    if ADDRESS.fullmatch(address) and ".." not in address:
        name, _, domain = address.rpartition("@")
        return f"{name}@{domain.lower()}"
    why = "it is no mail address"
    if any(unicodedata.category(char) in (*HIDDEN, "Cf") for char in address):
        why = "it has a line break or a character that cannot be seen"
    elif "<" in address or '"' in address:
        why = "give the address alone, without a name"
    elif not address.isascii():
        why = "only ASCII letters can stand in it; write a foreign domain as xn--..."
    elif ";" in address or " " in address:
        why = "separate addresses by commas"
    raise ToolError(f"{key}: {address[:80]!a}: {why}; {NOTHING_SENT}")


def _check_text(key: str, text: str, limit: int, *, lines: bool = False) -> None:
    """Raises ToolError."""
    allowed = "\n\t" if lines else ""
    bad = next(
        (
            char
            for char in text
            if (unicodedata.category(char) in HIDDEN and char not in allowed)
            or (not lines and char in TURNED)
        ),
        "",
    )
    if bad:
        what = "a line break" if bad in "\n\r" else f"the character U+{ord(bad):04X}"
        raise ToolError(f"{key}: it has {what}; leave that out. {NOTHING_SENT.capitalize()}")
    if not text.strip():
        raise ToolError(f"{key}: it is empty; {NOTHING_SENT}")
    if len(text) > limit:
        raise ToolError(f"{key}: {len(text)} characters; at most {limit}. Send it in parts.")


@tool(
    effect=Effect.EGRESS, critical=("to", "cc"), ids=("reply_to",), idempotent=True, owner_only=True
)
async def mail_send(
    accounts: MailAccounts,
    context: ToolContext,
    to: People,
    subject: str,
    text: str,
    cc: People = "",
    reply_to: str = "",
    account: str = "",
) -> ToolOutput:
    """Send a mail in the owner's name. `to`, `cc`: addresses, without names. `reply_to`: the
    Message-ID of the mail that this one answers. `account`: which of the owner's accounts sends
    it. It is held for a while before it leaves.
    """
    mail = Mail.read({"to": to, "cc": cc, "subject": subject, "text": text, "reply_to": reply_to})
    sender, now = accounts.find_account(account, sends=True), context.clock.now()
    hold = accounts.get_hold_s()
    due = now + timedelta(seconds=hold)
    thread = sha256((mail.answers or f"{context.turn.id}.{context.call_id}").encode()).hexdigest()
    body = build_mail(mail.head, mail.text)
    chat = f"{mail.to[0]}:{thread[:16]}"
    event = MessageQueued(context.call_id, MAIL, sender.channel, chat, body, due)
    what = f"the mail to {', '.join((*mail.to, *mail.cc))}"
    words = LEAVES if hold else AT_ONCE
    said = words.format(what=what, when=show_time(due, "%H:%M")) + RUNS_LATER * (not sender.works)
    return ToolOutput(said, events=(event,), public=True)


@tool(effect=Effect.WRITE, critical=("to", "cc"), ids=("reply_to",), owner_only=True)
async def mail_draft(
    accounts: MailAccounts,
    context: ToolContext,
    to: People,
    subject: str,
    text: str,
    cc: People = "",
    reply_to: str = "",
    account: str = "",
) -> str:
    """Put a mail into the folder of drafts of the owner's mailbox. It is never sent. The arguments
    are those of mail_send.
    """
    mail = Mail.read({"to": to, "cc": cc, "subject": subject, "text": text, "reply_to": reply_to})
    found = accounts.find_account(account)
    part = MessagePart(mail.text, mail.text)
    head = json.dumps(mail.head)
    key = sha256(f"{context.turn.id}.{context.call_id}".encode()).hexdigest()
    where = Address(found.channel, mail.to[0], key[:16])
    draft = compose(
        OutboundMessage(where, part, key[16:40], reply_to=head, created_at=context.clock.now()),
        found.address,
    )
    del draft["Auto-Submitted"]  # whoever sends it is a person
    folder = await _ask(Mailbox(found.config).put_draft(draft))
    return f"the draft is in the folder {folder} of {found.address}; it is not sent"


@tool(
    effect=Effect.READ, volatile=True, timeout_s=READ_S, returns_outside_text=True, owner_only=True
)
async def mail_search(
    accounts: MailAccounts,
    words: str = "",
    sender: str = "",
    subject: str = "",
    since: str = "",
    account: str = "",
) -> ToolOutput:
    """Look for mails in the owner's mailbox, the latest first. `words`: anywhere in the mail;
    `since`: a day such as 2026-11-20. What is left out is not looked at.
    """
    try:
        query = MailQuery(words, sender, subject, date.fromisoformat(since) if since else None)
    except ValueError as error:
        raise ToolError(f"since: {since!r}: expected a day such as 2026-11-20") from error
    found = accounts.find_account(account)
    count, mails = await _ask(Mailbox(found.config).search(query, MAX_FOUND))
    lines = [
        f"{number}: {mail.date[:16]} from {mail.sender or mail.shown_from}: {mail.subject}"
        for number, mail in mails
    ]
    more = f"; the latest {len(mails)}" if count > len(mails) else ""
    head = f"{count} mails fit{more}. mail_read NUMBER gives one of them."
    return ToolOutput("\n".join((head, *lines)), label=Label.UNTRUSTED, from_owner=False)


@tool(
    effect=Effect.READ, volatile=True, timeout_s=READ_S, returns_outside_text=True, owner_only=True
)
async def mail_read(accounts: MailAccounts, number: str, account: str = "") -> ToolOutput:
    """One mail of the owner's mailbox. `number`: as mail_search gives it."""
    mail = await _ask(Mailbox(accounts.find_account(account).config).read(number))
    proof = "proven" if mail.proven else "not proven"
    names = ", ".join(f"{one.name or 'attachment'} ({one.size:,} bytes)" for one in mail.files)
    rows = {
        "From": f"{mail.shown_from} ({proof}: {mail.why})",
        "To": mail.to,
        "Date": mail.date,
        "Subject": mail.subject,
        "Message-ID": mail.id,
        "Files": names,
    }
    head = "\n".join(f"{name}: {found}" for name, found in rows.items() if found)
    text = "\n\n".join(part for part in (head, mail.text, mail.history) if part)
    return ToolOutput(text, label=Label.UNTRUSTED, from_owner=False)


async def _ask(work: Awaitable[T]) -> T:
    try:
        return await work
    except (ChannelError, TimeoutError) as error:
        raise ToolError(str(error) or "the mail server does not answer") from error


def mail_tools(accounts: MailAccounts) -> list[Tool]:
    """All, with a check of what is sent before anybody is asked, and the head and the window in the
    question.
    """
    send, *others = bind([mail_send, mail_draft, mail_search, mail_read], {MailAccounts: accounts})

    def check(arguments: Arguments) -> None:
        if send.check:
            send.check(arguments)
        Mail.read(arguments)
        accounts.find_account(str(arguments.get("account") or ""), sends=True)

    def preview(arguments: Arguments) -> str:
        try:
            sender = accounts.find_account(str(arguments.get("account") or ""), sends=True)
            head = Mail.read(arguments).render_head(sender.address)
        except ToolError as error:
            return f"This would be refused: {error}"
        hold = accounts.get_hold_s()
        held = f"It is held for {hold} seconds; /undo stops it until then."
        return f"{head}\n\n{held if hold else 'It leaves at once.'}"

    sends = any(one.config.smtp_host for one in accounts.list_accounts())
    return [*[replace(send, check=check, preview=preview)] * sends, *others]
