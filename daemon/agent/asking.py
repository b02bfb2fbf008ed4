"""One model call of a turn: held in the budgets and written down before, shown while it comes, written down after."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from daemon.agent.context import Context, Prompt, Scene
from daemon.agent.fit.sizing import tokens_of, worst_tokens
from daemon.agent.models import Chain, Models
from daemon.agent.money.budgets import Budgets, OverBudget
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import UNBILLED, ProviderError
from daemon.core.events import ModelAsked, ModelReplied, ModelRetried
from daemon.core.importance import importance
from daemon.core.live import DraftDropped, Live, TextDelta
from daemon.core.messages import ModelReply, ModelRequest, Role
from daemon.core.shown import with_plan
from daemon.core.turn import Turn
from daemon.providers.chain import Route

OUTPUT = 8_192
THOUGHTS = {"low": 2_048, "medium": 8_192, "high": 24_000, "max": 24_000}
LEAST_OUTPUT = 256


@dataclass(slots=True)
class Call:
    """A call under way, and what is set aside for it."""

    routes: Sequence[Route]
    request: ModelRequest
    held: Cost


@dataclass(frozen=True, slots=True)
class Asking:
    """Makes a turn's model calls."""

    context: Context
    chain: Chain
    models: Models
    budgets: Budgets
    live: Live
    clock: Clock
    new_seed: Callable[[], int]

    async def ask(self, turn: Turn, scene: Scene, *, closing: bool = False) -> None:
        """Record ModelAsked, call, record ModelReplied. Raises ProviderError when nobody would answer, and OverBudget."""
        prompt = self._prompt(turn, scene, closing)
        try:
            await self._ask_once(turn, scene, prompt, closing)
        except ProviderError as error:
            notice = await self.models.refused(error.kind)
            if not notice:
                raise
            turn.record(self._took_over(turn, error, notice, scene), self.clock.now())
            await self._ask_once(turn, scene, prompt, closing)

    def _prompt(self, turn: Turn, scene: Scene, closing: bool) -> Prompt:
        """What is sent; the plan goes along behind everything, each time as it stands now (E3)."""
        prompt = self.context.prompt(turn, scene, tools_allowed=not closing)
        if not turn.todos:
            return prompt
        plain = prompt.request.messages
        messages = with_plan(plain, turn.todos)
        tokens = prompt.tokens + tokens_of(messages) - tokens_of(plain)
        return replace(prompt, request=replace(prompt.request, messages=messages), tokens=tokens)

    def _routes(self, turn: Turn, scene: Scene) -> Sequence[Route]:
        return self.models.routes(scene.model or turn.terms.model or self.models.fitting(turn.intent))

    def _took_over(self, turn: Turn, error: ProviderError, notice: str, scene: Scene) -> ModelRetried:
        """The last good config answers from now on; the notice is for the owner."""
        route = self._routes(turn, scene)[0]
        was = turn.asked
        name, model = (was.provider, was.model) if was else ("", "")
        return ModelRetried(name, model, error.kind.value, notice, 0.0, route.provider.name, route.model)

    async def _ask_once(self, turn: Turn, scene: Scene, prompt: Prompt, closing: bool) -> None:
        routes = self._routes(turn, scene)
        call = await self._hold(scene, prompt, routes)
        actual: Cost | None = None  # until we know better: a call that was cut counts as spent
        try:
            turn.record(self._asked(turn, prompt, routes[0], call.held, closing), self.clock.now())
            await turn.commit()
            started = self.clock.monotonic()
            reply = await self._complete(turn, scene, call)
            replied = self._replied(turn, reply, self.clock.monotonic() - started, closing)
            actual = Cost(reply.usage.input_tokens, reply.usage.output_tokens, replied.charged)
        except ProviderError as error:
            actual = Cost() if error.kind in UNBILLED else None
            raise
        finally:
            self.budgets.settle(scene.account, call.held, call.held if actual is None else actual)
        if (reply.provider, reply.model) == (routes[0].provider.name, routes[0].model):
            await self.models.answered()  # a fallback that answered says nothing good of the config

    async def _hold(self, scene: Scene, prompt: Prompt, routes: Sequence[Route]) -> Call:
        """The worst that the call can cost, set aside; with little left, the reply must be short and soon. Raises OverBudget."""
        request = prompt.request
        sent = worst_tokens(prompt.tokens, request.messages)
        wanted = (request.max_tokens or OUTPUT) + THOUGHTS.get(request.effort or "", 0)
        held = Cost(sent, wanted, await self.models.worst(routes[0], sent, wanted))
        try:
            await self.budgets.hold(scene.account, held)
            return Call(routes, request, held)
        except OverBudget:
            output = max(min(wanted, LEAST_OUTPUT), await self._affordable(scene, routes[0], sent, wanted))
        held = Cost(sent, output, await self.models.worst(routes[0], sent, output))
        await self.budgets.hold(scene.account, held)
        return Call(routes, replace(request, max_tokens=output, effort=None), held)

    async def _cover(self, scene: Scene, call: Call, event: ModelRetried) -> None:
        """A fallback that is asked next may be dearer than the model before it. Raises OverBudget."""
        for route in call.routes:
            if (route.provider.name, route.model) == (event.next_provider, event.next_model):
                usd = await self.models.worst(route, call.held.sent, call.held.received)
                call.held = self.budgets.hold_more(scene.account, call.held, Cost(usd=max(0.0, usd - call.held.usd)))

    async def _affordable(self, scene: Scene, route: Route, sent: int, wanted: int) -> int:
        """How many tokens of a reply there is room for."""
        room = scene.account.left()
        output = wanted if room.tokens is None else min(wanted, room.tokens - sent)
        if room.usd is None:
            return output
        before = await self.models.worst(route, sent, 0)
        each = (await self.models.worst(route, sent, OUTPUT) - before) / OUTPUT
        return min(output, int((room.usd - before) / each)) if each > 0 else output

    def _asked(self, turn: Turn, prompt: Prompt, route: Route, held: Cost, closing: bool) -> ModelAsked:
        return ModelAsked(
            iteration=turn.iterations + 1,
            provider=route.provider.name,
            model=route.model,
            prompt_hash=prompt.prompt_hash,
            tools_hash=prompt.tools_hash,
            tools=prompt.tools,
            memory_hits=turn.memory_ids,
            clock=self.clock.now(),
            seed=self.new_seed(),
            reserved_tokens=held.sent,
            reserved_usd=held.usd,
            closing=closing,
            label=prompt.described,
        )

    async def _complete(self, turn: Turn, scene: Scene, call: Call) -> ModelReply:
        async def retried(event: ModelRetried) -> None:
            await self._cover(scene, call, event)
            turn.record(event, self.clock.now())
            await turn.commit()

        def drafted(text: str) -> None:
            self.live.publish(turn.id, TextDelta(text, turn.seq))

        watched = scene.stream or self.live.watched(turn.id)
        return await self.chain.complete(
            call.routes,
            call.request,
            on_text=drafted if watched else None,
            on_reset=lambda: self.live.publish(turn.id, DraftDropped()),
            on_retry=retried,
        )

    def _replied(self, turn: Turn, reply: ModelReply, seconds: float, closing: bool) -> ModelReplied:
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
            cycle=turn.terms.cycles,
            charged_usd=self.models.charged(reply.usage),
        )
        turn.record(event, self.clock.now())
        return event
