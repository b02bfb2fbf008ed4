"""From [provider] to routes, and what the first answer or refusal means for the config (A7, A8)."""

import asyncio
import logging
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import cast

from daemon import plugins
from daemon.agent.routes import Choice
from daemon.config.lastgood import LastGood, fall_back, should_fall_back
from daemon.config.load import Loaded
from daemon.config.paths import Paths
from daemon.config.secrets import Secrets
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, ErrorClass
from daemon.ops.models import locate
from daemon.providers.base import Provider
from daemon.providers.chain import Route
from daemon.providers.config import FallbackConfig, ProviderConfig

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ModelConfig:
    """The [provider] that is in use, its connections, and the last good config behind it."""

    paths: Paths
    running: Loaded
    clock: Clock
    stack: AsyncExitStack

    def choice(self) -> Choice:
        """Routes of the running config."""
        config = self.running.config.provider
        primary = self._provider(config.dialect(), config.base_url, config.api_key, config, config.extra_headers)
        fallbacks = tuple(Route(self._fallback(entry, config), entry.name()) for entry in config.fallbacks)
        return Choice(Route(primary, config.model()), fallbacks, config.models.fast, config.models.smart)

    async def worked(self) -> None:
        """A model answered: what runs is good, whatever the file says by now."""
        try:
            await asyncio.to_thread(LastGood(self.paths.lastgood).mark, self.running.text)
        except (OSError, ConfigError) as error:
            log.warning("%s could not be written: %s; the config that runs works all the same", self.paths.lastgood, error)

    async def fell(self, kind: ErrorClass) -> tuple[Choice, str] | None:
        """The first call was refused. After an edit that is the edit's fault: the last good config takes over."""
        kept = LastGood(self.paths.lastgood)
        if not should_fall_back(self.running.text, kept.read(), kind):
            return None
        fault = f"{self.paths.config}: [provider]: the first model call failed ({kind.value})"
        try:
            secrets = Secrets(self.paths.secrets).read()
            found = fall_back(self.paths.config, fault, kept, env=os.environ, secrets=secrets)
        except ConfigError as error:
            log.error("the last good config cannot take over: %s", error)
            return None
        self.running = found.loaded
        log.warning("%s", found.notice)
        return self.choice(), found.notice

    def _fallback(self, entry: FallbackConfig, config: ProviderConfig) -> Provider:
        """The primary's extra headers may hold a key of its own: they never go to another host."""
        return self._provider(entry.dialect(), entry.base_url, entry.api_key, config, {})

    def _provider(
        self, kind: str, base_url: str, api_key: str, config: ProviderConfig, headers: Mapping[str, str]
    ) -> Provider:
        make = plugins.load("providers", kind)
        if not callable(make):
            raise ConfigError(f"provider.kind: {kind!r} is not a provider")
        if kind == "local":
            made = make(locate=locate, silence_s=config.timeout_s)
        else:
            made = make(
                base_url=base_url,
                clock=self.clock,
                api_key=api_key,
                timeout_s=config.timeout_s,
                extra_headers=headers,
            )
        provider = cast(Provider, made)  # an add-on's word for it; a wrong one fails at its first call
        self.stack.push_async_callback(provider.aclose)
        return provider
