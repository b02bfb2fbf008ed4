"""A message as Slack wants it: text, thread, key, and the buttons in Block Kit (A15).

Messages out, and found again (K13).

A text as it is being written: streamed where Slack can do that, else a message that is changed (E12).
"""

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.base import DeliveryUnknown, Rejected
from channels.message import Address, Choice, MessagePart
from channels.slack.events import ThreadMembership
from channels.slack.web import (
    Json,
    SlackError,
    SlackIdentity,
    SlackWeb,
    find_text,
    get_object,
    get_objects,
    get_text,
)

METADATA_TYPE = "aidaemon"
"""The type of the metadata that carry a message's key."""
LONGEST_SECTION, LONGEST_LABEL, LONGEST_VALUE, MOST_BUTTONS = 3000, 75, 2000, 25
STYLES = {"good": "primary", "bad": "danger"}


def message_body(piece: MessagePart, choices: Sequence[Choice]) -> dict[str, object]:
    """Text and blocks. Blocks hide the text, so with buttons it stands in sections, too; without buttons, earlier ones go."""
    return {
        "text": piece.text,
        "blocks": [*_sections(piece.text), _actions_block(choices)] if choices else [],
    }


def destination(address: Address) -> dict[str, object]:
    """Where a message goes."""
    return {"channel": address.chat, **({"thread_ts": address.thread} if address.thread else {})}


def key_metadata(key: str) -> dict[str, object]:
    """What is kept with a message and seen by programs only: by it a message is found again."""
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key}}


def _sections(text: str) -> list[dict[str, object]]:
    return [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}}
        for part in _split_sections(text)
    ]


def _split_sections(text: str) -> list[str]:
    parts: list[str] = []
    while len(text) > LONGEST_SECTION:
        at = max(text.rfind("\n", 1, LONGEST_SECTION), text.rfind(" ", 1, LONGEST_SECTION))
        at = at if at > 0 else LONGEST_SECTION
        parts.append(text[:at])
        text = text[at:].lstrip("\n ")
    return [*parts, text] if text else parts


def _actions_block(choices: Sequence[Choice]) -> dict[str, object]:
    return {
        "type": "actions",
        "elements": [_button(index, choice) for index, choice in enumerate(choices[:MOST_BUTTONS])],
    }


def _button(index: int, choice: Choice) -> dict[str, object]:
    label = {"type": "plain_text", "text": choice.label[:LONGEST_LABEL] or "…", "emoji": True}
    style = {"style": STYLES[choice.style]} if choice.style in STYLES else {}
    return {
        "type": "button",
        "action_id": f"choice_{index}",
        "text": label,
        "value": choice.data[:LONGEST_VALUE],
        **style,
    }


MARGIN = timedelta(seconds=60)
"""Slack's clock and ours are not the same."""
FIND_PAGES, FIND_PAGE_SIZE = 10, 200
NO_UNFURL = {"unfurl_links": False, "unfurl_media": False}
"""Slack would open the addresses in a text to show what is there: nobody has asked for that."""
Rows = AsyncIterator[Json]
log = logging.getLogger(__name__)


class SlackMessages:
    """Posts, changes, deletes and finds messages."""

    def __init__(self, web: SlackWeb, name: str) -> None:
        self._web, self._name = web, name
        self._no_metadata = self._no_history = False
        self._logged: set[str] = set()

    async def post(
        self, address: Address, piece: MessagePart, key: str, choices: Sequence[Choice] = ()
    ) -> str:
        """A new message; its ts. Raises Refused, Later, Unclear, Revoked."""
        message = {**destination(address), **message_body(piece, choices), **NO_UNFURL}
        if self._no_metadata:
            return get_text(await self._web.write("chat.postMessage", **message), "ts")
        try:
            return get_text(
                await self._web.write("chat.postMessage", **message, metadata=key_metadata(key)),
                "ts",
            )
        except SlackError as no:
            if "metadata" not in no.code:
                raise
            self._no_metadata = True
            self.log_once(
                "metadata",
                "Slack takes no metadata here: a message whose answer was lost cannot be found again",
            )
            return get_text(await self._web.write("chat.postMessage", **message), "ts")

    @property
    def can_find(self) -> bool:
        """`find` can tell: nothing has been seen yet that speaks against it."""
        return not (self._no_metadata or self._no_history)

    async def update(
        self,
        address: Address,
        message_id: str,
        piece: MessagePart,
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> None:
        """Another text, other buttons or none; its key stays if none is given. Raises as `post`."""
        metadata = key_metadata(key) if key and not self._no_metadata else None
        await self._web.write(
            "chat.update",
            channel=address.chat,
            ts=message_id,
            **message_body(piece, choices),
            metadata=metadata,
        )

    async def delete(self, address: Address, message_id: str) -> None:
        """Take it away; that it is gone already is no error. Raises as `post`."""
        try:
            await self._web.write("chat.delete", channel=address.chat, ts=message_id)
        except SlackError as no:
            if no.code != "message_not_found":
                raise

    async def post_ephemeral(self, address: Address, person: str, piece: MessagePart) -> None:
        """Show somebody a text that nobody else sees. Raises as `post`."""
        await self._web.write(
            "chat.postEphemeral", **destination(address), user=person, text=piece.text
        )

    async def find(
        self, address: Address, key: str, since: datetime, who: SlackIdentity
    ) -> tuple[str, list[str]]:
        """The ts of our message with this key, "" if there is none or nobody may look; and of texts that we began to stream there
        and that nobody has ended, for those carry no key. Raises Later, Revoked.
        """
        method, more = (
            ("conversations.replies", {"ts": address.thread})
            if address.thread
            else ("conversations.history", {})
        )
        recent = {**more, "oldest": f"{(since - MARGIN).timestamp():.6f}"}
        own = [row async for row in self._own_messages(method, address, who, recent)]
        found = _find_key(own, key)
        if (
            not found and self.can_find
        ):  # our clock may have jumped; threads are told from their beginning, all else from the end
            pages = FIND_PAGES if address.thread else 1
            found = _find_key(
                [row async for row in self._own_messages(method, address, who, more, pages)], key
            )
        return found, [
            find_text(row, "ts") for row in own if "streaming_state" in row and not _key_of(row)
        ]

    async def _own_messages(
        self,
        method: str,
        address: Address,
        who: SlackIdentity,
        more: Mapping[str, object],
        pages: int = FIND_PAGES,
    ) -> Rows:
        cursor = ""
        for _ in range(pages):
            try:
                asked = {
                    "channel": address.chat,
                    "include_all_metadata": True,
                    "limit": FIND_PAGE_SIZE,
                    "cursor": cursor,
                    **more,
                }
                answer = await self._web.read(method, **asked)
            except SlackError as no:
                self._no_history = self._no_history or no.is_unavailable
                self.log_once(
                    method, f"{no}; a message whose answer was lost cannot be found again"
                )
                return
            for row in get_objects(answer, "messages"):
                if who.is_author(row):
                    yield row
            cursor = find_text(get_object(answer, "response_metadata"), "next_cursor")
            if not cursor:
                return

    def log_once(self, about: str, what: str) -> None:
        """Say so in the log, the first time."""
        if about not in self._logged:
            self._logged.add(about)
            log.warning("%s: %s", self._name, what)


def _find_key(own: Sequence[Json], key: str) -> str:
    return next((find_text(row, "ts") for row in own if _key_of(row) == key), "")


def _key_of(row: Json) -> str:
    metadata = get_object(row, "metadata")
    return (
        find_text(get_object(metadata, "event_payload"), "key")
        if find_text(metadata, "event_type") == METADATA_TYPE
        else ""
    )


MAX_STREAMED = 11_000
"""Slack streams 12,000 characters; the finished text, in pieces, replaces them anyway."""
MAX_STREAMS = 500
REPLACED_KEY = "replaced"
"""The key of a stream whose own is not known any more: it shows that somebody has ended it."""
MENTION = re.compile(r"<(?=[@!#])")
STREAM_ENDED = frozenset(
    {"message_not_in_streaming_state", "message_not_owned_by_app", "streaming_mode_mismatch"}
)


@dataclass(slots=True)
class _Stream:
    key: str
    written: str
    open: bool = True
    failures: int = 0


class SlackDrafts:
    """Streams need a thread, and in channels somebody whom they are for."""

    def __init__(self, web: SlackWeb, sending: SlackMessages, threads: ThreadMembership) -> None:
        self._web, self._sending, self._threads = web, sending, threads
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._with_key: dict[tuple[str, str], None] = {}
        self._can_stream = True
        self.team = ""

    async def show(
        self, address: Address, key: str, words: str, shown: str, tail: MessagePart
    ) -> str:
        """The message that shows it. `tail`: the end of it as a piece. Raises as Channel.send."""
        stream = self._streams.get((address.chat, shown))
        if stream and stream.open:
            return await self._append(address, shown, stream, words, tail)
        if shown:
            await self._sending.update(address, shown, tail)
            return shown
        begun = await self._start(address, key, words)
        return begun or await self._sending.post(address, tail, key)

    async def finish(
        self, address: Address, message_id: str, piece: MessagePart, choices: tuple[Choice, ...]
    ) -> None:
        """The finished text, in place of what was shown. Raises as Channel.send."""
        stream = self._streams.get((address.chat, message_id))
        has_one = not address.thread or (address.chat, message_id) in self._with_key
        key = stream.key if stream else "" if has_one else REPLACED_KEY
        if stream and stream.open:
            await self._stop(address, message_id, stream)
        try:
            await self._sending.update(address, message_id, piece, choices, key)
        except SlackError as no:
            if no.code != "streaming_state_conflict":
                raise
            await self._stop(address, message_id)  # begun before we were started anew
            await self._sending.update(address, message_id, piece, choices, key)
        except DeliveryUnknown:
            await self._abandon(address, message_id, stream)
            raise

    async def delete_orphans(self, address: Address, begun: Sequence[str]) -> None:
        """Take away the streams that a crash has left behind there; what is being streamed now stays. Raises Later, Revoked."""
        for message_id in begun:
            if (address.chat, message_id) not in self._streams:
                with contextlib.suppress(DeliveryUnknown, Rejected):
                    await self._stop(address, message_id)
                    await self._sending.delete(address, message_id)

    def remember_found(self, address: Address, message_id: str) -> None:
        """It was found by its key, and is to keep that."""
        if message_id:
            self._with_key[address.chat, message_id] = None
            if len(self._with_key) > MAX_STREAMS:
                del self._with_key[next(iter(self._with_key))]

    def forget(self, address: Address, message_id: str) -> None:
        """The message is gone."""
        self._streams.pop((address.chat, message_id), None)

    async def _start(self, address: Address, key: str, words: str) -> str:
        person = self._threads.last_author(address)
        if not (self._can_stream and address.thread and (person or address.chat.startswith("D"))):
            return ""
        target = {"channel": address.chat, "thread_ts": address.thread, "recipient_user_id": person}
        text_so_far = defuse_mentions(words)[:MAX_STREAMED]
        try:
            team = self.team if person else ""
            answer = await self._web.write(
                "chat.startStream", **target, recipient_team_id=team, markdown_text=text_so_far
            )
        except SlackError as no:
            self._can_stream = not no.is_unavailable
            self._sending.log_once("stream", f"{no}; texts are shown by changing a message instead")
            return ""
        message_id = get_text(answer, "ts")
        while len(self._streams) >= MAX_STREAMS:
            self._streams.pop(next(iter(self._streams)))
        self._streams[address.chat, message_id] = _Stream(key, text_so_far)
        return message_id

    async def _append(
        self, address: Address, message_id: str, stream: _Stream, words: str, tail: MessagePart
    ) -> str:
        words = defuse_mentions(words)
        if not words.startswith(stream.written):
            await self.finish(address, message_id, tail, ())
            return message_id
        more = words[len(stream.written) : MAX_STREAMED]
        if not more:
            return message_id
        try:
            await self._web.write(
                "chat.appendStream", channel=address.chat, ts=message_id, markdown_text=more
            )
        except SlackError as no:
            if no.code not in STREAM_ENDED:
                raise
            stream.open = False
            await self._sending.update(address, message_id, tail, (), stream.key)
            return message_id
        stream.written += more
        return message_id

    async def _abandon(self, address: Address, message_id: str, stream: _Stream | None) -> None:
        """Some servers stream, but cannot change what they have streamed: then it goes, and the text is sent by itself."""
        if stream is None:
            return
        stream.failures += 1
        if stream.failures > 1:
            await self._sending.delete(address, message_id)
            self.forget(address, message_id)
            raise Rejected("Slack: what was streamed cannot be changed; it was taken away")

    async def _stop(self, address: Address, message_id: str, stream: _Stream | None = None) -> None:
        metadata = key_metadata(stream.key if stream else REPLACED_KEY)
        with contextlib.suppress(
            Rejected
        ):  # it was over already; what counts is the change that follows
            await self._web.write(
                "chat.stopStream", channel=address.chat, ts=message_id, metadata=metadata
            )
        if stream:
            stream.open = False


def defuse_mentions(words: str) -> str:
    """The text, so that nothing in it calls a person, a group or a channel."""
    return MENTION.sub("<\u200b", words)
