"""Commands that go on while the conversation does: looked at, stopped, and gone with the daemon (E5, E7)."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.core.event_bus import ToolOutputChunk as Printed
from daemon.core.events import CallJudged, Outcome, ToolFinished
from daemon.core.trust import Decision, Label
from daemon.settings.redaction import Redactor
from daemon.tools.base import ToolContext
from daemon.tools.config import ShellConfig
from daemon.tools.shell.background import BackgroundCommands, check_command, stop_command
from daemon.tools.shell.sandbox import Sandbox, SandboxKind
from daemon.tools.shell.tool import Shell, shell_tool
from daemon.tools.workspace.command_effects import CommandEffects, CommandOrigin
from tests.behaviour.test_shell import gone, processes_with
from tests.fakes.tools import Bench

ROOT = Path(__file__).parents[2]
DEADLINE = 20


class Eyes(CommandEffects):
    """Records which of the commands that it was asked about are clean; `says` is what their output is good for."""

    def __init__(self, says: Label = Label.TRUSTED) -> None:
        self.says = says
        self.seen: list[bool] = []

    async def start(self, context: ToolContext, label: Label, maker: str = "") -> CommandOrigin:
        trusted = label is Label.TRUSTED
        return CommandOrigin("", "", "", trusted=trusted, clean=trusted)

    async def judge_output(self, origin: CommandOrigin) -> Label:
        self.seen.append(origin.clean)
        return self.says if origin.clean else Label.UNTRUSTED


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path.resolve() / "workspace"
    place.mkdir()
    return place


def rig(
    workspace: Path,
    jobs: BackgroundCommands | None = None,
    kind: SandboxKind = "bubblewrap",
    eyes: Eyes | None = None,
    secrets: dict[str, str] | None = None,
    label: Label = Label.TRUSTED,
) -> Bench:
    jobs = jobs or BackgroundCommands()
    redactor, fence = Redactor(lambda: secrets or {}), Sandbox(workspace, kind)
    made = Shell(fence, ShellConfig(), redactor=redactor, effects=eyes or Eyes(), background=jobs)
    tools = [shell_tool(made), check_command, stop_command]
    bench = Bench(tools, {Shell: made, BackgroundCommands: jobs}, granted=("shell",), label=label)
    bench.dispatcher = replace(bench.dispatcher, redactor=redactor)
    return bench


async def begin(bench: Bench, command: str) -> str:
    result = await bench.one("shell", json.dumps({"command": command, "background": True}))
    assert result.outcome is Outcome.OK, result.text
    return result.text.partition(":")[0]


async def check(bench: Bench, job: str, wait_s: float = 20) -> ToolFinished:
    async with asyncio.timeout(DEADLINE):
        return await bench.one("check_command", json.dumps({"id": job, "wait_s": wait_s}))


async def heard(bench: Bench, job: str, word: str) -> str:
    """Look until it has printed this; all that it printed until then."""
    text = ""
    async with asyncio.timeout(DEADLINE):
        while word not in text:
            text += (await check(bench, job, 0.05)).text
    return text


async def test_a_background_command_returns_at_once_and_is_looked_at_later(workspace: Path) -> None:
    bench = rig(workspace)
    job = await begin(bench, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 3")
    first = await heard(bench, job, "one")
    assert "running for" in first
    (workspace / "go").touch()
    result = await check(bench, job)
    assert (result.exit_code, result.outcome) == (3, Outcome.OK)
    assert result.text.startswith(f"{job}: exit_code: 3, ended after")
    assert "two" in result.text
    assert "one" not in result.text
    assert "(nothing new)" in (await check(bench, job)).text


async def test_to_look_is_allowed_without_a_question_and_so_is_to_stop(workspace: Path) -> None:
    bench = rig(workspace)
    job = await begin(bench, "sleep 60")
    await check(bench, job, 0)
    await bench.one("stop_command", json.dumps({"id": job}))
    judged = [event for event in bench.recorded(CallJudged) if isinstance(event, CallJudged)]
    assert [one.decision for one in judged] == [Decision.ALLOW] * len(judged)


async def test_E7_stopping_kills_it_with_all_that_it_started(workspace: Path) -> None:
    mark = f"92{os.getpid()}.1"
    bench = rig(workspace)
    job = await begin(bench, f"(sleep {mark} & sleep {mark}; true) & echo begun; sleep {mark}")
    await heard(bench, job, "begun")
    assert processes_with(mark)
    result = await bench.one("stop_command", json.dumps({"id": job}))
    assert "stopped after" in result.text
    assert processes_with(mark) == []
    assert "stopped after" in (await check(bench, job)).text


async def test_its_time_is_limited(workspace: Path) -> None:
    bench = rig(workspace, BackgroundCommands(lifetime_s=0.3))
    result = await check(bench, await begin(bench, "echo begun; sleep 60"))
    assert (result.exit_code, "timed out" in result.text, "begun" in result.text) == (
        124,
        True,
        True,
    )


async def test_so_many_at_a_time_and_no_more(workspace: Path) -> None:
    jobs = BackgroundCommands(max_running=1)
    bench = rig(workspace, jobs)
    job = await begin(bench, "sleep 60")
    refused = await bench.one("shell", json.dumps({"command": "sleep 61", "background": True}))
    assert refused.outcome is Outcome.ERROR
    assert job in refused.text
    await bench.one("stop_command", json.dumps({"id": job}))
    await begin(bench, "true")
    await jobs.aclose()


async def test_its_output_is_kept_in_little_memory(workspace: Path) -> None:
    bench = rig(workspace)
    result = await check(
        bench, await begin(bench, "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end")
    )
    assert "bytes left out" in result.text
    assert result.text.endswith("end")
    assert len(result.text) <= 4000


async def test_another_conversation_cannot_see_or_stop_it(workspace: Path) -> None:
    jobs = BackgroundCommands()
    job = await begin(rig(workspace, jobs), "sleep 60")
    other = rig(workspace, jobs)
    other.turn.session = "terminal:other"
    for name in ("check_command", "stop_command"):
        result = await other.one(name, json.dumps({"id": job}))
        assert (result.outcome, "there are: none" in result.text) == (Outcome.ERROR, True)
    await jobs.aclose()


async def test_after_a_restart_an_old_one_is_told_to_have_ended(workspace: Path) -> None:
    jobs = BackgroundCommands()
    job = await begin(rig(workspace, jobs), "sleep 60")
    await jobs.aclose()
    result = await rig(workspace, BackgroundCommands()).one(
        "check_command", json.dumps({"id": job})
    )
    assert (result.outcome, "ended with the daemon" in result.text) == (Outcome.ERROR, True)


async def test_the_daemons_end_is_theirs(workspace: Path) -> None:
    mark = f"91{os.getpid()}.1"
    jobs = BackgroundCommands()
    bench = rig(workspace, jobs)
    job = await begin(bench, f"echo begun; sleep {mark}")
    await heard(bench, job, "begun")
    await jobs.aclose()
    assert processes_with(mark) == []


async def test_secrets_are_taken_out_of_what_it_prints_also_when_cut_in_two(
    workspace: Path,
) -> None:
    bench = rig(workspace, secrets={"correct-horse-battery": "bank"})
    job = await begin(
        bench,
        "echo begun; printf 'correct-horse'; until [ -e go ]; do sleep 0.02; done; echo '-battery staple'",
    )
    text = await heard(bench, job, "begun")
    (workspace / "go").touch()
    text += (await check(bench, job)).text
    assert "horse" not in text
    assert "[secret bank] staple" in text


@pytest.mark.parametrize(("background", "limit"), [(True, 16000), (False, 15600)])
async def test_no_half_secret_stands_where_a_long_output_is_cut(
    workspace: Path, background: bool, limit: int
) -> None:
    """Escapes do not count as text: what is left of both ends is short enough to be shown whole."""
    bench = rig(workspace, secrets={"correct-horse-battery": "bank"})
    secret, escapes = b"correct-horse-battery", b"\x1b[0m" * ((limit - 16) // 4)
    (workspace / "out").write_bytes(
        b"begin" + escapes + b"abc" + secret + escapes + secret + escapes + b"the end."
    )
    if background:
        result = await check(bench, await begin(bench, "cat out"))
    else:
        result = await bench.one("shell", json.dumps({"command": "cat out"}))
    assert "bytes left out" in result.text
    assert not [word for word in ("correct", "horse", "battery") if word in result.text]


async def test_F3_what_it_did_to_files_is_looked_at_and_its_output_is_no_better_than_they_are(
    workspace: Path,
) -> None:
    eyes = Eyes(Label.UNTRUSTED)
    bench = rig(workspace, eyes=eyes)
    result = await check(bench, await begin(bench, "true"))
    assert result.label is Label.UNTRUSTED
    assert eyes.seen[-1]


async def test_one_that_was_started_after_reading_outside_text_stays_so(workspace: Path) -> None:
    bench = rig(workspace, label=Label.UNTRUSTED)
    assert (await check(bench, await begin(bench, "echo x"))).label is Label.UNTRUSTED


async def test_F3_a_command_that_is_waited_for_is_looked_at_too(workspace: Path) -> None:
    eyes = Eyes(Label.UNTRUSTED)
    bench = rig(workspace, eyes=eyes)
    for given in ({"command": "true"}, {"command": "true", "network": True}):
        assert (await bench.one("shell", json.dumps(given))).label is Label.UNTRUSTED
    assert eyes.seen == [True, False]


async def test_secrets_are_taken_out_of_results_and_of_what_is_shown_meanwhile(
    workspace: Path,
) -> None:
    bench = rig(workspace, secrets={"correct-horse-battery": "bank"})
    shown = ""
    with bench.live.subscribe("t1") as seen:
        result = await bench.one(
            "shell",
            json.dumps({"command": "printf correct-; sleep 0.3; echo horse-battery; echo bye"}),
        )
        while "bye" not in shown:
            glimpse = await asyncio.wait_for(seen.get(), DEADLINE)
            shown += glimpse.text if isinstance(glimpse, Printed) else ""
    assert result.text == "exit_code: 0\n[secret bank]\nbye"
    assert shown == "[secret bank]\nbye\n"


@pytest.mark.parametrize("kind", ["landlock", "none"])
async def test_where_it_could_outlive_the_daemon_there_is_none(
    workspace: Path, kind: SandboxKind
) -> None:
    result = await rig(workspace, kind=kind).one(
        "shell", '{"command": "sleep 60", "background": true}'
    )
    assert (result.outcome, "needs bubblewrap" in result.text) == (Outcome.ERROR, True)


DAEMON = """
    import asyncio, sys
    from pathlib import Path
    from daemon.tools.config import ShellConfig
    from daemon.tools.shell.process import stream_process
    from daemon.tools.shell.sandbox import Sandbox

    def feed(data):
        print(data.decode(), end="", flush=True)

    async def main():
        sandbox = Sandbox(Path(sys.argv[1]), "bubblewrap")
        await stream_process(feed, sandbox.wrap(["sh", "-c", f"echo begun; sleep {sys.argv[2]}"]), cwd=sandbox.workspace,
                       env=sandbox.env, timeout_s=60)

    asyncio.run(main())
"""


async def test_a_crash_leaves_nothing_running(workspace: Path) -> None:
    mark = f"90{os.getpid()}.1"
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(DAEMON), str(workspace), mark, stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert daemon.stdout
    assert (await asyncio.wait_for(daemon.stdout.readline(), DEADLINE)).strip() == b"begun"
    children = [pid for pid in processes_with(mark) if pid != daemon.pid]
    assert children
    daemon.send_signal(signal.SIGKILL)
    await daemon.wait()
    await gone(children)
