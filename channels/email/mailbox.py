"""Looks into a mailbox for its owner: what is there, what one mail says; puts a draft down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from email.message import EmailMessage

from channels import value
from channels.base import Rejected
from channels.email.config import EmailAccount
from channels.email.imap import MONTHS, Imap, ImapTiming
from channels.email.oauth import AccessTokens
from channels.email.parser import MailParser, ReadMail, UnreadableMail

MAX_WORDS, HEAD_BYTES, READ_BYTES = 200, 32_000, 2 << 20
ALL_S = 60.0


@value
class MailQuery:
    """Which mails: those that fit all that is given. `words` stand anywhere in it."""

    words: str = ""
    sender: str = ""
    subject: str = ""
    since: date | None = None

    def to_criteria(self) -> list[str]:
        """In the words of IMAP."""
        named = {"TEXT": self.words, "FROM": self.sender, "SUBJECT": self.subject}
        found = [part for key, text in named.items() if text for part in (key, _quote(text))]
        if self.since:
            day = self.since
            found += ["SINCE", f"{day.day}-{MONTHS[day.month]}-{day.year}"]
        return found or ["ALL"]


def _quote(text: str) -> str:
    if not text.isprintable():
        raise Rejected("a search has no line breaks or control characters")
    escaped = text[:MAX_WORDS].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@value
class Mailbox:
    """The folder of an account. A connection for each call; raises ChannelError."""

    account: EmailAccount

    async def search(self, query: MailQuery, limit: int) -> tuple[int, list[tuple[str, ReadMail]]]:
        """How many fit, and the latest of them, newest first: (number to read it by, its head)."""
        words = query.to_criteria()
        async with self._open() as (imap, validity, parser):
            uids = await imap.search(*words, charset=None if "".join(words).isascii() else "utf-8")
            found = list[tuple[str, ReadMail]]()
            for uid in uids[::-1][:limit]:
                mail = await imap.fetch(uid, HEAD_BYTES)
                if mail:
                    found.append((f"{validity}/{uid}", await _parse(parser, mail.raw)))
        return len(uids), found

    async def read(self, number: str) -> ReadMail:
        """One mail. Raises Rejected: it is not there."""
        known, _, uid = number.partition("/")
        async with self._open() as (imap, validity, parser):
            if not uid.isdecimal() or known != str(validity):
                raise Rejected(f"there is no mail {number!r}; search for it again")
            mail = await imap.fetch(int(uid), READ_BYTES)
            if mail is None:
                raise Rejected(f"the mail {number} is not there any more")
            return await _parse(parser, mail.raw)

    async def put_draft(self, mail: EmailMessage) -> str:
        """Into the folder of drafts; its name."""
        async with self._open() as (imap, _, _):
            folder = await imap.find_drafts()
            await imap.append(folder, mail.as_bytes())
        return folder

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[Imap, int, MailParser]]:
        parser, tokens = MailParser(self.account.authserv_id), AccessTokens(self.account.oauth)
        try:
            async with (
                asyncio.timeout(ALL_S),
                Imap.connect(self.account, tokens, ImapTiming()) as imap,
            ):
                yield imap, (await imap.open_folder()).validity, parser
        finally:
            await parser.aclose()


async def _parse(parser: MailParser, raw: bytes) -> ReadMail:
    try:
        return await parser.read(raw)
    except UnreadableMail as error:
        raise Rejected(f"a mail cannot be read: {error}") from error
