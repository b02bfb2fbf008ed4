"""What a model call costs, in USD. None means unknown, which is never the same as free."""

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from daemon.core.messages import Usage
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
