"""No attack on the approval flow is accepted, and nothing runs of it (A6 of the reference; issue 4)."""

from pathlib import Path

import pytest

from tests.security.approvals import CONTROL, attacks

LEAST = 150


@pytest.mark.timeout(300)
async def test_A6_no_attack_on_the_approval_flow_is_accepted(tmp_path: Path) -> None:
    found = await attacks(tmp_path)
    assert (found.accepted, found.ran) == (0, []), found
    assert found.tries >= LEAST, found
    assert found.by_attack[CONTROL] == [1, 1]
