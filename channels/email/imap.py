"""One connection to a mailbox. Each call ends: by an answer, a timeout, or the connection's end."""

import asyncio
import base64
import binascii
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeVar

import aioimaplib
from aioimaplib.aioimaplib import Command, IMAP4ClientProtocol, Response

from channels.base import Rejected, RetryLater, Revoked
from channels.email.config import EmailAccount
from channels.email.oauth import AccessTokens

logging.getLogger("aioimaplib").setLevel(logging.WARNING)  # it would log mails and tokens
T = TypeVar("T")
MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
UIDVALIDITY, UIDNEXT = re.compile(rb"UIDVALIDITY (\d+)"), re.compile(rb"UIDNEXT (\d+)")
SIZE, DATED = re.compile(rb"RFC822\.SIZE (\d+)"), re.compile(rb'INTERNALDATE "([^"]{1,40})"')
FOR_NOW = re.compile(
    rb"UNAVAILABLE|INUSE|LIMIT|SERVERBUG|too many|temporar|try again", re.IGNORECASE
)
LITERAL, MAX_STRUCTURE = re.compile(rb"\{\d+\}$"), 100_000
BODY = re.compile(rb'BODY\[[\d.]*\](?:<\d+>)? (?:NIL|"((?:[^"\\]|\\.)*)")')
ESCAPED = re.compile(rb"\\(.)")
DRAFTS = re.compile(rb'"?([\x20-\x21\x23-\x5b\x5d-\x7e]{1,200}?)"?$')


class ImapTiming(NamedTuple):
    """Seconds. `call_s`: until an answer, `long_s`: to what takes long; `idle_s`: for which the
    server tells what is new before it is asked whether it is still there.
    """

    call_s: float = 20.0
    idle_s: float = 55.0
    long_s: float = 120.0


class OpenFolder(NamedTuple):
    """The folder as it was when it was opened: numbers of mails hold while `validity` is the same;
    the next mail is number `next`.
    """

    validity: int
    next: int


class RawMail(NamedTuple):
    """A mail as it came, but for the end of a large one; `size`: of all of it; `at`: when the
    server took it, in UTC; `structure`: what the server tells of the parts of a large one.
    """

    raw: bytes
    size: int
    at: str
    structure: bytes = b""


class Protocol(IMAP4ClientProtocol):
    """Before a token is refused, servers say why, and wait for an answer, which may be empty."""

    def _continuation(self, line: bytes) -> None:
        command = self.pending_sync_command
        if self.transport and command is not None and command.name == "AUTHENTICATE":
            self.transport.write(b"\r\n")
        else:
            super()._continuation(line)

    def _untagged_response(self, line: bytes) -> Command:
        """The library takes every "* " out of a line, also of a text in it."""
        return super()._untagged_response(line[:2] + line[2:].replace(b"* ", b"*\0 "))


class Imap:
    """Raises RetryLater for all that may work again, Revoked where the account is refused."""

    def __init__(self, account: EmailAccount, timing: ImapTiming) -> None:
        self._account, self._timing = account, timing
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._protocol = Protocol(asyncio.get_running_loop(), self._on_lost)
        self._idling: asyncio.Task[Response] | None = None

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, account: EmailAccount, tokens: AccessTokens, timing: ImapTiming
    ) -> AsyncIterator["Imap"]:
        """Logged in, as long as this is open."""
        made = cls(account, timing)
        try:
            await made._open()
            await made._log_in(tokens)
            yield made
        finally:
            made._close()

    async def _open(self) -> None:
        context = ssl.create_default_context() if self._account.imap_tls else None
        loop, where = asyncio.get_running_loop(), (self._account.imap_host, self._account.ports[0])
        try:
            async with asyncio.timeout(self._timing.call_s):
                await loop.create_connection(lambda: self._protocol, *where, ssl=context)
        except (OSError, TimeoutError) as error:
            why = str(error) or "it does not answer"
            raise RetryLater(f"the mail server {where[0]} cannot be reached: {why}") from error
        await self._call(self._protocol.wait("AUTH|NONAUTH"))

    async def _log_in(self, tokens: AccessTokens) -> None:
        user = self._account.username
        if tokens.in_use:
            token = await tokens.get()
            done = _answered(await self._call(self._protocol.xoauth2(user, token)))
        else:
            name = '"' + user.replace("\\", "\\\\").replace('"', '\\"') + '"'
            done = _answered(await self._call(self._protocol.login(name, self._account.password)))
        if done.result != "OK":
            said = b" ".join(bytes(line) for line in done.lines)
            if tokens.forget():
                raise RetryLater("the mail server refuses an older token; a new one is asked for")
            if FOR_NOW.search(said):
                raise RetryLater("the mail server refuses the sign-in for now", 30.0)
            raise Revoked(
                f"the mail server {self._account.imap_host} refuses {user}: check password or"
                " [email.oauth]; many providers want an app password"
            )

    async def open_folder(self) -> OpenFolder:
        """Open the folder."""
        folder = self._account.folder
        done = _answered(await self._call(self._protocol.select(f'"{folder}"')))
        said = b" ".join(bytes(line) for line in done.lines)
        validity, upcoming = UIDVALIDITY.search(said), UIDNEXT.search(said)
        if done.result != "OK" or validity is None:
            raise RetryLater(f"the mail server does not open the folder {folder}", 30.0)
        return OpenFolder(int(validity[1]), int(upcoming[1]) if upcoming else 0)

    async def list_uids(self, first: int, since: date | None = None) -> list[int]:
        """The mails from this number on, or, by `since`, of that day and later."""
        what = ("UID", f"{first}:*")
        if since:
            what = ("SINCE", f"{since.day}-{MONTHS[since.month]}-{since.year}")
        return await self.search(*what, first=first)

    async def search(self, *criteria: str, first: int = 1, charset: str | None = None) -> list[int]:
        """The numbers of the mails that fit. Raises Rejected: the server does not search so."""
        search = self._protocol.search(*criteria, charset=charset, by_uid=True)
        seconds = self._timing.call_s if criteria[0] == "UID" else self._timing.long_s
        done = await self._call(search, seconds)
        if done.result != "OK":
            hint = "; try words in plain ASCII" if charset else ""
            raise Rejected(f"the mail server does not take this search{hint}")
        found = [
            int(one) for line in done.lines[:-1] for one in bytes(line).split() if one.isdigit()
        ]
        return sorted({uid for uid in found if uid >= first})  # "n:*" always gives the newest one

    async def fetch(self, uid: int, limit: int) -> RawMail | None:
        """A mail, `limit` bytes of it at most, which stays unread; None where it is gone."""
        what = f"(UID RFC822.SIZE INTERNALDATE BODY.PEEK[]<0.{limit}>)"
        lines = await self._fetch(uid, what)
        told = b" ".join(bytes(line) for line in lines if not isinstance(line, bytearray))
        raw = _find_body(lines)
        if raw is None:
            return None
        size, dated = SIZE.search(told), DATED.search(told)
        at = ""
        if dated:
            with suppress(ValueError, OverflowError):
                taken = datetime.strptime(dated[1].decode().strip(), "%d-%b-%Y %H:%M:%S %z")
                at = taken.astimezone(UTC).isoformat()
        whole = int(size[1]) if size else len(raw)
        structure = await self._fetch_structure(uid) if limit > 1 and whole > len(raw) else b""
        return RawMail(raw, whole, at, structure)

    async def _fetch_structure(self, uid: int) -> bytes:
        """What the server tells of its parts."""
        told = b""
        for line in await self._fetch(uid, "(UID BODYSTRUCTURE)"):
            if isinstance(line, bytearray):  # text of some length, as the server sends what is odd
                told = LITERAL.sub(b"", told) + b'"' + bytes(line).replace(b'"', b"") + b'"'
            else:
                told += bytes(line)
        return told.partition(b"BODYSTRUCTURE ")[2][:MAX_STRUCTURE]

    async def fetch_part(self, uid: int, number: str, encoding: str, limit: int) -> bytes:
        """A file of a mail, decoded. Raises Rejected: it is gone, or broken."""
        lines = await self._fetch(uid, f"(UID BODY.PEEK[{number}]<0.{limit}>)")
        raw = _find_body(lines)
        if raw is None:
            raise Rejected("the mail is not there any more")
        try:
            if encoding == "base64":
                return base64.b64decode(raw, validate=False)
            return binascii.a2b_qp(raw) if encoding == "quoted-printable" else raw
        except (binascii.Error, ValueError) as error:
            raise Rejected("the file in the mail is broken") from error

    async def _fetch(self, uid: int, what: str) -> list[bytes | bytearray]:
        done = await self._call(
            self._protocol.fetch(str(uid), what, by_uid=True), self._timing.long_s
        )
        if done.result != "OK":
            raise RetryLater("the mail server does not give a mail")
        return [
            line if isinstance(line, bytearray) else bytes(line).replace(b"*\0 ", b"* ")
            for line in done.lines
        ]

    async def find_drafts(self) -> str:
        """The folder of drafts, as the server names it; "Drafts" where it names none."""
        done = await self._call(self._protocol.simple_command("LIST", '""', '"*"'))
        lines = [bytes(line) for line in done.lines]
        found = [line for line in lines if b"\\Drafts" in line.partition(b")")[0]]
        name = DRAFTS.search(found[0]) if found else None
        return name[1].decode("ascii") if name else "Drafts"

    async def append(self, folder: str, raw: bytes) -> None:
        """Put a mail into a folder, as a draft that is read. The folder is made if it is not there.
        Raises Rejected.
        """
        for is_last in (False, True):
            putting = self._protocol.append(raw, f'"{folder}"', "\\Draft \\Seen")
            done = await self._call(putting, self._timing.long_s)
            if done.result == "OK":
                return
            if is_last or not any(b"TRYCREATE" in bytes(line) for line in done.lines):
                raise Rejected(f"the mail server takes no draft into its folder {folder}")
            await self._call(self._protocol.simple_command("CREATE", f'"{folder}"'))

    async def wait_for_news(self, poll_s: float) -> None:
        """Until the server tells of something, or it is time to look."""
        if "IDLE" not in self._protocol.capabilities:
            await self._pause(asyncio.sleep(min(poll_s, self._timing.idle_s)))
            await self._call(self._protocol.simple_command("NOOP"))
            return
        idling = self._idling = asyncio.ensure_future(self._protocol.idle())
        await self._call(self._protocol.wait_for_idle_response())
        await self._pause(self._protocol.idle_queue.get())
        while not self._protocol.idle_queue.empty():
            self._protocol.idle_queue.get_nowait()
        self._protocol.idle_done()
        await self._call(idling)  # a link that is dead, and does not know it, fails here

    async def _pause(self, news: Awaitable[object]) -> None:
        """At most `idle_s`, or until the connection is lost."""
        task = asyncio.ensure_future(news)
        try:
            waiting: set[asyncio.Future[Any]] = {task, self._lost}
            await asyncio.wait(
                waiting, timeout=self._timing.idle_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            task.cancel()
        if self._lost.done():
            raise RetryLater("the mail server has ended the connection")

    async def _call(self, call: Awaitable[T], timeout_s: float = 0.0) -> T:
        task = asyncio.ensure_future(call)
        try:
            waiting: set[asyncio.Future[Any]] = {task, self._lost}
            seconds = timeout_s or self._timing.call_s
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except (aioimaplib.AioImapException, UnicodeError, ValueError) as error:
            raise RetryLater(
                f"the mail server's answer cannot be used ({type(error).__name__})"
            ) from error
        finally:
            task.cancel()
        lost = "has ended the connection" if self._lost.done() else "does not answer"
        raise RetryLater(f"the mail server {self._account.imap_host} {lost}")

    def _on_lost(self, error: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    def _close(self) -> None:
        if self._idling:
            self._idling.cancel()
        if self._protocol.transport:
            self._protocol.transport.abort()


async def count_since(account: EmailAccount, seen: str) -> tuple[int, str]:
    """How many mails have come since `seen`, which an earlier call gave ("" for none), and what to
    ask with the next time. Raises RetryLater, Revoked.
    """
    async with Imap.connect(account, AccessTokens(account.oauth), ImapTiming()) as imap:
        folder = await imap.open_folder()
        validity, _, first = seen.partition("/")
        at = int(first) if validity == str(folder.validity) and first.isdigit() else 0
        found = await imap.list_uids(at or max(folder.next, 1))
        upcoming = max(folder.next, found[-1] + 1 if found else 1)
        return len(found) if at else 0, f"{folder.validity}/{upcoming}"


def _find_body(lines: Sequence[bytes | bytearray]) -> bytes | None:
    """What was asked for, which servers send as a literal, a quoted string, or nothing; None where
    there is no such mail.
    """
    for line in lines:
        if isinstance(line, bytearray):
            return bytes(line)
        if found := BODY.search(line):
            return ESCAPED.sub(rb"\1", found[1] or b"")
    return None


def _answered(response: Response | None) -> Response:
    if response is None:
        raise RetryLater("the mail server gave no answer")
    return response
