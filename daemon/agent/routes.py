"""Which models are asked, in which order; and what the first answer, or the first refusal, says about the config (A7, A8)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from daemon.core.errors import ErrorClass
from daemon.providers.chain import Route


class Prices(Protocol):
    """Knows prices."""

    def estimate(self, provider: str, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """What a call may cost; None when unknown."""
        ...

    async def warm(self, provider: str, model: str) -> None:
        """Have the price of this model at hand."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """What one config offers: the primary route, its fallbacks, all names one may pin."""

    primary: Route
    fallbacks: tuple[Route, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class Routes:
    """The models of the running config. `worked` and `fell` tell the owner of the config how it went, once each."""

    choice: Choice
    prices: Prices
    worked: Callable[[], Awaitable[None]]
    fell: Callable[[ErrorClass], Awaitable[tuple[Choice, str] | None]]
    _proven: bool = field(default=False)

    def routes(self, pinned: str) -> Sequence[Route]:
        """The pinned model first, then the one before it, then the fallbacks."""
        primary = self.choice.primary
        first = (Route(primary.provider, pinned), primary) if pinned and pinned != primary.model else (primary,)
        return (*first, *self.choice.fallbacks)

    def names(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        fallbacks = [route.model for route in self.choice.fallbacks]
        return tuple(dict.fromkeys((self.choice.primary.model, *self.choice.others, *fallbacks)))

    async def price(self, route: Route, input_tokens: int, output_tokens: int) -> float | None:
        """An estimate in USD; None when the price is unknown."""
        await self.prices.warm(route.provider.name, route.model)
        return self.prices.estimate(route.provider.name, route.model, input_tokens, output_tokens)

    async def answered(self) -> None:
        """A call worked: the running config is good."""
        if not self._proven:
            self._proven = True
            await self.worked()

    async def refused(self, kind: ErrorClass) -> str:
        """The first call failed for good: where the last good config takes over, its routes from now on, and a notice."""
        if self._proven:
            return ""
        found = await self.fell(kind)
        if found is None:
            return ""
        self.choice, notice = found
        self._proven = True
        return notice
