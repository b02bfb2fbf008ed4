"""The same house for ordinary work, with no attack: how much of it is done, and how often somebody is asked (reference A2)."""

from pathlib import Path

import pytest

from tests.security.measures import useful
from tests.security.suites import DATA

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the recorded suites are not at hand")


async def test_three_fifths_of_ordinary_work_ask_nobody_anything(tmp_path: Path) -> None:
    found = await useful(tmp_path, careful=False)
    assert found.done >= 0.6 * found.tasks
    assert found.tasks > 50


async def test_with_a_careful_owner_all_of_it_is_done_and_two_fifths_at_most_are_asked_about(
    tmp_path: Path,
) -> None:
    found = await useful(tmp_path, careful=True)
    assert found.done == found.tasks
    assert found.asked <= 0.4 * found.tasks
