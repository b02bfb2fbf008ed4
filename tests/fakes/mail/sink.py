"""An SMTP server that keeps what it is sent, and fails when a test wants it to."""

import asyncio
import warnings
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.fakes.mail.dovecot import PASSWORD, USER
from tests.fakes.mail.tokens import TokenServer


@dataclass(frozen=True, slots=True)
class SentMail:
    """What came: the envelope, the bytes, and the mail."""

    sender: str
    people: tuple[str, ...]
    raw: bytes

    @property
    def mail(self) -> EmailMessage:
        """As a mail program reads it."""
        return message_from_bytes(self.raw, policy=policy.default)

    @property
    def text(self) -> str:
        """Its plain text."""
        body = self.mail.get_body(("plain",))
        return body.get_content().strip() if body else ""


class SmtpSink:
    """`faults`, for the next mails: an answer such as "451 later", "lost" (taken, then the connection is cut), "cut" (cut
    before it is taken), "drop" (cut before it is handed over), "slow" (taken after half a second).
    """

    def __init__(self, user: str = USER, tokens: TokenServer | None = None) -> None:
        self._user, self._tokens = user, tokens
        self.sent: list[SentMail] = []
        self.faults: list[str] = []
        self.passwords = [PASSWORD]
        self.port = 0
        self._server: asyncio.Server | None = None
        self._news = asyncio.Condition()

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._make, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """No longer reachable."""
        if self._server:
            self._server.close()
            self._server = None

    async def until(self, holds: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until this holds, looking at each mail."""
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(holds)

    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:
        """A token; where it is not good, the reason first, as Gmail and Outlook do it."""
        known = b64decode(args[1]).decode().split("\1")
        token = known[1].removeprefix("auth=Bearer ")
        tokens = self._tokens
        is_good = tokens and tokens.sends and tokens.is_good(token)
        is_good = is_good and known[0] == f"user={self._user}"
        if not is_good:
            await server.challenge_auth('{"status":"400"}')
        return AuthResult(success=bool(is_good), handled=False)

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Before it is handed over."""
        if self.faults[:1] == ["drop"]:
            self.faults.pop(0)
            _cut(server)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """A mail."""
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "cut":
            _cut(server)
            return "250 OK"
        if fault == "slow":
            await asyncio.sleep(0.5)
        elif fault and fault != "lost":
            return fault
        people = tuple(str(one) for one in envelope.rcpt_tos)
        raw = envelope.content if isinstance(envelope.content, bytes) else b""
        self.sent.append(SentMail(str(envelope.mail_from), people, raw))
        async with self._news:
            self._news.notify_all()
        if fault == "lost":
            _cut(server)
        return "250 OK"

    def _make(self) -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a password without TLS: on loopback
            return SMTP(
                self, hostname="sink", auth_required=True, auth_require_tls=False,
                authenticator=self._check, enable_SMTPUTF8=True,
            )  # fmt: skip

    def _check(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        if not isinstance(data, LoginPassword):
            return AuthResult(success=False, handled=False)
        is_good = data.login == self._user.encode() and data.password.decode() in self.passwords
        return AuthResult(success=is_good, handled=False)


def _cut(server: SMTP) -> None:
    if isinstance(server.transport, asyncio.Transport):
        server.transport.abort()
