"""A client that outlives restarts of its daemon: it waits for the next one and goes on there.

A request is repeated only where it cannot be carried out twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daemon.client.http import (
    ADD_SCHEDULE,
    START_LOOP,
    DaemonStopped,
    HttpClient,
    find_running_daemon,
)
from daemon.client.protocol import Endpoint
from daemon.core import value
from daemon.settings.paths import Paths

WAIT_S = 0.3
MAKES_ANEW = (START_LOOP.path, ADD_SCHEDULE.path, "/v1/people/codes")
"""Each request there makes one more thing."""


async def _tell_nobody(is_lost: bool) -> None:
    pass


@dataclass(slots=True)
class ConnectionWatch:
    """Whether the daemon is away; `tell` is called once when it has gone, and once it is back."""

    is_lost: bool = False
    tell: Callable[[bool], Awaitable[None]] = _tell_nobody

    async def set_lost(self, is_lost: bool) -> None:
        """What the last request found."""
        if self.is_lost != is_lost:
            self.is_lost = is_lost
            await self.tell(is_lost)


@value
class ReconnectingClient(HttpClient):
    """A client of whatever daemon runs on these paths, now and later."""

    paths: Paths = field(kw_only=True)
    watch: ConnectionWatch = field(kw_only=True)

    def locate(self) -> tuple[str, str]:
        """Raises ConnectionRefusedError where no daemon runs."""
        client = find_running_daemon(self.paths)
        if client is None:
            raise ConnectionRefusedError
        return client.url, client.token

    async def request(self, endpoint: Endpoint, given: Mapping[str, object]) -> Any:
        while True:
            try:
                result = await HttpClient.request(self, endpoint, given)
            except DaemonStopped as error:
                is_unreached = isinstance(error.__cause__, ConnectionRefusedError)
                if not (is_unreached or _is_repeatable(endpoint, given)):
                    raise
                await self.watch.set_lost(True)
                await asyncio.sleep(WAIT_S)
            else:
                await self.watch.set_lost(False)
                return result

    async def wait_for_connection(self, failures: int, error: Exception) -> None:
        if failures:
            await self.watch.set_lost(True)
        await asyncio.sleep(WAIT_S)


def _is_repeatable(endpoint: Endpoint, given: Mapping[str, object]) -> bool:
    """A message that has a client_id is accepted once; other requests but a few say how something
    shall be, and may say it twice.
    """
    if "text" in given and endpoint.path.partition("?")[0].endswith("/messages"):
        return bool(given.get("client_id"))
    return endpoint.method != "POST" or endpoint.path not in MAKES_ANEW
