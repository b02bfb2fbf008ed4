"""[discord] in config.toml: numbers or texts alike, and wrong values named (F1)."""

import pytest
from pydantic import ValidationError

from channels.discord.config import DEFAULT_API, DiscordConfig


def test_F1_numbers_and_texts_are_alike_and_accounts_have_the_same_keys():
    config = DiscordConfig.model_validate(
        {
            "bot_token": "Bot abc.def-ghi_1 ",
            "allowed_user_ids": [1, "2"],
            "guild_id": 300,
            "accounts": {
                "work": {
                    "bot_token": "x.y",
                    "guild_id": "301",
                    "api_url": "http://127.0.0.1:1/api/v10/",
                }
            },
        }
    )
    work = config.accounts["work"]
    assert (config.bot_token, config.allowed_user_ids, config.guild_id, config.api_url) == (
        "abc.def-ghi_1",
        (1, "2"),
        "300",
        DEFAULT_API,
    )
    assert (work.guild_id, work.api_url, work.gateway_url) == (
        "301",
        "http://127.0.0.1:1/api/v10",
        "",
    )


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"bot_token": "with a space"}, "developer portal"),
        ({"guild_id": "my server"}, "Copy Server ID"),
        ({"api_url": "ftp://x"}, "such as https://discord.com/api/v10"),
        ({"gateway_url": "https://x"}, "such as wss://gateway.discord.gg"),
        ({"api_url": "http://x:port"}, "not an address"),
        ({"accounts": {"a b": {}}}, "no name for an account"),
        ({"tokn": ""}, "Extra inputs"),
    ],
)
def test_F1_a_wrong_value_says_what_is_expected_and_shows_no_token(
    table: dict[str, object], hint: str
):
    with pytest.raises(ValidationError, match=hint) as wrong:
        DiscordConfig.model_validate(table)
    assert "with a space" not in str(wrong.value)
    assert "abc" not in repr(DiscordConfig(bot_token="abc"))
