"""[discord] in config.toml."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

API = "https://discord.com/api/v10"
NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
TOKEN = re.compile(r"[A-Za-z0-9._-]*")


def _token(value: str) -> str:
    bare = value.strip().removeprefix("Bot ").strip()
    if not TOKEN.fullmatch(bare):
        raise ValueError("expected the token that the developer portal shows once, under Bot, Reset Token")
    return bare


def _address(value: str, schemes: tuple[str, str], example: str) -> str:
    try:
        url = urlsplit(value)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"not an address: {error}") from error
    if url.scheme not in schemes or not host or url.query or url.fragment or not value.isprintable():
        raise ValueError(f"expected an address such as {example}")
    return value.rstrip("/")


def _api(value: str) -> str:
    return _address(value, ("http", "https"), API)


def _gateway(value: str) -> str:
    return value and _address(value, ("ws", "wss"), "wss://gateway.discord.gg")


def _guild(value: int | str) -> str:
    number = str(value).strip()
    if number and not number.isdecimal():
        raise ValueError("expected the server's number: in Discord, with developer mode on, right-click it, Copy Server ID")
    return number


def _named(accounts: dict[str, "DiscordAccount"]) -> dict[str, "DiscordAccount"]:
    wrong = next((name for name in accounts if not NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong!r} is no name for a bot; expected letters, digits, '_', '-', at most 32")
    return accounts


class DiscordAccount(BaseModel):
    """One bot."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: Annotated[str, AfterValidator(_token)] = Field(
        "", repr=False, description="the bot's token from the developer portal; empty: this bot is not started"
    )
    allowed_user_ids: tuple[int | str, ...] = Field(
        (), description="the numbers of those who may talk to the assistant; empty, with owner_ids: nobody"
    )
    owner_ids: tuple[int | str, ...] = Field((), description="the numbers of its owners, who may also approve")
    guild_id: Annotated[int | str, AfterValidator(_guild)] = Field(
        "",
        description="listen in this server (guild) and in direct messages only, and have the commands in its menu at once;"
        " empty: every server the bot is in, and the commands everywhere",
    )
    api_url: Annotated[str, AfterValidator(_api)] = Field(API, description="Discord's API, with /api/v10")
    gateway_url: Annotated[str, AfterValidator(_gateway)] = Field(
        "", description="where the bot listens; empty: Discord's gateway, or what another api_url names"
    )


class DiscordConfig(DiscordAccount):
    """The bot, and further ones under names of their own."""

    accounts: Annotated[dict[str, DiscordAccount], AfterValidator(_named)] = Field(
        default_factory=dict, description='further bots: [discord.accounts.work], whose chats are "work/..." in this house'
    )
