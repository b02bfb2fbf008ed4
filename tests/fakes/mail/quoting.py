"""An IMAP server that sends what fits into one line as a quoted string, and nothing as "" or NIL, as RFC 3501 allows."""

import asyncio
import re
from contextlib import suppress
from email import message_from_bytes
from email.message import Message

FETCH = re.compile(r"(\d+) \((.*)\)$")
PART = re.compile(r"BODY\.PEEK\[([\d.]*)\]<0\.(\d+)>")


class QuotingImap:
    """One mailbox without IDLE. `empty` is how it sends nothing."""

    def __init__(self, empty: bytes = b'""') -> None:
        self.mails: list[bytes] = []
        self.port, self._empty = 0, empty
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """No longer reachable."""
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK ready\r\n")
        with suppress(OSError):
            while line := await reader.readline():
                tag, _, order = line.decode().strip().partition(" ")
                for answer in self._answer(order):
                    writer.write(b"* " + answer + b"\r\n")
                writer.write(f"{tag} OK done\r\n".encode())
                await writer.drain()
        writer.close()

    def _answer(self, order: str) -> list[bytes]:
        known = f"{len(self.mails)}"
        match order.split(" ", 2):
            case ["CAPABILITY"]:
                return [b"CAPABILITY IMAP4rev1"]
            case ["SELECT", *_]:
                told = f"[UIDVALIDITY 7] ok|[UIDNEXT {len(self.mails) + 1}] ok".split("|")
                return [f"{known} EXISTS".encode(), *(f"OK {one}".encode() for one in told)]
            case ["UID", "SEARCH", rest]:
                first = rest.removeprefix("UID ").partition(":")[0]
                begin = int(first) if first.isdigit() else len(self.mails)
                uids = [
                    n for n in range(1, len(self.mails) + 1) if n >= begin or n == len(self.mails)
                ]
                return [" ".join(("SEARCH", *map(str, uids))).encode()]
            case ["UID", "FETCH", rest]:
                return self._fetch(rest)
            case _:
                return []

    def _fetch(self, rest: str) -> list[bytes]:
        found = FETCH.match(rest)
        part = PART.search(rest)
        if found is None or part is None or int(found[1]) > len(self.mails):
            return []
        raw = self.mails[int(found[1]) - 1]
        head = f'{found[1]} FETCH (UID {found[1]} RFC822.SIZE {len(raw)} INTERNALDATE "21-Nov-2026 20:00:00 +0000" '
        data = self._part(raw, part[1])[: int(part[2])]
        return [f"{head}BODY[{part[1]}]<0> ".encode() + self._string(data) + b")"]

    def _part(self, raw: bytes, number: str) -> bytes:
        if not number:
            return raw
        part = message_from_bytes(raw)
        for place in number.split("."):
            inner = part.get_payload()
            if isinstance(inner, list):
                part = inner[int(place) - 1]
                assert isinstance(part, Message)
        return str(part.get_payload()).strip("\n").replace("\n", "\r\n").encode()

    def _string(self, data: bytes) -> bytes:
        if not data:
            return self._empty
        if b"\r" in data or b"\n" in data:
            return b"{%d}\r\n" % len(data) + data
        return b'"' + data.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
