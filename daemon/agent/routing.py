"""Which models are asked, in which order; what the first answer, or the first refusal, says about
the config (A7, A8).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from daemon.agent.budgets import DailyUsage
from daemon.core import value
from daemon.core.errors import ErrorClass
from daemon.core.messages import Usage
from daemon.core.turn_spec import Intent
from daemon.providers.chain import ModelRoute
from daemon.providers.prices import PriceList

Work = Literal["primary", "fast", "smart"]
WORK: dict[Intent | None, Work] = {
    Intent.TRIVIAL: "fast",
    Intent.SIMPLE_QUERY: "fast",
    Intent.COMPLEX: "smart",
}


@value
class ModelChoice:
    """What one config offers: the primary route, its fallbacks, all names one may pin."""

    primary: ModelRoute
    fallbacks: tuple[ModelRoute, ...] = ()
    fast: str = ""
    smart: str = ""


@dataclass(slots=True)
class ModelRouting:
    """The models of the running config. The callbacks tell the owner of the config how it went,
    once each.
    """

    choice: ModelChoice
    prices: PriceList
    usage: DailyUsage
    confirm_config: Callable[[], Awaitable[None]]
    load_last_good: Callable[[ErrorClass], Awaitable[tuple[ModelChoice, str] | None]]
    _proven: bool = field(default=False)

    def list_routes(self, chosen: str, work: Work | Intent | None = None) -> Sequence[ModelRoute]:
        """The chosen model first, else the one for this work (A2); then the primary, then the
        fallbacks.
        """
        chosen = chosen or self.model_for_work(work)
        primary = self.choice.primary
        first = () if chosen == primary.model else (ModelRoute(primary.provider, chosen),)
        return (*first, primary, *self.choice.fallbacks)

    def model_for_work(self, work: Work | Intent | None) -> str:
        """The model for this kind of work, or of message; the primary where all are the same."""
        kind = WORK.get(work, "primary") if work is None or isinstance(work, Intent) else work
        return {"fast": self.choice.fast, "smart": self.choice.smart}.get(
            kind, ""
        ) or self.choice.primary.model

    def list_models(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        fallbacks = [route.model for route in self.choice.fallbacks]
        works: tuple[Work, ...] = ("primary", "fast", "smart")
        return tuple(dict.fromkeys((*map(self.model_for_work, works), *fallbacks)))

    def estimate_max_cost(self, route: ModelRoute, sent: int, received: int) -> float:
        """What a call may cost, in USD; the configured worst case where the price is unknown
        (F2).
        """
        known = self.prices.get_usd(route.provider.name, route.model, Usage(sent, received))
        return self.usage.budget.worst(sent, received) if known is None else known

    async def on_success(self) -> None:
        """A call worked: the running config is good."""
        self._proven = True
        await self.confirm_config()

    async def on_failure(self, kind: ErrorClass) -> str:
        """The first call failed for good: where the last good config takes over, its routes from
        now on, and a notice.
        """
        found = None if self._proven else await self.load_last_good(kind)
        if found is None:
            return ""
        self.choice, notice = found
        self._proven = True
        return notice
