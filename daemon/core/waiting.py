"""Waiting that a cancellation cannot cut in two."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[object, object, T]) -> T:
    """Await to the end even when cancelled meanwhile; the cancellation is delivered afterwards.

    For what must not be left half known: a commit whose outcome decides what is written next.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as exc:
            cancelled = exc
    result = task.result()
    if cancelled:
        raise cancelled
    return result
