"""A mail server as a platform: a real Dovecot and an SMTP server behind proxies, and people who write mails (`Platform`)."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from itertools import count

from tests.fakes.mail.chaos import Chaos
from tests.fakes.mail.dovecot import PASSWORD, SERVER, Dovecot
from tests.fakes.mail.reader import POISON
from tests.fakes.mail.server import write_mail
from tests.fakes.mail.sink import SentMail, SmtpSink
from tests.fakes.platform import Calls, Fault, Shown

NUMBERS = count(1)
THREAD = re.compile(r"\.(\w+)@")
SUBJECT = "hello"


SHARED: list[Dovecot] = []


def shared_dovecot() -> Dovecot:
    """One server for all tests of a process; each platform has a mailbox of its own there."""
    if not SHARED:
        SHARED.append(Dovecot())
    return SHARED[0]


def end_shared_dovecot() -> None:
    """After the last test of this process: nothing of it stays."""
    for one in SHARED:
        one.end()
        shutil.rmtree(one.base, ignore_errors=True)
    SHARED.clear()


class MailPlatform:
    """tests.fakes.platform.Platform. A chat is an address: nobody has groups, buttons or reactions by mail. Ids of what people
    say are as the channel hands them to the house, with what an answer needs; those of answers are Message-IDs.
    """

    name = "email"

    def __init__(self) -> None:
        self.calls = Calls()
        self.user = f"bot{next(NUMBERS)}@example.net"
        self.dovecot = shared_dovecot()
        self._sink = SmtpSink(self.user)
        self._imap = Chaos(self.dovecot.port, lambda data: self._note("IMAP", data))
        self._smtp = Chaos(0, lambda data: self._note("SMTP", data))
        self._said: dict[str, tuple[int, Shown]] = {}
        self._raw: dict[str, bytes] = {}
        self._listens = False
        self.dovecot.set_password(PASSWORD, self.user)

    def config(self) -> dict[str, object]:
        """The section [email]."""
        return {
            "imap_host": "127.0.0.1", "imap_port": self._imap.port, "imap_tls": False,
            "smtp_host": "127.0.0.1", "smtp_port": self._smtp.port, "smtp_tls": False,
            "username": self.user, "password": PASSWORD, "authserv_id": SERVER,
            "allowed_senders": [self.person("ann"), self.person("bob")],
            "trusted_senders": [self.person("ann")],
        }  # fmt: skip

    async def start(self) -> None:
        await self.dovecot.start()
        await self._sink.start()
        self._smtp.target = self._sink.port
        for proxy in (self._imap, self._smtp):
            await proxy.start()

    async def stop(self) -> None:
        for proxy in (self._imap, self._smtp):
            await proxy.stop()
        await self._sink.stop()

    def person(self, name: str) -> str:
        return f"{name}@example.org"

    def private(self, person: str) -> str:
        return self.person(person)

    def group(self, *people: str) -> str:
        """There is none: the mails of the first of them."""
        return self.person(people[0])

    def mention(self, text: str) -> str:
        return text

    def say(
        self,
        person: str,
        chat: str,
        text: str,
        *,
        thread: str = "",
        files: Sequence[tuple[str, bytes]] = (),
    ) -> str:
        """By LMTP, as the server that took it from the person does it. `thread`: the id of the mail that it answers."""
        number = str(next(NUMBERS))
        answers = json.loads(thread)["id"] if thread.startswith("{") else thread
        raw = write_mail(
            text,
            sender=self.person(person),
            subject=SUBJECT,
            number=number,
            answers=answers,
            files=dict(files),
        )
        known = {"id": f"<m{number}@example.org>", "subject": SUBJECT}
        said = json.dumps(known | ({"references": [answers]} if answers else {}), sort_keys=True)
        self._raw[said] = raw
        shown = Shown(said, self.person(person), text, thread=answers, files=tuple(files))
        self._said[said] = (len(self._sink.sent), shown)
        self._put(raw)
        return said

    def again(self, message_id: str) -> None:
        self._put(self._raw[message_id])

    def poison(self) -> None:
        """A mail that ends the process which reads mails (`reader.py`)."""
        head = f"From: ann@example.org\r\nMessage-ID: <p{next(NUMBERS)}@example.org>\r\n\r\n"
        self._put(head.encode() + POISON + b"\r\n")

    def press(self, person: str, message_id: str, data: str) -> None:
        raise NotImplementedError("a mail has no buttons")

    def pressed(self) -> list[str]:
        return []

    def react(self, person: str, message_id: str, emoji: str) -> None:
        raise NotImplementedError("nobody reacts to a mail")

    def shown(self, chat: str, thread: str = "") -> list[Shown]:
        """The mails between the account and this person, in order."""
        sent = [
            (place, _shown(one))
            for place, one in enumerate(self._sink.sent, 1)
            if chat in one.people
        ]
        said = [(place, one) for place, one in self._said.values() if one.author == chat]
        both = [one for _, one in sorted(said + sent, key=lambda entry: entry[0])]
        return [one for one in both if not thread or one.thread == thread]

    async def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        await self._sink.until(holds, seconds)

    def fail(self, method: str, *faults: Fault) -> None:
        """By SMTP; what passes at the others is a 4xx here, and what is of no avail is a 5xx."""
        self._sink.faults += [_fault(one) for one in faults for _ in range(one.times)]

    def revoke(self) -> None:
        self._let_in("another password, and a long one", does=False)

    def admit(self) -> None:
        self._let_in(PASSWORD, does=True)

    def cut(self) -> None:
        for proxy in (self._imap, self._smtp):
            proxy.refuses = True
            proxy.cut()

    async def mend(self) -> None:
        for proxy in (self._imap, self._smtp):
            proxy.refuses = False

    def _let_in(self, password: str, *, does: bool) -> None:
        self.dovecot.set_password(password, self.user)
        self.dovecot.until_lets_in(self.user, PASSWORD, does=does)
        self._sink.passwords = [password]
        for proxy in (self._imap, self._smtp):
            proxy.cut()

    def _put(self, raw: bytes) -> None:
        self.dovecot.put(raw, user=self.user)

    def _note(self, protocol: str, data: bytes) -> None:
        self.calls.made.append((protocol, {"said": data[:100]}))


def _shown(sent: SentMail) -> Shown:
    mail = sent.mail
    message_id, html = str(mail["Message-ID"]), mail.get_body(("html",))
    found = THREAD.search(message_id)
    return Shown(
        message_id,
        str(mail["From"]),
        sent.text,
        str(html.get_content()) if html else "",
        by_bot=True,
        thread=found[1] if found else "",
        files=tuple(
            (str(part.get_filename()), bytes(part.get_payload(decode=True) or b""))  # type: ignore[arg-type]
            for part in mail.iter_attachments()
        ),
    )


def _fault(fault: Fault) -> str:
    match fault.kind:
        case "retry":
            return "450 4.7.1 too many mails, try again later"
        case "status" if fault.status < 500:
            return f"550 5.7.1 not taken ({fault.status})"
        case "status":
            return f"451 4.3.0 {fault.text or 'not now'}"
        case "garbage":
            return "<html>welcome to the hotel</html>"
        case kind:
            return kind
