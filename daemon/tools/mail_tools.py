"""mail_send and mail_draft: a mail of the owner's goes out through the send window, or is put down
as a file (F8).
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.messages import MAIL, MessageQueued, build_mail
from daemon.core.trust import Effect
from daemon.tools.base import Arguments, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.signature import bind, tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore

MAX_PEOPLE, MAX_SUBJECT, MAX_TEXT = 20, 300, 200_000
# Letters of ASCII only, no quotes, no route: what is read is what is written to.
ADDRESS = re.compile(
    r"(?=.{3,254}\Z)(?=[^@]{1,64}@)[A-Za-z0-9#$&'*+/=?^_{}~-]+(?:\.[A-Za-z0-9#$&'*+/=?^_{}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]"
)
MESSAGE_ID = re.compile(r"<[A-Za-z0-9.!#$%&'*+/=?^_`{|}~@:\[\]-]{1,250}>")
DRAFT = re.compile(r"drafts/[^/\x00-\x1f]{1,120}\.eml")
TURNED = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
HIDDEN = ("Cc", "Cs", "Zl", "Zp")
NOTHING_SENT = "nothing was sent"
LEAVES = "queued: {what} leaves at {when}; /undo stops it until then"
AT_ONCE = "queued: {what} leaves at once"
RUNS_LATER = ", once the daemon runs (aidaemon run)"

People = str | list[str]


@value
class MailAccount:
    """An account that can send. `channel` is its channel's name; `works`: it is connected now."""

    channel: str
    address: str
    works: bool = True


@value
class MailDesk:
    """The accounts, the first of which sends where none is named, and how long a mail is held."""

    list_accounts: Callable[[], Sequence[MailAccount]]
    get_hold_s: Callable[[], int]

    def find_account(self, name: str) -> MailAccount:
        """By its channel or its address. Raises ToolError."""
        accounts = self.list_accounts()
        named = [one for one in accounts if name in (one.channel, one.address)]
        if not accounts:
            raise ToolError(f"no mail account can send now; {NOTHING_SENT}")
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
                f"reply_to: {answers[:80]!r} is no Message-ID such as <abc@example.com>;"
                f" {NOTHING_SENT}"
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


@tool(effect=Effect.EGRESS, critical=("to", "cc"), idempotent=True)
async def mail_send(
    desk: MailDesk,
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
    sender, now = desk.find_account(account), context.clock.now()
    hold = desk.get_hold_s()
    due = now + timedelta(seconds=hold)
    thread = sha256((mail.answers or f"{context.turn.id}.{context.call_id}").encode()).hexdigest()
    body = build_mail(mail.head, mail.text)
    chat = f"{mail.to[0]}:{thread[:12]}"
    event = MessageQueued(context.call_id, MAIL, sender.channel, chat, body, due)
    what = f"the mail to {', '.join((*mail.to, *mail.cc))}"
    words = LEAVES if hold else AT_ONCE
    said = words.format(what=what, when=show_time(due, "%H:%M")) + RUNS_LATER * (not sender.works)
    return ToolOutput(said, events=(event,))


@tool(effect=Effect.WRITE, critical=("path",), paths=("path",))
async def mail_draft(
    files: FileStore,
    context: ToolContext,
    path: str,
    to: People,
    subject: str,
    text: str,
    cc: People = "",
    reply_to: str = "",
) -> str:
    """Put a mail down as a file, such as drafts/lunch.eml, which a mail program can open. It is
    never sent.
    """
    if not DRAFT.fullmatch(path):
        raise ToolError(f"path: {path[:80]!r}: expected drafts/NAME.eml; nothing was written")
    mail = Mail.read({"to": to, "cc": cc, "subject": subject, "text": text, "reply_to": reply_to})
    head = (
        f"{mail.render_head()}\nX-Unsent: 1\nMIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit"
    )
    data = f"{head}\n\n{mail.text.rstrip()}\n".encode()
    await files.write(path, lambda old: data, ChangeAuthor.from_context(context))
    return f"wrote the draft {path}; it is not sent. The owner can open it in a mail program."


def mail_tools(desk: MailDesk, files: FileStore) -> list[Tool]:
    """Both, with a check before anybody is asked, and the head and the window in the question."""
    send, draft = bind([mail_send, mail_draft], {MailDesk: desk, FileStore: files})

    def check(arguments: Arguments) -> None:
        if send.check:
            send.check(arguments)
        Mail.read(arguments)
        desk.find_account(str(arguments.get("account") or ""))

    def preview(arguments: Arguments) -> str:
        try:
            sender = desk.find_account(str(arguments.get("account") or ""))
            head = Mail.read(arguments).render_head(sender.address)
        except ToolError as error:
            return f"This would be refused: {error}"
        hold = desk.get_hold_s()
        held = f"It is held for {hold} seconds; /undo stops it until then."
        return f"{head}\n\n{held if hold else 'It leaves at once.'}"

    return [replace(send, check=check, preview=preview), draft]
