"""What the channels' parts of config.toml have in common: names of accounts, tokens, addresses of servers."""

import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

Accounts = TypeVar("Accounts", bound=Mapping[str, object])
SAME_BOT = (
    "expected another bot in each account; {one} and {other} have the same bot_token,"
    " so that a message would come to only one of them, or be answered twice"
)
ACCOUNT_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
TOKEN = re.compile(r"[A-Za-z0-9:._-]*")


def check_account_names(accounts: Accounts) -> Accounts:
    """Further accounts, whose names stand in front of their conversations. Raises ValueError for what is no name."""
    wrong = next((name for name in accounts if not ACCOUNT_NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(
            f"{wrong!r} is no name for an account; expected letters, digits, '_', '-', at most 32"
        )
    return accounts


def parse_token(value: str, expected: str) -> str:
    """A token without the spaces around it. Raises ValueError, which does not show it, for what can be none."""
    bare = value.strip()
    if not TOKEN.fullmatch(bare):
        raise ValueError(f"expected {expected}")
    return bare


def parse_url(value: str, schemes: tuple[str, ...], example: str) -> str:
    """Where a server is, without a slash at the end. Raises ValueError."""
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    if (
        url.scheme not in schemes
        or not host
        or url.query
        or url.fragment
        or not value.isprintable()
    ):
        raise ValueError(f"expected an address such as {example}")
    return value.rstrip("/")


def check_distinct_bots(bots: Mapping[str, tuple[str, str]]) -> None:
    """`bots`: token and server by the account's name, "" for the first one. Raises ValueError where two are the same bot."""
    known: dict[tuple[str, str], str] = {}
    for name, bot in bots.items():
        where = f"accounts.{name}" if name else "the first account"
        if bot[0] and bot in known:
            raise ValueError(SAME_BOT.format(one=known[bot], other=where))
        known[bot] = where
