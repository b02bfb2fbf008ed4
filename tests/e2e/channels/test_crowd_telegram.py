"""Thirty people on Telegram, and a daemon that is killed thirty times: every message is answered, in order (guarantees.md; B5)."""

from pathlib import Path

import pytest

from tests.e2e.channels.crowd import KILLS, MESSAGES, crowded


@pytest.mark.timeout(600)
async def test_nothing_is_lost_and_only_what_may_have_been_sent_is_sent_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K13: Telegram has no keys, so a reply that was under way at a kill is sent again; each such one is proven."""
    told = await crowded("telegram", tmp_path, seed=5)
    assert (told.kills, told.said, told.inbox, dict(told.states)) == (
        KILLS,
        MESSAGES,
        MESSAGES,
        {"done": MESSAGES},
    ), str(told)
    assert (told.lost, told.handled_twice, told.out_of_order) == (0, 0, 0), str(told)
    assert told.extra == told.proven, str(told)
    with capsys.disabled():
        print(f" [{told}]", end="")  # noqa: T201
