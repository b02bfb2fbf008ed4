"""A config file becomes a Config, or a list of everything that is wrong with it (http.md, config.toml)."""

from pathlib import Path

import pytest

from daemon import VERSION
from daemon.app.config import Loaded, load_config, parse_config
from daemon.core.errors import ConfigError

FILE = Path("config.toml")


def parsed(
    text: str, env: dict[str, str] | None = None, secrets: dict[str, str] | None = None
) -> Loaded:
    return parse_config(text, FILE, env=env or {}, secrets=secrets or {})


def refusal(
    text: str, env: dict[str, str] | None = None, secrets: dict[str, str] | None = None
) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parsed(text, env, secrets)
    return str(caught.value).splitlines()


def test_an_absent_file_means_the_embedded_defaults(tmp_path: Path):
    loaded = load_config(tmp_path / "config.toml", env={}, secrets={})
    assert (loaded.text, loaded.config.agent.max_iterations) == ("", 10)


def test_variables_and_secrets_are_filled_in_and_the_text_is_kept_as_written():
    text = '[agent]\nmax_iterations = "${MANY}"\neffort = "secret:how_hard"\n'
    loaded = parsed(text, {"MANY": "7"}, {"how_hard": "low"})
    assert (loaded.config.agent.max_iterations, loaded.config.agent.effort) == (7, "low")
    assert loaded.text == text


def test_a_variable_inside_a_longer_text_is_filled_in_where_it_stands():
    loaded = parsed(
        '[provider]\nbase_url = "http://${HOST}:${PORT}/v1"\n', {"HOST": "box", "PORT": "80"}
    )
    assert loaded.config.provider.base_url == "http://box:80/v1"


def test_an_unset_variable_is_named_with_file_and_key():
    [line] = refusal('[budget]\ndaily_usd = "${NOT_THERE}"\n')
    assert line.startswith(
        "config.toml: budget.daily_usd: the environment variable NOT_THERE is not set"
    )


def test_an_unset_variable_inside_a_list_is_named_with_its_place():
    [line] = refusal('[tools]\ndisabled = ["shell", "${NOT_THERE}"]\n')
    assert line.startswith("config.toml: tools.disabled.1: the environment variable NOT_THERE")


def test_a_missing_secret_names_the_nearest_one_there_is():
    [line] = refusal(
        '[provider]\napi_key = "secret:opnai"\n', secrets={"openai": "sk-very-private"}
    )
    assert (
        "provider.api_key: there is no secret named 'opnai'; did you mean \"secret:openai\"?"
        in line
    )
    assert "very-private" not in line


def test_all_faults_of_a_file_are_told_together_one_a_line():
    lines = refusal(
        '[agent]\nmax_seconds = -1\nwhile_busy = "ster"\n[http]\nport = 99999\n[budget]\ndaily_usd = "${X}"\n'
    )
    assert [line.split(": ")[1] for line in lines] == [
        "budget.daily_usd",
        "agent.while_busy",
        "agent.max_seconds",
        "http.port",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[agent]\nmax_iterations = "many"',
            'agent.max_iterations: found "many", expected a whole number',
        ),
        (
            "[agent]\nmax_iterations = 2.5",
            "agent.max_iterations: found 2.5, expected a whole number",
        ),
        ("[agent]\nmax_iterations = 0", "agent.max_iterations: found 0, expected 1 or more"),
        (
            "[agent]\nmax_iterations = 26",
            "agent.max_iterations: found 26, max_iterations must be from 1 to max_iter",
        ),
        ("[http]\nport = 99999", "http.port: found 99999, expected 65535 or less"),
        (
            "[agent]\neffort = 3",
            "agent.effort: found 3, expected '', 'low', 'medium', 'high' or 'max'",
        ),
        ('[agent]\nwhile_busy = "ster"', 'did you mean "steer"?'),
        ("agent = 3", "agent: found 3, expected a table"),
        (
            "[provider]\ntimeout_s = inf",
            "provider.timeout_s: found Infinity, expected 86400.0 or less",
        ),
        ("[agent]\nmax_seconds = inf", "agent.max_seconds: found no finite number"),
        ("[agent]\nmax_usd = inf", "agent.max_usd: found no finite number"),
        ("[provider.prices.m]\ninput = inf", "provider.prices.m.input: found no finite number"),
        (
            '[provider]\nbase_url = "http://a..b/v1"',
            'found "http://a..b/v1", must be an address like',
        ),
        (
            '[provider]\nbase_url = "http://a b/v1"',
            'found "http://a b/v1", must be an address like',
        ),
        ('[provider]\nbase_url = "http://a/v 1\\n"', "must be an address like"),
        (
            '[provider.extra_headers]\n"X Team" = "x"',
            "'X Team' is not the name of a header that can be added",
        ),
        (
            '[provider.extra_headers]\nContent-Length = "3"',
            "'Content-Length' is not the name of a header that can be added",
        ),
    ],
)
def test_a_wrong_value_is_told_with_what_was_found_and_what_was_expected(text: str, told: str):
    [line] = refusal(text)
    assert told in line


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        (
            "[agent]\nmax_iteration = 3",
            "agent.max_iteration: is a key",
            "did you mean agent.max_iterations?",
        ),
        ("[agnet]\nmax_seconds = 3", "agnet: is a section", "did you mean agent?"),
        ("[quux]\nbot_token = 'x'", "quux: is a section", "known here: provider, agent, budget"),
        ("max_iterations = 3", "max_iterations: is a key", "did you mean agent.max_iterations?"),
        (
            "[provider.models]\nprimry = 'x'",
            "provider.models.primry: is a key",
            "did you mean provider.models.primary?",
        ),
        (
            "[provider.prices.m]\ninptu = 1",
            "provider.prices.m.inptu: is a key",
            "did you mean provider.prices.m.input?",
        ),
        (
            "[[provider.fallbacks]]\nmodle = 'x'",
            "provider.fallbacks.0.modle: is a key",
            "mean provider.fallbacks.0.model?",
        ),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest_known_one(
    text: str, told: str, hint: str
):
    line = next(line for line in refusal(text) if told in line)
    assert f"that this version ({VERSION}) does not know" in line and hint in line


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[agent\nmax_seconds = 2", "line 1, column 7"),
        ('[agent]\neffort = "', "line 2, column 11"),
        ("a = 1\na = 2\n", "line 2, column 6"),
    ],
)
def test_broken_toml_is_told_by_line_and_column(text: str, place: str):
    [line] = refusal(text)
    assert line.startswith(f"config.toml: {place}: is not TOML: ")


def test_the_value_of_a_secret_key_is_never_shown():
    [line] = refusal('[http]\ntoken = ["hunter2"]\n')
    assert "hunter2" not in line and '"***"' in line


def test_a_password_in_an_address_is_never_shown():
    [line] = refusal('[provider]\nbase_url = "https://me:hunter2@box/v1"\n')
    assert "hunter2" not in line and "must not hold a user or a password" in line


def test_a_file_that_is_not_text_is_a_config_error(tmp_path: Path):
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config(tmp_path / "config.toml", env={}, secrets={})


def test_a_folder_in_the_file_s_place_is_a_config_error(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, env={}, secrets={})
