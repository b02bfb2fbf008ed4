"""What a model call costs, in USD. None means that nobody knows, which is never the same as free."""

import asyncio
import importlib
import ipaddress
from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

from daemon.core.messages import Usage
from daemon.providers.config import PriceConfig

MILLION = 1_000_000
LOCAL_KIND = "local"


class PriceResult(Protocol):
    """What the price table answers."""

    total_price: object
    model_price: object


class PriceTable:
    """genai-prices, loaded when first needed: it costs 0.2 s and 18 MB, which a daemon with an embedded model never pays."""

    def __init__(self) -> None:
        self._calc: Callable[..., PriceResult] | None = None
        self._usage: Callable[..., object] | None = None
        self._unknown: set[tuple[str, str]] = set()

    @property
    def is_loaded(self) -> bool:
        """Asking costs no more than a tenth of a millisecond now."""
        return self._calc is not None

    def load(self) -> None:
        """Import it, and make it read its data. Slow: not for the event loop."""
        module = importlib.import_module("genai_prices")
        self._usage = module.Usage
        calc: Callable[..., PriceResult] = module.calc_price
        calc(module.Usage(input_tokens=1, output_tokens=1), "gpt-4o", provider_id="openai")
        self._calc = calc

    def compute_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """The price, None for an unknown model."""
        if self._calc is None or self._usage is None or (provider, model) in self._unknown:
            return None
        kind, _, host = provider.partition(":")
        where = {"provider_api_url": f"https://{host}"} if host else {"provider_id": kind}
        cached = min(usage.cached_tokens, usage.input_tokens)
        tokens = self._usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=cached,
        )
        try:
            found = self._calc(tokens, model, **where)
        except (LookupError, ValueError):
            self._unknown.add((provider, model))
            return None
        return float(str(found.total_price)) if _has_token_price(found, model) else None


def _has_token_price(found: PriceResult, model: str) -> bool:
    """A model that the table lists without any price by token is not for free, unless it says so."""
    prices = (getattr(found.model_price, name, None) for name in ("input_mtok", "output_mtok"))
    return model.endswith(":free") or any(price is not None for price in prices)


class PriceList:
    """Prices by a provider's name and a model: the config's word first, then the table's."""

    def __init__(self, *, overrides: Mapping[str, PriceConfig], table: PriceTable) -> None:
        self._overrides = overrides
        self._table = table

    async def get_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """What a call cost."""
        await self.preload(provider, model)
        return self._compute_usd(provider, model, usage)

    def estimate_usd(
        self, provider: str, model: str, input_tokens: int, output_tokens: int
    ) -> float | None:
        """What a call may cost, for a reservation. None too while the table is not loaded: `warm` it before."""
        return self._compute_usd(provider, model, Usage(input_tokens, output_tokens))

    async def preload(self, provider: str, model: str) -> None:
        """Load the table in a thread, if this model's price stands in it and it is not loaded yet."""
        if (
            not self._table.is_loaded
            and model not in self._overrides
            and not _is_local_service(provider)
        ):
            await asyncio.to_thread(self._table.load)

    def _compute_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        if provider.partition(":")[0] == LOCAL_KIND:
            return 0.0
        price = self._overrides.get(model)
        if price:
            cached = min(usage.cached_tokens, usage.input_tokens)
            cached_price = price.input if price.cached is None else price.cached
            sent = (usage.input_tokens - cached) * price.input + cached * cached_price
            return (sent + usage.output_tokens * price.output) / MILLION
        return self._table.compute_usd(provider, model, usage)


@cache
def _is_local_service(provider: str) -> bool:
    """Nobody sells what runs on this machine, or in this house: a table has no price for it."""
    kind, _, host = provider.partition(":")
    name = (
        host.rsplit(":", 1)[0].strip("[]")
        if host.rsplit(":", 1)[-1].isdecimal()
        else host.strip("[]")
    )
    try:
        return kind == LOCAL_KIND or ipaddress.ip_address(name).is_private
    except ValueError:
        return kind == LOCAL_KIND or name == "localhost"
