"""One model call of a turn: written down before, shown while it comes, written down after."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from daemon.agent.context import Context, Prompt, Scene
from daemon.core.clock import Clock
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import ModelAsked, ModelReplied, ModelRetried
from daemon.core.importance import importance
from daemon.core.live import DraftDropped, Live, TextDelta
from daemon.core.messages import ModelReply, ModelRequest, Role, Usage
from daemon.core.turn import Turn
from daemon.providers.base import OnText
from daemon.providers.chain import Route

RESERVED_OUTPUT = 1024


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

    def routes(self, pinned: str) -> Sequence[Route]:
        """Where to ask, in this order; the model pinned by /model first, then the one before it, then the fallbacks."""
        ...

    async def price(self, route: Route, input_tokens: int, output_tokens: int) -> float | None:
        """An estimate in USD; None when the price is unknown."""
        ...

    async def answered(self) -> None:
        """A call worked: the running config is good."""
        ...

    async def refused(self, kind: ErrorClass) -> str:
        """A call failed for good. Gives a notice for the user when the last good config has taken over: ask again."""
        ...


@dataclass(frozen=True, slots=True)
class Asking:
    """Makes a turn's model calls."""

    context: Context
    chain: Chain
    models: Models
    live: Live
    clock: Clock
    settle: Callable[[Usage], None]
    new_seed: Callable[[], int]

    async def ask(self, turn: Turn, scene: Scene, *, closing: bool = False) -> None:
        """Record ModelAsked, call, record ModelReplied. Raises ProviderError when nobody would answer."""
        prompt = self.context.prompt(turn, scene, tools_allowed=not closing)
        try:
            await self._ask_once(turn, scene, prompt, closing)
        except ProviderError as error:
            notice = await self.models.refused(error.kind)
            if not notice:
                raise
            turn.record(self._took_over(turn, error, notice, scene), self.clock.now())
            await self._ask_once(turn, scene, prompt, closing)

    def _took_over(self, turn: Turn, error: ProviderError, notice: str, scene: Scene) -> ModelRetried:
        """The last good config answers from now on; the notice is for the owner."""
        route = self.models.routes(scene.model)[0]
        was = turn.asked
        name, model = (was.provider, was.model) if was else ("", "")
        return ModelRetried(name, model, error.kind.value, notice, 0.0, route.provider.name, route.model)

    async def _ask_once(self, turn: Turn, scene: Scene, prompt: Prompt, closing: bool) -> None:
        routes = self.models.routes(scene.model)
        turn.record(await self._asked(turn, prompt, routes[0], closing), self.clock.now())
        await turn.commit()
        started = self.clock.monotonic()
        reply = await self._complete(turn, scene, prompt.request, routes)
        self._replied(turn, reply, self.clock.monotonic() - started, closing)
        if (reply.provider, reply.model) == (routes[0].provider.name, routes[0].model):
            await self.models.answered()  # a fallback that answered says nothing good of the config

    async def _asked(self, turn: Turn, prompt: Prompt, route: Route, closing: bool) -> ModelAsked:
        output = prompt.request.max_tokens or RESERVED_OUTPUT
        hits = turn.memory_ids
        return ModelAsked(
            iteration=turn.iterations + 1,
            provider=route.provider.name,
            model=route.model,
            prompt_hash=prompt.prompt_hash,
            tools_hash=prompt.tools_hash,
            tools=prompt.tools,
            memory_hits=hits,
            clock=self.clock.now(),
            seed=self.new_seed(),
            reserved_tokens=prompt.tokens,
            reserved_usd=await self.models.price(route, prompt.tokens, output),
            closing=closing,
        )

    async def _complete(self, turn: Turn, scene: Scene, request: ModelRequest, routes: Sequence[Route]) -> ModelReply:
        async def retried(event: ModelRetried) -> None:
            turn.record(event, self.clock.now())
            await turn.commit()

        def drafted(text: str) -> None:
            self.live.publish(turn.id, TextDelta(text, turn.seq))

        watched = scene.stream or self.live.watched(turn.id)
        return await self.chain.complete(
            routes,
            request,
            on_text=drafted if watched else None,
            on_reset=lambda: self.live.publish(turn.id, DraftDropped()),
            on_retry=retried,
        )

    def _replied(self, turn: Turn, reply: ModelReply, seconds: float, closing: bool) -> None:
        self.settle(reply.usage)
        event = ModelReplied(
            text=reply.text,
            calls=reply.calls,
            usage=reply.usage,
            provider=reply.provider,
            model=reply.model,
            finish=reply.finish,
            importance=importance(Role.ASSISTANT, reply.text),
            seconds=round(seconds, 4),
            closing=closing,
            native=reply.native,
        )
        turn.record(event, self.clock.now())
