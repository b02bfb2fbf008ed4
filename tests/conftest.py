"""What holds for every test: property tests are repeatable and not timed. `--hypothesis-profile=explore` looks for new cases."""

import faulthandler
import gc
import os
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ["AIDAEMON_FROZEN_VALUES"] = "1"  # before anything of ours is imported
# What whoever runs the tests has pulled is not used; what the tests pull is kept for the next run.
os.environ["AIDAEMON_MODELS"] = str(Path("~/.cache/aidaemon-tests/models").expanduser())

settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def own_time_zone() -> Iterator[None]:
    """A daemon in this process sets its zone; the next test begins with the machine's."""
    yield from keep_zone()


@pytest.fixture(autouse=True, scope="module")
def own_time_zone_of_a_module() -> Iterator[None]:
    """So does a daemon that all tests of a file have; the next file begins with the machine's."""
    yield from keep_zone()


def keep_zone() -> Iterator[None]:
    """It is the same again afterwards."""
    before = os.environ.get("TZ")
    yield
    if os.environ.get("TZ") != before:
        os.environ.pop("TZ", None)
        if before:
            os.environ["TZ"] = before
        time.tzset()


@pytest.fixture(autouse=True)
def closed_stores() -> Iterator[None]:
    """A journal that a test opened for its files ends with it."""
    yield
    if files := sys.modules.get("tests.fakes.files"):
        files.close_stores()


LONGEST_FIRST = (
    *(
        "test_outages",
        "test_embedded_model",
        "test_crowd_",
        "test_moments",
        "test_cli_loop",
        "test_crash_",
    ),
    *("tests/e2e/", "tests/security/"),
)
"""Files of few long tests come first: a worker that takes one of them last keeps all the others waiting."""
SLOW = (
    *(
        "test_outages",
        "test_embedded_model",
        "test_crowd_",
        "test_moments",
        "test_cli_loop",
        "test_crash_",
    ),
    *(
        "test_faults_poison",
        "test_compromised",
        "test_front_doors",
        "test_floods",
        "test_all_at_once",
    ),
    *(
        "test_chat_window",
        "test_chat_agents",
        "test_drafts",
        "test_troubles",
        "test_patience",
        "test_kin_moments",
    ),
)
"""Kill sweeps, crowds, outages, attack suites, the embedded model: `pytest -m "not slow"` leaves them out."""


GRACE_S = 240
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep where errors go: while a test runs they are captured."""
    config.stash[STDERR] = os.dup(2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test in which a task swallows the end of its time ends its worker, with every stack; the run goes on."""
    marker = item.get_closest_marker("timeout")
    limit = (
        marker.args[0]
        if marker
        else float(str(item.config.getvalue("timeout") or item.config.getini("timeout")))
    )
    faulthandler.dump_traceback_later(limit + GRACE_S, exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


gc.disable()  # until all is collected: what is imported stays


def pytest_collection_finish() -> None:
    """From here on only what tests make is swept through."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow files, and sort by file; each file is run by one worker, from its first test to its last."""
    for item in items:
        if item.path.name.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    place = item.path.as_posix()
    return next(
        (rank for rank, part in enumerate(LONGEST_FIRST) if part in place), len(LONGEST_FIRST)
    )
