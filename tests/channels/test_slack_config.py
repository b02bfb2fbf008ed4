"""[slack] in config.toml."""

import pytest
from pydantic import ValidationError

from channels.slack.config import SlackAccount, SlackConfig


def test_ids_may_be_numbers_or_texts_and_nobody_is_admitted_by_default():
    assert SlackConfig().allowed_user_ids == ()
    assert SlackConfig(allowed_user_ids=[7, "U1"]).allowed_user_ids == (7, "U1")


def test_the_address_ends_in_api_with_or_without_a_slash():
    assert SlackConfig(base_url="http://127.0.0.1:1/api").base_url == "http://127.0.0.1:1/api/"
    with pytest.raises(ValidationError, match="ends in /api/"):
        SlackConfig(base_url="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ({"bot_token": "xoxb-secret"}, "app_token .* is missing"),
        ({"app_token": "xapp-secret"}, "bot_token .* is missing"),
        ({"app_token": "xoxb-secret", "bot_token": "xapp-secret"}, "interchanged"),
    ],
)
def test_wrong_tokens_are_named_and_not_shown(tokens: dict[str, str], why: str):
    with pytest.raises(ValidationError, match=why) as told:
        SlackConfig.model_validate(tokens)
    assert "secret" not in str(told.value)


def test_further_workspaces_have_the_same_keys_and_plain_names():
    tokens = {"app_token": "xapp-1", "bot_token": "xoxb-1"}
    assert SlackConfig.model_validate({"accounts": {"work": tokens}}).accounts == {
        "work": SlackAccount.model_validate(tokens)
    }
    with pytest.raises(ValidationError, match="no name"):
        SlackConfig.model_validate({"accounts": {"a/b": tokens}})
    assert "xapp-1" not in repr(SlackConfig.model_validate(tokens))
