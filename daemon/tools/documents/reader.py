"""The text of documents: PDF, office files, pages, e-books (G1). A child process with few rights
reads them; without the extra `files`, or without a sandbox, none does.
"""

import asyncio
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from channels.charsets import decode_text
from daemon.core import value
from daemon.core.errors import UnreadableDocument
from daemon.tools.shell.process import exchange
from daemon.tools.shell.sandbox import Sandbox

EXTRACT_SCRIPT = Path(__file__).with_name("text_extract.py")
EXTRACT_S = 30.0
MAX_DOCUMENT_BYTES = 50_000_000
BEGINS = (b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"{\\rtf")  # and old office files
PAGE, MAIL, NOTEBOOK = "text/html", "message/rfc822", "application/x-ipynb+json"
PAGE_BEGIN = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:[^-]|-(?!->))*+-->\s*)*+"
    rb"<(?:!doctype html|html)",
    re.IGNORECASE,
)
MAIL_HEAD = re.compile(rb"(?:[A-Za-z][A-Za-z0-9-]*:.*\n(?:[ \t].*\n)*)+\r?\n")
MAIL_LINES = (rb"(?im)^from:", rb"(?im)^(?:message-id|mime-version|received):")
MAX_HEAD = 100_000
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
        plain, kind = await asyncio.to_thread(_decode, data)
        obstacle = find_obstacle("kreuzberg", self.sandbox)
        if plain is not None and (obstacle or not kind):
            return DocumentText(plain[:max_chars], len(plain))
        if obstacle:
            if not data.startswith(BEGINS):
                return None
            raise UnreadableDocument(obstacle)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise UnreadableDocument(TOO_MUCH)
        data = plain.encode("utf-8", "replace") if kind == PAGE and plain else data
        command = [sys.executable, "-I", str(EXTRACT_SCRIPT), str(max_chars), kind]
        output = await exchange(self.sandbox.wrap_own(command, EXTRACT_SCRIPT), data, EXTRACT_S)
        found = json.loads(output) if output else {"why": TOO_MUCH}
        if (why := found.get("why")) is not None:
            if plain and kind != PAGE:
                return DocumentText(plain[:max_chars], len(plain))
            if why:
                raise UnreadableDocument(why)
            return None
        return DocumentText(**found)


def _decode(data: bytes) -> tuple[str | None, str]:
    """What is text already, and the kind of a document that is written as text."""
    if data[:1024].lstrip().startswith(BEGINS):
        return None, ""
    kind = _find_kind(data)
    text, codec = decode_text(data, is_html=kind == PAGE)
    return (text if codec and "\0" not in text else None), kind


def _find_kind(data: bytes) -> str:
    """By how it begins; "" for none of these."""
    if PAGE_BEGIN.match(data[:MAX_HEAD]):
        return PAGE
    if data.lstrip()[:1] == b"{" and b'"nbformat"' in data and b'"cells"' in data:
        return NOTEBOOK
    head = MAIL_HEAD.match(data[:MAX_HEAD])
    return MAIL if head and all(re.search(line, head[0]) for line in MAIL_LINES) else ""
