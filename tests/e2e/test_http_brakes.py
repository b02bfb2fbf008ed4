"""Brakes with defaults that hold: floods of events and messages, half-open connections, streams without end (issue 11, class K)."""

import asyncio
import json
import re
import sqlite3
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter

import pytest
from aiohttp import ClientSession, TCPConnector

from daemon.app.config import load_home_config
from daemon.app.serve import write_first_config
from daemon.settings.paths import resolve_paths
from tests.fakes.daemon_process import TOKEN, Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, gate, says

pytestmark = pytest.mark.asyncio(loop_scope="module")
BELL, ANNA = "bell-token-2", "anna-token-3"
EVENTS = f'[events]\nenabled = true\nnotify = "terminal:main"\n[events.tokens]\nbell = "{BELL}"\n'
USERS = f'[[http.users]]\nname = "anna"\nrole = "editor"\ntoken = "{ANNA}"\n'
FLOOD, PAYLOAD = 1500, {"log": "x" * 20_000, "rows": [[number] for number in range(300)]}
MOST_RSS, MOST_JOURNAL, WITHIN_S = 150 << 20, 50 << 20, 5.0
HALF_OPEN = 1000


async def post(daemon: Daemon, path: str, token: str, body: object) -> tuple[int, str, str]:
    """Status, Retry-After, the text."""
    headers = {"Authorization": f"Bearer {token}"}
    async with daemon.http.post(path, json=body, headers=headers) as response:
        return response.status, response.headers.get("Retry-After", ""), await response.text()


def memory_of(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


@pytest.mark.timeout(90)
async def test_a_flood_of_events_leaves_the_owner_a_quick_answer(
    tmp_path: Path, model: FakeOpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_daemon(tmp_path / "home", scripted(model.base_url, EVENTS)) as daemon:
        await daemon.ask("hello")
        flood = [
            asyncio.create_task(post(daemon, "/v1/events/bell", BELL, PAYLOAD))
            for _ in range(FLOOD)
        ]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        waits = list[float]()
        owner = {"Authorization": f"Bearer {TOKEN}"}
        async with ClientSession(daemon.url, headers=owner) as http:  # not in the flood's own queue
            for number in range(5):
                began, asked = perf_counter(), {"text": f"are you there? {number}"}
                async with http.post("/v1/messages?wait=1", json=asked) as response:
                    assert (await response.json())["stop_reason"] == "done"
                waits.append(perf_counter() - began)
        answers = await asyncio.gather(*flood)
        taken = [json.loads(text) for status, _, text in answers if status == 202]
        refused = [(wait, text) for status, wait, text in answers if status == 429]
        assert len(taken) + len(refused) == FLOOD and 0 < len(taken) <= 120
        assert all(0 < int(wait) <= 60 and "not accepted" in text for wait, text in refused)
        for one in taken:
            await daemon.until(str(one["turn"]), "run.completed")
        memory = memory_of(daemon.process.pid)
        journal = sum(file.stat().st_size for file in (tmp_path / "home").glob("journal.db*"))
        with capsys.disabled():
            print(  # noqa: T201
                f"\nflood: {len(taken)} taken, {len(refused)} refused; owner {max(waits):.2f} s;"
                f" RSS {memory >> 20} MB; journal {journal >> 20} MB"
            )
        assert max(waits) < WITHIN_S and memory < MOST_RSS and journal < MOST_JOURNAL


async def test_an_event_that_was_taken_waits_for_its_place_and_is_answered(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = scripted(model.base_url, EVENTS) + "[agent]\nmax_untrusted_turns_at_work = 1\n"
    async with running_daemon(tmp_path / "home", config) as daemon:
        answers = [await post(daemon, "/v1/events/bell", BELL, {"n": n}) for n in range(6)]
        turns = [json.loads(text)["turn"] for _, _, text in answers]
        for turn in turns:
            await daemon.until(turn, "run.completed")
        assert {(await daemon.run(turn))["stop_reason"] for turn in turns} == {"done"}


async def test_a_users_messages_have_a_brake_and_the_refusal_says_when_to_come_back(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = scripted(model.base_url, USERS) + "[limits]\nmessages_per_minute = 3\n"
    async with running_daemon(tmp_path / "home", config) as daemon:
        sent = [
            await post(daemon, "/v1/messages", ANNA, {"session": "anna", "text": f"m{n}"})
            for n in range(5)
        ]
        assert [status for status, _, _ in sent] == [202, 202, 202, 429, 429]
        assert all(0 < int(wait) <= 60 for _, wait, _ in sent[3:])
        assert "not accepted" in sent[3][2] and "send it again in" in sent[3][2]
        status, _, _ = await post(
            daemon, "/v1/messages", ANNA, {"session": "anna", "text": "/status"}
        )
        assert status == 200
        assert (await daemon.ask("the owner goes on"))["stop_reason"] == "done"
    with sqlite3.connect(tmp_path / "home" / "journal.db") as journal:
        assert journal.execute("SELECT count(*) FROM inbox WHERE body LIKE 'm_'").fetchone() == (3,)


async def test_a_day_has_so_many_bytes_for_each_sender(tmp_path: Path, model: FakeOpenAI) -> None:
    config = scripted(model.base_url, EVENTS) + "[limits]\nmb_per_day = 0.01\n"
    async with running_daemon(tmp_path / "home", config) as daemon:
        big = {"log": "x" * 6000}
        first = await post(daemon, "/v1/events/bell", BELL, big)
        second = await post(daemon, "/v1/events/bell", BELL, big)
        assert (first[0], second[0]) == (202, 429)
        assert 0 < int(second[1]) <= 86_400 and "midnight" in second[2]


async def test_half_open_connections_do_not_deafen_a_daemon_of_few_files(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    few = tmp_path / "python"
    few.write_text(f'#!/bin/sh\nulimit -n 1024\nexec {sys.executable} "$@"\n')
    few.chmod(0o755)
    async with running_daemon(
        tmp_path / "home", scripted(model.base_url), python=str(few)
    ) as daemon:
        host, port = daemon.url.removeprefix("http://").split(":")
        held = list[asyncio.StreamWriter]()
        try:
            for _ in range(HALF_OPEN):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET /health HTTP/1.1\r\nHost: ")
                held.append(writer)
            began = perf_counter()
            assert (await daemon.ask("still there?"))["stop_reason"] == "done"
            assert perf_counter() - began < 2.0
        finally:
            for writer in held:
                writer.close()


async def test_a_user_has_so_many_requests_open_and_no_more(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    go = asyncio.Event()
    model.otherwise(gate(go, says("at last")))
    async with running_daemon(tmp_path / "home", scripted(model.base_url, USERS)) as daemon:
        _, _, text = await post(daemon, "/v1/messages", ANNA, {"session": "anna", "text": "wait"})
        path, headers = (
            f"/v1/runs/{json.loads(text)['turn']}/events",
            {"Authorization": f"Bearer {ANNA}"},
        )
        async with (
            AsyncExitStack() as open_ones,
            ClientSession(daemon.url, headers=headers, connector=TCPConnector(limit=0)) as anna,
        ):
            for _ in range(64):
                stream = await open_ones.enter_async_context(anna.get(path))
                assert stream.status == 200
            async with anna.get(path) as further:
                assert (further.status, further.headers["Retry-After"]) == (429, "5")
                assert "not accepted" in await further.text()
        go.set()


async def test_a_session_needs_a_channel_or_none(tmp_path: Path, model: FakeOpenAI) -> None:
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        refused = await post(daemon, "/v1/messages", TOKEN, {"session": ":x", "text": "hi"})
        assert refused[0] == 400 and "expected NAME" in refused[2]


async def test_a_first_start_without_a_config_writes_a_daily_limit(tmp_path: Path) -> None:
    paths = resolve_paths(str(tmp_path / "new"), None)
    write_first_config(paths)
    assert load_home_config(paths).config.budget.daily_usd == 5.0
    used = resolve_paths(str(tmp_path / "used"), None)
    used.make_home()
    used.journal.touch()
    write_first_config(used)
    assert not used.config.exists()
