"""One key of the config is changed: checked, shown, written whole, the old text kept; guarded keys are known by path (A20)."""

import tomllib
from functools import partial
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as some

from daemon.app.config import parse_config
from daemon.core.errors import ConfigError, UsageError
from daemon.settings.dotted_keys import find_changes, parse_key, parse_literals
from daemon.settings.edit import ConfigEditor, set_value_in_text

TEXT = """# mine
[agent]
max_iterations = 4  # enough

[provider]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
api_key = "sk-hunter2"

[[provider.fallbacks]]
kind = "openai"
model = "one"
api_key = "${KEY}"

[provider.prices."my.model"]
input = 1.0
output = 2.0
"""


@pytest.fixture
def editor(tmp_path: Path) -> ConfigEditor:
    (tmp_path / "config.toml").write_text(TEXT)
    return ConfigEditor(
        tmp_path / "config.toml",
        partial(parse_config, env={"KEY": "sk-other"}, secrets={"openai": "sk-stored"}),
    )


def set_to(editor: ConfigEditor, key: str, value: object) -> str:
    editor.write(editor.plan(key, value))
    return editor.path.read_text()


def test_A20_a_value_is_changed_and_all_else_stays_as_it_was(editor: ConfigEditor) -> None:
    assert set_to(editor, "agent.max_iterations", 7) == TEXT.replace(
        "max_iterations = 4", "max_iterations = 7"
    )


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("agent.max_seconds", 60, ("agent", "max_seconds")),
        ("budget.daily_usd", "1.5", ("budget", "daily_usd")),
        ("agent.effort", "low", ("agent", "effort")),
        ('"agent".effort', "high", ("agent", "effort")),
        ('provider.prices."my.model".input', 3, ("provider", "prices", "my.model", "input")),
        (
            'provider.prices."another.one".output',
            3,
            ("provider", "prices", "another.one", "output"),
        ),
        ("tools.shell.timeout_s", 9, ("tools", "shell", "timeout_s")),
        ("agent", {"max_iterations": 3}, ("agent", "max_iterations")),
    ],
)
def test_A20_keys_of_every_kind_are_set(
    editor: ConfigEditor, key: str, value: object, where: tuple[str, ...]
) -> None:
    found: object = tomllib.loads(set_to(editor, key, value))
    for step in where:
        assert isinstance(found, dict)
        found = found[step]
    assert found in (value, 1.5, 3)


def test_A20_an_entry_of_a_list_is_changed_by_its_number(editor: ConfigEditor) -> None:
    assert (
        tomllib.loads(set_to(editor, "provider.fallbacks.0.model", "two"))["provider"]["fallbacks"][
            0
        ]["model"]
        == "two"
    )
    with pytest.raises(UsageError, match="no entry '1'"):
        editor.plan("provider.fallbacks.1.model", "three")


def test_A20_none_goes_back_to_the_default(editor: ConfigEditor) -> None:
    assert "max_iterations" not in set_to(editor, "agent.max_iterations", None)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "agent.max_iterations",
            99,
            "agent.max_iterations: found 99, max_iterations must be from 1",
        ),
        ("agent.max_iterations", "ten", "expected a whole number"),
        ("agent.max_iteration", 3, "did you mean agent.max_iterations?"),
        ("http.port", 99999, "expected 65535 or less"),
        ("provider.kind", "opneai", 'did you mean "openai"?'),
        ("provider.api_key", "secret:nope", "there is no secret named 'nope'"),
        ("provider.api_key", "${NOPE}", "NOPE is not set"),
        ("agent.max_seconds", float("inf"), "finite"),
        ("agent.max_seconds", [None], "max_seconds"),
        ("tools.gate", "off", "does not know"),
    ],
)
def test_A20_what_the_daemon_would_not_load_is_refused_and_nothing_is_written(
    editor: ConfigEditor, key: str, value: object, told: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        editor.plan(key, value)
    assert told in str(refused.value)
    assert (editor.path.read_text(), list(editor.path.parent.iterdir())) == (TEXT, [editor.path])


@pytest.mark.parametrize("key", ["", "a b", "a.", "a = 1\nb", "a = {}", ".a", "x = 1 #", "a]"])
def test_A20_what_is_no_key_is_refused(editor: ConfigEditor, key: str) -> None:
    with pytest.raises(UsageError):
        editor.plan(key, 1)


def test_A20_three_backups_are_kept_for_the_owner_alone_and_restored(editor: ConfigEditor) -> None:
    for number in (5, 6, 7, 8):
        set_to(editor, "agent.max_iterations", number)
    kept = [editor.path.with_name(f"config.toml.{name}") for name in ("bak", "bak.1", "bak.2")]
    assert [tomllib.loads(path.read_text())["agent"]["max_iterations"] for path in kept] == [
        7,
        6,
        5,
    ]
    assert {path.stat().st_mode & 0o777 for path in (*kept, editor.path)} == {0o600}
    editor.restore()
    assert (
        "max_iterations = 7" in editor.path.read_text()
        and "max_iterations = 8" in kept[0].read_text()
    )
    editor.restore()
    assert "max_iterations = 8" in editor.path.read_text()


def test_A20_a_backup_that_does_not_load_is_not_restored(editor: ConfigEditor) -> None:
    editor.path.with_name("config.toml.bak").write_text("[agent]\nmax_seconds = -1\n")
    with pytest.raises(ConfigError, match=r"agent\.max_seconds"):
        editor.restore()
    with pytest.raises(ConfigError, match="there is no"):
        editor.restore(2)
    assert editor.path.read_text() == TEXT


def test_A20_an_edit_made_on_a_text_that_has_changed_since_is_not_written(
    editor: ConfigEditor,
) -> None:
    plan = editor.plan("agent.max_iterations", 7)
    editor.path.write_text("[agent]\nmax_iterations = 2\n")
    with pytest.raises(ConfigError, match="somebody else"):
        editor.write(plan)
    assert editor.path.read_text() == "[agent]\nmax_iterations = 2\n"


def test_A20_the_first_edit_makes_the_file_and_its_backup_is_empty(tmp_path: Path) -> None:
    editor = ConfigEditor(
        tmp_path / "home" / "config.toml", partial(parse_config, env={}, secrets={})
    )
    assert tomllib.loads(set_to(editor, "agent.max_iterations", 3)) == {
        "agent": {"max_iterations": 3}
    }
    assert editor.path.with_name("config.toml.bak").read_text() == ""


def test_A20_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "real.toml").write_text("[agent]\nmax_iterations = 4\n")
    (tmp_path / "config.toml").symlink_to(tmp_path / "dotfiles" / "real.toml")
    set_to(
        ConfigEditor(tmp_path / "config.toml", partial(parse_config, env={}, secrets={})),
        "agent.max_iterations",
        5,
    )
    assert (tmp_path / "config.toml").is_symlink()
    assert "max_iterations = 5" in (tmp_path / "dotfiles" / "real.toml").read_text()


def test_A20_the_diff_shows_the_change_and_no_secret(editor: ConfigEditor) -> None:
    diff = editor.plan("agent.max_iterations", 7).diff
    assert "-max_iterations = 4  # enough" in diff and "+max_iterations = 7  # enough" in diff
    whole = (
        editor.plan("provider.kind", "anthropic").diff
        + editor.plan("provider.api_key", "sk-new").diff
    )
    assert '-api_key = "***"' in whole and '+api_key = "*** (new)"' in whole
    assert "hunter2" not in whole and "sk-new" not in whole and "sk-other" not in whole
    assert '+api_key = "secret:openai"' in editor.plan("provider.api_key", "secret:openai").diff
    assert editor.plan("agent.max_iterations", 4).diff == ""


def test_A20_a_secret_is_left_out_however_it_is_spelled(editor: ConfigEditor) -> None:
    editor.path.write_text(
        '[http]\ntoken = "sk-\\u0068unter2"\n[provider]\nextra_headers = { "X-Key" = \'sk-other\' }\n'
    )
    diff = editor.plan("http.port", 0).diff + editor.plan("provider.timeout_s", 9).diff
    assert '"***"' in diff and "unter2" not in diff and "sk-other" not in diff


def test_A20_a_secret_in_the_file_itself_is_noticed(editor: ConfigEditor) -> None:
    assert editor.plan("provider.api_key", "sk-new").exposed_keys == ("provider.api_key",)
    assert editor.plan("provider.fallbacks.0.api_key", "sk-new").exposed_keys == (
        "provider.fallbacks.0.api_key",
    )
    assert editor.plan("provider.api_key", "secret:openai").exposed_keys == ()
    assert editor.plan("agent.max_iterations", 3).exposed_keys == ()


@pytest.mark.parametrize(
    ("key", "value", "guarded"),
    [
        ("agent.effort", "low", ()),
        ("agent", {"max_iterations": 4, "effort": "low"}, ()),
        ("agent", {"max_iterations": 9, "effort": "low"}, ("agent.max_iterations",)),
        ("agent.loop.enabled", True, ("agent.loop.enabled",)),
        ('"tools"."approvals"', "always", ("tools.approvals",)),
        ("tools", {"approvals": "always"}, ("tools.approvals",)),
        ("tools.protected_paths", [], ("tools.protected_paths",)),
        ("http.port", 8081, ("http.port",)),
        ("provider.base_url", "http://127.0.0.1:8/v1", ("provider.base_url",)),
        ("provider.fallbacks.0.model", "x", ("provider.fallbacks.0.model",)),
        (
            "provider.fallbacks",
            [],
            (
                "provider.fallbacks.0.kind",
                "provider.fallbacks.0.model",
                "provider.fallbacks.0.api_key",
            ),
        ),
        ('provider.prices."my.model".input', 9.0, ('provider.prices."my.model".input',)),
        ("budget.daily_usd", 9.0, ("budget.daily_usd",)),
    ],
)
def test_A20_what_is_guarded_is_known_by_its_full_path_however_it_is_written(
    editor: ConfigEditor, key: str, value: object, guarded: tuple[str, ...]
) -> None:
    found = editor.plan(key, value).guarded_keys
    assert set(guarded) <= set(found) and bool(found) is bool(guarded)


@pytest.mark.parametrize(
    ("text", "first"),
    [("12", 12), ("1.5", 1.5), ("true", True), ('"x"', "x"), ('["a"]', ["a"]), ("low", "low"), ("secret:x", "secret:x"),
     ("1979-05-27", "1979-05-27"), ("a\nb", "a\nb"), ("", "")],
)  # fmt: skip
def test_a_value_is_toml_where_it_can_be_and_else_text(text: str, first: object) -> None:
    assert parse_literals(text)[0] == first


NAMES = some.sampled_from(["a", "b", "a b", "c.d", "\u00e9", '"'])
TABLES = some.dictionaries(
    NAMES, some.integers() | some.dictionaries(NAMES, some.integers(), max_size=3), max_size=3
)


@given(TABLES, some.lists(NAMES, min_size=1, max_size=3), some.integers())
def test_what_changed_is_what_was_set(
    table: dict[str, object], steps: list[str], value: int
) -> None:
    try:
        after = tomllib.loads(set_value_in_text(tomli_w.dumps(table), tuple(steps), value))
    except UsageError:
        return
    assert all(
        place[: len(steps)] == tuple(steps) or tuple(steps)[: len(place)] == place
        for place in find_changes(table, after)
    )


@given(some.lists(some.text(alphabet="ab-_1", min_size=1), min_size=1, max_size=4))
def test_a_key_has_the_parts_it_was_made_of(parts: list[str]) -> None:
    assert parse_key(".".join(parts)) == tuple(parts)
