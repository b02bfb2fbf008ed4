"""Names for things: short, unique, sortable by time of birth."""

import secrets
from collections.abc import Callable
from time import time_ns

NewId = Callable[[], str]
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """Sixteen characters of Crockford's base 32: nine of milliseconds, seven of chance. Sorts by time of birth."""
    number = (time_ns() // 1_000_000 << 35) | secrets.randbits(35)
    return "".join(ALPHABET[number >> shift & 31] for shift in range(75, -5, -5))
