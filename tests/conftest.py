"""What holds for every test: property tests are repeatable and not timed. `--hypothesis-profile=explore` looks for new cases."""

import os

import pytest
from hypothesis import settings

os.environ["AIDAEMON_FROZEN_VALUES"] = "1"  # before anything of ours is imported

settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("house")

LONGEST_FIRST = (
    *(
        "test_crowd_discord",
        "test_outages",
        "test_crowd_slack",
        "test_embedded",
        "test_crowd_telegram",
        "test_moments",
    ),
    *("tests/e2e/", "tests/security/"),
)
"""Files of few long tests come first: whoever takes one of them last keeps all the others waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of the files; each is run by one worker, from its first test to its last."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    place = item.path.as_posix()
    return next(
        (rank for rank, part in enumerate(LONGEST_FIRST) if part in place), len(LONGEST_FIRST)
    )
