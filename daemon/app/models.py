"""An embedded model is loaded, and has read the words that every conversation begins with, before the first message comes.

From [provider] to routes, and what the first answer or refusal means for the config (A7, A8).
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import cast

from daemon import addons as plugins
from daemon.agent.context.builder import ContextBuilder, TurnContext
from daemon.agent.context.history import ReadOnlySink
from daemon.agent.routing import ModelChoice
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, ErrorClass, ProviderError
from daemon.core.turn import Turn
from daemon.ops.models import find_model_file
from daemon.providers.base import Provider
from daemon.providers.chain import ModelRoute
from daemon.providers.config import FallbackConfig, ProviderConfig
from daemon.settings.last_good import LastGood, load_last_good, should_fall_back
from daemon.settings.load import LoadedConfig
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ModelWarmup:
    """Asks the model for one token behind the usual beginning, in the background; a message that comes meanwhile goes next.

    Loading holds up the whole process for two or three seconds (the runtime keeps Python's lock): better now than mid-talk.
    """

    route: ModelRoute
    context: ContextBuilder
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, when it is the embedded model that will answer."""
        if self.route.provider.name == "local":
            self._task = asyncio.create_task(self._run(), name="warm-up")

    async def aclose(self) -> None:
        """Leave it at that."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        beginning = self.context.build_prompt(
            Turn(id="warm-up", session="", sink=ReadOnlySink()), TurnContext()
        ).request
        try:
            await self.route.provider.complete(self.route.model, replace(beginning, max_tokens=1))
        except ProviderError as error:
            log.debug("warming up: %s", error)


@dataclass(slots=True)
class ModelRoutes:
    """The [provider] that is in use, its connections, and the last good config behind it."""

    paths: Paths
    loaded: LoadedConfig
    clock: Clock
    stack: AsyncExitStack

    def build_choice(self) -> ModelChoice:
        """Routes of the running config."""
        config = self.loaded.config.provider
        primary = self._make_provider(
            config.get_provider_name(),
            config.base_url,
            config.api_key,
            config,
            config.extra_headers,
        )
        fallbacks = tuple(
            ModelRoute(self._make_fallback(entry, config), entry.get_model())
            for entry in config.fallbacks
        )
        return ModelChoice(
            ModelRoute(primary, config.get_model()),
            fallbacks,
            config.models.fast,
            config.models.smart,
        )

    async def on_success(self) -> None:
        """A model answered: what runs is good, whatever the file says by now."""
        try:
            await asyncio.to_thread(LastGood(self.paths.lastgood).save, self.loaded.text)
        except (OSError, ConfigError) as error:
            log.warning(
                "%s could not be written: %s; the config that runs works all the same",
                self.paths.lastgood,
                error,
            )

    async def on_failure(self, kind: ErrorClass) -> tuple[ModelChoice, str] | None:
        """The first call was refused. After an edit that is the edit's fault: the last good config takes over."""
        kept = LastGood(self.paths.lastgood)
        if not should_fall_back(self.loaded.text, kept.read(), kind):
            return None
        fault = f"{self.paths.config}: [provider]: the first model call failed ({kind.value})"
        try:
            secrets = SecretStore(self.paths.secrets).read_values()
            found = load_last_good(self.paths.config, fault, kept, env=os.environ, secrets=secrets)
        except ConfigError as error:
            log.error("the last good config cannot take over: %s", error)
            return None
        self.loaded = found.loaded
        log.warning("%s", found.notice)
        return self.build_choice(), found.notice

    def _make_fallback(self, entry: FallbackConfig, config: ProviderConfig) -> Provider:
        """The primary's extra headers may hold a key of its own: they never go to another host."""
        return self._make_provider(
            entry.get_provider_name(), entry.base_url, entry.api_key, config, {}
        )

    def _make_provider(
        self,
        kind: str,
        base_url: str,
        api_key: str,
        config: ProviderConfig,
        headers: Mapping[str, str],
    ) -> Provider:
        make = plugins.load_addon("providers", kind)
        if not callable(make):
            raise ConfigError(f"provider.kind: {kind!r} is not a provider")
        if kind == "local":
            made = make(locate=find_model_file, silence_s=config.timeout_s)
        else:
            made = make(
                base_url=base_url,
                clock=self.clock,
                api_key=api_key,
                timeout_s=config.timeout_s,
                extra_headers=headers,
            )
        provider = cast(
            Provider, made
        )  # an add-on's word for it; a wrong one fails at its first call
        self.stack.push_async_callback(provider.aclose)
        return provider
