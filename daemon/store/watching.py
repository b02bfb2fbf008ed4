"""Who is told that something new waits to be delivered: after the commit, from memory, without a look at the disk."""

import asyncio
from collections.abc import Callable


class Watchers:
    """Each is told in a step of its own of the event loop: what it raises is no concern of the journal's."""

    def __init__(self) -> None:
        self._told: dict[object, Callable[[], None]] = {}

    def add(self, told: Callable[[], None]) -> Callable[[], None]:
        """From now on; gives what ends it."""
        key = object()
        self._told[key] = told

        def end() -> None:
            self._told.pop(key, None)

        return end

    def tell(self) -> None:
        """Soon, all who are still there then."""
        for key in self._told:
            asyncio.get_running_loop().call_soon(self._tell_one, key)

    def _tell_one(self, key: object) -> None:
        told = self._told.get(key)
        if told:
            told()
