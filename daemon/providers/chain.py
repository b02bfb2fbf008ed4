"""Who is asked next when a model does not answer (A7). Nothing here counts against a turn's budget."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from daemon.core import value
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import ModelRetried
from daemon.core.messages import ModelReply, ModelRequest, Usage
from daemon.providers.base import Provider, TextCallback

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
ACCOUNT_ERRORS = (ErrorClass.AUTH, ErrorClass.BILLING)

RetryCallback = Callable[[ModelRetried], Awaitable[None]]


@value
class ModelRoute:
    """A model, and whom to ask for it."""

    provider: Provider
    model: str

    def __str__(self) -> str:
        return f"{self.model or 'the default model'} at {self.provider.name}"


class Pricing(Protocol):
    """Knows prices."""

    def get_usd(self, provider: str, model: str, usage: Usage) -> float | None:
        """What a call cost; None when unknown."""
        ...


@dataclass(slots=True)
class _Stream:
    """Whether part of a reply has been shown that nobody may believe any more."""

    on_text: TextCallback | None
    on_reset: Callable[[], None] | None
    shown: bool = False

    def show(self, text: str) -> None:
        self.shown = True
        if self.on_text:
            self.on_text(text)

    def reset(self) -> None:
        if self.shown and self.on_reset:
            self.on_reset()
        self.shown = False


@dataclass(slots=True)
class _Call:
    """One call of the chain, and what has gone wrong in it so far."""

    routes: Sequence[ModelRoute]
    request: ModelRequest
    draft: _Stream
    on_retry: RetryCallback
    failures: list[tuple[ModelRoute, ProviderError]] = field(default_factory=list)

    async def ask(self, route: ModelRoute) -> ModelReply:
        try:
            return await route.provider.complete(
                route.model, self.request, self.draft.show if self.draft.on_text else None
            )
        except ProviderError:
            self.draft.reset()
            raise

    async def report_retry(
        self, error: ProviderError, route: ModelRoute, following: ModelRoute, wait_s: float
    ) -> None:
        await self.on_retry(
            ModelRetried(
                provider=route.provider.name,
                model=route.model,
                error=error.kind.value,
                message=str(error),
                wait_s=wait_s,
                next_provider=following.provider.name,
                next_model=following.model,
            )
        )

    def make_final_error(self) -> ProviderError:
        """The last error, with the story of all."""
        last = self.failures[-1][1]
        if len(self.failures) == 1:
            return last
        story = "; then ".join(f"{route}: {error}" for route, error in self.failures)
        return ProviderError(
            last.kind,
            f"no model answered. {story}",
            retry_after=last.retry_after,
            status=last.status,
        )


class ProviderChain:
    """Asks the routes in order. `sleep` waits, `prices` fill in what the reply cost."""

    def __init__(self, *, sleep: Callable[[float], Awaitable[None]], prices: Pricing) -> None:
        self._sleep = sleep
        self._prices = prices

    async def complete(
        self,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: RetryCallback,
    ) -> ModelReply:
        """The first reply that comes. `on_reset` says that what was shown is void; `on_retry` is awaited before each new try."""
        call = _Call(routes, request, _Stream(on_text, on_reset), on_retry)
        for position, route in enumerate(routes):
            try:
                return await self._ask_with_retry(call, route)
            except ProviderError as error:
                call.failures.append((route, error))
                if not _tries_next_route(error.kind, first=position == 0):
                    raise
                if position + 1 < len(routes):
                    await call.report_retry(error, route, routes[position + 1], 0.0)
        raise (
            call.make_final_error()
            if routes
            else ProviderError(ErrorClass.NOT_FOUND, "no model is configured")
        )

    async def _ask_with_retry(self, call: _Call, route: ModelRoute) -> ModelReply:
        try:
            return await self._add_price(await call.ask(route), route)
        except ProviderError as error:
            if error.kind not in RETRYABLE:
                raise
            wait_s = _get_wait(error)
            await call.report_retry(error, route, route, wait_s)
        await self._sleep(wait_s)
        return await self._add_price(await call.ask(route), route)

    async def _add_price(self, reply: ModelReply, route: ModelRoute) -> ModelReply:
        usd = self._prices.get_usd(route.provider.name, route.model, reply.usage)
        return replace(reply, usage=replace(reply.usage, usd=usd))


def _tries_next_route(kind: ErrorClass, *, first: bool) -> bool:
    """A key that does not work is told at once; but a broken fallback does not hide the ones after it."""
    return (
        kind in RETRYABLE or kind is ErrorClass.NOT_FOUND or (not first and kind in ACCOUNT_ERRORS)
    )


def _get_wait(error: ProviderError) -> float:
    told = error.retry_after if error.kind in HONOUR_RETRY_AFTER else None
    return RETRY_WAIT_S if told is None else min(told, MAX_WAIT_S)
