"""A8: the config that worked is kept; one that does not is answered with it."""

import stat
from functools import partial
from pathlib import Path

import pytest

from daemon.app.config import Config, parse_config
from daemon.app.runtime_config import RuntimeConfig
from daemon.core.errors import ConfigError, ErrorClass
from daemon.settings.load import (
    LoadedConfig,
    choose_config,
    read_last_good,
    should_fall_back,
)
from daemon.settings.paths import Paths, write_private_file

GOOD = '[agent]\nmax_iterations = 7\neffort = "${EFFORT}"\n'
BROKEN = "[agent]\nmax_iterations = 99\n"


@pytest.fixture
def lastgood(tmp_path: Path) -> Path:
    return tmp_path / "config.toml.lastgood"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def chosen(file: Path, lastgood: Path, env: dict[str, str] | None = None) -> LoadedConfig[Config]:
    env = {"EFFORT": "low"} if env is None else env
    return choose_config(file, lastgood, partial(parse_config, env=env, secrets={}))


def test_a8_a_file_that_loads_is_used_without_a_word(file: Path, lastgood: Path):
    file.write_text(GOOD)
    choice = chosen(file, lastgood)
    assert (choice.config.agent.max_iterations, choice.notice) == (7, "")


def test_a8_a_file_that_was_only_loaded_never_becomes_the_last_good_one(file: Path, lastgood: Path):
    write_private_file(lastgood, "[agent]\nmax_iterations = 5\n")
    file.write_text(GOOD)
    chosen(file, lastgood)
    assert read_last_good(lastgood) == "[agent]\nmax_iterations = 5\n"


def test_a8_the_running_text_is_kept_unexpanded_and_only_for_the_owner(file: Path, lastgood: Path):
    file.write_text(GOOD)
    write_private_file(lastgood, chosen(file, lastgood).text)
    assert lastgood.read_text() == GOOD
    assert stat.S_IMODE(lastgood.stat().st_mode) == 0o600


async def test_a8_the_same_text_is_not_written_again(file: Path, lastgood: Path):
    file.write_text("[agent]\nmax_iterations = 5\n")
    stats: list[tuple[int, int]] = []
    for _ in range(2):
        paths = Paths(lastgood.parent, file)
        await RuntimeConfig(paths, chosen(file, paths.lastgood)).save_last_good()
        found = paths.lastgood.stat()
        stats.append((found.st_ino, found.st_mtime_ns))
    assert stats[0] == stats[1]


def test_a8_a_broken_file_is_answered_with_the_last_good_one_and_a_notice_that_names_the_fault(
    file: Path, lastgood: Path
):
    write_private_file(lastgood, GOOD)
    file.write_text(BROKEN)
    choice = chosen(file, lastgood)
    assert choice.config.agent.max_iterations == 7
    assert f"{file}: agent.max_iterations: found 99" in choice.notice
    assert "runs on the last good config" in choice.notice


def test_a8_what_runs_after_a_fall_back_is_the_last_good_text_so_marking_it_changes_nothing(
    file: Path, lastgood: Path
):
    write_private_file(lastgood, GOOD)
    file.write_text(BROKEN)
    write_private_file(lastgood, chosen(file, lastgood).text)
    assert read_last_good(lastgood) == GOOD


def test_a8_without_a_last_good_one_a_broken_file_is_an_error(file: Path, lastgood: Path):
    file.write_text(BROKEN)
    with pytest.raises(ConfigError, match="max_iterations"):
        chosen(file, lastgood)


def test_a8_a_last_good_one_that_does_not_load_either_is_an_error_that_names_both(
    file: Path, lastgood: Path
):
    write_private_file(lastgood, GOOD)
    file.write_text(BROKEN)
    with pytest.raises(ConfigError) as caught:
        chosen(file, lastgood, env={})
    assert "max_iterations" in str(caught.value) and "EFFORT is not set" in str(caught.value)


def test_a8_the_defaults_that_worked_are_a_last_good_config_too(file: Path, lastgood: Path):
    write_private_file(lastgood, chosen(file, lastgood).text)
    file.write_text(BROKEN)
    assert chosen(file, lastgood).config.agent.max_iterations == 10


@pytest.mark.parametrize("error", list(ErrorClass))
def test_a8_a_first_model_call_falls_back_for_auth_and_not_found_alone(error: ErrorClass):
    assert should_fall_back("new", "old", error) is (
        error in (ErrorClass.AUTH, ErrorClass.NOT_FOUND)
    )


def test_a8_nothing_to_fall_back_on_without_an_edit_or_without_a_last_good_one():
    assert not should_fall_back("same", "same", ErrorClass.AUTH)
    assert not should_fall_back("new", None, ErrorClass.AUTH)
