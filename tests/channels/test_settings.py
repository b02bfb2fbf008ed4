"""What the channels' parts of config.toml have in common."""

import pytest
from pydantic import BaseModel, ValidationError

from channels.discord.config import DiscordConfig
from channels.slack.config import SlackConfig
from channels.telegram.config import TelegramConfig

BOTS: list[tuple[type[BaseModel], dict[str, str], str]] = [
    (TelegramConfig, {"bot_token": "7:secret"}, "base_url"),
    (SlackConfig, {"bot_token": "xoxb-secret", "app_token": "xapp-secret"}, "base_url"),
    (DiscordConfig, {"bot_token": "secret"}, "api_url"),
]


@pytest.mark.parametrize(("config", "bot", "server"), BOTS)
def test_A13_the_same_bot_in_two_accounts_is_named_and_its_token_is_not_shown(
    config: type[BaseModel], bot: dict[str, str], server: str
):
    for wrong in ({**bot, "accounts": {"two": bot}}, {"accounts": {"one": bot, "two": bot}}):
        with pytest.raises(ValidationError, match=r"accounts\.two have the same bot_token") as told:
            config.model_validate(wrong)
        assert "secret" not in str(told.value)
    config.model_validate(
        {
            **bot,
            "accounts": {"two": {**bot, server: "http://127.0.0.1:1/api/"}, "off": {}, "too": {}},
        }
    )
