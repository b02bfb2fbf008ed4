"""What the channels' parts of config.toml have in common: names of accounts, tokens, addresses of servers."""

import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlsplit

Accounts = TypeVar("Accounts", bound=Mapping[str, object])
NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
TOKEN = re.compile(r"[A-Za-z0-9:._-]*")


def named(accounts: Accounts) -> Accounts:
    """Further accounts, whose names stand in front of their conversations. Raises ValueError for what is no name."""
    wrong = next((name for name in accounts if not NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no name for an account; expected letters, digits, '_', '-', at most 32")
    return accounts


def token(value: str, expected: str) -> str:
    """A token without the spaces around it. Raises ValueError, which does not show it, for what can be none."""
    bare = value.strip()
    if not TOKEN.fullmatch(bare):
        raise ValueError(f"expected {expected}")
    return bare


def address(value: str, schemes: tuple[str, ...], example: str) -> str:
    """Where a server is, without a slash at the end. Raises ValueError."""
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    if url.scheme not in schemes or not host or url.query or url.fragment or not value.isprintable():
        raise ValueError(f"expected an address such as {example}")
    return value.rstrip("/")
