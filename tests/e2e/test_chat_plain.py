"""`aidaemon chat` without a terminal: --once, --json, lines from a pipe; a real process and a scripted model."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes import born
from tests.fakes.chatting import write_config
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Step, calls, fails, hangs, says

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Pipe:
    """A home with a scripted model, and the command without a terminal."""

    home: Path
    model: FakeOpenAI

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = (sys.executable, "-m", "daemon", "chat", "--home", str(self.home), *words)
        end = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, stdin=end, stdout=end, stderr=end, env=env, cwd=ROOT
        )

    async def chat(self, *words: str, lines: str = "") -> Ran:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        said = ("chat", "--home", str(self.home), *words)
        ran = await asyncio.to_thread(born.run, said, env, text=lines, within=30)
        return Ran(ran.returncode, ran.stdout, ran.stderr)


@asynccontextmanager
async def pipe(home: Path, *steps: Step) -> AsyncIterator[Pipe]:
    async with FakeOpenAI() as model:
        model.script(*steps)
        write_config(home, scripted(model.base_url))
        yield Pipe(home, model)


async def test_once_prints_the_checked_reply_alone_and_progress_beside_it(tmp_path: Path) -> None:
    async with pipe(
        tmp_path, calls(("current_time", {}), text="Let me look."), says("It is **late**.")
    ) as at:
        ran = await at.chat("--once", "what time is it?")
        assert (ran.code, ran.out) == (0, "It is **late**.\n")
        assert "· current_time → " in ran.err and "\x1b" not in ran.err


async def test_once_as_json_is_one_object_with_everything_the_contract_names(
    tmp_path: Path,
) -> None:
    async with pipe(tmp_path, calls(("current_time", {})), says("Late.")) as at:
        ran = await at.chat("--once", "time?", "--json", "--session", "work")
        told = json.loads(ran.out)
        assert list(told) == [
            "reply",
            "turn",
            "session",
            "stop_reason",
            "iterations",
            "usage",
            "label",
        ]
        assert (
            told["reply"] == "Late."
            and told["session"] == "terminal:work"
            and told["stop_reason"] == "done"
        )
        assert (told["iterations"], told["usage"]["input_tokens"], told["label"]) == (
            1,
            20,
            "trusted",
        )
        assert told["turn"] and ran.code == 0


async def test_a_failed_turn_exits_1_with_its_message_on_stderr_and_json_all_the_same(
    tmp_path: Path,
) -> None:
    async with pipe(tmp_path) as at:
        at.model.otherwise(fails(401))
        ran = await at.chat("--once", "hello")
        assert (ran.code, ran.out) == (1, "") and "could not get an answer" in ran.err
        ran = await at.chat("--once", "hello", "--json")
        assert ran.code == 1 and json.loads(ran.out)["stop_reason"] == "failed"


async def test_every_line_of_a_pipe_is_a_message_and_replies_come_in_order(tmp_path: Path) -> None:
    async with pipe(tmp_path, says("First."), says("Second."), says("Third.")) as at:
        ran = await at.chat("--trust-input", lines="one\n\ntwo\n/status\nthree")
        assert ran.code == 0
        assert [line for line in ran.out.split("\n") if line.endswith(".")] == [
            "First.",
            "Second.",
            "Third.",
        ]
        assert "Model: fake" in ran.out and "\x1b" not in ran.out
        assert [asked.last("user")["content"] for asked in at.model.requests] == [
            "one",
            "two",
            "three",
        ]


async def test_json_shows_a_terminal_no_sign_that_it_would_act_upon(tmp_path: Path) -> None:
    turned = "safe\u202egpj.exe\u2066\u0085\u200b\U000e0041 end"
    async with pipe(tmp_path, says(turned)) as at:
        ran = await at.chat("--once", "hello", "--json")
        assert json.loads(ran.out)["reply"] == turned and ran.out.strip().isprintable()


async def test_lines_of_a_pipe_as_json_are_one_object_each(tmp_path: Path) -> None:
    async with pipe(tmp_path, says("First."), says("Second.")) as at:
        ran = await at.chat("--json", lines="one\ntwo\n")
        assert [json.loads(line)["reply"] for line in ran.out.splitlines()] == ["First.", "Second."]


async def test_without_a_terminal_an_approval_is_denied_and_yes_allows_it(tmp_path: Path) -> None:
    touch = calls(("shell", {"command": "touch made; echo"}))
    async with pipe(tmp_path, touch, says("No."), touch, says("No."), touch, says("Yes.")) as at:
        assert (await at.chat("--once", "make it")).out == "No.\n"
        assert (await at.chat("--once", "make it", "--deny-all")).out == "No.\n"
        assert not (tmp_path / "workspace" / "made").exists()
        assert (await at.chat("--once", "make it", "--yes")).out == "Yes.\n"
        assert (tmp_path / "workspace" / "made").exists()


async def test_the_agent_is_named_on_the_command_line_and_stays_the_session_s(
    tmp_path: Path,
) -> None:
    """B1: an unknown one is wrong usage, exit 2, and asks no model."""
    async with pipe(tmp_path, says("Coded."), says("Coded again.")) as at:
        (tmp_path / "agents").mkdir()
        (tmp_path / "agents" / "coder.toml").write_text(
            '[identity]\nname = "coder"\ninstructions = "CODER"\n'
        )
        wrong = await at.chat("--once", "go", "--agent", "codr")
        assert (wrong.code, wrong.out, at.model.requests) == (
            2,
            "",
            [],
        ) and "did you mean 'coder'?" in wrong.err
        assert (await at.chat("--once", "go", "--agent", "coder")).out == "Coded.\n"
        assert (await at.chat("--once", "go")).out == "Coded again.\n"
        assert all("CODER" in asked["messages"][0]["content"] for asked in at.model.requests)


async def test_a_run_that_ends_as_its_author_declared_exits_0(tmp_path: Path) -> None:
    """B2, B3: these are ceilings that were set, not failures."""
    async with pipe(tmp_path, says("<end>"), says("One."), says("Two.")) as at:
        (tmp_path / "agents").mkdir()
        end = '[[iteration.termination_conditions]]\nkind = "text-includes"\ntext = "<end>"\n'
        spec = f'[identity]\nname = "coder"\n[iteration]\nmax_cycles = 2\n{end}'
        (tmp_path / "agents" / "coder.toml").write_text(spec)
        ran = await at.chat("--once", "go", "--agent", "coder")
        assert (ran.code, ran.out) == (0, "<end>\n")
        ran = await at.chat("--once", "go")
        assert (ran.code, ran.out) == (0, "Two.\n")


async def test_control_characters_of_a_model_do_not_reach_standard_output_but_json_keeps_them(
    tmp_path: Path,
) -> None:
    evil = "\x1b[2Jgone\x07"
    async with pipe(tmp_path, says(evil), says(evil)) as at:
        assert (await at.chat("--once", "go")).out == "\\x1b[2Jgone\\x07\n"
        assert json.loads((await at.chat("--once", "go", "--json")).out)["reply"] == evil


async def test_all_scripts_come_through_a_pipe_both_ways(tmp_path: Path) -> None:
    async with pipe(tmp_path, says("Grüße, 世界 👋")) as at:
        ran = await at.chat(lines="héllo 世界\n")
        assert (
            ran.out == "Grüße, 世界 👋\n"
            and at.model.requests[0].last("user")["content"] == "héllo 世界"
        )


async def test_an_interrupt_stops_the_turn_and_the_command(tmp_path: Path) -> None:
    async with pipe(tmp_path, hangs(), says("Never asked.")) as at:
        process = await at.start()
        assert process.stdin
        process.stdin.write(b"one\ntwo\n")
        await at.model.hanging.wait()
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            out, _ = await process.communicate()
        assert process.returncode == 130 and b"Never" not in out and at.model.left == 1


async def test_B5_a_pipe_that_was_killed_gives_the_answer_at_the_next_start(tmp_path: Path) -> None:
    async with pipe(tmp_path, hangs(), says("The answer.")) as at:
        process = await at.start()
        assert process.stdin
        process.stdin.write(b"a hard question\n")
        await at.model.hanging.wait()
        process.kill()
        await process.wait()
        ran = await at.chat()
        assert (ran.code, ran.out) == (
            0,
            "The answer.\n",
        ) and "resuming the interrupted run" in ran.err
        assert (await at.chat()).out == ""


async def test_once_through_a_daemon_that_runs_is_the_same(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, running_daemon(tmp_path / "home", scripted(model.base_url)):
        model.script(
            says("Through the daemon."),
            calls(("shell", {"command": "touch made; echo"})),
            says("Done."),
        )
        at = Pipe(tmp_path / "home", model)
        assert (await at.chat("--once", "hello")).out == "Through the daemon.\n"
        assert (await at.chat("--once", "make it", "--yes")).out == "Done.\n"
        assert (tmp_path / "home" / "workspace" / "made").exists()


async def test_wrong_usage_exits_2_and_says_why(tmp_path: Path) -> None:
    async with pipe(tmp_path) as at:
        for words in (("--yes", "--deny-all"), ("--once", " "), ("--session", "")):
            ran = await at.chat(*words)
            assert ran.code == 2 and ran.err.startswith("aidaemon: ") and "Traceback" not in ran.err


async def test_bytes_that_are_no_text_are_answered_like_any_other_text(tmp_path: Path) -> None:
    async with pipe(tmp_path, says("What?")) as at:
        ran = await at.chat("--once", os.fsdecode(b"bad \xff byte"))
        assert (ran.code, ran.out) == (0, "What?\n")
        assert at.model.requests[0].last("user")["content"].endswith("bad \ufffd byte")


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "telegram:5", "a\nb", "e\x1b[31m", os.fsdecode(b"\xff"), "n" * 101]
)
async def test_a_conversation_s_name_is_held_to_the_same_rule_with_and_without_a_daemon(
    tmp_path: Path, name: str
) -> None:
    """README: wrong usage is 2, and says what was expected."""
    ran = await asyncio.to_thread(
        aidaemon, "chat", "--session", name, "--once", "hi", home=tmp_path
    )
    assert ran.returncode == 2
    assert "--session: found" in ran.stderr and "\x1b" not in ran.stderr


async def test_what_a_killed_daemon_left_behind_leads_nobody_astray(tmp_path: Path) -> None:
    """K26: a chat may hold HOME by then; the old address is not asked, and not shown the token."""
    async with pipe(tmp_path, says("one")) as at:
        (tmp_path / "daemon.json").write_text(
            '{"pid": 1, "url": "http://127.0.0.1:9", "token": "t"}'
        )
        holder = await at.start()
        assert holder.stdin and holder.stdout
        holder.stdin.write(b"hello\n")
        assert await holder.stdout.readline() == b"one\n"
        second, runs = (
            await at.chat("--once", "hi"),
            await asyncio.to_thread(aidaemon, "runs", "--json", home=tmp_path),
        )
        holder.stdin.close()
        assert await holder.wait() == 0
        assert (second.code, f"in use by process {holder.pid}" in second.err) == (1, True)
        assert [line["state"] for line in json.loads(runs.stdout)] == ["ended"], runs.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_a_chat_that_is_started_without_streams_still_answers(
    tmp_path: Path, closed: str
) -> None:
    async with pipe(tmp_path, says("one")) as at:
        command = f"{sys.executable} -m daemon chat --home {at.home} --once hi {closed}"
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            shell=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
        said = "" if ">&-" in closed.replace("2>&-", "") else "one\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


async def test_a_reader_who_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    async with pipe(tmp_path, says("one"), says("two", delay=1.0), says("three")) as at:
        command = (
            f"printf 'a\\nb\\nc\\n' | {sys.executable} -m daemon chat --home {at.home} | head -1"
        )
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            shell=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == ("one\n", "")
