"""Which models are asked, in which order; and what the first answer, or the first refusal, says about the config (A7, A8)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from daemon.agent.models import Work
from daemon.agent.money.ledger import Ledger
from daemon.core.errors import ErrorClass
from daemon.core.messages import Usage
from daemon.core.terms import Intent
from daemon.providers.chain import Route

WORK: dict[Intent, Work] = {Intent.TRIVIAL: "fast", Intent.SIMPLE_QUERY: "fast", Intent.COMPLEX: "smart"}


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
    fast: str = ""
    smart: str = ""

    def named(self, work: Work) -> str:
        """The model for this kind of work."""
        return {"fast": self.fast, "smart": self.smart}.get(work, "") or self.primary.model


@dataclass(slots=True)
class Routes:
    """The models of the running config. `worked` and `fell` tell the owner of the config how it went, once each."""

    choice: Choice
    prices: Prices
    ledger: Ledger
    worked: Callable[[], Awaitable[None]]
    fell: Callable[[ErrorClass], Awaitable[tuple[Choice, str] | None]]
    _proven: bool = field(default=False)

    def routes(self, chosen: str) -> Sequence[Route]:
        """The chosen model first, then the primary, then the fallbacks."""
        primary = self.choice.primary
        first = (Route(primary.provider, chosen), primary) if chosen and chosen != primary.model else (primary,)
        return (*first, *self.choice.fallbacks)

    def named(self, work: Work) -> str:
        """The model for this kind of work."""
        return self.choice.named(work)

    def fitting(self, intent: Intent | None) -> str:
        """The model for this kind of message (A2)."""
        return self.choice.named(WORK.get(intent, "primary") if intent else "primary")

    def names(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        fallbacks = [route.model for route in self.choice.fallbacks]
        others = (self.choice.named("fast"), self.choice.named("smart"))
        return tuple(dict.fromkeys((self.choice.primary.model, *others, *fallbacks)))

    async def worst(self, route: Route, sent: int, received: int) -> float:
        """What a call may cost, in USD; the configured worst case where the price is unknown (F2)."""
        await self.prices.warm(route.provider.name, route.model)
        known = self.prices.estimate(route.provider.name, route.model, sent, received)
        return self.ledger.budget.worst(sent, received) if known is None else known

    def charged(self, usage: Usage) -> float:
        """What budgets count for a call that is over."""
        return self.ledger.charged(usage)

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
