"""The shell tool: real processes, in a real bubblewrap and without one."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from daemon.core.event_bus import LiveItem
from daemon.core.event_bus import ToolOutputChunk as Printed
from daemon.core.events import ApprovalAsked, CallJudged, Outcome, ToolFinished
from daemon.core.trust import Effect, Label
from daemon.tools.config import ShellConfig
from daemon.tools.shell.sandbox import Sandbox, SandboxKind, probe
from daemon.tools.shell.tool import Shell, shell_tool
from tests.fakes.tools import Bench

BOTH: tuple[SandboxKind, ...] = ("bubblewrap", "none")
DEADLINE = 20


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "workspace"
    place.mkdir()
    return place


def terminal(
    workspace: Path,
    kind: SandboxKind = "bubblewrap",
    config: ShellConfig | None = None,
    label: Label = Label.TRUSTED,
    granted: tuple[str, ...] = ("shell",),
) -> Bench:
    made = Shell(Sandbox(workspace, kind), config or ShellConfig())
    return Bench([shell_tool(made)], {Shell: made}, granted=granted, label=label)


async def shell(rig: Bench, command: str) -> ToolFinished:
    async with asyncio.timeout(DEADLINE):
        return await rig.one("shell", json.dumps({"command": command}))


async def gone(pids: list[int], within: float = 1.0) -> None:
    """All of them have come to an end, in this time."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(within):
        for pid in pids:
            over = asyncio.Event()
            with suppress(ProcessLookupError), os.fdopen(os.pidfd_open(pid)) as handle:
                loop.add_reader(handle, over.set)
                await over.wait()
                loop.remove_reader(handle)


def names(place: Path) -> list[str]:
    return sorted(one.name for one in place.iterdir())


def processes_with(mark: str) -> list[int]:
    """Every process of this machine that has the mark in its command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in place.read_bytes():
                found.append(int(place.parent.name))
        except OSError:
            continue
    return found


async def printed(rig: Bench, seen: asyncio.Queue[LiveItem], word: str) -> None:
    """Wait until the running command has printed this."""
    text = ""
    async with asyncio.timeout(DEADLINE):
        while word not in text:
            glimpse = await seen.get()
            text += glimpse.text if isinstance(glimpse, Printed) else ""


async def test_bubblewrap_works_on_this_machine(workspace: Path) -> None:
    assert await probe(workspace) == "bubblewrap"
    assert await Sandbox.open(workspace) == Sandbox(workspace, "bubblewrap")


async def test_a_command_that_prints_nothing_says_so(workspace: Path) -> None:
    told = await shell(terminal(workspace, "bubblewrap"), "true")
    assert told.text == "exit_code: 0\n(it printed nothing)"


@pytest.mark.parametrize("kind", BOTH)
async def test_a_command_runs_in_the_workspace_and_tells_its_exit_code(
    workspace: Path, kind: SandboxKind
) -> None:
    rig = terminal(workspace, kind)
    result = await shell(rig, "echo out; echo err >&2; pwd; echo x > made.txt")
    assert (result.outcome, result.exit_code) == (Outcome.OK, 0)
    assert result.text == f"exit_code: 0\nout\nerr\n{workspace}"
    assert (workspace / "made.txt").read_text() == "x\n"


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("nosuchprogram", 127)]
)
async def test_a_failure_is_an_error_with_its_code(
    workspace: Path, kind: SandboxKind, command: str, code: int
) -> None:
    result = await shell(terminal(workspace, kind), command)
    assert (result.outcome, result.exit_code, result.error_class) == (
        Outcome.ERROR,
        code,
        f"exit_{code}",
    )
    assert result.text.startswith(f"exit_code: {code}")


@pytest.mark.parametrize("kind", BOTH)
async def test_argv_goes_through_no_shell(workspace: Path, kind: SandboxKind) -> None:
    rig = terminal(workspace, kind)
    result = await rig.one("shell", json.dumps({"argv": ["echo", "$HOME; *"]}))
    assert result.text == "exit_code: 0\n$HOME; *"


@pytest.mark.parametrize(
    "arguments", [{}, {"command": " "}, {"command": "ls", "argv": ["ls"]}, {"command": "a\0b"}]
)
async def test_no_command_two_commands_and_nul_are_refused_and_have_no_exit_code(
    workspace: Path, arguments: dict[str, object]
) -> None:
    result = await terminal(workspace).one("shell", json.dumps(arguments))
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, None)


async def test_a_command_waits_for_a_yes(workspace: Path) -> None:
    rig = terminal(workspace, granted=())
    await rig.run(("shell", '{"command": "touch made.txt"}'))
    assert rig.recorded(ApprovalAsked)
    assert names(workspace) == []
    rig.answer(rig.turn.pending[0].call_id)
    await rig.again()
    assert (workspace / "made.txt").exists()


# -- the sandbox is the boundary -----------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "echo x > /usr/evil",
        "echo x > /etc/passwd",
        "cat ../secret.txt",
        "cat /proc/{daemon}/environ",
        "kill -0 {daemon}",
        "cat /etc/shadow",
        "cat $HOME/../secret.txt",
        "ln -s ../secret.txt link && cat link",
        "ls /root/.ssh",
        "mount -t tmpfs none /usr",
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
    ],
)
async def test_nothing_outside_the_workspace_can_be_reached(workspace: Path, command: str) -> None:
    (workspace.parent / "secret.txt").write_text("the secret")
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await shell(
            terminal(workspace),
            command.replace("{daemon}", str(os.getpid())).replace("{port}", str(port)),
        )
    assert result.outcome is Outcome.ERROR, result.text
    assert "the secret" not in result.text


async def test_a_command_sees_nothing_of_the_daemons_environment(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hush")
    for kind in BOTH:
        result = await shell(terminal(workspace, kind), "env")
        assert "hush" not in result.text
        assert f"HOME={workspace}" in result.text


async def test_without_a_sandbox_the_person_is_told_before_saying_yes(workspace: Path) -> None:
    rig = terminal(workspace, "none", granted=())
    await rig.run(("shell", '{"command": "ls"}'))
    judged = rig.recorded(CallJudged)[0]
    assert isinstance(judged, CallJudged)
    assert "no sandbox" in judged.reason


async def test_without_a_sandbox_no_command_runs_for_text_from_outside(workspace: Path) -> None:
    result = await shell(terminal(workspace, "none", label=Label.UNTRUSTED), "touch made.txt")
    assert result.outcome is Outcome.ERROR
    assert "no sandbox" in result.text
    assert names(workspace) == []


async def test_a_config_that_asks_for_bubblewrap_gets_nothing_less(workspace: Path) -> None:
    result = await shell(
        terminal(workspace, "none", ShellConfig(sandbox="bubblewrap")), "touch made.txt"
    )
    assert result.outcome is Outcome.ERROR
    assert "tools.shell.sandbox" in result.text


# -- output --------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
async def test_100_mb_of_output_keeps_both_ends_in_little_memory(
    workspace: Path, kind: SandboxKind
) -> None:
    rig = terminal(workspace, kind)
    result = await shell(
        rig, "echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end"
    )
    assert result.outcome is Outcome.OK
    assert len(result.text) <= 4000
    assert result.text.startswith("exit_code: 0\nbegin\nxxx")
    assert result.text.endswith("xxx\nend")
    assert "bytes left out" in result.text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("head -c 200000 /dev/urandom", "(binary output, 200,000 bytes, kind: "),
        ("head -c 3000 /dev/urandom", "(binary output, 3,000 bytes, kind: "),
        ("echo hello | gzip -c", "kind: gzip; it is not shown)"),
        ("printf '\\211PNG\\r\\n\\032\\n\\000\\000\\000\\rIHDR'", "kind: a picture; it is not shown)"),
        ("head -c 4000 /bin/true", "(binary output, 4,000 bytes, kind: a program; it is not shown)"),
    ],
)
async def test_e6_binary_output_is_told_by_size_and_kind(
    workspace: Path, command: str, said: str
) -> None:
    result = await shell(terminal(workspace), command)
    assert result.outcome is Outcome.OK
    assert said in result.text and len(result.text) < 120


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("printf 'this is text with one odd byte: \\377 and more of it'", "this is text with one odd"),
        ("printf 'a\\000b\\000c'", "abc"),
        ("printf 'na\\357ve caf\\351s are open on Sundays, too'", "naïve cafés are"),
        ("printf '\\033[31mred\\033[0m'", "red"),
        ("printf 'sch\\366ne Gr\\374\\337e aus K\\366ln\\n%.0s' $(seq 300)", "schöne Grüße aus Köln"),
        ("printf '\\317\\360\\350\\342\\345\\362, \\354\\350\\360 (in cp1251)'", "Привет, мир (in cp1251)"),
        ("printf 'plain words' | iconv -t UTF-16", "plain words"),
    ],
)
async def test_e6_text_with_a_few_odd_bytes_stays_text(
    workspace: Path, command: str, said: str
) -> None:
    result = await shell(terminal(workspace), command)
    assert said in result.text and "binary" not in result.text
    assert not any(ord(sign) < 32 and sign not in "\n\t" for sign in result.text)


async def test_e6_binary_output_after_much_text_is_counted_and_not_shown(workspace: Path) -> None:
    command = "seq 2000; head -c 200000 /dev/urandom"
    result = await shell(terminal(workspace), command)
    assert "\n20\n21\n" in result.text and result.text.isascii()
    assert result.text.endswith(" bytes left out: binary output ...]")


async def test_the_output_is_shown_while_the_command_runs(workspace: Path) -> None:
    rig = terminal(workspace)
    with rig.live.subscribe("t1") as seen:
        rig.asks(
            (
                "shell",
                json.dumps(
                    {"command": "echo half way; until [ -e go ]; do sleep 0.02; done; echo done"}
                ),
            )
        )
        running = asyncio.create_task(rig.again())
        await printed(rig, seen, "half way")
        (workspace / "go").touch()
        await printed(rig, seen, "done")
        await running
    assert rig.results[0] and rig.results[0].text == "exit_code: 0\nhalf way\ndone"


# -- stopping ------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
async def test_a_command_that_hangs_is_killed_when_its_time_is_up(
    workspace: Path, kind: SandboxKind
) -> None:
    rig = terminal(workspace, kind, ShellConfig(timeout_s=0.3))
    result = await shell(rig, "echo begun; sleep 987.301")
    assert (result.outcome, result.exit_code) == (Outcome.ERROR, 124)
    assert "timed out after 0.3 s" in result.text
    assert "begun" in result.text
    assert processes_with("987.301") == []


@pytest.mark.parametrize("kind", BOTH)
async def test_a_stop_kills_the_whole_process_group_within_a_second(
    workspace: Path, kind: SandboxKind
) -> None:
    """E7: grandchildren too."""
    mark = f"98{os.getpid()}.{kind == 'none':d}"
    rig = terminal(workspace, kind)
    with rig.live.subscribe("t1") as seen:
        rig.asks(
            (
                "shell",
                json.dumps(
                    {"command": f"(sleep {mark} & sleep {mark}; true) & echo begun; sleep {mark}"}
                ),
            )
        )
        running = asyncio.create_task(rig.again())
        await printed(rig, seen, "begun")
    assert processes_with(mark)
    began = monotonic()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert processes_with(mark) == []
    assert monotonic() - began < 1
    rig.dispatcher.settle_cut(rig.turn, "stopped")
    assert rig.results[0] and rig.results[0].outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("kind", BOTH)
async def test_what_a_command_leaves_running_does_not_hold_it_up_and_does_not_outlive_it(
    workspace: Path, kind: SandboxKind
) -> None:
    mark = f"97{os.getpid()}.{kind == 'none':d}"
    result = await shell(terminal(workspace, kind), f"sleep {mark} & echo done")
    assert result.text == "exit_code: 0\ndone"
    assert result.seconds < 5
    assert processes_with(mark) == []


DAEMON = """
    import asyncio, sys
    from pathlib import Path
    from daemon.tools.shell.process import run_process
    from daemon.tools.shell.sandbox import Sandbox

    async def main():
        sandbox = Sandbox(Path(sys.argv[1]), "bubblewrap")
        await run_process(sandbox.wrap(["sh", "-c", sys.argv[2]]), cwd=sandbox.workspace, env=sandbox.env,
                          timeout_s=60, max_chars=1000, on_output=lambda text: print(text, flush=True))

    asyncio.run(main())
"""


async def test_a_command_dies_with_the_daemon(workspace: Path) -> None:
    """Crash matrix 10."""
    mark = f"96{os.getpid()}.5"
    code, command = textwrap.dedent(DAEMON), f"sleep {mark} & echo begun; sleep {mark}"
    root = str(Path(__file__).parents[2])
    daemon = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        str(workspace),
        command,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": root},
    )
    assert daemon.stdout
    assert (await asyncio.wait_for(daemon.stdout.readline(), DEADLINE)).strip() == b"begun"
    children = [pid for pid in processes_with(mark) if pid != daemon.pid]
    assert children
    daemon.send_signal(signal.SIGKILL)
    await daemon.wait()
    await gone(children)
    assert processes_with(mark) == []


# -- harmless commands ---------------------------------------------------------

HARMLESS = [
    "ls", "ls -la", "cat notes.txt", "head -3 a/b.txt", "wc -l notes.txt", "date -u", "pwd", "cat 'notes.txt'", 'ls "a"',
]  # fmt: skip
NOT_HARMLESS = [
    "ls /", "cat /etc/passwd", "cat ../x", "cat a/../../x", "ls; rm x", "ls && rm x", "ls | sh", "ls $(rm x)", "ls `rm x`",
    "ls > x", "cat < x", "ls &", "ls\nrm x", "ls *", "ls ~", "cat {a,b}", "LS=1 ls", "./ls", "/bin/ls", "ls --color=auto",
    "date -s 12:00", "head -c 5 x -f", "rm x", "find . -delete", "env ls", "ls \\a", "cat -", "pwd x",
]  # fmt: skip


@pytest.mark.parametrize("command", HARMLESS)
async def test_a_harmless_command_that_the_user_allowed_needs_no_yes(
    workspace: Path, command: str
) -> None:
    (workspace / "a").mkdir()
    (workspace / "notes.txt").write_text("one\n")
    (workspace / "a/b.txt").write_text("two\n")
    config = ShellConfig(allowed=["ls", "cat", "head", "wc", "date", "pwd"])
    result = await shell(terminal(workspace, config=config, granted=()), command)
    assert result.outcome is Outcome.OK


@pytest.mark.parametrize("command", NOT_HARMLESS)
async def test_what_is_not_plainly_harmless_is_asked_about(workspace: Path, command: str) -> None:
    config = ShellConfig(allowed=["ls", "cat", "head", "wc", "date", "pwd"])
    rig = terminal(workspace, config=config, granted=())
    for arguments in ({"command": command}, {"argv": command.split(" ")}):
        await rig.run(("shell", json.dumps(arguments)))
    judged = [event for event in rig.recorded(CallJudged) if isinstance(event, CallJudged)]
    assert [(one.effect, one.decision.value) for one in judged] == [(Effect.DESTRUCTIVE, "ask")] * 2


async def test_a_harmless_command_is_asked_about_where_it_was_not_allowed_or_there_is_no_sandbox(
    workspace: Path,
) -> None:
    for kind, allowed in (("bubblewrap", []), ("none", ["ls"])):
        rig = terminal(workspace, kind, ShellConfig(allowed=allowed), granted=())
        await rig.run(("shell", '{"command": "ls"}'))
        assert rig.turn.pending


def test_a_program_without_a_grammar_cannot_be_allowed() -> None:
    with pytest.raises(ValueError, match="no grammar of harmless arguments; known: ls, cat"):
        ShellConfig(allowed=["awk"])


LOOKS = (
    "grep -r hunter2 .",
    "egrep -rn hunter2",
    "diff -r . none",
    "git log -p",
    "git show",
    "git diff HEAD~1",
)


@pytest.mark.parametrize("look", LOOKS)
async def test_what_is_protected_is_not_found_on_the_way_by_a_command_that_nobody_was_asked_about(
    workspace: Path, look: str
) -> None:
    (workspace / "none").mkdir()
    await git(workspace, "init", "-q")
    for secret in ("before", "hunter2"):
        (workspace / ".env").write_text(f"KEY={secret}\n")
        (workspace / "none" / ".env").write_text("KEY=other\n")
        (workspace / "notes.txt").write_text(f"about {len(secret)}\n")
        await git(workspace, "add", "-f", ".")
        await git(workspace, "commit", "-qm", "more")
    made = Shell(
        Sandbox(workspace, "bubblewrap"),
        ShellConfig(allowed=["grep", "egrep", "diff", "git"]),
        (".env*", ".git/hooks"),
    )
    result = await shell(Bench([shell_tool(made)], {Shell: made}), look)
    assert "hunter2" not in result.text.replace(look, "")
    assert result.outcome is Outcome.OK or "exit_code: 1" in result.text
    assert "grep" in look or "notes.txt" in result.text


async def git(workspace: Path, *words: str) -> None:
    mine = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    process = await asyncio.create_subprocess_exec("git", "-C", str(workspace), *mine, *words)
    assert await process.wait() == 0
