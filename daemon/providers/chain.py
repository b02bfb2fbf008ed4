"""Which model is asked next when one does not answer (A7). Costs nothing of a turn's budget."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from daemon.core import value
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import ModelRetried
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers.base import Provider, TextCallback
from daemon.providers.prices import PriceList

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
                usd = self.prices.get_usd(route.provider.name, route.model, reply.usage)
                return replace(reply, usage=replace(reply.usage, usd=usd))
        if not failures:
            raise ProviderError(ErrorClass.NOT_FOUND, "no model is configured")
        last = failures[-1][1]
        if len(failures) == 1:
            raise last
        story = "no model answered. " + "; then ".join(f"{at}: {error}" for at, error in failures)
        raise ProviderError(last.kind, story, retry_after=last.retry_after, status=last.status)
