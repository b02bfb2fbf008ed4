"""Files to and from Slack; only to and from Slack's own addresses, for the token goes with the
request (A14).
"""

import asyncio
import contextlib
from pathlib import Path
from typing import BinaryIO

from yarl import URL

from channels.base import ChannelError, DeliveryUnknown, Rejected
from channels.json_access import find_object, find_objects, find_text, get_text
from channels.message import Attachment, OutboundMessage
from channels.slack.web import SlackError, SlackWeb
from channels.transport import RecentDict, check_size, check_status, too_large

MAX_UPLOAD, MAX_DOWNLOAD = 100 << 20, 20 << 20
MAX_LOST, MAX_UNCONFIRMED = 200, 5
LOGIN_PAGE = "Slack answered with its login page; add files:read to the bot token scopes"


class SlackFiles:
    """Slack keeps no key with a file: those whose answer was lost are known here, by their ids."""

    def __init__(self, web: SlackWeb, transfer_s: float) -> None:
        self._web, self._transfer_s = web, transfer_s
        self._lost = RecentDict[str, list[str]](MAX_LOST)

    async def upload(self, message: OutboundMessage, file: Path) -> str:
        """Into the chat; the message's ts."""
        address, name, key = message.address, message.name, message.key
        size = await check_size(file, name, MAX_UPLOAD, "Slack")
        if not size:
            raise Rejected(f"{name} is empty; Slack takes no empty files")
        lost = self._lost.get(key, [])
        if len(lost) >= MAX_UNCONFIRMED:
            tries = f"Slack has answered none of {len(lost)} tries to send {name}"
            raise Rejected(f"{tries}; it may have arrived")
        ticket = await self._web.read("files.getUploadURLExternal", filename=name, length=size)
        file_id, url = get_text(ticket, "file_id"), get_text(ticket, "upload_url")
        raw = {"Content-Type": "application/octet-stream"}
        # nothing is seen in the chat yet: what goes wrong here is just tried again
        options = {
            "what": "an upload",
            "timeout_s": self._transfer_s,
            "sends": False,
            "headers": raw,
        }
        with await asyncio.to_thread(file.open, "rb") as data:
            answer = await self._web.http.request("POST", url, data=data, **options)
        check_status(answer.status, f"Slack: {name}: the upload")
        done = {"files": [{"id": file_id, "title": name}], "channel_id": address.chat}
        done |= {"thread_ts": address.thread, "initial_comment": message.part.text}
        try:
            completed = await self._web.write("files.completeUploadExternal", **done)
        except DeliveryUnknown:
            self._lost[key] = [*lost, file_id]
            raise
        self._lost.pop(key, None)
        first = next(iter(find_objects(completed, "files")), {})
        if sent := _message_of(first, address.chat):
            return sent
        try:  # Slack posts a file a little later: until then its id stands for the message
            return await self._find_message(file_id, address.chat) or file_id
        except ChannelError:
            return file_id

    async def find(self, message: OutboundMessage) -> str:
        """The message with a file whose answer was lost, or "". Raises RetryLater, Revoked."""
        for file_id in self._lost.get(message.key, ()):
            with contextlib.suppress(SlackError):
                if sent := await self._find_message(file_id, message.address.chat):
                    return sent
        return ""

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        """Raises Rejected, RetryLater, Revoked."""
        if attachment.size > MAX_DOWNLOAD:
            raise too_large(attachment.name, MAX_DOWNLOAD)
        url = attachment.ref
        if "://" not in url:
            file = find_object(await self._web.read("files.info", file=url), "file")
            url = find_text(file, "url_private_download") or find_text(file, "url_private")
            if not url:
                raise Rejected(f"Slack: {attachment.name} is not kept at Slack")
        await self._web.http.download(
            url,
            attachment,
            into,
            MAX_DOWNLOAD,
            is_allowed=self._is_at_slack,
            headers=self._web.headers,
            login_page=LOGIN_PAGE,
        )

    async def _find_message(self, file_id: str, chat: str) -> str:
        answer = await self._web.read("files.info", file=file_id)
        return _message_of(find_object(answer, "file"), chat)

    def _is_at_slack(self, url: URL) -> bool:
        home = URL(self._web.base_url)
        if url.is_absolute() and url.origin() == home.origin():
            return True
        is_slack = home.host == "slack.com" or (home.host or "").endswith(".slack.com")
        return is_slack and url.scheme == "https" and (url.host or "").endswith(".slack.com")


def _message_of(file: object, chat: str) -> str:
    shares = find_object(file, "shares") if isinstance(file, dict) else {}
    places = [
        row
        for kind in ("private", "public")
        for row in find_objects(find_object(shares, kind), chat)
    ]
    return find_text(places[0], "ts") if places else ""
