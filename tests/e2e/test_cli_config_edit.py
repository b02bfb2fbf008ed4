"""`aidaemon config set|restore` as a real process: checked, shown, three times kept (A20)."""

from pathlib import Path

import pytest

from tests.fakes.command_line import aidaemon


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def config(home: Path, *words: str, code: int = 0) -> str:
    """What is printed; a fault never shows a traceback."""
    done = aidaemon("config", *words, home=home)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_A20_a_value_is_set_and_got_and_the_diff_is_printed(home: Path):
    printed = config(home, "set", "agent.max_iterations", "7")
    assert "+max_iterations = 7" in printed
    assert config(home, "get", "agent.max_iterations") == "7\n"
    assert (home / "config.toml").stat().st_mode & 0o777 == 0o600
    assert "it is so already" in config(home, "set", "agent.max_iterations", "7")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "agent.max_iterations",
            "99",
            "agent.max_iterations: found 99, max_iterations must be from 1",
        ),
        ("agent.max_iteration", "3", "did you mean agent.max_iterations?"),
        ("http.port", "many", 'http.port: found "many", expected a whole number'),
        ("agent effort", "low", "is no key"),
    ],
)
def test_A20_what_the_daemon_would_not_load_exits_2_and_writes_nothing(
    home: Path, key: str, value: str, told: str
):
    assert told in config(home, "set", key, value, code=2)
    assert not (home / "config.toml").exists()


def test_A20_restore_brings_back_what_was_before_and_can_be_taken_back(home: Path):
    for effort in ("low", "medium", "high"):
        config(home, "set", "agent.effort", effort)
    assert '-effort = "high"' in config(home, "restore")
    assert config(home, "get", "agent.effort") == "medium\n"
    config(home, "restore", "2")
    assert config(home, "get", "agent.effort") == "low\n"
    config(home, "restore", "1")
    assert config(home, "get", "agent.effort") == "high\n"
    config(home, "restore", "3", code=2)


def test_A20_restore_without_a_backup_says_so(home: Path):
    assert "there is no" in config(home, "restore", code=2)


def test_A20_a_file_that_is_broken_is_named_and_restored(home: Path):
    config(home, "set", "agent.effort", "low")
    config(home, "set", "agent.effort", "high")
    (home / "config.toml").write_text('[http]\ntoken = "sk-hunter2"\n[agent\n')
    assert "is not TOML" in config(home, "set", "agent.effort", "medium", code=2)
    assert "hunter2" not in config(home, "restore")
    assert config(home, "get", "agent.effort") == "low\n"


def test_A20_a_secret_is_never_printed(home: Path):
    done = aidaemon("config", "set", "http.token", "sk-hunter2-and-more-of-it", home=home)
    assert done.returncode == 0 and "hunter2" not in done.stdout + done.stderr
    assert "*** (new)" in done.stdout and "a secret stands in the file itself" in done.stderr


def test_A20_a_file_that_a_windows_editor_saved_loads_and_is_edited(home: Path):
    home.mkdir()
    mark, text = b"\xef\xbb\xbf", '# mine\r\n[agent]\r\neffort = "low"\r\n\r\n[provider]\r\n'
    (home / "config.toml").write_bytes(mark + text.encode() + b'api_key = "secret:key"\r\n')
    (home / "secrets.toml").write_bytes(mark + b'key = "hunter-2-and-more"\r\n')
    (home / "secrets.toml").chmod(0o600)
    config(home, "check")
    assert '+effort = "high"' in config(home, "set", "agent.effort", "high")
    config(home, "set", "agent.max_iterations", "7")
    assert config(home, "get", "agent.effort") == "high\n"
    assert b"# mine\r\n" in (home / "config.toml").read_bytes()
    config(home, "restore", "1")
    assert config(home, "get", "agent.effort") == "low\n"
