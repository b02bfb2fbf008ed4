"""What the agent needs of models: whom to ask, what it may cost, how it went.

Which models are asked, in which order; and what the first answer, or the first refusal, says about the config (A7, A8).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from daemon.agent.budgets import DailyUsage
from daemon.core import value
from daemon.core.errors import ErrorClass
from daemon.core.events import ModelRetried
from daemon.core.messages import ModelReply, ModelRequest, Usage
from daemon.core.turn_spec import Intent
from daemon.providers.base import TextCallback
from daemon.providers.chain import ModelRoute

Work = Literal["primary", "fast", "smart"]


class Chain(Protocol):
    """Retries and fallbacks (A7)."""

    async def complete(
        self,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: Callable[[ModelRetried], Awaitable[None]],
    ) -> ModelReply:
        """The reply of the first route that answers. Raises ProviderError."""
        ...


class Models(Protocol):
    """Which models there are to ask, and who must know how it went (A8)."""

    def list_routes(self, chosen: str) -> Sequence[ModelRoute]:
        """Where to ask, in this order; the chosen model first, then the primary, then the fallbacks."""
        ...

    def model_for_work(self, work: Work) -> str:
        """The model for this kind of work."""
        ...

    def model_for_intent(self, intent: Intent | None) -> str:
        """The model for this kind of message; the primary where all are the same (A2)."""
        ...

    async def estimate_max_cost(self, route: ModelRoute, sent: int, received: int) -> float:
        """What a call may cost, in USD; the configured worst case where the price is unknown (F2)."""
        ...

    def charge(self, usage: Usage) -> float:
        """What budgets count for a call that is over."""
        ...

    async def on_success(self) -> None:
        """A call worked: the running config is good."""
        ...

    async def on_failure(self, kind: ErrorClass) -> str:
        """A call failed for good. Gives a notice for the user when the last good config has taken over: ask again."""
        ...


WORK: dict[Intent, Work] = {
    Intent.TRIVIAL: "fast",
    Intent.SIMPLE_QUERY: "fast",
    Intent.COMPLEX: "smart",
}


class Prices(Protocol):
    """Knows prices."""

    def get_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """What a call costs; None when unknown."""
        ...


@value
class ModelChoice:
    """What one config offers: the primary route, its fallbacks, all names one may pin."""

    primary: ModelRoute
    fallbacks: tuple[ModelRoute, ...] = ()
    fast: str = ""
    smart: str = ""

    def model_for_work(self, work: Work) -> str:
        """The model for this kind of work."""
        return {"fast": self.fast, "smart": self.smart}.get(work, "") or self.primary.model


@dataclass(slots=True)
class ModelRouting:
    """The models of the running config. `worked` and `fell` tell the owner of the config how it went, once each."""

    choice: ModelChoice
    prices: Prices
    usage: DailyUsage
    confirm_config: Callable[[], Awaitable[None]]
    load_last_good: Callable[[ErrorClass], Awaitable[tuple[ModelChoice, str] | None]]
    _proven: bool = field(default=False)

    def list_routes(self, chosen: str) -> Sequence[ModelRoute]:
        """The chosen model first, then the primary, then the fallbacks."""
        primary = self.choice.primary
        first = (
            (ModelRoute(primary.provider, chosen), primary)
            if chosen and chosen != primary.model
            else (primary,)
        )
        return (*first, *self.choice.fallbacks)

    def model_for_work(self, work: Work) -> str:
        """The model for this kind of work."""
        return self.choice.model_for_work(work)

    def model_for_intent(self, intent: Intent | None) -> str:
        """The model for this kind of message (A2)."""
        return self.choice.model_for_work(WORK.get(intent, "primary") if intent else "primary")

    def list_models(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        fallbacks = [route.model for route in self.choice.fallbacks]
        others = (self.choice.model_for_work("fast"), self.choice.model_for_work("smart"))
        return tuple(dict.fromkeys((self.choice.primary.model, *others, *fallbacks)))

    async def estimate_max_cost(self, route: ModelRoute, sent: int, received: int) -> float:
        """What a call may cost, in USD; the configured worst case where the price is unknown (F2)."""
        known = self.prices.get_usd(route.provider.name, route.model, Usage(sent, received))
        return self.usage.budget.worst(sent, received) if known is None else known

    def charge(self, usage: Usage) -> float:
        """What budgets count for a call that is over."""
        return self.usage.charge(usage)

    async def on_success(self) -> None:
        """A call worked: the running config is good."""
        if not self._proven:
            self._proven = True
            await self.confirm_config()

    async def on_failure(self, kind: ErrorClass) -> str:
        """The first call failed for good: where the last good config takes over, its routes from now on, and a notice."""
        if self._proven:
            return ""
        found = await self.load_last_good(kind)
        if found is None:
            return ""
        self.choice, notice = found
        self._proven = True
        return notice
