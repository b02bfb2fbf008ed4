"""Brakes with defaults that hold: floods of events and messages, half-open connections, streams without end (issue 11, class K)."""

import asyncio
import json
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
from tests.fakes.daemon_process import TOKEN, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, gate, says
from tests.security.flood import (
    BELL,
    EVENTS,
    FLOOD,
    MOST_JOURNAL,
    MOST_RSS,
    flood,
    post,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
ANNA = "anna-token-3"
USERS = f'[[http.users]]\nname = "anna"\nrole = "editor"\ntoken = "{ANNA}"\n'
WITHIN_S = 5.0
HALF_OPEN = 1000


@pytest.mark.timeout(90)
async def test_a_flood_of_events_leaves_the_owner_a_quick_answer(
    tmp_path: Path, model: FakeOpenAI, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await flood(tmp_path / "home", model)
    with capsys.disabled():
        print(f"\n{found}")  # noqa: T201
    assert found.taken + found.refused == FLOOD and 0 < found.taken <= 120
    assert not found.unexplained
    assert max(found.waits) < WITHIN_S
    assert found.memory < MOST_RSS and found.journal < MOST_JOURNAL


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


async def test_a_repeat_of_what_was_accepted_is_neither_counted_nor_refused(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    limits = "[limits]\nmessages_per_minute = 3\n"
    async with running_daemon(tmp_path / "home", scripted(model.base_url, USERS) + limits) as daemon:

        async def say(number: int) -> tuple[int, str]:
            body = {"session": "anna", "text": f"m{number}", "client_id": f"c{number}"}
            status, _, text = await post(daemon, "/v1/messages", ANNA, body)
            return status, text

        first = await say(0)
        assert [await say(0) for _ in range(6)] == [first] * 6
        assert [(await say(number))[0] for number in (1, 2, 3)] == [202, 202, 429]
        assert await say(0) == first


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


async def test_a_kill_and_a_restart_lift_no_limit(tmp_path: Path, model: FakeOpenAI) -> None:
    """Not that of a minute, and not that of a day."""
    limits = "[limits]\nmessages_per_minute = 3\nmb_per_day = 0.01\n"
    config = scripted(model.base_url, USERS + EVENTS) + limits
    said = {"session": "anna", "text": "hello"}
    async with running_daemon(tmp_path / "home", config) as daemon:
        sent = [await post(daemon, "/v1/messages", ANNA, said) for _ in range(2)]
        sent.append(await post(daemon, "/v1/events/bell", BELL, {"log": "x" * 6000}))
        assert [status for status, _, _ in sent] == [202, 202, 202]
        daemon.process.kill()
        await daemon.process.wait()
    async with running_daemon(tmp_path / "home", config) as daemon:
        sent = [await post(daemon, "/v1/messages", ANNA, said) for _ in range(2)]
        assert [status for status, _, _ in sent] == [202, 429]
        refused = await post(daemon, "/v1/events/bell", BELL, {"log": "x" * 6000})
        assert refused[0] == 429 and "midnight" in refused[2]


async def test_events_of_a_few_bytes_do_not_fill_the_journal_day_by_day(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """A turn takes its room however small the event is: 10 MB a day are 2,500 of them."""
    config = scripted(model.base_url, EVENTS) + "[limits]\nmb_per_day = 0.01\n"
    async with running_daemon(tmp_path / "home", config) as daemon:
        sent = [await post(daemon, "/v1/events/bell", BELL, {"n": n}) for n in range(3)]
        assert [status for status, _, _ in sent] == [202, 202, 429]
        assert "midnight" in sent[2][2]


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
