"""[discord] in config.toml."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from channels.settings import check_account_names, check_distinct_bots, parse_token, parse_url

API = "https://discord.com/api/v10"


def _token(value: str) -> str:
    return parse_token(
        value.strip().removeprefix("Bot "),
        "the token that the developer portal shows once, under Bot, Reset Token",
    )


def _api(value: str) -> str:
    return parse_url(value, ("http", "https"), API)


def _gateway(value: str) -> str:
    return value and parse_url(value, ("ws", "wss"), "wss://gateway.discord.gg")


def _guild(value: int | str) -> str:
    number = str(value).strip()
    if number and not number.isdecimal():
        raise ValueError(
            "expected the server's number: in Discord, with developer mode on, right-click it, Copy Server ID"
        )
    return number


class DiscordAccount(BaseModel):
    """One bot."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bot_token: Annotated[str, AfterValidator(_token)] = Field(
        "",
        repr=False,
        description="the bot's token from the developer portal; empty: this bot is not started",
    )
    allowed_user_ids: tuple[int | str, ...] = Field(
        (),
        description="the numbers of those who may talk to the assistant; empty, with owner_ids: nobody",
    )
    owner_ids: tuple[int | str, ...] = Field(
        (), description="the numbers of its owners, who may also approve"
    )
    guild_id: Annotated[int | str, AfterValidator(_guild)] = Field(
        "",
        description="listen in this server (guild) and in direct messages only, and have the commands in its menu at once;"
        " empty: every server the bot is in, and the commands everywhere",
    )
    api_url: Annotated[str, AfterValidator(_api)] = Field(
        API, description="Discord's API, with /api/v10"
    )
    gateway_url: Annotated[str, AfterValidator(_gateway)] = Field(
        "",
        description="where the bot listens; empty: Discord's gateway, or what another api_url names",
    )


class DiscordConfig(DiscordAccount):
    """The bot, and further ones under names of their own."""

    accounts: Annotated[dict[str, DiscordAccount], AfterValidator(check_account_names)] = Field(
        default_factory=dict,
        description='further bots: [discord.accounts.work], whose chats are "work/..." in this house',
    )

    @model_validator(mode="after")
    def _has_each_bot_once(self) -> "DiscordConfig":
        check_distinct_bots(
            {
                name: (one.bot_token, one.api_url)
                for name, one in {"": self, **self.accounts}.items()
            }
        )
        return self
