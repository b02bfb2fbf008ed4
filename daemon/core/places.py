"""What sessions are called, and where their people are: the one from the other (DESIGN 2, A13)."""

import re

ACCOUNT = "/"
BARE = "telegram"
NUMBERS = re.compile(r"(?P<account>[^:/]+/)?(?P<chat>-?\d+(?::\d+)?)")


def parted(channel: str) -> tuple[str, str]:
    """(account, kind) of a channel's name: ("work", "slack") of "work/slack"."""
    account, _, kind = channel.rpartition(ACCOUNT)
    return account, kind


def session_name(channel: str, chat: str) -> str:
    """`{chat}` or `{chat}:{topic}` for Telegram, `slack:{chat}[:{thread}]`, `discord:{chat}`, behind a further account."""
    account, kind = parted(channel)
    own = chat if kind == BARE else f"{kind}:{chat}"
    return f"{account}{ACCOUNT}{own}" if account else own


def place_of(session: str) -> tuple[str, str]:
    """(channel, chat): ("terminal", "main") of "terminal:main", ("work/slack", "C1:17.5") of "work/slack:C1:17.5"; bare numbers
    are Telegram's.
    """
    numbers = NUMBERS.fullmatch(session)
    if numbers:
        return f"{numbers['account'] or ''}{BARE}", numbers["chat"]
    channel, _, chat = session.partition(":")
    return channel, chat
