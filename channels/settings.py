"""What the channels' sections of config.toml have in common: tokens, people, further accounts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

ACCOUNT_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
TOKEN = re.compile(r"[A-Za-z0-9:._-]*")


def parse_token(value: str, expected: str) -> str:
    """A token without the spaces around it. Raises ValueError, which does not show it, for what can
    be none.
    """
    if not TOKEN.fullmatch(value.strip()):
        raise ValueError(f"expected {expected}")
    return value.strip()


def parse_url(value: str, example: str, schemes: tuple[str, ...] = ("http", "https")) -> str:
    """Where a server is, without a slash at the end. Raises ValueError."""
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    is_bare = url.scheme in schemes and host and not (url.query or url.fragment)
    if not is_bare or not value.isprintable():
        raise ValueError(f"expected an address such as {example}")
    return value.rstrip("/")


class BotAccount(BaseModel):
    """The keys that every account has."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: str = Field(
        "", repr=False, description="the bot's token; empty: this bot is not started"
    )
    allowed_user_ids: tuple[int | str, ...] = Field(
        (), description="ids of those who may talk to the assistant; empty, with owner_ids: nobody"
    )
    owner_ids: tuple[int | str, ...] = Field(
        (), description="ids of its owners, who may also approve"
    )

    @property
    def in_use(self) -> bool:
        """Whether it is started."""
        return bool(self.bot_token)


def check_account_names(accounts: Mapping[str, object]) -> Mapping[str, object]:
    """The names stand in front of their conversations. Raises ValueError."""
    for name in accounts:
        if not ACCOUNT_NAME.fullmatch(name):
            rule = "expected letters, digits, '_', '-', at most 32"
            raise ValueError(f"{name!r} is no name for an account; {rule}")
    return accounts


def check_distinct_bots(config: Any) -> Any:
    """Raises ValueError where two accounts are the same bot at the same server."""
    known = {}
    for name, account in {"": config, **config.accounts}.items():
        where = f"accounts.{name}" if name else "the first account"
        bot = account.bot_token, account.base_url
        if account.bot_token and bot in known:
            raise ValueError(
                f"expected another bot in each account; {known[bot]} and {where} have the same "
                "bot_token, so that a message would come to only one of them, or be answered twice"
            )
        known[bot] = where
    return config


AccountT = TypeVar("AccountT", bound=BaseModel)
Accounts = Annotated[dict[str, AccountT], AfterValidator(check_account_names)]
