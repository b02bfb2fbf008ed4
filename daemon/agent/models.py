"""What the agent needs of models: whom to ask, what it may cost, how it went."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from daemon.core.errors import ErrorClass
from daemon.core.events import ModelRetried
from daemon.core.messages import ModelReply, ModelRequest, Usage
from daemon.core.terms import Intent
from daemon.providers.base import OnText
from daemon.providers.chain import Route

Work = Literal["primary", "fast", "smart"]


class Chain(Protocol):
    """Retries and fallbacks (A7)."""

    async def complete(
        self,
        routes: Sequence[Route],
        request: ModelRequest,
        *,
        on_text: OnText | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: Callable[[ModelRetried], Awaitable[None]],
    ) -> ModelReply:
        """The reply of the first route that answers. Raises ProviderError."""
        ...


class Models(Protocol):
    """Which models there are to ask, and who must know how it went (A8)."""

    def routes(self, chosen: str) -> Sequence[Route]:
        """Where to ask, in this order; the chosen model first, then the primary, then the fallbacks."""
        ...

    def named(self, work: Work) -> str:
        """The model for this kind of work."""
        ...

    def fitting(self, intent: Intent | None) -> str:
        """The model for this kind of message; the primary where all are the same (A2)."""
        ...

    async def worst(self, route: Route, sent: int, received: int) -> float:
        """What a call may cost, in USD; the configured worst case where the price is unknown (F2)."""
        ...

    def charged(self, usage: Usage) -> float:
        """What budgets count for a call that is over."""
        ...

    async def answered(self) -> None:
        """A call worked: the running config is good."""
        ...

    async def refused(self, kind: ErrorClass) -> str:
        """A call failed for good. Gives a notice for the user when the last good config has taken over: ask again."""
        ...
