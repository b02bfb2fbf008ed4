"""Nobody but the owner gets what is the owner's, on any platform (A6, A13, A15, trust.md)."""

import re
from pathlib import Path
from typing import cast

import pytest

from tests.fakes.discord import FakeDiscord
from tests.fakes.platform import OWNER
from tests.fakes.slack import FakeSlack
from tests.security.front_doors import tried
from tests.security.fronts import PLATFORMS, front_of


@pytest.mark.timeout(180)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A6_nobody_gets_what_is_the_owners(platform: str, tmp_path: Path) -> None:
    found = await tried(tmp_path, platform)
    attacks = found.strangers | found.members
    assert {name: counts for name, counts in attacks.items() if counts[1]} == {}
    assert sum(tries for tries, _ in found.strangers.values()) > 80
    assert sum(tries for tries, _ in found.members.values()) > 80
    assert found.owners == [2, 2]


@pytest.mark.parametrize("platform", ["slack", "discord"])
async def test_A6_what_a_slash_command_shows_is_word_for_word(
    platform: str, tmp_path: Path
) -> None:
    """Read as markdown, stars and underlines of a command line would be gone, and a spoiler would hide the rest."""
    line = "rm -f *.txt **b** _x_ ||y|| ~~q~~ `z`; rm x"
    async with front_of(platform, tmp_path / "home") as front:
        home = front.platform.private(OWNER)
        await front.question(home, "do", line)
        match front.platform:
            case FakeSlack():
                front.platform.slash(OWNER, home, "approve show")
            case _:
                cast(FakeDiscord, front.platform).slash(OWNER, home, "approve", "show")
        await front.platform.until(lambda: bool(front.platform.pressed()))
        if platform == "slack":  # as it is sent, before Slack reads it as markup
            said = str(front.platform.calls.of("chat.postEphemeral")[-1]["text"])
        else:
            said = front.platform.pressed()[-1]
        unmarked = (
            said.replace("\u200b", "")
            if platform == "slack"
            else re.sub(r"\\([^A-Za-z0-9\s])", r"\1", said)
        )
        assert line in unmarked
