"""Names for things: short, unique, sortable by time of birth.

What sessions are called, and where their people are: the one from the other (glossary.md, A13).
"""

import random
import re
from collections.abc import Callable
from time import time_ns
from typing import Literal

NewId = Callable[[], str]
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """Sixteen characters of Crockford's base 32: nine of milliseconds, seven of chance. Sorts by
    time of birth.
    """
    number = (time_ns() // 1_000_000 << 35) | random.getrandbits(35)
    return "".join([ALPHABET[number >> shift & 31] for shift in range(75, -5, -5)])


ACCOUNT_SEPARATOR = "/"
DEFAULT_CHANNEL = "telegram"
MAIL_CHANNEL, MAIL_SESSION = "email", "email_trigger"
TRIAL_SESSION = re.compile(rf"terminal:(?:eval|fork)-[{ALPHABET}]{{16}}")
TELEGRAM_SESSION = re.compile(r"(?P<account>[^:/]+/)?(?P<chat>-?\d+(?::\d+)?)")


def split_channel(channel: str) -> tuple[str, str]:
    """(account, kind) of a channel's name: ("work", "slack") of "work/slack"."""
    account, _, kind = channel.rpartition(ACCOUNT_SEPARATOR)
    return account, kind


def build_session_id(channel: str, chat: str) -> str:
    """`{chat}` or `{chat}:{topic}` for Telegram, `slack:{chat}[:{thread}]`, `discord:{chat}`,
    `email_trigger:{sender}:{thread}`, behind a further account.
    """
    account, _, kind = channel.rpartition(ACCOUNT_SEPARATOR)
    kind = MAIL_SESSION if kind == MAIL_CHANNEL else kind
    own = chat if kind == DEFAULT_CHANNEL else f"{kind}:{chat}"
    return f"{account}{ACCOUNT_SEPARATOR}{own}" if account else own


def new_trial_session(kind: Literal["eval", "fork"]) -> str:
    """A conversation of its own, for a run of a case of an evaluation or for a fork."""
    return f"terminal:{kind}-{new_id()}"


def is_trial_session(session: str) -> bool:
    """It is such a conversation: nobody has said anything there."""
    return TRIAL_SESSION.fullmatch(session) is not None


def is_mail_session(session: str) -> bool:
    """Of a mail thread, not of what works for it."""
    return session.partition(":")[0].rpartition(ACCOUNT_SEPARATOR)[2] == MAIL_SESSION


def parse_session_id(session: str) -> tuple[str, str]:
    """(channel, chat): ("terminal", "main") of "terminal:main", ("work/slack", "C1:17.5") of
    "work/slack:C1:17.5"; bare numbers are Telegram's.
    """
    numbers = TELEGRAM_SESSION.fullmatch(session)
    if numbers:
        return f"{numbers['account'] or ''}{DEFAULT_CHANNEL}", numbers["chat"]
    channel, _, chat = session.partition(":")
    account, kind = split_channel(channel)
    if kind == MAIL_SESSION:
        channel = f"{account}{ACCOUNT_SEPARATOR}{MAIL_CHANNEL}" if account else MAIL_CHANNEL
    return channel, chat


CODE_LETTERS = "bcdfghjkmnpqrstv"  # no vowels, so that a code is no word
CODE = re.compile(rf"[{CODE_LETTERS}]{{4}}", re.IGNORECASE)


def make_short_code(digest: str) -> str:
    """Four letters for a hexadecimal digest: what a person types to name one question of a few."""
    return "".join(CODE_LETTERS[int(digit, 16)] for digit in digest[:4])
