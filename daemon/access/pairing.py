"""One-time codes by which somebody becomes known (DESIGN 6: never by being first). Pure but for `new_code`."""

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256

from daemon.core import value
from daemon.core.ids import ALPHABET
from daemon.core.trust import Role

CODE_VALID_FOR = timedelta(minutes=10)
MAX_WRONG_CODES, WRONG_CODE_WINDOW = 5, timedelta(hours=1)
CODE_LENGTH = 8
LOOKALIKES = str.maketrans("OILU", "011V", "-")


@value
class Invitation:
    """What a code is good for: this role, on this channel ("": on any), until then."""

    role: Role
    channel: str
    expires: datetime

    def is_valid(self, channel: str, now: datetime) -> bool:
        """It can still be used there."""
        return now < self.expires and self.channel in ("", channel)


def new_code() -> str:
    """Forty bits of chance, to be read out and typed: K7QF-2M9X."""
    signs = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH)).upper()
    return f"{signs[:4]}-{signs[4:]}"


def hash_code(code: str) -> str:
    """How a code is kept: who reads the journal cannot use it, and who mistakes O for 0 still can."""
    typed = "".join(code[:100].upper().split()).translate(LOOKALIKES)
    return sha256(typed.encode("utf-8", "replace")).hexdigest()


def find_matching(kept: Mapping[str, str], code: str) -> str:
    """The name under which this code is kept; "" when it is not. All are compared, so that the time it takes tells nothing."""
    shown, found = hash_code(code), ""
    for name in kept:
        found = name if hmac.compare_digest(name, shown) else found
    return found


def dump_invitation(invitation: Invitation) -> str:
    """For the journal."""
    return json.dumps([invitation.role.value, invitation.channel, invitation.expires.isoformat()])


def load_invitation(text: str) -> Invitation | None:
    """Back from the journal; None for what this version does not understand, which then opens nothing."""
    try:
        role, channel, expires = json.loads(text)
        return Invitation(Role(role), str(channel), datetime.fromisoformat(expires))
    except (ValueError, TypeError):
        return None


def recent_tries(tries: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """The wrong codes that still count. A clock that was set back forgives none of them."""
    return tuple(at for at in tries if now - at < WRONG_CODE_WINDOW)
