"""What a text may be trusted for, and what a tool does to the world (DESIGN 2, 6)."""

from collections.abc import Iterable
from enum import StrEnum


class Label(StrEnum):
    """Integrity of what a turn has seen. Joins go downwards only."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"

    def joined(self, other: "Label") -> "Label":
        """The lower of the two."""
        return self if self is Label.UNTRUSTED else other


def join_all(labels: Iterable[Label]) -> Label:
    """The lowest of them; trusted when there are none."""
    return Label.UNTRUSTED if any(label is Label.UNTRUSTED for label in labels) else Label.TRUSTED


class Effect(StrEnum):
    """What a tool does to the world; what is unknown counts as DESTRUCTIVE."""

    READ = "read"
    FETCH = "fetch"
    WRITE = "write"
    EGRESS = "egress"
    DESTRUCTIVE = "destructive"


class Decision(StrEnum):
    """What the gate says to one call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"
