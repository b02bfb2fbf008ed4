"""Files up, and files down: only from Slack, for the token goes with the request (A14)."""

import asyncio
from pathlib import Path
from typing import BinaryIO

from aiohttp import ClientConnectorError, ClientError, ClientResponse
from yarl import URL

from channels.base import ChannelError, Later, Refused, Unclear
from channels.files import weighed
from channels.message import Address, Attachment, Piece
from channels.slack.errors import Declined
from channels.slack.shape import maybe, rows, table, text
from channels.slack.web import Web

CHUNK = 64 << 10
REDIRECTS = 3
MOST_LOST, MOST_BLIND = 200, 5
RAW = {"Content-Type": "application/octet-stream"}


class Files:
    """`transfer_s`: how long a file may take. Slack keeps no key with a file: those whose answer was lost are known here, by the
    ids that Slack gave them.
    """

    def __init__(self, web: Web, *, most_up: int, most_down: int, transfer_s: float) -> None:
        self._web, self._most_up, self._most_down, self._transfer_s = web, most_up, most_down, transfer_s
        self._lost: dict[str, list[str]] = {}
        self._blind = False

    async def upload(self, address: Address, file: Path, name: str, caption: Piece, key: str) -> str:
        """Into the chat; the message's ts. Raises Refused, Later, Unclear, Revoked."""
        size = await weighed(file, name, self._most_up, "Slack")
        if not size:
            raise Refused(f"{name} is empty; Slack takes no empty files")
        lost = self._lost.get(key, [])
        if self._blind and len(lost) >= MOST_BLIND:
            raise Refused(f"Slack has answered none of {len(lost)} tries to send {name}; it may have arrived")
        ticket = await self._web.read("files.getUploadURLExternal", filename=name, length=size)
        file_id = text(ticket, "file_id")
        await self._put(text(ticket, "upload_url"), file, name)
        whole: list[dict[str, str]] = [{"id": file_id, "title": name}]
        where = {"channel_id": address.chat, "thread_ts": address.thread, "initial_comment": caption.text}
        try:
            answer = await self._web.write("files.completeUploadExternal", files=whole, **where)
        except Unclear:
            self._note_lost(key, [*lost, file_id])
            raise
        self._lost.pop(key, None)
        return self._message_of(answer, address.chat) or await self._asked_message(file_id, address.chat)

    async def find(self, address: Address, key: str) -> str:
        """The message with a file whose answer was lost; "" if it is not there, or nobody may look. Raises Later, Revoked."""
        for file_id in self._lost.get(key, ()):
            try:
                if sent := await self._shown(file_id, address.chat):
                    return sent
            except Declined as no:
                self._blind = self._blind or no.unknown
        return ""

    async def fetch(self, attachment: Attachment, into: BinaryIO) -> None:
        """The bytes of a file. Raises Refused, Later, Revoked."""
        if attachment.size > self._most_down:
            raise Refused(f"Slack: {attachment.name} has {attachment.size} bytes; {self._most_down} at most are fetched")
        url = attachment.ref if "://" in attachment.ref else await self._address_of(attachment)
        try:
            async with asyncio.timeout(self._transfer_s):
                await self._download(URL(url), attachment, into)
        except ValueError as no:
            raise Refused(f"Slack: {attachment.name}: its address cannot be read; it was not fetched") from no
        except (ClientError, ConnectionError, TimeoutError) as no:
            raise Later(f"Slack: {attachment.name}: the download broke off ({type(no).__name__})") from no

    async def _put(self, url: str, file: Path, name: str) -> None:
        """Nothing is seen in the chat yet: whatever goes wrong here may be tried again."""
        try:
            async with asyncio.timeout(self._transfer_s):
                with await asyncio.to_thread(file.open, "rb") as data:
                    async with self._web.session.post(
                        url, data=data, headers=RAW, proxy=self._web.proxy, allow_redirects=False
                    ) as answer:
                        self._accepted(answer, name)
        except (ClientConnectorError, ClientError, ConnectionError, TimeoutError) as no:
            raise Later(f"Slack: {name}: the upload broke off ({type(no).__name__})") from no

    def _accepted(self, answer: ClientResponse, name: str) -> None:
        if answer.status >= 500 or answer.status == 429:
            raise Later(f"Slack: {name}: the upload got HTTP {answer.status}", 1.0)
        if answer.status >= 300:
            raise Refused(f"Slack: {name}: the upload was refused with HTTP {answer.status}")

    def _message_of(self, answer: object, chat: str) -> str:
        first = next(iter(rows(answer, "files")), {}) if isinstance(answer, dict) else {}
        shares = table(first, "shares")
        places = [row for kind in ("private", "public") for row in rows(table(shares, kind), chat)]
        return maybe(places[0], "ts") if places else ""

    async def _asked_message(self, file_id: str, chat: str) -> str:
        """Slack puts a file into its chat a little later: the file's own id then stands for the message."""
        try:
            return await self._shown(file_id, chat) or file_id
        except ChannelError:
            return file_id

    async def _shown(self, file_id: str, chat: str) -> str:
        answer = await self._web.read("files.info", file=file_id)
        return self._message_of({"files": [table(answer, "file")]}, chat)

    def _note_lost(self, key: str, file_ids: list[str]) -> None:
        self._lost[key] = file_ids
        if len(self._lost) > MOST_LOST:
            del self._lost[next(iter(self._lost))]

    async def _address_of(self, attachment: Attachment) -> str:
        try:
            file = table(await self._web.read("files.info", file=attachment.ref), "file")
        except Declined as no:
            raise Refused(f"{no}; {attachment.name} cannot be fetched") from no
        url = maybe(file, "url_private_download") or maybe(file, "url_private")
        if not url:
            raise Refused(f"Slack: {attachment.name} is not kept at Slack")
        return url

    async def _download(self, url: URL, attachment: Attachment, into: BinaryIO) -> None:
        for _ in range(REDIRECTS):
            if not self._is_slack(url):
                raise Refused(f"Slack: {attachment.name} is kept at {url.host}, not at Slack; it was not fetched")
            async with self._web.session.get(
                url, headers=self._web.bearer, proxy=self._web.proxy, allow_redirects=False
            ) as answer:
                if answer.status not in (301, 302, 303, 307, 308):
                    return await self._save(answer, attachment, into)
                url = url.join(URL(answer.headers.get("Location", "")))
        raise Refused(f"Slack: {attachment.name} was moved too often; it was not fetched")

    def _is_slack(self, url: URL) -> bool:
        home = URL(self._web.base_url)
        if url.origin() == home.origin():
            return True
        real = (home.host or "").rpartition("slack.com")
        return real[1] == "slack.com" and url.scheme == "https" and (url.host or "").endswith(".slack.com")

    async def _save(self, answer: ClientResponse, attachment: Attachment, into: BinaryIO) -> None:
        if answer.status >= 500 or answer.status == 429:
            raise Later(f"Slack: {attachment.name}: HTTP {answer.status}", 1.0)
        if answer.status != 200:
            raise Refused(f"Slack: {attachment.name}: HTTP {answer.status}; it is gone, or not for the bot")
        if answer.content_type == "text/html" and attachment.mime != "text/html":
            raise Refused(f"Slack: {attachment.name}: Slack showed its login page; add files:read to the bot token scopes")
        room = self._most_down
        async for chunk in answer.content.iter_chunked(CHUNK):
            room -= len(chunk)
            if room < 0:
                raise Refused(f"Slack: {attachment.name} is longer than {self._most_down} bytes; it was not fetched")
            into.write(chunk)
