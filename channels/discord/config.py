"""[discord] in config.toml, and how long things may take."""

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from channels import value
from channels.settings import Accounts, BotAccount, check_distinct_bots, parse_token, parse_url

DEFAULT_API = "https://discord.com/api/v10"


def _check_token(value: str) -> str:
    expected = "the token that the developer portal shows once, under Bot, Reset Token"
    return parse_token(value.strip().removeprefix("Bot "), expected)


def _check_gateway(value: str) -> str:
    return value and parse_url(value, "wss://gateway.discord.gg", ("ws", "wss"))


def _check_guild(value: int | str) -> str:
    number = str(value).strip()
    if number and not number.isdecimal():
        where = "in Discord, with developer mode on, right-click it, Copy Server ID"
        raise ValueError(f"expected the server's number: {where}")
    return number


class DiscordAccount(BotAccount):
    """One bot."""

    bot_token: Annotated[str, AfterValidator(_check_token)] = Field(
        "",
        repr=False,
        description="the bot's token from the developer portal; empty: this bot is not started",
    )
    guild_id: Annotated[int | str, AfterValidator(_check_guild)] = Field(
        "",
        description="listen in this server (guild) and in direct messages only, with the commands"
        " in its menu at once; empty: every server the bot is in, and the commands everywhere",
    )
    api_url: Annotated[str, AfterValidator(partial(parse_url, example=DEFAULT_API))] = Field(
        DEFAULT_API, description="Discord's API, with /api/v10"
    )
    gateway_url: Annotated[str, AfterValidator(_check_gateway)] = Field(
        "",
        description="where the bot listens; empty: Discord's gateway, or what api_url names",
    )

    @property
    def base_url(self) -> str:
        """As the other channels name it."""
        return self.api_url


class DiscordConfig(DiscordAccount):
    """The bot, and further ones under names of their own."""

    accounts: Accounts[DiscordAccount] = Field(
        default_factory=dict,
        description='further bots: [discord.accounts.work], whose chats are "work/discord"',
    )
    _distinct = model_validator(mode="after")(check_distinct_bots)


@value
class DiscordTiming:
    """Seconds. `ready_s`: until a connection is of use; `ack_s`: until a heartbeat is answered;
    `calm_s`: a connection that lasts so long ends a row of failures; `invalid_s`: least and most
    after a session was rejected, as Discord asks; `save_s`: between notes of how far was read;
    `lookup_s`: how long messages wait for those that they point at; `retry_s`, `longest_retry_s`:
    pauses while the host or a page of the history cannot be had.
    """

    ready_s: float = 30.0
    ack_s: float = 15.0
    close_s: float = 2.0
    calm_s: float = 60.0
    save_s: float = 3.0
    call_s: float = 60.0
    lookup_s: float = 5.0
    invalid_s: tuple[float, float] = (1.0, 5.0)
    first_s: float = 1.0
    longest_s: float = 90.0
    retry_s: float = 0.2
    longest_retry_s: float = 10.0
