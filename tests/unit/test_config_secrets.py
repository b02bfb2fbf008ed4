"""The secret store: for the owner's eyes alone."""

import stat
from pathlib import Path

import pytest

from daemon.core.errors import ConfigError
from daemon.settings.secrets import SecretStore


def test_what_is_put_is_read_back_beside_what_was_there_and_only_the_owner_may_look(tmp_path: Path):
    secrets = SecretStore(tmp_path / "home" / "secrets.toml")
    secrets.put("http_token", 'a"b\\c\n')
    secrets.put("other", "2")
    assert secrets.read_values() == {"http_token": 'a"b\\c\n', "other": "2"}
    assert stat.S_IMODE(secrets.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(secrets.path.parent.stat().st_mode) == 0o700


def test_no_file_is_no_secrets(tmp_path: Path):
    assert SecretStore(tmp_path / "secrets.toml").read_values() == {}


def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(tmp_path: Path):
    file = tmp_path / "secrets.toml"
    file.write_text('key = "hunter2"\n')
    file.chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        SecretStore(file).read_values()
    assert f"chmod 600 {file}" in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ['key = "hunter2', "key = 12", "[key]\nvalue = 12", '[key]\nvalue = "hunter2"\nhost = "x"'],
)
def test_a_file_of_another_form_is_refused_without_showing_what_is_in_it(tmp_path: Path, text: str):
    file = tmp_path / "secrets.toml"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        SecretStore(file).read_values()
    assert str(file) in str(caught.value) and "hunter2" not in str(caught.value)


def test_a_name_that_no_config_could_write_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="is no name for a secret"):
        SecretStore(tmp_path / "secrets.toml").put("two words", "x")
