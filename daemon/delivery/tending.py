"""Channels kept going: each in a task of its own; one that breaks is begun again, one that stays away is told of elsewhere."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from channels.base import ChannelError, Host, Revoked
from daemon.core.errors import StoreUnavailable
from daemon.delivery.outlet import Outlet

log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
REFUSED_PAUSE, LONGEST_REFUSED = 30.0, 600.0
LOOK_EVERY_S = 5.0
TELL_AFTER_S = 300.0
CLOSE_S = 5.0

Tell = Callable[[str, str], Awaitable[None]]
Hosts = Callable[[Outlet], Host]


@dataclass(slots=True)
class Tending:
    """Owner of the channels' tasks. `tell(text, not_on)` reaches the owner on another channel."""

    outlets: Mapping[str, Outlet]
    hosts: Hosts
    tell: Tell
    tell_after_s: float = TELL_AFTER_S
    refused_pause_s: float = REFUSED_PAUSE
    _told: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for outlet in self.outlets.values():
                group.create_task(self._tend(outlet), name=f"channel {outlet.name}")
            group.create_task(self._watch(), name="channels' health")

    async def _tend(self, outlet: Outlet) -> None:
        host, pause, refused = self.hosts(outlet), FIRST_PAUSE, self.refused_pause_s
        try:
            while True:
                began = outlet.alive_at
                no = await self._refused(outlet, host)
                if outlet.alive_at != began:
                    pause, refused = FIRST_PAUSE, self.refused_pause_s
                if no:
                    await self._told_of(outlet)
                    await asyncio.sleep(refused)
                    refused = min(refused * 2, LONGEST_REFUSED)
                else:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            await _closed(outlet)

    @staticmethod
    async def _refused(outlet: Outlet, host: Host) -> bool:
        """Listen. True where that ended with a refusal, so that trying again soon is of no use."""
        try:
            await outlet.channel.run(host)
            outlet.ailing("it ended by itself and is begun again")
        except Revoked as error:
            log.error("%s: %s", outlet.name, error)
            outlet.ailing(str(error), refused=True)
            return True
        except ChannelError as error:
            outlet.ailing(str(error))
        except Exception as error:  # what one channel breaks is its own; the others go on
            log.exception("channel %s broke off and is begun again", outlet.name)
            outlet.ailing(f"it broke off: {type(error).__name__}")
        return False

    async def _watch(self) -> None:
        """Down for five minutes is told of, and so is being back after that."""
        while True:
            await asyncio.sleep(min(LOOK_EVERY_S, self.tell_after_s))
            for outlet in self.outlets.values():
                down = outlet.down_for
                if down > self.tell_after_s:
                    await self._told_of(outlet)
                elif not down and outlet.name in self._told and await self._tell(f"{outlet.name} works again.", outlet):
                    self._told.discard(outlet.name)

    async def _told_of(self, outlet: Outlet) -> None:
        if outlet.name in self._told:
            return
        why = outlet.problem() or f"{outlet.name}: {outlet.why}"
        kept = "What was said is kept and goes out when it is back."
        if await self._tell(f"A channel is down. {why}. {kept} `aidaemon doctor` looks into it.", outlet):
            self._told.add(outlet.name)

    async def _tell(self, text: str, outlet: Outlet) -> bool:
        """False when it could not be written down: then it is told at the next look."""
        try:
            await self.tell(text, outlet.name)
        except StoreUnavailable as error:
            log.error("%s: %s", text, error)
            return False
        return True


async def _closed(outlet: Outlet) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await outlet.channel.aclose()
    except (ChannelError, TimeoutError, OSError) as error:
        log.warning("%s did not close in order: %s", outlet.name, error)
