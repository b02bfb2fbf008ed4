"""[telegram] in config.toml."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
TOKEN = re.compile(r"[A-Za-z0-9:_-]*")


def _token(value: str) -> str:
    if not TOKEN.fullmatch(value.strip()):
        raise ValueError("expected the token that @BotFather gave out, such as 123456:ABC-DEF")
    return value.strip()


def _root(value: str) -> str:
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    if url.scheme not in ("http", "https") or not host or url.query or url.fragment or not value.isprintable():
        raise ValueError("expected the address of a server, such as https://api.telegram.org, without /bot")
    return value.rstrip("/")


def _named(accounts: dict[str, "TelegramAccount"]) -> dict[str, "TelegramAccount"]:
    wrong = next((name for name in accounts if not NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no name for a bot; expected letters, digits, '_', '-', at most 32")
    return accounts


class TelegramAccount(BaseModel):
    """One bot."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: Annotated[str, AfterValidator(_token)] = Field(
        "", repr=False, description="the bot's token from @BotFather; empty: this bot is not started"
    )
    allowed_user_ids: tuple[int | str, ...] = Field(
        (), description="the numbers of those who may talk to the assistant; empty, with owner_ids: nobody"
    )
    owner_ids: tuple[int | str, ...] = Field((), description="the numbers of its owners, who may also approve")
    base_url: Annotated[str, AfterValidator(_root)] = Field(
        "https://api.telegram.org", description="the Bot API's server, without /bot; its files are at /file/bot"
    )
    messages_per_second: float = Field(
        0.0, ge=0, le=1000, description="send no more than so many messages a second, over all chats; 0: as the platform allows"
    )


class TelegramConfig(TelegramAccount):
    """The bot, and further ones under names of their own."""

    accounts: Annotated[dict[str, TelegramAccount], AfterValidator(_named)] = Field(
        default_factory=dict, description='further bots: [telegram.accounts.work], whose chats are "work/..." in this house'
    )
