"""A text as it is being written: streamed where Slack can do that, else a message that is changed (E12)."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from channels.base import Refused, Unclear
from channels.message import Address, Choice, Piece
from channels.slack.blocks import keyed
from channels.slack.errors import Declined
from channels.slack.sending import Sending
from channels.slack.shape import text
from channels.slack.threads import Threads
from channels.slack.web import Web

MOST_STREAMED = 11_000
"""Slack streams 12,000 characters; the finished text, in pieces, replaces them anyway."""
MOST_OPEN = 500
REPLACED = "replaced"
"""The key of a stream whose own is not known any more: it shows that somebody has ended it."""
CALLS = re.compile(r"<(?=[@!#])")
OVER = frozenset({"message_not_in_streaming_state", "message_not_owned_by_app", "streaming_mode_mismatch"})


@dataclass(slots=True)
class _Stream:
    key: str
    written: str
    open: bool = True
    failures: int = 0


class Drafts:
    """Streams need a thread, and in channels somebody whom they are for."""

    def __init__(self, web: Web, sending: Sending, threads: Threads) -> None:
        self._web, self._sending, self._threads = web, sending, threads
        self._streams: dict[tuple[str, str], _Stream] = {}
        self._keyed: dict[tuple[str, str], None] = {}
        self._can_stream = True
        self.team = ""

    async def show(self, address: Address, key: str, words: str, shown: str, tail: Piece) -> str:
        """The message that shows it. `tail`: the end of it as a piece. Raises as Channel.send."""
        stream = self._streams.get((address.chat, shown))
        if stream and stream.open:
            return await self._append(address, shown, stream, words, tail)
        if shown:
            await self._sending.change(address, shown, tail)
            return shown
        begun = await self._start(address, key, words)
        return begun or await self._sending.post(address, tail, key)

    async def finish(self, address: Address, message_id: str, piece: Piece, choices: tuple[Choice, ...]) -> None:
        """The finished text, in place of what was shown. Raises as Channel.send."""
        stream = self._streams.get((address.chat, message_id))
        has_one = not address.thread or (address.chat, message_id) in self._keyed
        key = stream.key if stream else "" if has_one else REPLACED
        if stream and stream.open:
            await self._stop(address, message_id, stream)
        try:
            await self._sending.change(address, message_id, piece, choices, key)
        except Declined as no:
            if no.code != "streaming_state_conflict":
                raise
            await self._stop(address, message_id)  # begun before we were started anew
            await self._sending.change(address, message_id, piece, choices, key)
        except Unclear:
            await self._give_up(address, message_id, stream)
            raise

    async def sweep(self, address: Address, begun: Sequence[str]) -> None:
        """Take away the streams that a crash has left behind there; what is being streamed now stays. Raises Later, Revoked."""
        for message_id in begun:
            if (address.chat, message_id) not in self._streams:
                with contextlib.suppress(Unclear, Refused):
                    await self._stop(address, message_id)
                    await self._sending.delete(address, message_id)

    def note_found(self, address: Address, message_id: str) -> None:
        """It was found by its key, and is to keep that."""
        if message_id:
            self._keyed[address.chat, message_id] = None
            if len(self._keyed) > MOST_OPEN:
                del self._keyed[next(iter(self._keyed))]

    def forget(self, address: Address, message_id: str) -> None:
        """The message is gone."""
        self._streams.pop((address.chat, message_id), None)

    async def _start(self, address: Address, key: str, words: str) -> str:
        person = self._threads.person(address)
        if not (self._can_stream and address.thread and (person or address.chat.startswith("D"))):
            return ""
        target = {"channel": address.chat, "thread_ts": address.thread, "recipient_user_id": person}
        text_so_far = calm(words)[:MOST_STREAMED]
        try:
            team = self.team if person else ""
            answer = await self._web.write("chat.startStream", **target, recipient_team_id=team, markdown_text=text_so_far)
        except Declined as no:
            self._can_stream = not no.unknown
            self._sending.once("stream", f"{no}; texts are shown by changing a message instead")
            return ""
        message_id = text(answer, "ts")
        while len(self._streams) >= MOST_OPEN:
            self._streams.pop(next(iter(self._streams)))
        self._streams[address.chat, message_id] = _Stream(key, text_so_far)
        return message_id

    async def _append(self, address: Address, message_id: str, stream: _Stream, words: str, tail: Piece) -> str:
        words = calm(words)
        if not words.startswith(stream.written):
            await self.finish(address, message_id, tail, ())
            return message_id
        more = words[len(stream.written) : MOST_STREAMED]
        if not more:
            return message_id
        try:
            await self._web.write("chat.appendStream", channel=address.chat, ts=message_id, markdown_text=more)
        except Declined as no:
            if no.code not in OVER:
                raise
            stream.open = False
            await self._sending.change(address, message_id, tail, (), stream.key)
            return message_id
        stream.written += more
        return message_id

    async def _give_up(self, address: Address, message_id: str, stream: _Stream | None) -> None:
        """Some servers stream, but cannot change what they have streamed: then it goes, and the text is sent by itself."""
        if stream is None:
            return
        stream.failures += 1
        if stream.failures > 1:
            await self._sending.delete(address, message_id)
            self.forget(address, message_id)
            raise Refused("Slack: what was streamed cannot be changed; it was taken away")

    async def _stop(self, address: Address, message_id: str, stream: _Stream | None = None) -> None:
        metadata = keyed(stream.key if stream else REPLACED)
        with contextlib.suppress(Refused):  # it was over already; what counts is the change that follows
            await self._web.write("chat.stopStream", channel=address.chat, ts=message_id, metadata=metadata)
        if stream:
            stream.open = False


def calm(words: str) -> str:
    """The text, so that nothing in it calls a person, a group or a channel."""
    return CALLS.sub("<\u200b", words)
