"""[telegram] in config.toml."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from channels.settings import check_account_names, check_distinct_bots, parse_token, parse_url


def _token(value: str) -> str:
    return parse_token(value, "the token that @BotFather gave out, such as 123456:ABC-DEF")


def _root(value: str) -> str:
    return parse_url(value, ("http", "https"), "https://api.telegram.org, without /bot")


class TelegramAccount(BaseModel):
    """One bot."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: Annotated[str, AfterValidator(_token)] = Field(
        "",
        repr=False,
        description="the bot's token from @BotFather; empty: this bot is not started",
    )
    allowed_user_ids: tuple[int | str, ...] = Field(
        (),
        description="the numbers of those who may talk to the assistant; empty, with owner_ids: nobody",
    )
    owner_ids: tuple[int | str, ...] = Field(
        (), description="the numbers of its owners, who may also approve"
    )
    base_url: Annotated[str, AfterValidator(_root)] = Field(
        "https://api.telegram.org",
        description="the Bot API's server, without /bot; its files are at /file/bot",
    )
    messages_per_second: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="send no more than so many messages a second, over all chats; 0: as the platform allows",
    )


class TelegramConfig(TelegramAccount):
    """The bot, and further ones under names of their own."""

    accounts: Annotated[dict[str, TelegramAccount], AfterValidator(check_account_names)] = Field(
        default_factory=dict,
        description='further bots: [telegram.accounts.work], whose chats are "work/..." in this house',
    )

    @model_validator(mode="after")
    def _has_each_bot_once(self) -> "TelegramConfig":
        check_distinct_bots(
            {
                name: (one.bot_token, one.base_url)
                for name, one in {"": self, **self.accounts}.items()
            }
        )
        return self
