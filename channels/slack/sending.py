"""Slack messages out: posted, streamed while they are written (E12), and found again by their key
(K13).
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.base import DeliveryUnknown, Rejected
from channels.json_access import Json, find_object, find_text, get_text
from channels.message import Address, Choice, OutboundMessage
from channels.slack.history import ThreadMembership
from channels.slack.web import SlackError, SlackWeb
from channels.transport import RecentDict

METADATA_TYPE = "aidaemon"
"""The type of the metadata that carry a message's key."""
MAX_SECTION, MAX_LABEL, MAX_VALUE, MAX_BUTTONS = 3000, 75, 2000, 25
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


@dataclass(slots=True)
class _Stream:
    key: str
    written: str
    is_open: bool = True
    failures: int = 0


class SlackMessages:
    """Streams need a thread, and in channels somebody whom they are for."""

    def __init__(self, web: SlackWeb, threads: ThreadMembership) -> None:
        self._web, self._threads = web, threads
        self._streams = RecentDict[tuple[str, str], _Stream](MAX_STREAMS)
        self._with_key = RecentDict[tuple[str, str], None](MAX_STREAMS)

    @property
    def can_find(self) -> bool:
        """`find` can tell, as far as is known."""
        return self._web.optional.has(METADATA) and self._web.optional.has(FIND)

    async def post(self, outbound: OutboundMessage) -> str:
        """A new message; its ts. Slack must not show what is behind the links in a text."""
        address = outbound.address
        message = {"channel": address.chat, "thread_ts": address.thread, **_body(outbound)}
        message |= {"unfurl_links": False, "unfurl_media": False}
        if self._web.optional.has(METADATA):
            try:
                sent = await self._web.write(
                    "chat.postMessage", **message, metadata=_metadata(outbound.key)
                )
                return get_text(sent, "ts")
            except SlackError as error:
                if "metadata" not in error.code:
                    raise
                self._web.optional.disable(METADATA, error)
        return get_text(await self._web.write("chat.postMessage", **message), "ts")

    async def edit(self, message_id: str, message: OutboundMessage) -> None:
        """The finished text, in place of what was shown."""
        address = message.address
        place = address.chat, message_id
        stream = self._streams.get(place)
        key = stream.key if stream else ""
        if not stream and address.thread and place not in self._with_key:
            key = REPLACED_KEY
        if stream and stream.is_open:
            await self._stop(address, message_id, stream)
        try:
            await self._update(message_id, message, key)
        except SlackError as error:
            if error.code != "streaming_state_conflict":
                raise
            await self._stop(address, message_id)  # begun before a restart
            await self._update(message_id, message, key)
        except DeliveryUnknown:
            if stream:
                # some servers stream, but cannot edit what was streamed: then it is sent anew
                stream.failures += 1
                if stream.failures > 1:
                    await self.delete(address, message_id)
                    raise Rejected(
                        "Slack: what was streamed cannot be edited; it was deleted"
                    ) from None
            raise

    async def delete(self, address: Address, message_id: str) -> None:
        """That it is gone already is no error."""
        try:
            await self._web.write("chat.delete", channel=address.chat, ts=message_id)
        except SlackError as error:
            if error.code != "message_not_found":
                raise
        self._streams.pop((address.chat, message_id), None)

    async def find(self, message: OutboundMessage, since: datetime) -> str:
        """The ts of our message with this key. What a crash has left of a stream carries none: it
        is deleted, so that it does not stand beside the answer. Raises RetryLater, Revoked.
        """
        address, key = message.address, message.key
        identity = self._web.identity or await self._web.get_identity()
        method = "conversations.replies" if address.thread else "conversations.history"
        asked = {"channel": address.chat, "ts": address.thread, "include_all_metadata": "true"}
        oldest, read = f"{(since - CLOCK_MARGIN).timestamp():.6f}", self._web.read_all
        rows = await read(FIND, method, "messages", FIND_PAGES, oldest=oldest, **asked)
        own = [row for row in rows if identity.is_author(row)]
        found = _find_key(own, key)
        if not found and self.can_find:  # our clock may have jumped
            # threads are listed from their beginning, chats from the end
            pages = FIND_PAGES if address.thread else 1
            rows = await read(FIND, method, "messages", pages, **asked)
            found = _find_key(filter(identity.is_author, rows), key)
        for row in own:
            place = address.chat, find_text(row, "ts")
            if "streaming_state" in row and not _key_of(row) and place not in self._streams:
                with contextlib.suppress(DeliveryUnknown, Rejected):
                    await self._stop(address, place[1])
                    await self.delete(address, place[1])
        if found:
            self._with_key[address.chat, found] = None
        return found

    async def show_draft(self, end: OutboundMessage, text: str, shown: str) -> str:
        """The message that shows it. `end`: the end of the text as a message."""
        address = end.address
        stream = self._streams.get((address.chat, shown))
        if stream and stream.is_open:
            await self._append(shown, stream, text, end)
            return shown
        if shown:
            await self._update(shown, end, "")
            return shown
        person, text = self._threads.last_author(address), defuse_mentions(text)[:MAX_STREAMED]
        if address.thread and (person or address.chat.startswith("D")):
            target = {"channel": address.chat, "thread_ts": address.thread, "markdown_text": text}
            if person and self._web.identity:
                target |= {
                    "recipient_user_id": person,
                    "recipient_team_id": self._web.identity.team,
                }
            answer = await self._web.optional.attempt(
                STREAM, self._web.write, "chat.startStream", **target
            )
            if answer:
                message_id = get_text(answer, "ts")
                self._streams[address.chat, message_id] = _Stream(end.key, text)
                return message_id
        return await self.post(end)

    async def _append(
        self, message_id: str, stream: _Stream, text: str, end: OutboundMessage
    ) -> None:
        text = defuse_mentions(text)
        if not text.startswith(stream.written):
            return await self.edit(message_id, end)
        more = text[len(stream.written) : MAX_STREAMED]
        if not more:
            return None
        try:
            target = {"channel": end.address.chat, "ts": message_id}
            await self._web.write("chat.appendStream", **target, markdown_text=more)
        except SlackError as error:
            if error.code not in STREAM_ENDED:
                raise
            stream.is_open = False
            await self._update(message_id, end, stream.key)
        else:
            stream.written += more

    async def _update(self, message_id: str, message: OutboundMessage, key: str) -> None:
        """Its key stays if none is given."""
        metadata = _metadata(key) if key and self._web.optional.has(METADATA) else None
        body = {**_body(message), "metadata": metadata}
        chat = message.address.chat
        await self._web.write("chat.update", channel=chat, ts=message_id, **body)

    async def _stop(self, address: Address, message_id: str, stream: _Stream | None = None) -> None:
        metadata = _metadata(stream.key if stream else REPLACED_KEY)
        # it was over already; what counts is the edit that follows
        with contextlib.suppress(Rejected):
            target = {"channel": address.chat, "ts": message_id}
            await self._web.write("chat.stopStream", **target, metadata=metadata)
        if stream:
            stream.is_open = False


def defuse_mentions(text: str) -> str:
    """The text, so that nothing in it notifies a person, a group or a channel."""
    return MENTION.sub("<\u200b", text)


def _metadata(key: str) -> dict[str, object]:
    """Seen by programs only: by it a message is found again."""
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key}}


def _find_key(rows: Iterable[Json], key: str) -> str:
    return next((find_text(row, "ts") for row in rows if _key_of(row) == key), "")


def _key_of(row: Json) -> str:
    metadata = find_object(row, "metadata")
    is_ours = find_text(metadata, "event_type") == METADATA_TYPE
    return find_text(find_object(metadata, "event_payload"), "key") if is_ours else ""


def _body(message: OutboundMessage) -> dict[str, object]:
    """Blocks hide the text, so with buttons it stands in sections, too; without buttons, earlier
    ones go.
    """
    blocks: list[Json] = []
    text, choices = message.part.text, message.choices
    while choices and text:
        at = len(text)
        if at > MAX_SECTION:
            at = max(text.rfind("\n", 1, MAX_SECTION), text.rfind(" ", 1, MAX_SECTION))
            at = at if at > 0 else MAX_SECTION
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text[:at]}})
        text = text[at:].lstrip("\n ")
    if choices:
        buttons = [_button(index, choice) for index, choice in enumerate(choices[:MAX_BUTTONS])]
        blocks.append({"type": "actions", "elements": buttons})
    return {"text": message.part.text, "blocks": blocks}


def _button(index: int, choice: Choice) -> dict[str, object]:
    label = {"type": "plain_text", "text": choice.label[:MAX_LABEL] or "…", "emoji": True}
    style = {"style": STYLES[choice.style]} if choice.style in STYLES else {}
    value = choice.data[:MAX_VALUE]
    return {
        "type": "button",
        "action_id": f"choice_{index}",
        "text": label,
        "value": value,
        **style,
    }
