"""Where a session's people are, told from its name alone (DESIGN 2)."""

import re

NUMBERS = re.compile(r"(?P<account>[^:/]+/)?(?P<chat>-?\d+(?::\d+)?)")


def place_of(session: str) -> tuple[str, str]:
    """(channel, chat): ("terminal", "main") of "terminal:main", ("work/slack", "C1:17.5") of "work/slack:C1:17.5"; bare numbers
    are Telegram's.
    """
    numbers = NUMBERS.fullmatch(session)
    if numbers:
        return f"{numbers['account'] or ''}telegram", numbers["chat"]
    channel, _, chat = session.partition(":")
    return channel, chat
