"""Sends mails by SMTP. What was lost after the text had been handed over may have arrived."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from email.message import EmailMessage
from email.utils import getaddresses

import aiosmtplib

from channels.base import (
    ChannelError,
    DeliveryUnknown,
    Rejected,
    RetryLater,
    Revoked,
    Unsupported,
)
from channels.email.config import SMTPS_PORT, EmailAccount
from channels.email.oauth import AccessTokens

DATA_S, LATER_S = 120.0, 60.0
logging.getLogger("aiosmtplib").setLevel(logging.WARNING)


class SmtpSender:
    """A connection for each mail; nothing stays open."""

    def __init__(self, account: EmailAccount, tokens: AccessTokens, timeout_s: float) -> None:
        self._account, self._tokens, self._timeout_s = account, tokens, timeout_s

    async def check(self) -> None:
        """Sign in, and leave. Raises Revoked, RetryLater."""
        async with self._connect():
            pass

    async def send(self, mail: EmailMessage) -> None:
        """To everybody whom it names, or to nobody. Raises Rejected, RetryLater, DeliveryUnknown,
        Revoked.
        """
        if not self._account.smtp_host:
            raise Unsupported("smtp_host is not set, so no mail can be sent")
        people = [one for _, one in getaddresses([str(mail["To"]), str(mail.get("Cc", ""))]) if one]
        async with self._connect() as client:
            await self._ask(client.mail(self._account.address))
            for one in people:
                await self._ask(client.rcpt(one))
            try:
                async with asyncio.timeout(DATA_S):
                    await client.data(mail.as_bytes())
            except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
                if isinstance(error, aiosmtplib.SMTPResponseException) and error.code >= 400:
                    raise _refused(error.code, error.message) from error
                text = "the mail server did not say whether it took the mail"
                raise DeliveryUnknown(text) from error

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[aiosmtplib.SMTP]:
        account, port = self._account, self._account.ports[1]
        is_implicit = account.smtp_tls and port == SMTPS_PORT
        client = aiosmtplib.SMTP(
            hostname=account.smtp_host,
            port=port,
            timeout=self._timeout_s,
            use_tls=is_implicit,
            start_tls=account.smtp_tls and not is_implicit,
        )
        try:
            await self._ask(client.connect())
            await self._ask(client.ehlo())
            if self._tokens.in_use:
                await self._use_token(client)
            elif account.password and client.supports_extension("auth"):
                await self._ask(client.login(account.username, account.password), signs_in=True)
            yield client
            with suppress(aiosmtplib.SMTPException, OSError, TimeoutError):
                await client.quit()
        finally:
            client.close()

    async def _use_token(self, client: aiosmtplib.SMTP) -> None:
        """One that ended before its time is replaced."""
        while True:
            token = await self._tokens.get()
            try:
                sign_in = client.auth_xoauth2(self._account.username, token)
                return await self._ask(sign_in, signs_in=True)
            except Revoked:
                if not self._tokens.forget():
                    raise

    async def _ask(self, step: Awaitable[object], *, signs_in: bool = False) -> None:
        """One step before anything is sent."""
        host = self._account.smtp_host
        try:
            async with asyncio.timeout(self._timeout_s):
                await step
        except aiosmtplib.SMTPResponseException as error:
            if signs_in and error.code >= 500:
                why = "check password or [email.oauth]"
                raise Revoked(f"the mail server {host} refuses the sign-in: {why}") from error
            raise _refused(error.code, error.message) from error
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            text = f"the mail server {host} cannot be reached ({type(error).__name__})"
            raise RetryLater(text) from error


def _refused(code: int, text: str) -> ChannelError:
    said = " ".join(text.split())[:200]
    if code < 500:  # an answer that is none has no code
        return RetryLater(f"the mail server does not take the mail now: {code} {said}", LATER_S)
    return Rejected(f"the mail server does not take the mail: {code} {said}")
