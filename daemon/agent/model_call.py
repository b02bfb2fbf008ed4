"""One model call of a turn: held in the budgets and written down before, shown while it comes, written down after.

Between the agent and its models: no secret goes to a model, and none that a model or a server wrote comes back (A6).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from daemon.agent.budgets import BudgetExceeded, Budgets
from daemon.agent.context.builder import ContextBuilder, Prompt, TurnContext
from daemon.agent.context.history_window import estimate_max_tokens, estimate_tokens
from daemon.agent.routing import Chain, Models
from daemon.core import value
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import UNBILLED, ProviderError
from daemon.core.event_bus import DraftDropped, EventBus, TextDelta
from daemon.core.events import ModelAsked, ModelReplied, ModelRetried
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, score_importance
from daemon.core.redaction import RedactedStream, Redactor
from daemon.core.turn import Turn, append_plan
from daemon.providers.base import TextCallback
from daemon.providers.chain import ModelRoute

OUTPUT = 8_192
THOUGHTS = {"low": 2_048, "medium": 8_192, "high": 24_000, "max": 24_000}
LEAST_OUTPUT = 256


@dataclass(slots=True)
class PendingCall:
    """A call under way, and what is set aside for it."""

    routes: Sequence[ModelRoute]
    request: ModelRequest
    held: Cost


@value
class ModelCaller:
    """Makes a turn's model calls."""

    context: ContextBuilder
    chain: Chain
    routing: Models
    budgets: Budgets
    live: EventBus
    clock: Clock
    new_seed: Callable[[], int]

    async def call(self, turn: Turn, scene: TurnContext, *, closing: bool = False) -> None:
        """Record ModelAsked, call, record ModelReplied. Raises ProviderError when nobody would answer, and OverBudget."""
        prompt = self._prompt(turn, scene, closing)
        try:
            await self._ask_once(turn, scene, prompt, closing)
        except ProviderError as error:
            notice = await self.routing.on_failure(error.kind)
            if not notice:
                raise
            turn.record(self._took_over(turn, error, notice, scene), self.clock.now())
            await self._ask_once(turn, scene, prompt, closing)

    def _prompt(self, turn: Turn, scene: TurnContext, closing: bool) -> Prompt:
        """What is sent; the plan goes along behind everything, each time as it stands now (E3)."""
        prompt = self.context.build_prompt(turn, scene, tools_allowed=not closing)
        if not turn.todos:
            return prompt
        plain = prompt.request.messages
        messages = append_plan(plain, turn.todos)
        tokens = prompt.tokens + estimate_tokens(messages) - estimate_tokens(plain)
        return replace(prompt, request=replace(prompt.request, messages=messages), tokens=tokens)

    def _routes(self, turn: Turn, scene: TurnContext) -> Sequence[ModelRoute]:
        return self.routing.list_routes(
            scene.model or turn.spec.model or self.routing.model_for_intent(turn.intent)
        )

    def _took_over(
        self, turn: Turn, error: ProviderError, notice: str, scene: TurnContext
    ) -> ModelRetried:
        """The last good config answers from now on; the notice is for the owner."""
        route = self._routes(turn, scene)[0]
        was = turn.open_request
        name, model = (was.provider, was.model) if was else ("", "")
        return ModelRetried(
            name, model, error.kind.value, notice, 0.0, route.provider.name, route.model
        )

    async def _ask_once(
        self, turn: Turn, scene: TurnContext, prompt: Prompt, closing: bool
    ) -> None:
        routes = self._routes(turn, scene)
        call = await self._hold(scene, prompt, routes)
        actual: Cost | None = None  # until we know better: a call that was cut counts as spent
        try:
            turn.record(self._asked(turn, prompt, routes[0], call.held, closing), self.clock.now())
            await turn.commit()
            started = self.clock.monotonic()
            reply = await self._complete(turn, scene, call)
            replied = self._replied(turn, reply, self.clock.monotonic() - started, closing)
            actual = Cost(
                reply.usage.input_tokens, reply.usage.output_tokens, replied.charged_amount
            )
        except ProviderError as error:
            actual = Cost() if error.kind in UNBILLED else None
            raise
        finally:
            self.budgets.settle(scene.account, call.held, call.held if actual is None else actual)
        if (reply.provider, reply.model) == (routes[0].provider.name, routes[0].model):
            await (
                self.routing.on_success()
            )  # a fallback that answered says nothing good of the config

    async def _hold(
        self, scene: TurnContext, prompt: Prompt, routes: Sequence[ModelRoute]
    ) -> PendingCall:
        """The worst that the call can cost, set aside; with little left, the reply must be short and soon. Raises OverBudget."""
        request = prompt.request
        sent = estimate_max_tokens(prompt.tokens, request.messages)
        wanted = (request.max_tokens or OUTPUT) + THOUGHTS.get(request.effort or "", 0)
        held = Cost(sent, wanted, await self.routing.estimate_max_cost(routes[0], sent, wanted))
        try:
            await self.budgets.hold(scene.account, held)
            return PendingCall(routes, request, held)
        except BudgetExceeded:
            output = max(
                min(wanted, LEAST_OUTPUT), await self._affordable(scene, routes[0], sent, wanted)
            )
        held = Cost(sent, output, await self.routing.estimate_max_cost(routes[0], sent, output))
        await self.budgets.hold(scene.account, held)
        return PendingCall(routes, replace(request, max_tokens=output, effort=None), held)

    async def _cover(self, scene: TurnContext, call: PendingCall, event: ModelRetried) -> None:
        """A fallback that is asked next may be dearer than the model before it. Raises OverBudget."""
        for route in call.routes:
            if (route.provider.name, route.model) == (event.next_provider, event.next_model):
                usd = await self.routing.estimate_max_cost(
                    route, call.held.input_tokens, call.held.output_tokens
                )
                call.held = self.budgets.hold_more(
                    scene.account, call.held, Cost(usd=max(0.0, usd - call.held.usd))
                )

    async def _affordable(
        self, scene: TurnContext, route: ModelRoute, sent: int, wanted: int
    ) -> int:
        """How many tokens of a reply there is room for."""
        room = scene.account.compute_remaining()
        output = wanted if room.tokens is None else min(wanted, room.tokens - sent)
        if room.usd is None:
            return output
        before = await self.routing.estimate_max_cost(route, sent, 0)
        each = (await self.routing.estimate_max_cost(route, sent, OUTPUT) - before) / OUTPUT
        return min(output, int((room.usd - before) / each)) if each > 0 else output

    def _asked(
        self, turn: Turn, prompt: Prompt, route: ModelRoute, held: Cost, closing: bool
    ) -> ModelAsked:
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
            reserved_tokens=held.input_tokens,
            reserved_usd=held.usd,
            closing=closing,
            label=prompt.tools_label,
        )

    async def _complete(self, turn: Turn, scene: TurnContext, call: PendingCall) -> ModelReply:
        async def retried(event: ModelRetried) -> None:
            await self._cover(scene, call, event)
            turn.record(event, self.clock.now())
            await turn.commit()

        def drafted(text: str) -> None:
            self.live.publish(turn.id, TextDelta(text, turn.seq))

        watched = scene.stream or self.live.is_watched(turn.id)
        return await self.chain.complete(
            call.routes,
            call.request,
            on_text=drafted if watched else None,
            on_reset=lambda: self.live.publish(turn.id, DraftDropped()),
            on_retry=retried,
        )

    def _replied(
        self, turn: Turn, reply: ModelReply, seconds: float, closing: bool
    ) -> ModelReplied:
        event = ModelReplied(
            text=reply.text,
            calls=reply.calls,
            usage=reply.usage,
            provider=reply.provider,
            model=reply.model,
            finish=reply.finish,
            importance=score_importance(MessageRole.ASSISTANT, reply.text),
            seconds=round(seconds, 4),
            closing=closing,
            native=reply.native,
            cycle=turn.spec.cycles,
            charged_usd=self.routing.charge(reply.usage),
        )
        turn.record(event, self.clock.now())
        return event


@dataclass(slots=True)
class _Draft:
    """A reply as it is shown while it comes; a secret that comes in pieces is held back until it is known for one."""

    redactor: Redactor
    on_text: TextCallback
    on_reset: Callable[[], None] | None
    stream: RedactedStream

    def show(self, text: str) -> None:
        self._tell(self.stream.feed(text))

    def drop(self) -> None:
        self.stream = self.redactor.open_stream()
        if self.on_reset:
            self.on_reset()

    def finish(self) -> None:
        self._tell(self.stream.flush())

    def _tell(self, text: str) -> None:
        if text:
            self.on_text(text)


@value
class RedactingChain:
    """A chain whose every word is clean: what is sent, drafts, replies, errors and notices."""

    chain: Chain
    redactor: Redactor

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
        draft = (
            _Draft(self.redactor, on_text, on_reset, self.redactor.open_stream())
            if on_text
            else None
        )

        async def retried(event: ModelRetried) -> None:
            await on_retry(self.redactor.redact_value(event))

        try:
            reply = await self.chain.complete(
                routes, self._sent(request),
                on_text=draft.show if draft else None,
                on_reset=draft.drop if draft else on_reset,
                on_retry=retried,
            )  # fmt: skip
        except ProviderError as error:
            raise self._told(error) from error
        if draft:
            draft.finish()
        return self._received(reply)

    def _sent(self, request: ModelRequest) -> ModelRequest:
        """One look at the whole: as a rule there is nothing in it."""
        if self.redactor.is_clean(_words(request)):
            return request
        messages = tuple(self._message(message) for message in request.messages)
        return replace(request, messages=messages, tools=self.redactor.redact_value(request.tools))

    def _message(self, message: Message) -> Message:
        cleaned = self.redactor.redact_value(message)
        return message if cleaned is message else replace(cleaned, native=None)

    def _received(self, reply: ModelReply) -> ModelReply:
        cleaned = self.redactor.redact_value(reply)
        return reply if cleaned is reply else replace(cleaned, native=None)

    def _told(self, error: ProviderError) -> ProviderError:
        told = self.redactor.redact_text(str(error))
        return ProviderError(error.kind, told, retry_after=error.retry_after, status=error.status)


def _words(request: ModelRequest) -> list[str]:
    words = [tool.description for tool in request.tools]
    words += [message.text for message in request.messages]
    words += [call.arguments for message in request.messages for call in message.calls]
    words += [message.native.blocks for message in request.messages if message.native]
    return words
