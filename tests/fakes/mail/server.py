"""All of it together, and mails as people send them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage

from tests.fakes.mail.chaos import Chaos
from tests.fakes.mail.dovecot import PASSWORD, SERVER, USER, Dovecot
from tests.fakes.mail.sink import SmtpSink
from tests.fakes.mail.tokens import TokenServer


@dataclass(slots=True)
class MailServer:
    """A mailbox behind a proxy, and the server that sends."""

    dovecot: Dovecot
    proxy: Chaos
    sink: SmtpSink

    def config(self, **more: object) -> dict[str, object]:
        """The section [email]."""
        return {
            "imap_host": "127.0.0.1", "imap_port": self.proxy.port, "imap_tls": False,
            "smtp_host": "127.0.0.1", "smtp_port": self.sink.port, "smtp_tls": False,
            "username": USER, "password": PASSWORD, "authserv_id": SERVER, **more,
        }  # fmt: skip


@asynccontextmanager
async def mail_server(
    *, idle: bool = True, tokens: TokenServer | None = None
) -> AsyncIterator[MailServer]:
    """Started, and thrown away."""
    dovecot = Dovecot(idle=idle, tokens=tokens.url if tokens else "")
    sink = SmtpSink(tokens=tokens)
    proxy = Chaos(dovecot.port)
    try:
        await dovecot.start()
        await sink.start()
        await proxy.start()
        yield MailServer(dovecot, proxy, sink)
    finally:
        await proxy.stop()
        await sink.stop()
        await dovecot.remove()


def write_mail(
    text: str,
    *,
    sender: str = "ann@example.org",
    subject: str = "hello",
    number: str = "1",
    answers: str = "",
    proof: str | None = "dmarc=pass header.from=example.org",
    headers: Mapping[str, str] | None = None,
    files: Mapping[str, bytes] | None = None,
    html: str = "",
) -> bytes:
    """A mail as it arrives; `proof` is what our own server says of its sender."""
    mail = EmailMessage()
    if proof is not None:
        mail["Authentication-Results"] = f"{SERVER}; {proof}"
    mail["From"], mail["To"], mail["Subject"] = sender, USER, subject
    mail["Date"] = "Sat, 21 Nov 2026 20:00:00 +0000"
    mail["Message-ID"] = f"<m{number}@example.org>"
    if answers:
        mail["In-Reply-To"] = mail["References"] = answers
    for name, value in (headers or {}).items():
        mail[name] = value
    mail.set_content(text)
    if html:
        mail.add_alternative(html, subtype="html")
    for name, data in (files or {}).items():
        mail.add_attachment(data, "application", "octet-stream", filename=name)
    return mail.as_bytes()
