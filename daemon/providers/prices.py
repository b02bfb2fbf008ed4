"""What a model call costs, in USD. None means unknown, which is never the same as free."""

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
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
        self._services: list[Service] = []
        self._found: dict[tuple[str, str], list[Price]] = {}

    def get_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """The price of a call."""
        kind, _, host = provider.partition(":")
        if kind == "local":
            return 0.0
        cached = min(usage.cached_tokens, usage.input_tokens)
        if own := self._overrides.get(model):
            cached_price = own.input if own.cached is None else own.cached
            sent = (usage.input_tokens - cached) * own.input + cached * cached_price
            return (sent + usage.output_tokens * own.output) / MILLION
        if (provider, model) not in self._found:
            self._found[provider, model] = self._find(kind, host, model.lower())
        listed, now = self._found[provider, model], datetime.now(UTC)
        price = next((entry for entry in reversed(listed) if _applies(entry, now)), Price())
        # A model without a price per token is not free, unless its name says so.
        if not ("input" in price or "output" in price or (listed and model.endswith(":free"))):
            return None
        cached = cached if "cached" in price else 0
        total = (usage.input_tokens - cached) * _get_rate(price.get("input", 0), usage)
        total += cached * _get_rate(price.get("cached", 0), usage)
        total += usage.output_tokens * _get_rate(price.get("output", 0), usage)
        return total / MILLION + price.get("requests", 0) / 1000

    def _find(self, kind: str, host: str, model: str) -> list[Price]:
        if _is_private(host):
            return []
        if not self._services:
            self._services = json.loads(SNAPSHOT.read_text(encoding="utf-8"))["providers"]
        if host:
            found = [s for s in self._services if re.match(s["url"], f"https://{host}")]
        else:
            found = [s for s in self._services if s["id"] == kind]
            found += [s for s in self._services if _matches(s["names"], kind)]
        others = (
            [s for name in found[0]["also"] for s in self._services if s["id"] == name]
            if found
            else []
        )
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


def _get_rate(rate: Rate, usage: Usage) -> float:
    """The rate of the highest tier that a call of this size reaches."""
    if not isinstance(rate, list):
        return rate
    reached = [
        step[1] if isinstance(step, list) else step
        for step in rate
        if not isinstance(step, list) or usage.input_tokens > step[0]
    ]
    return reached[-1]


def _is_private(host: str) -> bool:
    """What runs on this machine or in this network has no list price."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdecimal() else host).strip("[]")
    try:
        return ipaddress.ip_address(name).is_private
    except ValueError:
        return name == "localhost"
