"""What somebody said, as it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LAST = (datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
UTTERANCE = "key, session, speaker, role, label, own, at, text, private"


@dataclass(frozen=True, slots=True)
class Utterance:
    """One span that somebody said. `key` is its own: "TURN:NUMBER". `own`: the owner's own words,
    or a reply to them; `label`: "trusted" or "untrusted". `role`: who it is to the owner.
    `private`: it may hold what was read of the owner's.
    """

    key: str
    session: str
    speaker: str
    role: str
    label: str
    own: bool
    at: datetime
    text: str
    private: bool = True


def write_time(at: datetime) -> int:
    """As rows have it."""
    return (at - EPOCH) // MICROSECOND


def read_time(us: int) -> datetime:
    """Of a row; one that no calendar has is the nearest that it has."""
    return EPOCH + timedelta(microseconds=min(max(us, 0), LAST))


def read_fields(
    row: Sequence[Any],
) -> tuple[str, str, str, str, str, bool, datetime, str, bool]:
    """Those of an Utterance, of a row of UTTERANCE."""
    key, session, speaker, role, label, own, at, text, private = row
    when = read_time(at)
    return key, session, speaker, role, label, bool(own), when, text, bool(private)
