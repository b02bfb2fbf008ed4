"""Which model is asked next when one does not answer (A7), and what a call costs, in USD. None
means unknown, which is never the same as free.
"""

import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from daemon.core import value
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import ModelRetried
from daemon.core.messages import ModelReply, ModelRequest, Usage
from daemon.providers.base import Provider, TextCallback
from daemon.providers.config import PriceConfig

MILLION = 1_000_000
SNAPSHOT = Path(__file__).with_name("prices.json")
COMPACT_DATE = re.compile(r"-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")

Rate = float | list[float | list[float]]


class Price(TypedDict, total=False):
    """USD per million tokens, a list being base and tiers; `since` and `hours` (UTC) limit it."""

    input: Rate
    cached: Rate
    output: Rate
    requests: float
    since: str
    hours: list[str]


class Model(TypedDict):
    """A model by its names."""

    names: list[str]
    prices: list[Price]


class Service(TypedDict):
    """A service; `also` names services whose models it offers."""

    id: str
    url: str
    names: list[str]
    also: list[str]
    models: list[Model]


class PriceList:
    """Prices of the config, else of the genai-prices snapshot, which is read when needed."""

    def __init__(self, overrides: Mapping[str, PriceConfig]) -> None:
        self._overrides = overrides
        self._found: dict[tuple[str, str], list[Price]] = {}

    def get_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """The price of a call."""
        kind, _, host = provider.partition(":")
        if kind == "local":
            return 0.0
        if own := self._overrides.get(model):
            cached_price = own.input if own.cached is None else own.cached
            price = Price(input=own.input, cached=cached_price, output=own.output)
        else:
            if (provider, model) not in self._found:
                self._found[provider, model] = self._find(kind, host, model.lower())
            listed, now = self._found[provider, model], datetime.now(UTC)
            price = next((entry for entry in reversed(listed) if _applies(entry, now)), Price())
            # A model without a price per token is not free, unless its name says so.
            if not ("input" in price or "output" in price or (listed and model.endswith(":free"))):
                return None
        cached = min(usage.cached_tokens, usage.input_tokens) if "cached" in price else 0
        total = price.get("requests", 0) * 1000
        for rate, tokens in (
            (price.get("input", 0), usage.input_tokens - cached),
            (price.get("cached", 0), cached),
            (price.get("output", 0), usage.output_tokens),
        ):
            if isinstance(rate, list):  # the highest tier that a call of this size reaches
                base, *tiers = (step if isinstance(step, list) else [0, step] for step in rate)
                rate = [base, *(step for step in tiers if usage.input_tokens > step[0])][-1][1]
            total += rate * tokens
        return total / MILLION

    def _find(self, kind: str, host: str, model: str) -> list[Price]:
        """The list prices; what runs on this machine or in this network has none."""
        name = host.partition(":")[0]
        with suppress(ValueError):
            if name == "localhost" or ipaddress.ip_address(name).is_private:
                return []
        # Not kept: 3 MB that are needed once for each model.
        services: list[Service] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))["providers"]
        if host:
            found = [s for s in services if re.match(s["url"], f"https://{host}")]
        else:
            found = [s for s in services if s["id"] == kind]
            found += [s for s in services if _matches(s["names"], kind)]
        also = found[0]["also"] if found else []
        others = [s for name in also for s in services if s["id"] == name]
        for name in (model, COMPACT_DATE.sub(r"-\1-\2-\3", model)):
            for service in (*found[:1], *others):
                for listed in service["models"]:
                    if _matches(listed["names"], name):
                        return listed["prices"]
        return []


def _matches(names: Iterable[str], text: str) -> bool:
    """A name that begins with ^ is a regular expression."""
    return any(re.match(name, text) if name[0] == "^" else name == text for name in names)


def _applies(price: Price, now: datetime) -> bool:
    if "hours" in price:
        start, end = price["hours"]
        return start <= now.time().isoformat() < end
    return now.date().isoformat() >= price.get("since", "")


RETRY_WAIT_S = 2.0
MAX_WAIT_S = 60.0
HONOUR_RETRY_AFTER = (ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED)
RETRYABLE = (
    *HONOUR_RETRY_AFTER,
    ErrorClass.TIMEOUT,
    ErrorClass.NETWORK,
    ErrorClass.SERVER,
    ErrorClass.MALFORMED,
)
NEXT_ROUTE = (*RETRYABLE, ErrorClass.NOT_FOUND)
# An invalid key is reported at once, but that of a fallback does not hide the next ones.
ACCOUNT_ERRORS = (ErrorClass.AUTH, ErrorClass.BILLING)

RetryCallback = Callable[[ModelRetried], Awaitable[None]]


@value
class ModelRoute:
    """A model, and the provider to ask for it."""

    provider: Provider
    model: str

    def __str__(self) -> str:
        return f"{self.model or 'the default model'} at {self.provider.name}"


@value
class ProviderChain:
    """Asks the routes in order, each at most twice. `prices` fill in what the reply cost."""

    sleep: Callable[[float], Awaitable[None]]
    prices: PriceList

    async def complete(
        self,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: RetryCallback,
    ) -> ModelReply:
        """The first reply. `on_reset` voids the text shown so far; `on_retry` precedes a retry."""
        shown: list[str] = []
        reply = await self._ask(routes, request, shown, on_text, on_reset, on_retry)
        if on_text and "".join(shown).strip() != reply.text.strip():
            if shown and on_reset:  # what was shown is not what the reply says
                on_reset()
            if reply.text:
                on_text(reply.text)
        return reply

    async def _ask(
        self,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        shown: list[str],
        on_text: TextCallback | None,
        on_reset: Callable[[], None] | None,
        on_retry: RetryCallback,
    ) -> ModelReply:
        """The first reply; `shown` is what of it was shown."""

        def show(text: str) -> None:
            shown.append(text)
            if on_text:
                on_text(text)

        failures: list[tuple[ModelRoute, ProviderError]] = []
        for position, route in enumerate(routes):
            for is_retry in (False, True):
                try:
                    reply = await route.provider.complete(
                        route.model, request, show if on_text else None
                    )
                except ProviderError as error:
                    if shown and on_reset:
                        on_reset()
                    shown.clear()
                    repeats = error.kind in RETRYABLE and not is_retry
                    if not repeats:
                        failures.append((route, error))
                        passable = NEXT_ROUTE if position == 0 else (*NEXT_ROUTE, *ACCOUNT_ERRORS)
                        if error.kind not in passable:
                            raise
                    asked = error.retry_after if error.kind in HONOUR_RETRY_AFTER else None
                    wait_s = RETRY_WAIT_S if asked is None else min(asked, MAX_WAIT_S)
                    for following in [route] if repeats else routes[position + 1 : position + 2]:
                        event = ModelRetried(
                            provider=route.provider.name,
                            model=route.model,
                            error=error.kind.value,
                            message=str(error),
                            wait_s=wait_s if repeats else 0.0,
                            next_provider=following.provider.name,
                            next_model=following.model,
                        )
                        await on_retry(event)
                    if not repeats:
                        break
                    await self.sleep(wait_s)
                    continue
                said = route.provider.name, route.model, reply.usage
                usd = self.prices.get_usd(*said) if reply.usage.usd is None else None
                return reply if usd is None else replace(reply, usage=replace(reply.usage, usd=usd))
        if not failures:
            raise ProviderError(ErrorClass.NOT_FOUND, "no model is configured")
        last = failures[-1][1]
        if len(failures) == 1:
            raise last
        story = "no model answered. " + "; then ".join(f"{at}: {error}" for at, error in failures)
        raise ProviderError(last.kind, story, retry_after=last.retry_after, status=last.status)
