"""The text of documents: PDF, office files, pages, e-books (G1). A child process with few rights
reads them; without the extra `files`, or without a sandbox, none does.
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from daemon.core import value
from daemon.core.errors import UnreadableDocument
from daemon.tools.shell.process import exchange
from daemon.tools.shell.sandbox import Sandbox

EXTRACT_SCRIPT = Path(__file__).with_name("text_extract.py")
EXTRACT_S = 30.0
MAX_DOCUMENT_BYTES = 50_000_000
BEGINS = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"{\\rtf")  # and old office files
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # no text of the old encodings has any
NO_EXTRA = "pip install 'aidaemon[files]' is needed to read it"
NO_SANDBOX = "no sandbox works on this machine, so no document is read (aidaemon doctor)"
TOO_MUCH = "it takes too much time or memory to read"


def find_obstacle(runtime: str, sandbox: Sandbox) -> str:
    """Why a child that needs this module cannot read anything; "" for nothing."""
    if not find_spec(runtime):
        return NO_EXTRA
    return NO_SANDBOX if sandbox.kind == "none" else ""


@value
class DocumentText:
    """`chars`: the length of the text before it was cut; `pages`: how many have a number in it, or
    are pictures, where there is no text.
    """

    text: str
    chars: int
    pages: int = 0

    @property
    def is_scan(self) -> bool:
        """Its pages are pictures."""
        return bool(self.pages and not self.chars)


@value
class DocumentReader:
    """Reads what a file says."""

    sandbox: Sandbox

    async def read(self, data: bytes, max_chars: int) -> DocumentText | None:
        """Plain text as it is, a document's text in the order of reading; None for what has none,
        such as an archive. Raises UnreadableDocument.
        """
        plain = await asyncio.to_thread(_decode, data)
        if plain is not None:
            return DocumentText(plain[:max_chars], len(plain))
        if obstacle := find_obstacle("kreuzberg", self.sandbox):
            if not data.startswith(BEGINS):
                return None
            raise UnreadableDocument(obstacle)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise UnreadableDocument(TOO_MUCH)
        command = [sys.executable, "-I", str(EXTRACT_SCRIPT), str(max_chars)]
        output = await exchange(self.sandbox.wrap_own(command, EXTRACT_SCRIPT), data, EXTRACT_S)
        if not output:
            raise UnreadableDocument(TOO_MUCH)
        found = json.loads(output)
        if (why := found.get("why")) is not None:
            if why:
                raise UnreadableDocument(why)
            return None
        return DocumentText(**found)


def _decode(data: bytes) -> str | None:
    """What is text already; a page of HTML is a document."""
    start = data[:1024].lstrip()
    if start.startswith(BEGINS) or start.lower().startswith((b"<!doctype html", b"<html")):
        return None
    encoding = "utf-16" if data.startswith(UTF_16) else "utf-8-sig"
    with suppress(UnicodeDecodeError):
        text = data.decode(encoding)
        return None if "\0" in text else text
    return None if CONTROL.search(data) else data.decode("cp1252", "replace")
