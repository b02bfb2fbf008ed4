"""The command line's own manners: help, version, exit codes, what a wrong word gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import VERSION
from daemon.cli.parsing import COMMANDS
from tests.fakes.command_line import ROOT, aidaemon

LOOK = "import sys; from daemon.__main__ import main; code = main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"


def modules_after(*words: str) -> set[str]:
    """What a command line has imported when it is done."""
    command = [sys.executable, "-c", LOOK, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    return set(done.stderr.split())


def test_a_bare_aidaemon_prints_help_that_lists_every_command():
    done = aidaemon()
    assert (done.returncode, done.stderr) == (0, "")
    listed = [
        line.split()[0]
        for line in done.stdout.split("commands:\n")[1].splitlines()
        if line.startswith("  ")
    ]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_its_own(command: str):
    done = aidaemon(command, "--help")
    assert (done.returncode, done.stdout.startswith(f"usage: aidaemon {command}")) == (0, True), (
        done.stderr
    )


def test_help_and_version_are_told_as_words_too():
    assert aidaemon("version").stdout == f"aidaemon {VERSION}\n"
    assert aidaemon("help").stdout == aidaemon("--help").stdout


@pytest.mark.parametrize("number", ["0", "-5", "abc", "99999"])
def test_a_number_of_hits_that_is_none_is_refused(tmp_path: Path, number: str):
    done = aidaemon("memory", "search", "Rome", f"--k={number}", home=tmp_path)
    assert done.returncode == 2 and "not a number from 1 to 1000" in done.stderr


def test_the_version_is_told_without_importing_the_program():
    assert aidaemon("--version").stdout == f"aidaemon {VERSION}\n"
    loaded = modules_after("--version")
    assert not {"argparse", "daemon.cli.parsing", "daemon.core", "pydantic", "asyncio"} & loaded


def test_one_command_imports_no_other_command():
    loaded = {name for name in modules_after("config", "path") if name.startswith("daemon.cli.")}
    assert loaded == {"daemon.cli.parsing", "daemon.cli.config"}


def test_a_client_of_a_running_daemon_imports_none_of_it():
    code = "import sys, daemon.cli.review.runs, daemon.cli.chat; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    heavy = {
        "pydantic",
        "aiohttp",
        "rich",
        "prompt_toolkit",
        "sqlite3",
        "daemon.app",
        "daemon.agent.loop",
    }
    assert not heavy & set(done.stdout.split())


def test_a_chat_of_its_own_brings_no_server_and_no_provider_that_nobody_asked_for():
    code = "import sys, daemon.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    unasked = ("http.api", "providers.anthropic", "providers.gemini", "providers.responses")
    assert not {f"daemon.{name}" for name in unasked} & set(done.stdout.split())


def test_the_embedded_model_is_not_fetched_where_nothing_can_run_it(tmp_path: Path):
    """README: a configured part whose extra is missing exits 2 with the pip command; before 1.1 GB, not after."""
    without = "import sys; sys.modules['xllamacpp'] = None; from daemon.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [
        sys.executable,
        "-c",
        without,
        "chat",
        "--home",
        str(tmp_path / "home"),
        "--once",
        "hi",
    ]
    env = {**os.environ, "AIDAEMON_MODELS": str(tmp_path / "models")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, env=env
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'aidaemon[local]'" in done.stderr and "fetched" not in done.stderr


@pytest.mark.parametrize("words", [("runs",), ("chat", "--once", "hi"), ("run",)])
def test_a_home_that_is_no_folder_is_told_in_plain_words(tmp_path: Path, words: tuple[str, ...]):
    (tmp_path / "home").touch()
    done = aidaemon(*words, home=tmp_path / "home", env={"AIDAEMON_MODELS": str(tmp_path)})
    assert done.returncode in (1, 2)
    assert str(tmp_path / "home") in done.stderr
    assert "in the program itself" not in done.stderr and "Traceback" not in done.stderr


def test_an_output_that_is_full_is_told_in_plain_words(tmp_path: Path):
    command = f"{sys.executable} -m daemon runs --home {tmp_path} > /dev/full"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert (done.returncode, "No space left on device" in done.stderr) == (1, True)
    assert "in the program itself" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["confg"], "did you mean 'config'?"),
        (["zzz"], "commands: chat, run"),
        (["init"], "not in this version"),
        (["config"], "required"),
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["chat", "--onec", "hi"], "there is no option '--onec'; did you mean '--once'?"),
        (["schedule", "add", "daily", "x", "--nam=y"], "no option '--nam'; did you mean '--name'?"),
        (["loop", "start", "default", "x", "--nothing"], "usage: aidaemon loop start"),
        (["chat", "--once", "hi", "there"], "a word too many; a text of several words"),
        (["runs", "--limit", "none"], "not a number from 1 to 10000"),
        (["--home"], "expected one argument"),
    ],
)
def test_a_wrong_command_line_exits_2_and_says_what_was_meant(words: list[str], told: str):
    done = aidaemon(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr and "Traceback" not in done.stderr


def test_work_that_fails_exits_1_with_the_message_on_stderr(tmp_path: Path):
    done = aidaemon("backup", "verify", str(tmp_path / "none.tar.gz"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "none.tar.gz" in done.stderr and "Traceback" not in done.stderr


def test_only_debug_shows_where_in_the_program_an_error_came_from():
    done = aidaemon("--debug", "config", "get", "no.such.key")
    assert (done.returncode, "Traceback" in done.stderr) == (2, True)


def test_a_reader_that_leaves_early_is_no_error_to_talk_about(tmp_path: Path):
    command = f"{sys.executable} -m daemon config get agent --home {tmp_path} | true"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
