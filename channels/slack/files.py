"""Files up, and files down: only from Slack, for the token goes with the request (A14)."""

import asyncio
from pathlib import Path
from typing import BinaryIO

from aiohttp import ClientConnectorError, ClientError, ClientResponse
from yarl import URL

from channels.base import ChannelError, DeliveryUnknown, Rejected, RetryLater
from channels.message import Address, Attachment, MessagePart
from channels.platform import check_size
from channels.slack.web import SlackError, SlackWeb, find_text, get_object, get_objects, get_text

CHUNK = 64 << 10
REDIRECTS = 3
MAX_LOST, MAX_UNCONFIRMED = 200, 5
OCTET_STREAM = {"Content-Type": "application/octet-stream"}


class SlackFiles:
    """`transfer_s`: how long a file may take. Slack keeps no key with a file: those whose answer was lost are known here, by the
    ids that Slack gave them.
    """

    def __init__(self, web: SlackWeb, *, most_up: int, most_down: int, transfer_s: float) -> None:
        self._web, self._most_up, self._most_down, self._transfer_s = (
            web,
            most_up,
            most_down,
            transfer_s,
        )
        self._lost: dict[str, list[str]] = {}
        self._no_info = False

    async def upload(
        self, address: Address, file: Path, name: str, caption: MessagePart, key: str
    ) -> str:
        """Into the chat; the message's ts. Raises Refused, Later, Unclear, Revoked."""
        size = await check_size(file, name, self._most_up, "Slack")
        if not size:
            raise Rejected(f"{name} is empty; Slack takes no empty files")
        lost = self._lost.get(key, [])
        if self._no_info and len(lost) >= MAX_UNCONFIRMED:
            raise Rejected(
                f"Slack has answered none of {len(lost)} tries to send {name}; it may have arrived"
            )
        ticket = await self._web.read("files.getUploadURLExternal", filename=name, length=size)
        file_id = get_text(ticket, "file_id")
        await self._put(get_text(ticket, "upload_url"), file, name)
        whole: list[dict[str, str]] = [{"id": file_id, "title": name}]
        where = {
            "channel_id": address.chat,
            "thread_ts": address.thread,
            "initial_comment": caption.text,
        }
        try:
            answer = await self._web.write("files.completeUploadExternal", files=whole, **where)
        except DeliveryUnknown:
            self._note_lost(key, [*lost, file_id])
            raise
        self._lost.pop(key, None)
        return self._message_of(answer, address.chat) or await self._wait_message(
            file_id, address.chat
        )

    async def find(self, address: Address, key: str) -> str:
        """The message with a file whose answer was lost; "" if it is not there, or nobody may look. Raises Later, Revoked."""
        for file_id in self._lost.get(key, ()):
            try:
                if sent := await self._message_of_file(file_id, address.chat):
                    return sent
            except SlackError as no:
                self._no_info = self._no_info or no.is_unavailable
        return ""

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """The bytes of a file. Raises Refused, Later, Revoked."""
        if attachment.size > self._most_down:
            raise Rejected(
                f"Slack: {attachment.name} has {attachment.size} bytes; {self._most_down} at most are fetched"
            )
        url = attachment.ref if "://" in attachment.ref else await self._url_of(attachment)
        try:
            async with asyncio.timeout(self._transfer_s):
                await self._download(URL(url), attachment, into)
        except ValueError as no:
            raise Rejected(
                f"Slack: {attachment.name}: its address cannot be read; it was not fetched"
            ) from no
        except (ClientError, ConnectionError, TimeoutError) as no:
            raise RetryLater(
                f"Slack: {attachment.name}: the download broke off ({type(no).__name__})"
            ) from no

    async def _put(self, url: str, file: Path, name: str) -> None:
        """Nothing is seen in the chat yet: whatever goes wrong here may be tried again."""
        try:
            async with asyncio.timeout(self._transfer_s):
                with await asyncio.to_thread(file.open, "rb") as data:
                    async with self._web.session.post(
                        url,
                        data=data,
                        headers=OCTET_STREAM,
                        proxy=self._web.proxy,
                        allow_redirects=False,
                    ) as answer:
                        self._check_status(answer, name)
        except (ClientConnectorError, ClientError, ConnectionError, TimeoutError) as no:
            raise RetryLater(f"Slack: {name}: the upload broke off ({type(no).__name__})") from no

    def _check_status(self, answer: ClientResponse, name: str) -> None:
        if answer.status >= 500 or answer.status == 429:
            raise RetryLater(f"Slack: {name}: the upload got HTTP {answer.status}", 1.0)
        if answer.status >= 300:
            raise Rejected(f"Slack: {name}: the upload was refused with HTTP {answer.status}")

    def _message_of(self, answer: object, chat: str) -> str:
        first = next(iter(get_objects(answer, "files")), {}) if isinstance(answer, dict) else {}
        shares = get_object(first, "shares")
        places = [
            row
            for kind in ("private", "public")
            for row in get_objects(get_object(shares, kind), chat)
        ]
        return find_text(places[0], "ts") if places else ""

    async def _wait_message(self, file_id: str, chat: str) -> str:
        """Slack puts a file into its chat a little later: the file's own id then stands for the message."""
        try:
            return await self._message_of_file(file_id, chat) or file_id
        except ChannelError:
            return file_id

    async def _message_of_file(self, file_id: str, chat: str) -> str:
        answer = await self._web.read("files.info", file=file_id)
        return self._message_of({"files": [get_object(answer, "file")]}, chat)

    def _note_lost(self, key: str, file_ids: list[str]) -> None:
        self._lost[key] = file_ids
        if len(self._lost) > MAX_LOST:
            del self._lost[next(iter(self._lost))]

    async def _url_of(self, attachment: Attachment) -> str:
        try:
            file = get_object(await self._web.read("files.info", file=attachment.ref), "file")
        except SlackError as no:
            raise Rejected(f"{no}; {attachment.name} cannot be fetched") from no
        url = find_text(file, "url_private_download") or find_text(file, "url_private")
        if not url:
            raise Rejected(f"Slack: {attachment.name} is not kept at Slack")
        return url

    async def _download(self, url: URL, attachment: Attachment, into: BinaryIO) -> None:
        for _ in range(REDIRECTS):
            if not self._is_slack(url):
                raise Rejected(
                    f"Slack: {attachment.name} is kept at {url.host}, not at Slack; it was not fetched"
                )
            async with self._web.session.get(
                url, headers=self._web.bearer, proxy=self._web.proxy, allow_redirects=False
            ) as answer:
                if answer.status not in (301, 302, 303, 307, 308):
                    return await self._save(answer, attachment, into)
                url = url.join(URL(answer.headers.get("Location", "")))
        raise Rejected(f"Slack: {attachment.name} was moved too often; it was not fetched")

    def _is_slack(self, url: URL) -> bool:
        home = URL(self._web.base_url)
        if url.origin() == home.origin():
            return True
        real = (home.host or "").rpartition("slack.com")
        return (
            real[1] == "slack.com"
            and url.scheme == "https"
            and (url.host or "").endswith(".slack.com")
        )

    async def _save(self, answer: ClientResponse, attachment: Attachment, into: BinaryIO) -> None:
        if answer.status >= 500 or answer.status == 429:
            raise RetryLater(f"Slack: {attachment.name}: HTTP {answer.status}", 1.0)
        if answer.status != 200:
            raise Rejected(
                f"Slack: {attachment.name}: HTTP {answer.status}; it is gone, or not for the bot"
            )
        if answer.content_type == "text/html" and attachment.mime != "text/html":
            raise Rejected(
                f"Slack: {attachment.name}: Slack showed its login page; add files:read to the bot token scopes"
            )
        room = self._most_down
        async for chunk in answer.content.iter_chunked(CHUNK):
            room -= len(chunk)
            if room < 0:
                raise Rejected(
                    f"Slack: {attachment.name} is longer than {self._most_down} bytes; it was not fetched"
                )
            into.write(chunk)
