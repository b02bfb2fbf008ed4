"""Nobody but the owner gets what is the owner's, on any platform (A6, A13, A15, DESIGN 6)."""

from pathlib import Path

import pytest

from tests.security.front_doors import tried
from tests.security.fronts import PLATFORMS


@pytest.mark.timeout(180)
@pytest.mark.parametrize("platform", PLATFORMS)
async def test_A6_nobody_gets_what_is_the_owners(platform: str, tmp_path: Path) -> None:
    found = await tried(tmp_path, platform)
    attacks = found.strangers | found.members
    assert {name: counts for name, counts in attacks.items() if counts[1]} == {}
    assert sum(tries for tries, _ in found.strangers.values()) > 80
    assert sum(tries for tries, _ in found.members.values()) > 80
    assert found.owners == [2, 2]
