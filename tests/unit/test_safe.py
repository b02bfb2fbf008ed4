"""Which commands need no approval: the grammars of harmless arguments, and how a line becomes words."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.tools.shell.safe_commands import PROGRAMS, SafeCommands, parse_words
from daemon.tools.shell.sandbox import SandboxKind
from daemon.tools.workspace.protected import ProtectedFiles
from tests.unit.safe_cases import BAD, BAD_AS_A_LINE, GOOD, NEVER_A_GRAMMAR

QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
SIGNS = set(";&|`$<>\n\\*?[]{}()!#\"'")
PIECES = st.sampled_from(
    ["a", "b c", "'", '"', "'x y'", '"x|y"', "-l", "--", "$HOME", "$(id)", "`id`", ";", "|", "&&", ">", "*", "~", "HEAD~1", "\\",
     " ", " ", "\t", "\n", "{a,b}", "é", "..", "/", "a=~", "#x", "!", "%s", "+5", "\x00", "﻿", "a/b.txt", "-5", "'\\''"]
)  # fmt: skip
LINES = st.lists(PIECES, max_size=8).map("".join)
rule = SafeCommands(tuple(PROGRAMS), "bubblewrap", (".env*", ".git/hooks"))


def is_safe(words: list[str], allowed: list[str]) -> bool:
    return SafeCommands(allowed, "bubblewrap")({"argv": words})


@pytest.mark.parametrize("line", GOOD)
def test_E5_what_people_look_at_things_with_needs_no_question(line: str) -> None:
    assert rule({"command": line})
    assert rule({"argv": shlex.split(line)})


@pytest.mark.parametrize("line", BAD)
def test_E5_whatever_could_write_run_wait_or_look_outside_is_asked_about(line: str) -> None:
    assert not rule({"command": line})
    assert not rule({"argv": line.split(" ")})
    try:
        assert not rule({"argv": shlex.split(line)})
    except ValueError:
        return


@pytest.mark.parametrize("line", BAD_AS_A_LINE)
def test_a_line_that_a_shell_would_have_to_think_about_is_asked_about(line: str) -> None:
    assert not rule({"command": line})


@pytest.mark.parametrize("program", NEVER_A_GRAMMAR)
def test_programs_that_run_code_have_no_grammar(program: str) -> None:
    assert program not in PROGRAMS


@given(LINES, st.sampled_from(sorted(PROGRAMS)))
def test_no_sign_that_a_shell_knows_stands_outside_quotes_in_a_harmless_line(
    rest: str, program: str
) -> None:
    line = f"{program} {rest}"
    if rule({"command": line}):
        assert not set(QUOTED.sub("", rest)) & SIGNS
        assert parse_words({"command": line}) == shlex.split(line)


@given(st.lists(LINES, min_size=20, max_size=20))
def test_the_words_of_a_plain_line_are_those_that_a_real_shell_makes(rests: list[str]) -> None:
    lines = [f"ls {rest}" for rest in rests]
    plain = [(line, words) for line in lines if (words := parse_words({"command": line}))]
    script = "\n".join(f"set -- {line}; printf '%s\\0' \"$@\" ''" for line, _ in plain)
    made = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, timeout=20, check=True, cwd="/usr/share"
    ).stdout
    assert made.decode() == "".join(
        "".join(f"{word}\0" for word in (*words, "")) for _, words in plain
    )


@given(st.lists(st.text(), min_size=1), st.sampled_from(sorted(PROGRAMS)))
def test_only_an_allowed_program_is_harmless_and_no_path_leads_out(
    words: list[str], program: str
) -> None:
    assert not is_safe([program, *words], [])
    talks = program in (
        "echo",
        "printf",
        "true",
        "false",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "tr",
        "jq",
        "date",
        "find",
        "seq",
    )
    if not talks and is_safe([program, *words], [program]):
        assert not any(word.startswith("/") or ".." in word.split("/") for word in words)


@pytest.mark.parametrize(
    "besides",
    [
        {"network": True},
        {"background": True},
        {"network": "yes"},
        {"network": 1},
        {"domains": ["a.de"]},
    ],
)
def test_a_command_with_the_network_or_in_the_background_is_always_asked_about(
    besides: dict[str, object],
) -> None:
    assert rule({"command": "ls"})
    assert not rule({"command": "ls", **besides})


def test_nothing_is_harmless_without_a_sandbox_and_git_needs_a_room_of_its_own() -> None:
    assert not SafeCommands(["ls"], "none")({"command": "ls"})
    assert SafeCommands(["ls"], "landlock")({"command": "ls"})
    assert not SafeCommands(["git"], "landlock")({"command": "git status"})


def test_protected_paths_are_asked_about() -> None:
    mine = SafeCommands(["cat", "grep"], "bubblewrap", ("keys", ".env*"))
    assert mine({"command": "cat notes.txt"})
    assert not mine({"command": "cat keys/a"})
    assert not mine({"command": "grep -r a sub/.env.local"})


def test_what_cannot_be_told_to_pass_over_protected_paths_is_asked_about() -> None:
    line = {"command": "grep -r a ."}
    hidden, plain = (
        SafeCommands(["grep", "rg"], "bubblewrap", (one,)) for one in (".git/hooks", "src/keys")
    )
    assert hidden.rewrite(line) == ["grep", "-r", "a", ".", "--exclude=.git", "--exclude-dir=.git"]
    assert plain.rewrite(line) is None
    assert plain.rewrite({"command": "grep a b.txt"}) == ["grep", "a", "b.txt"]
    assert plain.rewrite({"command": "rg a"}) == [
        "rg",
        "a",
        "--glob=!**/src/keys",
        "--glob=!**/src/keys/**",
    ]


def test_a_very_long_line_is_not_read_and_not_harmless() -> None:
    assert rule({"command": "echo " + "a " * 100})
    assert not rule({"command": "echo " + "a " * 20_000})
    assert not rule({"command": "echo " + "$(" * 9_000})


def test_every_program_with_a_grammar_says_something_harmless_of_itself() -> None:
    """A grammar that refuses its program's bare name would be a mistake in the table."""
    needs_words = {"python", "python3", "node", "gcc", "bash", "git"}
    assert all(is_safe([program], [program]) for program in PROGRAMS if program not in needs_words)


def test_without_bubblewrap_what_walks_through_folders_is_asked_about(tmp_path: Path) -> None:
    files = ProtectedFiles(tmp_path, (".env*",))
    (tmp_path / ".env").write_text("x")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to(".env")
    kinds: dict[SandboxKind, bool] = {"bubblewrap": True, "landlock": False}
    for kind, may in kinds.items():
        mine = SafeCommands(["cat", "grep", "rg"], kind, (".env*",), files)
        for words in (["grep", "-r", "x", "."], ["rg", "x"]):
            assert mine({"argv": words}) is may
        assert mine({"argv": ["cat", "a.txt"]}) and not mine({"argv": ["cat", "link"]})
