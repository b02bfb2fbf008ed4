"""One-time codes by which somebody becomes known (DESIGN 6: never by being first). Pure but for `new_code`."""

import hmac
import secrets
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256

from daemon.core.ids import ALPHABET
from daemon.core.rows import PairingCode

CODE_VALID_FOR = timedelta(minutes=10)
MAX_WRONG_CODES, WRONG_CODE_WINDOW = 5, timedelta(hours=1)
CODE_LENGTH = 8
LOOKALIKES = str.maketrans("OILU", "011V", "-")


def new_code() -> str:
    """Forty bits of chance, to be read out and typed: K7QF-2M9X."""
    signs = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH)).upper()
    return f"{signs[:4]}-{signs[4:]}"


def hash_code(code: str) -> str:
    """How a code is kept: who reads the journal cannot use it, and who mistakes O for 0 still can."""
    typed = "".join(code[:100].upper().split()).translate(LOOKALIKES)
    return sha256(typed.encode("utf-8", "replace")).hexdigest()


def find_matching(codes: Iterable[PairingCode], code: str) -> PairingCode | None:
    """The code that waits and is this one. All are compared: the time it takes tells nothing."""
    digest, found = hash_code(code), None
    for one in codes:
        found = one if hmac.compare_digest(one.digest, digest) else found
    return found
