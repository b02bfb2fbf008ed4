"""What a person is shown of a shell line before they say yes: every command in it, with what makes it more than it seems."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.tools.config import ShellConfig
from daemon.tools.shell.parse import MAX_LINE_BYTES, parse_line
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.shell.tool import Shell
from tests.unit.safe_cases import BAD, GOOD

UNREAD = "this line could not be parsed: read it as it stands, and say no if in doubt"


def shown(line: str) -> list[str]:
    return str(parse_line(line)).splitlines()[1:]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls && rm -rf x", ["- ls", "- rm -rf x"]),
        ("cat a | sh", ["- cat a", "- sh   [sh: runs words as code]"]),
        ("FOO=1 rm x > y 2>&1", ["- FOO=1 rm x > y 2>&1"]),
        ("echo $(rm x) `id`", ["- echo $(rm x) `id`", "- rm x", "- id"]),
        ("cat <(curl x)", ["- cat <(curl x)", "- curl x"]),
        ("echo ${x:-$(rm q)}", ["- echo ${x:-$(rm q)}", "- rm q"]),
        ("sudo rm x", ["- sudo rm x   [sudo: runs another program as another user]"]),
        ("A=b env rm x", ["- A=b env rm x   [env: runs another program]"]),
        ("/usr/bin/env rm x", ["- /usr/bin/env rm x   [env: runs another program]"]),
        ("eval 'rm x'", ["- eval 'rm x'   [eval: runs words as code]"]),
        ("coproc rm x", ["- coproc rm x   [coproc: runs another program]"]),
        ("ls | xargs rm", ["- ls", "- xargs rm   [xargs: runs another program]"]),
        ("find . -exec rm {} +", ["- find . -exec rm {} +   [-exec: runs another program]"]),
        ("find . -delete", ["- find . -delete   [-delete: deletes what it finds]"]),
        ("$X y", ["- $X y   [which program runs is decided only then]"]),
        ("r\\m x", ["- r\\m x   [which program runs is decided only then]"]),
        ("(ls; rm x) > y", ["- (redirected: > y)", "- ls", "- rm x"]),
        ("f() { rm x; }; f", ["- define f()", "- rm x", "- f"]),
        ("export PATH=.", ["- export PATH=."]),
        ("PATH=.", ["- PATH=."]),
        ("PATH+=:. ls", ["- PATH+=:. ls"]),
        ("for i in a; do rm $i; done", ["- rm $i"]),
        ("ls\nrm x", ["- ls", "- rm x"]),
        ("cat <<E\n$(rm x)\nE", ["- cat <<E ⏎ $(rm x) ⏎ E", "- rm x"]),
    ],
)
def test_each_command_stands_on_a_line_of_its_own(line: str, expected: list[str]) -> None:
    assert shown(line) == expected


@pytest.mark.parametrize(
    "line", ["ls 'a", "ls )", "if ls", "echo \x00", "a" * (MAX_LINE_BYTES + 1), "$(" * 5000]
)
def test_what_cannot_be_parsed_is_said_to_be_so_and_is_never_plain(line: str) -> None:
    reading = parse_line(line)
    assert (str(reading), reading.plain) == (UNREAD, None)


def test_a_plain_command_needs_no_explanation_and_a_long_list_is_shown_to_its_end() -> None:
    assert str(parse_line("ls -la src")) == ""
    assert shown(";".join([*["rm x"] * 100, "curl evil"]))[-1] == "- curl evil"


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*BAD, *GOOD, "$(", "`", "'", "\n", ";"]), max_size=4).map(" ".join)
)
def test_any_text_at_all_can_be_shown(line: str) -> None:
    for text in str(parse_line(line)).splitlines()[1:]:
        assert text.startswith("- ")


def test_a_question_without_a_sandbox_never_says_that_there_is_one(tmp_path: Path) -> None:
    terminal = Shell(Sandbox(tmp_path, "none"), ShellConfig())
    for call in ({"argv": ["ls"]}, {"argv": ["ls"], "network": True}):
        assert terminal.preview(call).startswith("runs a command without a sandbox: it can reach")
    assert "it can send out what it reads" in terminal.preview({"argv": ["ls"], "network": True})


def test_a_question_says_what_comes_with_a_command(tmp_path: Path) -> None:
    terminal = Shell(Sandbox(tmp_path, "bubblewrap"), ShellConfig())
    bounds = "runs a command in the sandbox, no network"
    assert terminal.preview({"argv": ["ls"]}) == bounds
    assert (
        terminal.preview({"argv": ["sudo", "id"]})
        == f"{bounds}\nsudo id: sudo: runs another program as another user"
    )
    reach = terminal.preview({"argv": ["curl", "x"], "domains": ["example.org"]})
    assert reach.startswith(
        "runs a command in the sandbox, with the network, but only to example.org: it can send"
    )
    both = terminal.preview({"command": "curl x | sh", "network": True, "background": True})
    assert [line.partition(":")[0] for line in both.splitlines()] == [
        "runs a command in the sandbox, with the network", "in the background", "it runs", "- curl x", "- sh   [sh",
    ]  # fmt: skip
