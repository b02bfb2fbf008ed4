"""The turns before this one as the model is shown them: kept or dropped whole, the same bytes every time (A5, B4, DESIGN 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, pairwise

from daemon.agent.fit.sizing import digest_of, tokens_of
from daemon.agent.repair import repair
from daemon.core.label import Label, join_all
from daemon.core.messages import Message, Role
from daemon.core.turn import Turn


@dataclass(frozen=True, slots=True)
class Group:
    """One turn that ended, or the summary of what is shown no more: repaired, measured and hashed once."""

    messages: tuple[Message, ...]
    tokens: int
    digest: bytes
    label: Label

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Group":
        """Of the messages as they were said."""
        sound = tuple(repair(messages))
        return cls(sound, tokens_of(sound), digest_of(sound), join_all(message.label for message in sound))


@dataclass(frozen=True, slots=True)
class Earlier:
    """All groups of a session, behind the summary of what was before them."""

    groups: tuple[Group, ...] = ()
    summary: Group | None = None
    messages: tuple[Message, ...] = ()
    tokens: int = 0
    digest: bytes = b""
    _left: dict[tuple[int | None, Message | None], "Earlier"] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, groups: Sequence[Group], summary: Group | None = None) -> "Earlier":
        """Of these, oldest first."""
        shown = [group for group in (summary, *groups) if group and group.messages]
        tokens = sum(group.tokens for group in shown)
        digest = blake2b(b"".join(group.digest for group in shown), digest_size=12).digest()
        return cls(tuple(groups), summary, _joined(shown), tokens, digest)

    def left_by(self, turn: Turn) -> "Earlier":
        """What a turn's compression left of it; made once each time it changes."""
        if turn.kept_earlier is None and turn.summary is None:
            return self
        key = (turn.kept_earlier, turn.summary)
        if key not in self._left:
            summary = Group.of((turn.summary,)) if turn.summary else self.summary
            self._left.clear()
            self._left[key] = Earlier.of(latest(self.groups, turn.kept_earlier), summary)
        return self._left[key]

    def fitted(self, room: int) -> "Earlier":
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
        return Earlier.of(latest(self.groups, kept), summary)

    def then(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """With this turn's messages behind it, repaired; only where the two meet badly is all of it looked at again."""
        if _meet(self.messages, messages):
            return (*self.messages, *repair(messages))
        return tuple(repair((*self.messages, *messages)))


def latest(groups: Sequence[Group], kept: int | None) -> tuple[Group, ...]:
    """The last `kept` of them, or as many as there are; None is all."""
    return tuple(groups) if kept is None else tuple(groups[max(0, len(groups) - kept) :])


def _joined(groups: Sequence[Group]) -> tuple[Message, ...]:
    messages = tuple(chain.from_iterable(group.messages for group in groups))
    sound = all(_meet(left.messages, right.messages) for left, right in pairwise(groups))
    return messages if sound else tuple(repair(messages))


def _meet(left: Sequence[Message], right: Sequence[Message]) -> bool:
    """An answer, then a question: nothing to repair between them."""
    if not left or not right:
        return True
    return left[-1].role is Role.ASSISTANT and not left[-1].calls and right[0].role is Role.USER
