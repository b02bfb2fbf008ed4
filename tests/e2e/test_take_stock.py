"""Every N iterations the model takes stock, where that is switched on (E10)."""

from pathlib import Path

from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, calls, says

ASKED = "Take stock before you go on"
ZONES = ("Europe/Lisbon", "Asia/Tokyo", "Asia/Kolkata", "America/Lima", "Africa/Cairo")
STEPS = [calls(("current_time", {"zone": zone})) for zone in ZONES]


async def stock_taken(tmp_path: Path, config: str) -> list[int]:
    """Before which calls of the model it was asked to."""
    async with FakeOpenAI() as model:
        model.script(*STEPS, says("There it is morning."))
        async with running_daemon(tmp_path / "home", scripted(model.base_url, config)) as daemon:
            reply = (await daemon.ask("look at all of it"))["reply"]
            assert reply == "There it is morning."
        counts = [str(one.body["messages"]).count(ASKED) for one in model.requests]
    return [number for number in range(1, len(counts)) if counts[number] > counts[number - 1]]


async def test_e10_after_every_second_iteration_and_once_each(tmp_path: Path) -> None:
    assert await stock_taken(tmp_path, "[agent]\nreflect_every = 2\n") == [2, 4]


async def test_e10_it_is_off_by_default(tmp_path: Path) -> None:
    assert await stock_taken(tmp_path, "") == []
