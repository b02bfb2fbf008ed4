"""How much room messages take, and short names for exactly these bytes.

The turns before this one as the model is shown them: kept or dropped whole, the same bytes every time (A5, B4, DESIGN 7).
"""

from collections.abc import Sequence
from dataclasses import field
from hashlib import blake2b
from itertools import chain, pairwise

from daemon.agent.context.repair import repair
from daemon.core import value
from daemon.core.messages import Message, MessageRole
from daemon.core.trust import Label, join_all
from daemon.core.turn import Turn

CHARS_PER_TOKEN = 4
AROUND_A_CALL = 32
ENVELOPE = 16
DUE_PERCENT = 80


def estimate_tokens(messages: Sequence[Message]) -> int:
    """A start estimate: four bytes a token, and a few for the envelope."""
    return sum(map(_bytes, messages)) // CHARS_PER_TOKEN


def estimate_max_tokens(tokens: int, messages: Sequence[Message]) -> int:
    """The most that these messages, and what comes with them, can come to: three bytes a token, fewer in other scripts, and what
    a provider's form puts around each call and its result.
    """
    wide = sum(
        len(m.text.encode("utf-8", "replace")) - len(m.text)
        for m in messages
        if not m.text.isascii()
    )
    around = AROUND_A_CALL * sum(len(m.calls) for m in messages)
    return tokens * 4 // 3 + wide // 3 + around


def is_nearly_full(tokens: int, window: int) -> bool:
    """What would be sent has come to 80 % of the window (B4)."""
    return tokens * 100 >= window * DUE_PERCENT


def hash_messages(messages: Sequence[Message], before: bytes = b"") -> bytes:
    """A short name for exactly these messages, after those of which `before` is the name."""
    digest = blake2b(before, digest_size=12)
    for message in messages:
        digest.update(
            f"{message.role}\0{message.text}\0{message.provider_id}\0".encode(
                "utf-8", "surrogatepass"
            )
        )
        for call in message.calls:
            digest.update(
                f"{call.provider_id}\0{call.name}\0{call.arguments}\0".encode(
                    "utf-8", "surrogatepass"
                )
            )
    return digest.digest()


def _bytes(message: Message) -> int:
    size = ENVELOPE + _length(message.text)
    for call in message.calls:
        size += ENVELOPE + len(call.name) + _length(call.arguments)
    return max(size, len(message.native.blocks)) if message.native else size


def _length(text: str) -> int:
    """In bytes: a character of most other scripts weighs two or three times as much as a Latin letter."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@value
class TurnMessages:
    """One turn that ended, or the summary of what is shown no more: repaired, measured and hashed once."""

    messages: tuple[Message, ...]
    tokens: int
    digest: bytes
    label: Label

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "TurnMessages":
        """Of the messages as they were said."""
        sound = tuple(repair(messages))
        return cls(
            sound,
            estimate_tokens(sound),
            hash_messages(sound),
            join_all(message.label for message in sound),
        )


@value
class HistoryWindow:
    """All groups of a session, behind the summary of what was before them."""

    groups: tuple[TurnMessages, ...] = ()
    summary: TurnMessages | None = None
    messages: tuple[Message, ...] = ()
    tokens: int = 0
    digest: bytes = b""
    _left: dict[tuple[int | None, Message | None], "HistoryWindow"] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(
        cls, groups: Sequence[TurnMessages], summary: TurnMessages | None = None
    ) -> "HistoryWindow":
        """Of these, oldest first."""
        shown = [group for group in (summary, *groups) if group and group.messages]
        tokens = sum(group.tokens for group in shown)
        digest = blake2b(b"".join(group.digest for group in shown), digest_size=12).digest()
        return cls(tuple(groups), summary, _joined(shown), tokens, digest)

    def after_compaction(self, turn: Turn) -> "HistoryWindow":
        """What a turn's compression left of it; made once each time it changes."""
        if turn.kept_earlier is None and turn.summary is None:
            return self
        key = (turn.kept_earlier, turn.summary)
        if key not in self._left:
            summary = TurnMessages.of((turn.summary,)) if turn.summary else self.summary
            self._left.clear()
            self._left[key] = HistoryWindow.of(take_latest(self.groups, turn.kept_earlier), summary)
        return self._left[key]

    def fit(self, room: int) -> "HistoryWindow":
        """What fits. Too much: the oldest go, down to half of the room, so that the prefix then stays the same again."""
        if self.tokens <= room:
            return self
        summary = self.summary if self.summary and self.summary.tokens <= room else None
        left, kept = room // 2 - (summary.tokens if summary else 0), 0
        for group in reversed(self.groups):
            left -= group.tokens
            if left < 0:
                break
            kept += 1
        return HistoryWindow.of(take_latest(self.groups, kept), summary)

    def append(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """With this turn's messages behind it, repaired; only where the two meet badly is all of it looked at again."""
        if _meet(self.messages, messages):
            return (*self.messages, *repair(messages))
        return tuple(repair((*self.messages, *messages)))


def take_latest(groups: Sequence[TurnMessages], kept: int | None) -> tuple[TurnMessages, ...]:
    """The last `kept` of them, or as many as there are; None is all."""
    return tuple(groups) if kept is None else tuple(groups[max(0, len(groups) - kept) :])


def _joined(groups: Sequence[TurnMessages]) -> tuple[Message, ...]:
    messages = tuple(chain.from_iterable(group.messages for group in groups))
    sound = all(_meet(left.messages, right.messages) for left, right in pairwise(groups))
    return messages if sound else tuple(repair(messages))


def _meet(left: Sequence[Message], right: Sequence[Message]) -> bool:
    """An answer, then a question: nothing to repair between them."""
    if not left or not right:
        return True
    return (
        left[-1].role is MessageRole.ASSISTANT
        and not left[-1].calls
        and right[0].role is MessageRole.USER
    )
