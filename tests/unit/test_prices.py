"""Prices, and the config they may be overridden in."""

import pytest
from pydantic import ValidationError

from daemon.core.messages import Usage
from daemon.providers.chain import PriceList
from daemon.providers.config import PriceConfig, ProviderConfig

MILLION = Usage(1_000_000, 1_000_000)
PRICES = PriceList({})


@pytest.mark.parametrize("provider", ["openai", "openai:api.openai.com"])
def test_a_known_model_has_its_list_price(provider: str) -> None:
    assert PRICES.get_usd(provider, "gpt-4o", Usage(1000, 100)) == pytest.approx(0.0035)


def test_cached_tokens_are_cheaper() -> None:
    full = PRICES.get_usd("openai", "gpt-4o", Usage(1000, 100))
    cached = PRICES.get_usd("openai", "gpt-4o", Usage(1000, 100, cached_tokens=800))
    assert full and cached and cached < full


def test_a_long_prompt_has_the_price_of_its_tier() -> None:
    """Google asks more for each token of a prompt of more than 200,000."""
    short, long = (PRICES.get_usd("gemini", "gemini-2.5-pro", Usage(n)) for n in (200_000, 400_000))
    assert short and long and long == pytest.approx(4 * short)


def test_a_date_behind_the_name_of_a_model_does_not_hide_its_price() -> None:
    price = PRICES.get_usd("openai", "gpt-4o-2024-11-20", MILLION)
    assert price and PRICES.get_usd("openai", "gpt-4o-20241120", MILLION) == price


def test_more_cached_tokens_than_tokens_do_not_break_the_bill() -> None:
    odd = Usage(10, 1, cached_tokens=99)
    assert PRICES.get_usd("openai", "gpt-4o", odd) is not None
    own = PriceList({"m": PriceConfig(input=1, output=1, cached=0)})
    assert own.get_usd("openai", "m", odd) == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "nobody-knows-me"),
        ("openai:llm.example.com", "gpt-4o"),
        ("openai:127.0.0.1:8000", "gpt-4o"),
        ("openai:localhost:11434", "gpt-4o"),
        ("openai:::1:8000", "gpt-4o"),
        ("openai:192.168.1.5:8000", "gpt-4o"),
    ],
)
def test_an_unknown_price_is_unknown_and_never_zero(provider: str, model: str) -> None:
    """Issue 2 item 5."""
    for _ in range(2):
        assert PRICES.get_usd(provider, model, MILLION) is None


def test_the_embedded_model_costs_nothing() -> None:
    assert PRICES.get_usd("local", "qwen", MILLION) == 0.0


def test_the_configs_price_comes_first() -> None:
    own = PriceList({"m": PriceConfig(input=2, output=8, cached=0.5)})
    usage = Usage(1_000_000, 500_000, 400_000)
    assert own.get_usd("openai:127.0.0.1:1", "m", usage) == pytest.approx(1.2 + 0.2 + 4)


def test_cached_tokens_cost_as_others_when_the_config_gives_no_price_for_them() -> None:
    own = PriceList({"m": PriceConfig(input=2, output=0)})
    assert own.get_usd("openai", "m", Usage(1_000_000, 0, 1_000_000)) == pytest.approx(2)


# [provider]


def test_an_empty_section_means_the_embedded_model() -> None:
    assert ProviderConfig().kind == "local"
    assert ProviderConfig().get_model() == "qwen2.5-coder-1.5b"


def test_a_kind_and_an_address_are_enough() -> None:
    """README: enough to drive the daemon from outside."""
    config = ProviderConfig.model_validate({"kind": "openai", "base_url": "http://127.0.0.1:1/v1/"})
    assert (config.base_url, config.timeout_s) == ("http://127.0.0.1:1/v1", 120)
    assert config.get_model() == config.get_model("fast") == config.get_model("smart") != ""


def test_each_kind_of_work_has_its_model() -> None:
    config = ProviderConfig.model_validate({"models": {"primary": "p", "fast": "f"}})
    assert [config.get_model("primary"), config.get_model("fast"), config.get_model("smart")] == [
        "p",
        "f",
        "p",
    ]


def test_a_kind_without_an_address_is_the_service_itself() -> None:
    config = ProviderConfig.model_validate(
        {"kind": "anthropic", "api_key": "k", "fallbacks": [{"api_key": "o", "base_url": ""}]}
    )
    assert (config.base_url, config.get_model()) == (
        "https://api.anthropic.com/v1",
        "claude-haiku-5-5",
    )
    assert (config.fallbacks[0].base_url, config.fallbacks[0].get_model()) == (
        "https://api.openai.com/v1",
        "gpt-5-mini",
    )
    assert (
        ProviderConfig.model_validate({"kind": "anthropic", "base_url": "http://h/v1"}).base_url
        == "http://h/v1"
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "anthropic"}, "api_key is needed for https://api.anthropic.com/v1"),
        (
            {"kind": "gemini"},
            "api_key is needed for https://generativelanguage.googleapis.com/v1beta",
        ),
        ({"kind": "opnai"}, "'local', 'openai', 'anthropic' or 'gemini'"),
        ({"kind": "openai"}, "api_key is needed for https://api.openai.com/v1"),
        ({"base_url": "localhost:11434"}, "must be an address like"),
        ({"base_url": "http://"}, "must be an address like"),
        ({"base_url": "http://h:99999/v1"}, "not an address"),
        ({"base_url": "https://me:pw@host/v1"}, "must not hold a user"),
        ({"api_key": "sk-\nx"}, "printable ASCII"),
        ({"extra_headers": {"X": "a\r\nb: c"}}, "printable ASCII"),
        ({"timeout_s": 0}, "greater than 0"),
        ({"prices": {"m": {"input": -1}}}, "greater than or equal to 0"),
        ({"fallbacks": [{"model": "m"}]}, "api_key is needed"),
        ({"tempo": 1}, "Extra inputs"),
    ],
)
def test_a_wrong_config_is_refused_in_words_that_help(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ProviderConfig.model_validate(wrong)


def test_a_key_is_shown_nowhere() -> None:
    config = ProviderConfig.model_validate(
        {"kind": "openai", "api_key": " sk-hidden ", "extra_headers": {"api-key": "sk-hidden"}}
    )
    assert config.api_key == "sk-hidden"
    assert "sk-hidden" not in repr(config)
    with pytest.raises(ValidationError) as raised:
        ProviderConfig.model_validate({"api_key": "sk-hidden\x00"})
    assert "sk-hidden" not in str(raised.value)
