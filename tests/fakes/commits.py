"""What a store that stands before another one returns from `submit`."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from daemon.core.clock import Commit

T = TypeVar("T")


def commit_of(work: Coroutine[object, object, T]) -> Commit[T]:
    """It runs by itself."""
    commit: Commit[T] = Commit()

    def settle(task: asyncio.Task[T]) -> None:
        if error := task.exception():
            commit.set_exception(error)
        else:
            commit.set_result(task.result())

    asyncio.ensure_future(work).add_done_callback(settle)
    return commit
