"""`aidaemon runs` and `aidaemon show` as real processes: beside a running daemon, and after it has gone."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.chatting import streams
from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.screen import window

pytestmark = pytest.mark.asyncio(loop_scope="module")

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Past:
    """A home with two runs in it, and what the commands printed while the daemon was still there."""

    home: Path
    turn: str
    live: dict[tuple[str, ...], Done]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def past(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Past]:
    home = tmp_path_factory.mktemp("runs") / "home"
    async with FakeOpenAI() as model, running_daemon(home, scripted(model.base_url)) as daemon:
        model.script(
            calls(("current_time", {}), text="I look at the clock."),
            says("It is [bold]late\x1b[31m[/bold]."),
        )
        turn = str((await daemon.ask("what time is it?", "clock"))["turn"])
        await daemon.ask("hello", "other")
        commands: list[tuple[str, ...]] = [
            ("runs", "--json"),
            ("show", turn, "--json"),
            ("show", turn, "--jsonl"),
            ("show", turn),
            ("runs",),
        ]
        live = {words: await asyncio.to_thread(aidaemon, *words, home=home) for words in commands}
        assert await daemon.terminate() == 0
    yield Past(home, turn, live)


async def test_runs_lists_newest_first_the_same_with_and_without_a_daemon(past: Past):
    alone = aidaemon("runs", "--json", home=past.home)
    assert past.live["runs", "--json"].stdout == alone.stdout, alone.stderr
    newest, oldest = json.loads(alone.stdout)
    assert list(newest) == [
        "turn",
        "session",
        "state",
        "stop_reason",
        "started",
        "ended",
        "agent",
        "parent",
        "text",
        "usd",
    ]
    assert (newest["session"], oldest["session"], oldest["turn"]) == (
        "web:other",
        "web:clock",
        past.turn,
    )
    assert (oldest["state"], oldest["stop_reason"]) == ("ended", "done")


async def test_runs_of_one_session_and_no_more_than_asked_for(past: Past):
    of_one = json.loads(aidaemon("runs", "--json", "--session", "web:clock", home=past.home).stdout)
    at_most = json.loads(aidaemon("runs", "--json", "--limit", "1", home=past.home).stdout)
    assert ([line["turn"] for line in of_one], [line["session"] for line in at_most]) == (
        [past.turn],
        ["web:other"],
    )


async def test_a_name_or_an_id_counts_without_the_blanks_and_quotes_it_was_pasted_with(past: Past):
    for given in (f" {past.turn} ", f"'{past.turn}'", f"`{past.turn}`", '"last"'):
        assert aidaemon("show", given, home=past.home).returncode == 0


async def test_runs_of_a_bare_name_are_those_of_the_terminal(tmp_path: Path):
    async with FakeOpenAI() as model:
        model.script(says("Hello."))
        (tmp_path / "config.toml").write_text(scripted(model.base_url))
        told = ("chat", "--once", "hi", "--session", "side")
        await asyncio.to_thread(aidaemon, *told, home=tmp_path)
    assert "terminal:side" in aidaemon("runs", "--session", " side ", home=tmp_path).stdout


async def test_runs_of_a_session_that_has_none_are_said_so(past: Past):
    found = aidaemon("runs", "--session", "nowhere", home=past.home)
    assert "no runs in nowhere" in found.stdout and "aidaemon sessions" in found.stdout


async def test_runs_for_people_is_a_table(past: Past):
    lines = past.live["runs",].stdout.splitlines()
    assert lines[0].split()[:3] == ["turn", "session", "state"]
    assert any(
        past.turn in line and "web:clock" in line and "ended" in line and "done" in line
        for line in lines
    )


async def test_runs_tells_what_was_asked_and_what_it_cost(past: Past):
    newest, oldest = json.loads(past.live["runs", "--json"].stdout)
    assert (newest["text"], oldest["text"]) == ("hello", "what time is it?")
    assert newest["usd"] is None  # the price of a model that nobody knows is unknown, not 0
    head, first, *_ = past.live["runs",].stdout.splitlines()
    assert head.split()[-2:] == ["cost", "words"] and first.split()[-2:] == ["?", "hello"]


async def test_show_last_and_the_begin_of_an_id_find_the_run(past: Past):
    last = json.loads(aidaemon("show", "last", "--json", home=past.home).stdout)
    assert last["session"] == "web:other"
    found = json.loads(aidaemon("show", past.turn[:-3], "--json", home=past.home).stdout)
    assert found["turn"] == past.turn


async def test_an_ambiguous_begin_of_an_id_names_the_runs_that_are_meant(past: Past):
    newest, oldest = json.loads(past.live["runs", "--json"].stdout)
    # an id begins with the time, so that of two runs of one minute the begin is the same
    done = aidaemon("show", past.turn[:4], home=past.home)
    assert (done.returncode, done.stdout) == (1, "")
    for words in (newest["turn"], oldest["turn"], "what time is it?", "the begin of 2 runs"):
        assert words in done.stderr


async def test_show_follow_tells_what_a_run_does_until_it_ends(tmp_path: Path):
    home, gate = tmp_path / "home", asyncio.Event()
    async with FakeOpenAI() as model, running_daemon(home, scripted(model.base_url)) as daemon:
        model.script(calls(("current_time", {}), text="I look."), streams("It is ", gate, "late."))
        await daemon.post("/v1/messages", 202, text="what time is it?", session="clock")
        async with window("show", "last", "--follow", "--home", str(home)) as shown:
            await shown.sees("> what time is it?", "I look.", "current_time →")
            gate.set()
            await shown.sees("It is late.")
            assert await shown.ends() == 0
        assert await daemon.terminate() == 0
    done = aidaemon("show", "last", "--follow", home=home)
    assert (done.returncode, "no daemon is running" in done.stderr) == (1, True)


async def test_show_draws_the_run_with_its_tools_and_lets_no_text_command_the_terminal(past: Past):
    shown = past.live["show", past.turn].stdout
    for part in (
        "what time is it?",
        "iteration 1",
        "I look at the clock.",
        "current_time",
        "read: allow",
        "ok",
        "iteration 2",
    ):
        assert part in shown, shown
    assert "[bold]late" in shown and "\x1b" not in shown


async def test_b9_show_tells_where_a_run_was_compressed(tmp_path: Path):
    """Beside the daemon and after it; not of a run that was not."""
    home = tmp_path / "home"
    window = "[agent]\ncontext_window = 4000\n"
    async with FakeOpenAI() as model, running_daemon(home, scripted(model.base_url, window)) as daemon:
        model.otherwise(says("word " * 600))
        turns: list[str] = []
        found: list[dict[str, object]] = []
        while not found:
            turns.append(str((await daemon.ask("and the next one?", "long"))["turn"]))
            lines = await daemon.listed(f"/v1/runs/{turns[-1]}/transcript")
            found = [line for line in lines if line["kind"] == "HistoryCompressed"]
        live = await asyncio.to_thread(aidaemon, "show", turns[-1], home=home)
        assert await daemon.terminate() == 0
    alone = aidaemon("show", turns[-1], home=home)
    before, after = (f"{found[0][key]:,}" for key in ("tokens_before", "tokens_after"))
    for shown in (live.stdout, alone.stdout):
        [line] = [line for line in shown.splitlines() if "compressed" in line]
        assert "compressed (rolling-window)" in line and before in line and after in line, shown
    assert "compressed" not in aidaemon("show", turns[0], home=home).stdout


async def test_show_jsonl_is_the_transcript(past: Past):
    alone = aidaemon("show", past.turn, "--jsonl", home=past.home)
    assert past.live["show", past.turn, "--jsonl"].stdout == alone.stdout
    events = [json.loads(line) for line in alone.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["kind"], events[-1]["kind"]) == ("UserSaid", "TurnEnded")


async def test_show_json_is_the_run_with_its_events(past: Past):
    shown = json.loads(past.live["show", past.turn, "--json"].stdout)
    assert (shown["turn"], shown["stop_reason"], shown["calls"][0]["tool"]) == (
        past.turn,
        "done",
        "current_time",
    )
    assert shown["events"][0]["kind"] == "UserSaid"


async def test_show_of_a_run_that_is_not_there_exits_1(past: Past):
    done = aidaemon("show", "nosuchturn", home=past.home)
    assert (done.returncode, done.stdout, "there is no run 'nosuchturn'" in done.stderr) == (
        1,
        "",
        True,
    )


async def test_an_empty_home_has_no_runs_and_says_how_to_begin(tmp_path: Path):
    done = aidaemon("runs", home=tmp_path / "home")
    assert (done.returncode, "aidaemon chat" in done.stdout) == (0, True)
    assert aidaemon("runs", "--json", home=tmp_path / "home").stdout == "[]\n"


async def test_what_was_done_can_be_looked_at_while_the_config_is_broken(past: Past):
    config = past.home / "config.toml"
    whole = config.read_text()
    config.write_text(whole + '\n[agent]\nmax_seconds = "${NOT_SET_ANYWHERE}"\n')
    try:
        looked = aidaemon("show", past.turn, "--json", home=past.home)
    finally:
        config.write_text(whole)
    assert (looked.returncode, json.loads(looked.stdout)["turn"]) == (0, past.turn)
