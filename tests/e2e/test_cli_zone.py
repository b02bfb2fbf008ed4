"""The commands show the times of the owner's zone, not of the machine's (G5)."""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, says

MACHINE = {"TZ": "America/New_York"}


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        fake.otherwise(says("ok"))
        yield fake


async def test_runs_shows_the_owners_zone_with_and_without_a_daemon(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    home = tmp_path / "home"
    config = scripted(model.base_url, '[general]\ntimezone = "Asia/Kolkata"\n')

    def look() -> None:
        [line] = json.loads(aidaemon("runs", "--json", home=home, env=MACHINE).stdout)
        at = datetime.fromisoformat(line["started"]).astimezone(ZoneInfo("Asia/Kolkata"))
        assert f"{at:%Y-%m-%d %H:%M}" in aidaemon("runs", home=home, env=MACHINE).stdout

    async with running_daemon(home, config, MACHINE) as daemon:
        await daemon.ask("hello")
        look()
        await daemon.terminate()
    look()


@pytest.mark.parametrize("config", ["[general]\ntimezone = 3\n", "[general", '[general]\ntimezone = "Mars/Olympus"'])
def test_a_config_that_has_no_such_zone_is_reported_as_before(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.toml").write_text(config)
    done = aidaemon("config", "check", home=tmp_path, env=MACHINE)
    assert done.returncode == 2 and "config.toml: " in done.stderr
    assert "an error in the program itself" not in done.stderr
