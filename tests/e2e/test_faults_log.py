"""The journal's write-ahead log ends in the middle of a write: the start takes what was whole and goes on (E11)."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, hangs, says

TORN: dict[str, Callable[[bytes], bytes]] = {
    "half a frame": lambda log: log + log[-4_120:-2_000],
    "a frame out of place": lambda log: log + log[-4_120:],
    "noise": lambda log: log + random.Random(3).randbytes(5_000),
    "zeros": lambda log: log + bytes(4_120),
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN.keys())
async def test_e11_a_torn_end_of_the_log_costs_nothing_that_was_answered_and_the_turn_goes_on(
    tmp_path: Path, tear: Callable[[bytes], bytes]
) -> None:
    log = tmp_path / "journal.db-wal"
    async with FakeOpenAI() as model:
        config = scripted(model.base_url)
        async with running_daemon(tmp_path, config) as daemon:
            model.script(*(says(f"answer {number}") for number in range(5)), hangs())
            ended = [await daemon.ask(f"question {number}", "desk") for number in range(5)]
            cut = await daemon.begin("the last question", "desk")
            await model.hanging.wait()
        whole = log.read_bytes()
        assert whole  # it was killed, and the journal has not taken the log in
        log.write_bytes(tear(whole))
        model.script(says("the last answer"))
        async with running_daemon(tmp_path, config) as daemon:
            async for _ in daemon.stream(cut):
                pass
            assert (await daemon.run(cut))["reply"] == "the last answer"
            runs = [await daemon.run(str(run["turn"])) for run in ended]
            assert [run["reply"] for run in runs] == [f"answer {number}" for number in range(5)]
            assert all(f"answer {number}" in str(model.requests[-1].body) for number in range(5))
            assert (await daemon.ask("and now?", "desk"))["reply"] == "ok"
            assert await daemon.terminate() == 0
