"""A stop that was accepted stands, over a restart and with a full disk (E7)."""

import asyncio
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.errors import StoreUnavailable
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from tests.e2e.crash.journal import FaultyStore
from tests.fakes.house import SESSION, living
from tests.fakes.openai import FakeOpenAI, hangs


async def test_e7_what_was_stopped_before_a_restart_does_not_run_after_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    config = {"agent": {"while_busy": "queue", "drain_seconds": 0}}
    model.script(hangs())
    async with living(tmp_path, model, config) as it:
        running = await it.say("hang")
        await model.hanging.wait()
        one, two, kept = (
            await it.say("never mind"),
            await it.say("nor this"),
            await it.say("but this"),
        )
        assert await it.house.client.cancel_run(one)
        assert await it.house.client.cancel_run(two)
    async with living(tmp_path, model, config) as it:
        reasons = [
            (await asyncio.wait_for(it.settled(turn), 5)).stop_reason
            for turn in (running, one, two, kept)
        ]
        assert reasons == ["done", "cancelled", "cancelled", "done"]
        assert await it.house.store.read(
            lambda tx: [tx.get_cancel_reason(turn) for turn in (one, two)]
        ) == ["", ""]


async def test_e7_a_full_disk_holds_up_no_stop(
    tmp_path: Path, model: FakeOpenAI, caplog: pytest.LogCaptureFixture
) -> None:
    faults: list[StoreUnavailable] = []

    def fault() -> None:
        for error in faults:
            raise error

    async def open_store(path: Path) -> Store:
        return FaultyStore(await SqliteStore.open(path), fault)

    model.script(hangs())
    async with living(tmp_path, model, parts=Overrides(open_store=open_store)) as it:
        turn = await it.say("hang")
        await model.hanging.wait()
        faults.append(StoreUnavailable("the disk is full"))
        assert await it.house.client.stop_session(SESSION) == [turn]
        await asyncio.wait_for(model.gone.wait(), 1)
        assert "a restart may undo it" in caplog.text
        faults.clear()
        assert (await asyncio.wait_for(it.settled(turn), 5)).stop_reason == "cancelled"
