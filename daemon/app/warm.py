"""An embedded model is loaded, and has read the words that every conversation begins with, before the first message comes."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from daemon.agent.context import Context, Scene
from daemon.agent.past import Nowhere
from daemon.core.errors import ProviderError
from daemon.core.turn import Turn
from daemon.providers.chain import Route

log = logging.getLogger(__name__)


@dataclass(slots=True)
class WarmUp:
    """Asks the model for one token behind the usual beginning, in the background; a message that comes meanwhile goes next.

    Loading holds up the whole process for two or three seconds (the runtime keeps Python's lock): better now than mid-talk.
    """

    route: Route
    context: Context
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, when it is the embedded model that will answer."""
        if self.route.provider.name == "local":
            self._task = asyncio.create_task(self._warm(), name="warm-up")

    async def aclose(self) -> None:
        """Leave it at that."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _warm(self) -> None:
        beginning = self.context.prompt(Turn(id="warm-up", session="", sink=Nowhere()), Scene()).request
        try:
            await self.route.provider.complete(self.route.model, replace(beginning, max_tokens=1))
        except ProviderError as error:
            log.debug("warming up: %s", error)
