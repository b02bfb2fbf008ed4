"""Thirty people on Discord, and a daemon that is killed thirty times: every message is answered once, in order (guarantees.md; B5)."""

from pathlib import Path

import pytest

from tests.e2e.channels.crowd import KILLS, MESSAGES, crowded


@pytest.mark.timeout(600)
async def test_nothing_is_lost_and_nothing_is_said_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K13: Discord takes the same nonce once."""
    told = await crowded("discord", tmp_path, seed=5)
    assert (told.kills, told.said, told.inbox, dict(told.states)) == (
        KILLS,
        MESSAGES,
        MESSAGES,
        {"done": MESSAGES},
    ), str(told)
    assert (told.lost, told.handled_twice, told.out_of_order, told.extra) == (0, 0, 0, 0), str(told)
    with capsys.disabled():
        print(f" [{told}]", end="")  # noqa: T201
