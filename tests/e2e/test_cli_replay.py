"""`aidaemon replay` as a real process: beside a daemon, after it has gone, and with a program whose rules have changed."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.command_line import ROOT, aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, hangs, says

pytestmark = pytest.mark.asyncio(loop_scope="module")

Done = subprocess.CompletedProcess[str]
AGAIN = ("current_time", {"timezone": "Nowhere/Nothing"})
CIRCLES = 4


@dataclass(frozen=True, slots=True)
class Past:
    """A home with four runs; the last one has not ended."""

    home: Path
    plain: str
    tools: str
    circles: str
    cut: str
    live: Done
    asked: tuple[int, int]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def past(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Past]:
    home = tmp_path_factory.mktemp("replay") / "home"
    async with FakeOpenAI() as model, running_daemon(home, scripted(model.base_url)) as daemon:
        model.script(
            says("hello"),
            calls(("current_time", {}), text="I look at the clock."),
            says("It is late."),
            *(calls(AGAIN) for _ in range(CIRCLES)),
            says("I could not find it out.\x1b[2J"),
            hangs(),
        )
        plain = str((await daemon.ask("hi", "one"))["turn"])
        tools = str((await daemon.ask("what time is it?", "two"))["turn"])
        before = model.count
        live = await asyncio.to_thread(aidaemon, "replay", tools, home=home)
        after = model.count
        circles = str((await daemon.ask("what time is it nowhere?", "three"))["turn"])
        asked = model.count
        begun = await daemon.post("/v1/messages", 202, text="wait", session="four")
        await model.asked(asked + 1)
        daemon.process.kill()
        await daemon.process.wait()
    yield Past(home, plain, tools, circles, str(begun["turn"]), live, (before, after))


async def test_f7_a_run_replays_the_same_with_and_without_a_daemon_and_asks_no_model(past: Past):
    alone = aidaemon("replay", past.tools, home=past.home)
    assert (alone.returncode, alone.stdout) == (0, past.live.stdout), alone.stderr
    assert alone.stdout.startswith(f"turn {past.tools}: ")
    assert alone.stdout.endswith("events replayed, identical\n")
    assert past.asked[0] == past.asked[1]


async def test_f7_every_kind_of_run_replays_the_same_and_the_journal_stays_as_it_is(past: Past):
    before = aidaemon("show", past.circles, "--jsonl", home=past.home).stdout
    for turn in (past.plain, past.tools, past.circles):
        done = aidaemon("replay", turn, "--json", home=past.home)
        found = json.loads(done.stdout)
        events = aidaemon("show", turn, "--jsonl", home=past.home).stdout.splitlines()
        assert found == {
            "turn": turn,
            "events": len(events),
            "identical": True,
            "ended": True,
            "difference": None,
        }
        assert done.returncode == 0
    assert aidaemon("show", past.circles, "--jsonl", home=past.home).stdout == before


async def test_f7_a_run_that_has_not_ended_replays_as_far_as_it_is_recorded(past: Past):
    done = aidaemon("replay", past.cut, home=past.home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("identical, and it has not ended yet\n")
    assert not json.loads(aidaemon("replay", past.cut, "--json", home=past.home).stdout)["ended"]


async def test_f7_a_changed_rule_of_the_loop_is_named_with_the_event(past: Past, tmp_path: Path):
    rule = change_program(tmp_path, "agent/termination/loop_detection.py", "WINDOW = 3", "WINDOW = 9")
    line, found = rule.replay(past.circles, past.home)
    events = aidaemon("show", past.circles, "--jsonl", home=past.home).stdout.splitlines()
    coached = next(one for one in map(json.loads, events) if one["kind"] == "Coached")
    assert found == {
        "seq": coached["seq"],
        "kind": "Coached",
        "field": "kind",
        "recorded": "Coached (stalled)",
        "now": "ModelAsked",
    }
    head = f"differs at event {coached['seq']} (Coached): kind: recorded Coached (stalled)"
    assert line == f"{head}, now ModelAsked\n"
    assert rule.replay(past.plain, past.home)[1] is None


async def test_f7_other_words_of_the_loop_are_shown_in_both_versions(past: Past, tmp_path: Path):
    rule = change_program(
        tmp_path, "agent/termination/loop_detection.py", "You have now called", "You called"
    )
    line, found = rule.replay(past.circles, past.home)
    assert (found or {})["field"] == "text"
    assert "recorded You have now called" in line and "now You called current_time" in line


async def test_f7_a_text_of_the_record_does_not_steer_the_terminal(past: Past, tmp_path: Path):
    rule = change_program(tmp_path, "agent/final_messages.py", "calls else turn.answer", "calls else turn.answer * 2")
    line, found = rule.replay(past.circles, past.home)
    assert (found or {})["field"] == "reply" and "\x1b" in str((found or {})["recorded"])
    assert "I could not find it out." in line and "\x1b" not in line and "\\x1b" in line


async def test_f7_an_unknown_run_is_answered_as_show_does(past: Past):
    for words in ("nowhere", ""):
        done, shown = (aidaemon(name, words, home=past.home) for name in ("replay", "show"))
        assert (done.returncode, done.stdout, done.stderr) == (1, "", shown.stderr)
    assert aidaemon("replay", home=past.home).returncode == 2


@dataclass(frozen=True, slots=True)
class Program:
    """Another version of the program."""

    root: Path

    def replay(self, turn: str, home: Path) -> tuple[str, dict[str, object] | None]:
        """What it prints, and the difference of --json."""
        command = (sys.executable, "-m", "daemon", "replay", turn, "--home", str(home))
        env = {"PYTHONPATH": str(self.root), "PATH": ""}
        kept = {"capture_output": True, "text": True, "timeout": 60, "check": False}
        shown, as_json = (
            subprocess.run([*command, *more], cwd=self.root, env=env, **kept)  # type: ignore[call-overload]
            for more in ((), ("--json",))
        )
        found = json.loads(as_json.stdout)
        assert shown.returncode == as_json.returncode == int(not found["identical"])
        return shown.stdout, found["difference"]


def change_program(folder: Path, file: str, old: str, new: str) -> Program:
    """A copy in which one thing is otherwise."""
    for name in ("daemon", "channels", "memory"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    changed = folder / "daemon" / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new))
    return Program(folder)
