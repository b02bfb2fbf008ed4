"""The child process that reads mails, and what it found in one."""

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from channels.base import RetryLater

CHILD = Path(__file__).with_name("parse_child.py")
READ_S, CLOSE_S = 20.0, 2.0
LINE_BYTES, BEGINNING = 8 << 20, 20_000
log = logging.getLogger(__name__)


class UnreadableMail(Exception):
    """A mail that the child could not read; the text says why."""


class MailFile(BaseModel):
    """A file in a mail: the `number` by which IMAP fetches it, and how it is encoded there."""

    model_config = ConfigDict(frozen=True)

    number: str
    name: str
    mime: str
    size: int
    encoding: str


class ReturnedMail(BaseModel):
    """A report says that the mail with this id did not arrive, for whom, and by which status."""

    model_config = ConfigDict(frozen=True)

    id: str
    people: Sequence[str]
    status: str


class ReadMail(BaseModel):
    """What stands in a mail. `sender`: the one address that it claims to be from, "" where that is
    not plain; `proven`, by `why`, that it wrote it. `text` is what is new, `quoted` its parts that
    others wrote, `history` what it quotes of earlier mails; `automatic`: why nobody is to answer
    it. `list`: the id of a mailing list; `people`: the addresses in To and Cc.
    """

    model_config = ConfigDict(frozen=True)

    sender: str
    name: str
    shown_from: str
    proven: bool
    why: str
    subject: str
    date: str
    id: str
    references: Sequence[str]
    automatic: str
    list: str
    to: str
    people: Sequence[str]
    text: str
    quoted: Sequence[str]
    history: str
    cut: bool
    files: Sequence[MailFile]
    returned: ReturnedMail | None


class MailParser:
    """Reads mail after mail in one child, which is started when it is needed, and again after it
    ended by a mail that was too much for it.
    """

    def __init__(self, authserv_id: str, program: Path = CHILD) -> None:
        self._server, self._program = authserv_id, program
        self._child: asyncio.subprocess.Process | None = None

    async def read(self, raw: bytes, structure: bytes = b"") -> ReadMail:
        """What stands in it, or in its beginning where all of it is too much. `structure`: what the
        server tells of the parts of a mail that `raw` cuts off. Raises UnreadableMail; RetryLater
        where no mail can be read here; OSError where no child can be started.
        """
        try:
            return await self._read(raw, structure)
        except UnreadableMail:
            log.warning("a mail is too much to be read, but for its beginning")
        try:
            return (await self._read(raw[:BEGINNING])).model_copy(update={"cut": True})
        except UnreadableMail as error:
            try:
                await self._read(b"")
            except UnreadableMail:
                text = "mails cannot be read here: is the installation whole?"
                raise RetryLater(text) from error
            raise

    async def _read(self, raw: bytes, structure: bytes = b"") -> ReadMail:
        child = await self.start()
        assert child.stdin is not None and child.stdout is not None
        try:
            async with asyncio.timeout(READ_S):
                child.stdin.write(b"%d %d\n" % (len(raw), len(structure)) + raw + structure)
                await child.stdin.drain()
                line = await child.stdout.readline()
            return ReadMail.model_validate(json.loads(line))
        except (TimeoutError, ConnectionError, ValueError, ValidationError) as error:
            why = "it took too long" if isinstance(error, TimeoutError) else "its MIME breaks off"
            raise UnreadableMail(why) from error
        finally:
            if sys.exc_info()[0] is not None:
                await self.aclose()

    async def start(self) -> asyncio.subprocess.Process:
        """The child, at work."""
        if self._child is None or self._child.returncode is not None:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable, "-I", str(self._program), self._server,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, limit=LINE_BYTES, env={"PATH": "/usr/bin:/bin"},
            )  # fmt: skip
        return self._child

    async def aclose(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(ProcessLookupError):
            child.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await child.wait()
