"""[telegram] in config.toml."""

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from channels.settings import Accounts, BotAccount, check_distinct_bots, parse_token, parse_url

EXPECTED = "the token that @BotFather gave out, such as 123456:ABC-DEF"
EXAMPLE = "https://api.telegram.org, without /bot"


class TelegramAccount(BotAccount):
    """One bot."""

    bot_token: Annotated[str, AfterValidator(partial(parse_token, expected=EXPECTED))] = Field(
        "",
        repr=False,
        description="the bot's token from @BotFather; empty: this bot is not started",
    )
    base_url: Annotated[str, AfterValidator(partial(parse_url, example=EXAMPLE))] = Field(
        "https://api.telegram.org",
        description="the Bot API's server, without /bot; its files are at /file/bot",
    )
    messages_per_second: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="send at most so many messages a second; 0: as the platform allows",
    )


class TelegramConfig(TelegramAccount):
    """The bot, and further ones under names of their own."""

    accounts: Accounts[TelegramAccount] = Field(
        default_factory=dict,
        description='further bots: [telegram.accounts.work], whose chats are "work/telegram"',
    )
    _distinct = model_validator(mode="after")(check_distinct_bots)
