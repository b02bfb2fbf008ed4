"""How often a person is asked who means no harm: sixty tasks on the first day, and sixty once they have settled in."""

from pathlib import Path

from tests.security.adaptive.world import Answerer, scene
from tests.security.ordinary import spend_days

MOST_FIRST, MOST_LATER = 10, 7


async def test_sixty_ordinary_tasks_ask_little_and_never_about_ones_own_files(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, Answerer("truth")) as at:
        first, later = await spend_days(at, 2)
    assert (first.tasks, later.tasks) == (60, 60)
    assert len(first.questions) <= MOST_FIRST, first.questions
    assert len(later.questions) <= MOST_LATER, later.questions
    assert first.about_files == later.about_files == ()
