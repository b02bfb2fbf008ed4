"""`aidaemon secret` as a real process: values come from standard input and are never shown again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.fakes import born
from tests.fakes.command_line import KEPT, ROOT

VALUE = "hunter2-9fQ2zz81"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def secret(
    home: Path, *words: str, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    given = (
        {name: os.environ[name] for name in KEPT if name in os.environ}
        | {"PYTHONPATH": str(ROOT)}
        | env
    )
    line = ("--home", str(home), "secret", *words)
    if born.may_bear(sys.executable, env):
        done = born.run(line, given, text=stdin)
    else:
        done = subprocess.run(
            [sys.executable, "-m", "daemon", *line],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=given,
        )
    assert VALUE not in done.stdout + done.stderr and "Traceback" not in done.stderr
    return done


def test_a_secret_is_kept_for_its_hosts_and_the_owner_is_told_what_it_may_be_used_for(home: Path):
    done = secret(
        home,
        "set",
        "github",
        "--host",
        "api.github.com",
        "--host",
        "Uploads.github.com",
        stdin=f"{VALUE}\n",
    )
    assert done.returncode == 0, done.stderr
    assert "Tools may send it to api.github.com, uploads.github.com" in done.stdout
    assert "{{secret:github}}" in done.stdout and '"secret:github"' in done.stdout
    assert (home / "secrets.toml").stat().st_mode & 0o777 == 0o600
    assert f'value = "{VALUE}"' in (home / "secrets.toml").read_text()


def test_names_and_hosts_are_listed_and_never_values(home: Path):
    secret(home, "set", "github", "--host", "api.github.com", stdin=VALUE)
    secret(home, "set", "openai", stdin=VALUE)
    listed = secret(home, "list").stdout.splitlines()
    assert sorted(line.split() for line in listed) == [
        ["github", "api.github.com"],
        ["openai", "-"],
    ]
    told = json.loads(secret(home, "list", "--json").stdout)
    assert {"name": "github", "hosts": ["api.github.com"], "keyring": False} in told and len(
        told
    ) == 2


def test_a_new_value_keeps_the_hosts_unless_others_are_given(home: Path):
    secret(home, "set", "github", "--host", "api.github.com", stdin="hunter1-before")
    secret(home, "set", "github", stdin=VALUE)
    assert json.loads(secret(home, "list", "--json").stdout)[0]["hosts"] == ["api.github.com"]
    secret(home, "set", "github", "--host", "ghe.example.com", stdin=VALUE)
    assert json.loads(secret(home, "list", "--json").stdout)[0]["hosts"] == ["ghe.example.com"]


def test_one_is_deleted_once(home: Path):
    secret(home, "set", "github", stdin=VALUE)
    near = secret(home, "delete", "githb")
    assert (near.returncode, "did you mean 'github'?" in near.stderr) == (1, True)
    assert secret(home, "delete", "github").stdout == "deleted github\n"
    assert secret(home, "delete", "github").returncode == 1
    assert VALUE not in (home / "secrets.toml").read_text()


@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (("set", "two words"), VALUE, "is no name for a secret"),
        (("set", "api", "--host", "https://x.y"), VALUE, "'https://x.y' is no host"),
        (("set", "api"), "\n", "a value is needed"),
        (("set", "api"), "x" * 70_000, "longer than"),
        (("set", VALUE), VALUE, "must not give the value away"),
        (("set",), VALUE, "NAME"),
        ((), VALUE, "set|list|delete"),
    ],
)
def test_what_is_wrong_exits_2_says_what_was_expected_and_keeps_nothing(
    home: Path, words: tuple[str, ...], stdin: str, told: str
):
    done = secret(home, *words, stdin=stdin)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    assert not (home / "secrets.toml").exists()


def test_a_value_that_is_too_short_to_be_taken_out_of_texts_is_kept_and_that_is_said(home: Path):
    done = secret(home, "set", "pin", stdin="1234")
    assert (
        done.returncode == 0
        and "too short" in done.stderr
        and "at least 6 characters" in done.stderr
    )


def test_the_value_is_never_taken_from_the_command_line(home: Path):
    done = secret(home, "set", "api", "hunter3", stdin="hunter4-abc")
    assert done.returncode == 2 and "a word too many" in done.stderr
    assert "hunter3" not in done.stderr


def test_at_a_terminal_the_value_is_asked_for_and_not_shown(home: Path):
    words = ["-m", "daemon", "--home", str(home), "secret", "set", "api"]
    child = pexpect.spawn(sys.executable, words, cwd=ROOT, encoding="utf-8", timeout=30)
    child.expect_exact("Value of api (not shown): ")
    child.sendline(VALUE)
    rest = child.read()
    child.close()
    assert child.exitstatus == 0 and "kept api" in rest and VALUE not in rest
    assert VALUE in (home / "secrets.toml").read_text()


def test_without_the_extra_the_keyring_is_refused_with_the_pip_command(home: Path, tmp_path: Path):
    (tmp_path / "keyring.py").write_text(
        "raise ModuleNotFoundError('no keyring', name='keyring')\n"
    )
    done = secret(
        home, "set", "api", "--keyring", stdin=VALUE, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}"
    )
    assert (done.returncode, "pip install 'aidaemon[keyring]'" in done.stderr) == (2, True), (
        done.stderr
    )
    assert not (home / "secrets.toml").exists()


def test_on_a_machine_without_a_keyring_the_file_is_offered(home: Path):
    done = secret(
        home,
        "set",
        "api",
        "--keyring",
        stdin=VALUE,
        PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring",
    )
    assert (done.returncode, "leave --keyring out" in done.stderr) == (2, True), done.stderr


def test_a_file_that_others_can_read_is_refused_and_not_made_worse(home: Path):
    home.mkdir()
    file = home / "secrets.toml"
    file.write_text(f'a = "{VALUE}"\n')
    file.chmod(0o644)
    done = secret(home, "set", "api", stdin="hunter4-abc")
    assert (done.returncode, f"chmod 600 {file}" in done.stderr) == (2, True)
    assert file.read_text() == f'a = "{VALUE}"\n'
