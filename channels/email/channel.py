"""E-mail: one mailbox (A14, A16). A mail is acknowledged by the cursor, which is saved once the
host has accepted it; what comes again has the same external id.

What stands in the mailbox when it is first opened is not read. When the server numbers its mails
anew, those of the last days are looked at again, and the host drops what it has.
"""

import asyncio
import json
import logging
import re
from datetime import UTC, date, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple, Never

from channels.base import (
    Capabilities,
    Host,
    NotAccepted,
    RateLimit,
    Rejected,
    Unsupported,
)
from channels.email.compose import LIMIT, MailHead, compose, find_thread, render_parts
from channels.email.config import EmailAccount
from channels.email.imap import Imap, ImapTiming, OpenFolder, RawMail
from channels.email.oauth import AccessTokens
from channels.email.parser import CHILD, MailParser, ReadMail, UnreadableMail
from channels.email.smtp import SmtpSender
from channels.message import (
    MEDIA_KINDS,
    Address,
    Attachment,
    InboundMail,
    OutboundMessage,
    Sender,
    UnreadableUpdate,
)
from channels.transport import Backoff, check_size, too_large

MAX_UPLOAD, MAX_DOWNLOAD = 15 << 20, 20 << 20
MAX_READ = 2 << 20
"""Bytes of a mail that are read for its text; its files are fetched by themselves."""
CAPABILITIES = Capabilities(
    limit=LIMIT, can_find=False, edits=False, buttons=False, reactions=False, drafts=False,
    typing=False, max_upload=MAX_UPLOAD, max_download=MAX_DOWNLOAD,
)  # fmt: skip
RATE = RateLimit(5, 60.0)
AGAIN = timedelta(days=1)
REF = re.compile(r"(\d{1,10})/(\d{1,10})/(\d{1,3}(?:\.\d{1,3}){0,9})/([a-z0-9-]{0,20})")
END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
WHY_NOT = "a mail cannot be changed or taken back, and shows neither drafts nor signs"

log = logging.getLogger(__name__)


class EmailTiming(NamedTuple):
    """Seconds. `first_s`, `longest_s`: pauses after failures."""

    first_s: float = 1.0
    longest_s: float = 60.0
    imap: ImapTiming = ImapTiming()


class Cursor(NamedTuple):
    """How far the folder has been read: number `uid` of `validity`, taken by the server `on` a
    day. What it had taken by the time `began` stood there at first. Mails below `anew` were there
    when the server numbered anew: of these only those count that came since `on`.
    """

    validity: int
    uid: int
    on: str
    began: str = ""
    anew: int = 0

    @classmethod
    def parse(cls, text: str) -> "Cursor | None":
        """What `str` gives; None for nothing."""
        try:
            return cls(*json.loads(text)) if text else None
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        return json.dumps(list(self))


class Email:
    """channels.base.Channel."""

    Config = EmailAccount

    def __init__(
        self,
        config: EmailAccount,
        *,
        name: str = "email",
        timing: EmailTiming | None = None,
        reader: Path = CHILD,
    ) -> None:
        self.name, self._reader = name, reader
        self.capabilities = CAPABILITIES
        self._account, self._timing = config, timing or EmailTiming()
        self._tokens = AccessTokens(config.oauth)
        self._smtp = SmtpSender(config, self._tokens, self._timing.imap.call_s)
        self._connect = partial(Imap.connect, config, self._tokens, self._timing.imap)

    async def check(self) -> str:
        async with self._connect() as imap:
            await imap.open_folder()
        if self._account.smtp_host:
            await self._smtp.check()
        return self._account.address

    async def run(self, host: Host) -> None:
        backoff = Backoff(self._timing.first_s, self._timing.longest_s)
        calm_s = self._timing.imap.idle_s
        await backoff.reconnect(partial(self._watch, host), host, calm_s)

    def rate_limit(self, address: Address) -> RateLimit:
        return RATE

    render = staticmethod(render_parts)

    async def send(self, message: OutboundMessage) -> str:
        """The mail's Message-ID, the same at each try: where an answer was lost and the mail is
        sent again, mail servers and programs know it for the same.
        """
        if message.choices:
            raise Unsupported("a mail has no buttons")
        data = b""
        if message.file:
            await check_size(message.file, message.name, MAX_UPLOAD, "e-mail")
            try:
                data = await asyncio.to_thread(message.file.read_bytes)
            except OSError as error:
                raise Rejected(f"the file {message.name} cannot be read") from error
        mail = compose(message, self._account.address, data)
        await self._smtp.send(mail)
        return str(mail["Message-ID"])

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """SMTP has no way to ask."""
        return ""

    async def _refuse(self, *given: object, **named: object) -> Never:
        raise Unsupported(WHY_NOT)

    edit = show_draft = delete = show_typing = mark_seen = _refuse

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        if attachment.size > MAX_DOWNLOAD:
            raise too_large(attachment.name, MAX_DOWNLOAD)
        found = REF.fullmatch(attachment.ref)
        if found is None:
            raise Rejected(f"{attachment.name} is no file of a mail")
        async with self._connect() as imap:
            if (await imap.open_folder()).validity != int(found[1]):
                raise Rejected("the mail is not there any more under its number")
            data = await imap.fetch_part(int(found[2]), found[3], found[4], 2 * MAX_DOWNLOAD)
        if len(data) > MAX_DOWNLOAD:
            raise too_large(attachment.name, MAX_DOWNLOAD)
        await asyncio.to_thread(into.write, data)

    async def aclose(self) -> None:
        """Nothing stays open between calls."""

    async def _watch(self, host: Host) -> None:
        """Until the connection ends. Raises RetryLater, Revoked."""
        parser = MailParser(self._account.authserv_id, self._reader)
        try:
            async with self._connect() as imap:
                folder = await imap.open_folder()
                reader = MailReader(self._account, self.name, imap, folder, parser, host)
                await reader.begin()
                host.report_alive()
                while True:
                    if not await reader.read_new():
                        await imap.wait_for_news(self._account.poll_seconds)
                    host.report_alive()
        except NotAccepted as error:
            log.warning("%s: a mail was not accepted (%s); it is read again", self.name, error)
        finally:
            await parser.aclose()


class MailReader:
    """Reads one folder, as long as its connection lasts, from the cursor on."""

    def __init__(
        self,
        account: EmailAccount,
        name: str,
        imap: Imap,
        folder: OpenFolder,
        parser: MailParser,
        host: Host,
    ) -> None:
        self._account, self._name, self._imap = account, name, imap
        self._folder, self._parser, self._host = folder, parser, host
        self._cursor = Cursor(folder.validity, 0, "")

    async def begin(self) -> None:
        """Where to go on. Raises NotAccepted."""
        known = Cursor.parse(await self._host.load_cursor())
        if known and known.validity == self._folder.validity:
            self._cursor = known
            return
        newest = next(iter(await self._imap.search("UID", "*")), 0)
        upcoming = max(self._folder.next, newest + 1)
        if known:
            log.warning("%s: the server numbers its mails anew", self._name)
            self._cursor = known._replace(validity=self._folder.validity, uid=0, anew=upcoming)
            return
        mail = await self._imap.fetch(newest, 1) if newest else None
        today = datetime.now(UTC).date().isoformat()
        began = mail.at if mail else ""
        await self._save(Cursor(self._folder.validity, upcoming - 1, today, began))

    async def read_new(self) -> bool:
        """Hand over what has come; whether there was anything. Raises NotAccepted."""
        at, again = self._cursor, self._cursor.uid + 1 < self._cursor.anew
        since = date.fromisoformat(at.on) - AGAIN if again else None
        uids = await self._imap.list_uids(at.uid + 1, since)
        for uid in uids:
            if again and uid >= at.anew:
                break
            mail = await self._imap.fetch(uid, MAX_READ)
            if mail and not (again and "" < mail.at <= at.began):
                await self._hand_over(uid, mail)
            on = at.on if again or mail is None else max(self._cursor.on, mail.at[:10])
            await self._save(self._cursor._replace(uid=uid, on=on))
            self._host.report_alive()
        if again:
            await self._save(self._cursor._replace(uid=at.anew - 1))
        return again or bool(uids)

    async def _save(self, cursor: Cursor) -> None:
        await self._host.save_cursor(str(cursor))
        self._cursor = cursor

    async def _hand_over(self, uid: int, mail: RawMail) -> None:
        try:
            read = await self._parser.read(mail.raw, mail.structure)
        except UnreadableMail as error:
            name = sha256(mail.raw).hexdigest()[:24]
            raw = mail.raw[:20_000].decode("utf-8", "replace")
            await self._host.accept([UnreadableUpdate(self._name, f"mail/{name}", raw, str(error))])
            return
        if read.sender == self._account.address.casefold():
            return  # a copy of our own
        ref = f"{self._folder.validity}/{uid}"
        await self._host.accept([make_inbound(self._name, read, mail, ref)])


def _identify(read: ReadMail, mail: RawMail, message_id: str) -> str:
    """The same for the same mail, whatever servers on its way wrote above it; ids may collide, for
    scanners and web forms make them badly.
    """
    head = END_OF_HEAD.search(mail.raw)
    at = head.end() if head else 0
    content = sha256(mail.raw[at:]).hexdigest()
    known = (read.sender, read.proven, message_id, read.subject, read.date, content, mail.size - at)
    return f"mail/{sha256(repr(known).encode()).hexdigest()[:32]}"


def make_inbound(channel: str, read: ReadMail, mail: RawMail, ref: str) -> InboundMail:
    """A mail as the host gets it. One without an id has one made of its content."""
    message_id = read.id or f"<{sha256(mail.raw).hexdigest()[:32]}@without.id>"
    sender = read.sender or "unknown@invalid"
    thread = find_thread(sender, message_id, read.references, read.proven)
    head = MailHead(read.subject[:200], message_id, read.references)
    notes = []
    if mail.size > len(mail.raw):
        notes.append(
            f"The mail has {mail.size:,} bytes; only the first {len(mail.raw):,} were read"
        )
    if read.cut:
        notes.append("Its text was cut")
    if not (read.text or read.files):
        notes.append("No text in it can be read")
    sent_at = None
    if read.date:
        sent_at = datetime.fromisoformat(read.date)
        sent_at = sent_at if sent_at.tzinfo else None
    returned = read.returned
    return InboundMail(
        Address(channel, sender, thread),
        Sender(sender, read.name),
        _identify(read, mail, message_id),
        read.text,
        head.to_token(),
        tuple(
            Attachment(
                MEDIA_KINDS.get(one.mime.partition("/")[0], "document"),
                one.name or "attachment",
                one.mime,
                one.size,
                f"{ref}/{one.number}/{one.encoding if one.encoding.isascii() else ''}",
            )
            for one in read.files
        ),
        sent_at=sent_at,
        data=tuple(read.quoted),
        people=tuple(read.people),
        subject=read.subject,
        shown_from=read.shown_from,
        proven=read.proven,
        why=read.why,
        automatic=read.automatic,
        list_id=read.list,
        history=read.history,
        notes=". ".join(notes),
        returned=returned.id if returned else "",
        missed=tuple(returned.people) if returned else (),
        status=returned.status if returned else "",
    )
