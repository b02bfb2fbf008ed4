"""No token of a platform is left anywhere, whatever goes wrong, and if everything is logged (A6, issue 5)."""

from pathlib import Path

import pytest

from tests.security.channel_tokens import traces


@pytest.mark.timeout(180)
async def test_A6_tokens_of_platforms_leave_no_trace(tmp_path: Path) -> None:
    found = await traces(tmp_path / "home")
    assert found.traces == []
    assert found.places > 20
    assert "DEBUG telegram" in found.log
    assert "DEBUG aiosqlite" not in found.log  # it prints whole conversations
