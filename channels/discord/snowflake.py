"""Discord's ids hold the time at which they were made, so they are ordered over all channels."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
BITS = 22


def at(moment: datetime) -> int:
    """The least id of that moment; 0 before there was Discord."""
    return max(0, (moment - EPOCH) // timedelta(milliseconds=1)) << BITS


def earlier(snowflake: int, seconds: float) -> int:
    """So many seconds before."""
    return max(0, snowflake - (int(seconds * 1000) << BITS))


def number(text: object) -> int:
    """An id as Discord writes it; 0 for none, or what is no id."""
    digits = str(text)
    return int(digits) if digits.isdecimal() and len(digits) <= 20 else 0
