"""From [provider] to routes; an embedded model is warmed up before the first message."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from daemon.addons import BUILTIN, load_class
from daemon.agent.context.builder import ContextBuilder, TurnContext
from daemon.agent.context.history import ReadOnlySink
from daemon.agent.models import ModelChoice
from daemon.app.runtime_config import RuntimeConfig
from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.turn import Turn
from daemon.providers.base import Provider
from daemon.providers.chain import ModelRoute
from daemon.providers.config import FallbackConfig, ProviderConfig


@dataclass(slots=True)
class ModelWarmup:
    """Builds a first request in the background, and sends it if the model is embedded.

    Loading an embedded model stops the whole process for two or three seconds: better at the start
    than during a conversation. A message that comes meanwhile goes next.
    """

    route: ModelRoute
    context: ContextBuilder
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="warm-up")

    async def aclose(self) -> None:
        """Stop."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        turn = Turn(id="warm-up", session="", sink=ReadOnlySink())
        request = self.context.build_prompt(turn, TurnContext()).request
        if self.route.provider.name == "local":
            with suppress(ProviderError):
                await self.route.provider.complete(self.route.model, replace(request, max_tokens=1))


@dataclass(slots=True)
class ModelRoutes:
    """Connections to the models of the running config."""

    runtime: RuntimeConfig
    clock: Clock
    stack: AsyncExitStack

    def build_choice(self) -> ModelChoice:
        """Routes of the running config."""
        config = self.runtime.loaded.config.provider
        primary = ModelRoute(self._make_provider(config, config), config.get_model())
        fallbacks = [
            ModelRoute(self._make_provider(one, config), one.get_model())
            for one in config.fallbacks
        ]
        return ModelChoice(primary, tuple(fallbacks), config.models.fast, config.models.smart)

    async def on_failure(self, kind: ErrorClass) -> tuple[ModelChoice, str] | None:
        """The first call failed: the routes of the last good config, if they can take over."""
        if not await self.runtime.fall_back(kind):
            return None
        return self.build_choice(), self.runtime.notice

    def _make_provider(
        self, entry: ProviderConfig | FallbackConfig, config: ProviderConfig
    ) -> Provider:
        """Only the primary gets the extra headers: a key may be in them."""
        name = entry.get_provider_name()
        make = cast(Any, load_class("providers", name))  # an add-on's class: not known to types
        if name == "local":
            from daemon.ops.models import find_model_file  # lazy: downloads, 20 ms

            made = make(locate=find_model_file, silence_s=config.timeout_s)
        elif name in BUILTIN["providers"]:
            made = make(
                base_url=entry.base_url,
                clock=self.clock,
                api_key=entry.api_key,
                timeout_s=config.timeout_s,
                extra_headers=config.extra_headers if entry is config else {},
            )
        else:
            made = make(entry)
        provider = cast(Provider, made)
        self.stack.push_async_callback(provider.aclose)
        return provider
