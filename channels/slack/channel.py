"""Slack: one workspace (A13, A14, A15, E7, F1). Messages and files are posted, streamed while they
are written (E12), and found again by their key (K13). Files come from and go to Slack's own
addresses only, for the token goes with the request (A14).
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from slack_sdk.models.blocks import ActionsBlock, Block, ButtonElement, SectionBlock

from channels.base import (
    Capabilities,
    ChannelError,
    DeliveryUnknown,
    Host,
    RateLimit,
    Rejected,
    RetryLater,
)
from channels.json_access import Json, find_objects, find_text, get_text
from channels.markup.slack import LIMIT, render_parts
from channels.message import Address, Attachment, OutboundMessage
from channels.slack.config import SlackAccount, SlackTiming
from channels.slack.events import EventParser, ThreadMembership
from channels.slack.listener import SlackListener
from channels.slack.web import SlackError, SlackWeb
from channels.transport import Backoff, RecentDict, check_size, check_status

METADATA_TYPE = "aidaemon"
"""The type of the metadata that carry a message's key."""
SECTION = re.compile(r"[\n ]*(.{1,3000}(?=[\n ]|\Z)|.{1,3000})", re.DOTALL)
MAX_LABEL, MAX_VALUE, MAX_BUTTONS = 75, 2000, 25
STYLES = {"good": "primary", "bad": "danger"}
CLOCK_MARGIN = timedelta(seconds=60)
"""Slack's clock and ours are not the same."""
FIND_PAGES = 10
MAX_STREAMED = 11_000
"""Slack streams 12,000 characters; the finished text, in parts, replaces them anyway."""
MAX_STREAMS = 500
REPLACED_KEY = "replaced"
"""The key of a stream whose own is not known any more: it shows that the stream was ended."""
MENTION = re.compile(r"<(?=[@!#])")
STREAM_ENDED = (
    "message_not_in_streaming_state",
    "message_not_owned_by_app",
    "streaming_mode_mismatch",
)
METADATA, FIND, STREAM = "message keys", "finding messages", "streaming"
MAX_UPLOAD, MAX_DOWNLOAD = 100 << 20, 20 << 20
MAX_LOST, MAX_UNCONFIRMED = 200, 5
LOGIN_PAGE = "Slack answered with its login page; add files:read to the bot token scopes"


CAPABILITIES = Capabilities(
    limit=LIMIT, typing_every_s=30.0, max_upload=MAX_UPLOAD, max_download=MAX_DOWNLOAD
)
RATE_LIMIT = RateLimit(3, 3.0)
"""Slack allows one message a second in a channel, and short bursts."""
DEFAULT_STATUS, MAX_STATUS = "is thinking…", 100


@dataclass(slots=True)
class _Stream:
    key: str
    written: str
    is_open: bool = True
    failures: int = 0


class Slack:
    """channels.base.Channel. Streams need a thread, and in channels somebody whom they are for.
    Slack keeps no key with a file: those whose answer was lost are known here, by their ids; after
    a restart they are not found.
    """

    Config = SlackAccount

    def __init__(
        self, config: SlackAccount, *, name: str = "slack", timing: SlackTiming | None = None
    ) -> None:
        self.name, self._web = name, SlackWeb(config, timing or SlackTiming())
        people = map(str, (*config.allowed_user_ids, *config.owner_ids))
        self._threads = ThreadMembership(people)
        self._streams = RecentDict[tuple[str, str], _Stream](MAX_STREAMS)
        self._with_key = RecentDict[tuple[str, str], None](MAX_STREAMS)
        self._lost_files = RecentDict[str, list[str]](MAX_LOST)

    @property
    def capabilities(self) -> Capabilities:
        """Without the scopes for the history nothing can be found."""
        return replace(CAPABILITIES, can_find=not self._web.optional.unsupported & {METADATA, FIND})

    async def check(self) -> str:
        """The app's own token is tried too, for without it nothing comes in."""
        identity = await self._web.get_identity()
        await self._web.open_socket()
        return identity

    async def run(self, host: Host) -> None:
        """Listen until cancelled. Raises Revoked."""
        web, timing = self._web, self._web.timing
        backoff = Backoff(timing.first_s, timing.longest_s)
        # without the identity nobody can tell who is addressed
        await backoff.retry(web.get_identity, RetryLater, host.report_trouble)
        for address in reversed(await host.list_conversations()):
            self._threads.join(address)
        commands = {name.removeprefix("/") for name, _ in host.list_commands()}
        parser = EventParser(self.name, web, self._threads, commands)
        await SlackListener(host, parser).run()

    def rate_limit(self, address: Address) -> RateLimit:
        return RATE_LIMIT

    render = staticmethod(render_parts)

    async def show_typing(self, address: Address, status: str = "") -> None:
        """In a thread: the assistant's status; elsewhere there is no place for it."""
        if address.thread:
            status = (status or DEFAULT_STATUS)[:MAX_STATUS]
            target = {"channel_id": address.chat, "thread_ts": address.thread, "status": status}
            await self._call_optional("assistant.threads.setStatus", address, **target)

    async def mark_seen(self, address: Address, message_id: str) -> None:
        target = {"channel": address.chat, "timestamp": message_id, "name": "eyes"}
        await self._call_optional("reactions.add", address, **target)

    async def aclose(self) -> None:
        await self._web.http.aclose()

    async def _call_optional(self, method: str, address: Address, **arguments: object) -> None:
        """A workspace may offer it in some kinds of chats only."""
        feature = f"{method} in {address.chat[:1]}"
        await self._web.optional.attempt(feature, self._web.write, method, **arguments)

    async def send(self, message: OutboundMessage) -> str:
        """`reply_to` is of no use here: what is answered is in the thread. Slack must not show what
        is behind the links in a text.
        """
        address, optional = message.address, self._web.optional
        self._threads.join(address)
        if message.file:
            return await self._upload(message, message.file)
        body = {"channel": address.chat, "thread_ts": address.thread, **_body(message)}
        body |= {"unfurl_links": False, "unfurl_media": False}
        metadata = _metadata(message.key) if METADATA not in optional.unsupported else None
        try:
            sent = await self._web.write("chat.postMessage", **body, metadata=metadata)
        except SlackError as error:
            if not metadata or "metadata" not in error.code:
                raise
            optional.disable(METADATA, error)
            sent = await self._web.write("chat.postMessage", **body)
        return get_text(sent, "ts")

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        """The finished text, in place of what was shown."""
        address = message.address
        place = address.chat, message_id
        stream = self._streams.get(place)
        key = stream.key if stream else ""
        if not stream and address.thread and place not in self._with_key:
            key = REPLACED_KEY
        if stream and stream.is_open:
            await self._stop(*place, stream.key)
            stream.is_open = False
        try:
            await self._update(message_id, message, key)
        except SlackError as error:
            if error.code != "streaming_state_conflict":
                raise
            await self._stop(*place)  # begun before a restart
            await self._update(message_id, message, key)
        except DeliveryUnknown:
            if stream:
                # some servers stream, but cannot edit what was streamed: then it is sent anew
                stream.failures += 1
                if stream.failures > 1:
                    await self.delete(address, message_id)
                    why = "Slack: what was streamed cannot be edited; it was deleted"
                    raise Rejected(why) from None
            raise

    async def delete(self, address: Address, message_id: str) -> None:
        try:
            await self._web.write("chat.delete", channel=address.chat, ts=message_id)
        except SlackError as error:
            if error.code != "message_not_found":
                raise
        self._streams.pop((address.chat, message_id), None)

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """The ts of our message with this key. What a crash has left of a stream carries none: it
        is deleted, so that it does not stand beside the answer.
        """
        address, key = message.address, message.key
        for file_id in self._lost_files.get(key, ()):
            with contextlib.suppress(SlackError):
                if sent := await self._find_file(file_id, address.chat):
                    return sent
        web, thread = self._web, address.thread
        if not web.user:
            await web.get_identity()
        method = "conversations.replies" if thread else "conversations.history"
        asked = {"channel": address.chat, "ts": thread, "include_all_metadata": "true"}
        oldest = f"{(since - CLOCK_MARGIN).timestamp():.6f}"
        rows = await web.read_all(FIND, method, "messages", FIND_PAGES, oldest=oldest, **asked)
        own = list(filter(web.is_author, rows))
        for row in own:
            place = address.chat, find_text(row, "ts")
            if "streaming_state" in row and not _key_of(row) and place not in self._streams:
                with contextlib.suppress(DeliveryUnknown, Rejected):
                    await self._stop(*place)
                    await self.delete(address, place[1])
        if key not in map(_key_of, own) and self.capabilities.can_find:
            # our clock may have jumped; threads are listed from their beginning, chats from the end
            pages = FIND_PAGES if thread else 1
            rows = await web.read_all(FIND, method, "messages", pages, **asked)
            own = list(filter(web.is_author, rows))
        found = next((find_text(row, "ts") for row in own if _key_of(row) == key), "")
        if found:
            self._with_key[address.chat, found] = None
        return found

    async def show_draft(self, address: Address, key: str, text: str, shown: str) -> str:
        """Streamed in threads, else as a message that is edited."""
        self._threads.join(address)
        chat, end = address.chat, OutboundMessage(address, self.render(text)[-1], key)
        text = MENTION.sub("<\u200b", text)[:MAX_STREAMED]  # nothing in it notifies anybody
        stream = self._streams.get((chat, shown))
        if stream and stream.is_open:
            await self._append(shown, stream, text, end)
            return shown
        if shown:
            await self._update(shown, end, "")
            return shown
        person = self._threads.last_author(address)
        if address.thread and (person or chat.startswith("D")):
            target = {"channel": chat, "thread_ts": address.thread, "markdown_text": text}
            if person:
                target |= {"recipient_user_id": person, "recipient_team_id": self._web.team}
            start = self._web.optional.attempt
            if answer := await start(STREAM, self._web.write, "chat.startStream", **target):
                message_id = get_text(answer, "ts")
                self._streams[chat, message_id] = _Stream(key, text)
                return message_id
        return await self.send(end)

    async def _append(
        self, message_id: str, stream: _Stream, text: str, end: OutboundMessage
    ) -> None:
        if not text.startswith(stream.written):
            return await self.edit(message_id, end)
        if text == stream.written:
            return None
        more = text.removeprefix(stream.written)
        target = {"channel": end.address.chat, "ts": message_id, "markdown_text": more}
        try:
            await self._web.write("chat.appendStream", **target)
            stream.written = text
        except SlackError as error:
            if error.code not in STREAM_ENDED:
                raise
            stream.is_open = False
            await self._update(message_id, end, stream.key)

    async def _update(self, message_id: str, message: OutboundMessage, key: str) -> None:
        """Its key stays if none is given."""
        unsupported = self._web.optional.unsupported
        metadata = _metadata(key) if key and METADATA not in unsupported else None
        target = {"channel": message.address.chat, "ts": message_id, "metadata": metadata}
        await self._web.write("chat.update", **target, **_body(message))

    async def _stop(self, chat: str, message_id: str, key: str = REPLACED_KEY) -> None:
        target = {"channel": chat, "ts": message_id, "metadata": _metadata(key)}
        # it was over already; what counts is the edit that follows
        with contextlib.suppress(Rejected):
            await self._web.write("chat.stopStream", **target)

    async def _upload(self, message: OutboundMessage, file: Path) -> str:
        address, name, web = message.address, message.name, self._web
        size = await check_size(file, name, MAX_UPLOAD, "Slack")
        if not size:
            raise Rejected(f"{name} is empty; Slack takes no empty files")
        lost = self._lost_files.get(message.key, [])
        if len(lost) >= MAX_UNCONFIRMED:
            tries = f"Slack has answered none of {len(lost)} tries to send {name}"
            raise Rejected(f"{tries}; it may have arrived")
        ticket = await web.read("files.getUploadURLExternal", filename=name, length=size)
        file_id, url = get_text(ticket, "file_id"), get_text(ticket, "upload_url")
        # nothing is seen in the chat yet: what goes wrong here is just tried again
        how = {"what": "an upload", "timeout_s": self._web.timing.transfer_s, "sends": False}
        raw = {"Content-Type": "application/octet-stream"}
        with await asyncio.to_thread(file.open, "rb") as data:
            answer = await web.http.request("POST", url, data=data, headers=raw, **how)
        check_status(answer.status, f"Slack: {name}: the upload")
        done = {"files": [{"id": file_id, "title": name}], "channel_id": address.chat}
        done |= {"thread_ts": address.thread, "initial_comment": message.part.text}
        try:
            completed = await web.write("files.completeUploadExternal", **done)
        except DeliveryUnknown:
            self._lost_files[message.key] = [*lost, file_id]
            raise
        self._lost_files.pop(message.key, None)
        # Slack posts a file a little later: until then its id stands for the message
        for row in find_objects(completed, "files")[:1]:
            if sent := _message_of(row, address.chat):
                return sent
        with contextlib.suppress(ChannelError):
            return await self._find_file(file_id, address.chat) or file_id
        return file_id

    async def _find_file(self, file_id: str, chat: str) -> str:
        return _message_of((await self._web.read("files.info", file=file_id)).get("file"), chat)

    async def download(self, attachment: Attachment, into: BinaryIO) -> None:
        url = attachment.ref
        if "://" not in url:
            info = await self._web.read("files.info", file=url)
            url = find_text(info, "file", "url_private_download")
            if not (url := url or find_text(info, "file", "url_private")):
                raise Rejected(f"Slack: {attachment.name} is not kept at Slack")
        await self._web.http.download(
            url,
            attachment,
            into,
            MAX_DOWNLOAD,
            headers=self._web.headers,
            login_page=LOGIN_PAGE,
        )


def _metadata(key: str) -> dict[str, object]:
    """Seen by programs only: by it a message is found again."""
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key}}


def _key_of(row: Json) -> str:
    return find_text(row, "metadata", "event_payload", "key")


def _message_of(file: object, chat: str) -> str:
    places = (find_objects(file, "shares", kind, chat) for kind in ("private", "public"))
    return next((find_text(rows[0], "ts") for rows in places if rows), "")


def _body(message: OutboundMessage) -> dict[str, object]:
    """Blocks hide the text, so with buttons it stands in sections, too; without buttons, earlier
    ones go.
    """
    blocks: list[Block] = []
    if message.choices:
        blocks += [SectionBlock(text=text) for text in SECTION.findall(message.part.text)]
        buttons = [
            ButtonElement(
                text=choice.label[:MAX_LABEL] or "…",
                action_id=f"choice_{index}",
                value=choice.data[:MAX_VALUE],
                style=STYLES.get(choice.style),
            )
            for index, choice in enumerate(message.choices[:MAX_BUTTONS])
        ]
        blocks.append(ActionsBlock(elements=buttons))
    return {"text": message.part.text, "blocks": [block.to_dict() for block in blocks]}
