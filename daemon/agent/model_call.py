"""One model call of a turn: its cost reserved and written down before, its text shown while it
comes, its reply recorded.

Secrets are redacted from requests, drafts, replies and errors (A6).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from daemon.agent.budgets import BudgetExceeded, Budgets
from daemon.agent.context.builder import ContextBuilder, Prompt, PromptPlan, TurnContext
from daemon.agent.routing import ModelRouting
from daemon.core import value
from daemon.core.budget import Cost
from daemon.core.clock import Clock
from daemon.core.errors import UNBILLED, ProviderError
from daemon.core.event_bus import DraftDropped, EventBus, TextDelta
from daemon.core.events import ModelAsked, ModelReplied, ModelRetried
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, score_importance
from daemon.core.redaction import RedactedStream, Redactor
from daemon.core.turn import Turn
from daemon.providers.base import TextCallback
from daemon.providers.chain import ModelRoute, ProviderChain, RetryCallback

OUTPUT = 8_192
THOUGHTS = {"low": 2_048, "medium": 8_192, "high": 24_000, "max": 24_000}
LEAST_OUTPUT = 256
T = TypeVar("T", Message, ModelReply)


@dataclass(slots=True)
class Draft:
    """The text of a reply while it comes: redacted and published as long as somebody watches the
    turn.

    A secret that comes in pieces is held back until it is complete.
    """

    bus: EventBus
    turn: Turn
    redactor: Redactor
    stream: RedactedStream
    _pieces: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """A piece has come."""
        self._pieces.append(text)
        if self.bus.is_watched(self.turn.id):
            self.publish_pieces()

    def publish_pieces(self) -> None:
        """Show what nobody watched so far."""
        self._publish(self.stream.feed("".join(self._pieces)))
        self._pieces.clear()

    def finish(self) -> None:
        """Nothing more comes: show what was held back."""
        if self.bus.is_watched(self.turn.id):
            self._publish(self.stream.feed("".join(self._pieces)) + self.stream.flush())

    def drop(self) -> None:
        """The call is repeated: what was shown is void."""
        self._pieces.clear()
        self.stream = self.redactor.open_stream()
        self.bus.publish(self.turn.id, DraftDropped())

    def _publish(self, text: str) -> None:
        if text:
            self.bus.publish(self.turn.id, TextDelta(text, self.turn.seq))


@value
class RedactingChain:
    """A provider chain whose every word is redacted."""

    chain: ProviderChain
    redactor: Redactor

    async def complete(
        self,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: RetryCallback,
    ) -> ModelReply:
        """The reply of the first route that answers. Texts come as the model wrote them. Raises
        ProviderError.
        """
        texts = [tool.description for tool in request.tools]
        for message in request.messages:
            texts.append(message.text)
            texts += [call.arguments for call in message.calls]
            if message.native:
                texts.append(message.native.blocks)
        if not self.redactor.is_clean(texts):
            messages = tuple(self._redact(message) for message in request.messages)
            tools = self.redactor.redact_value(request.tools)
            request = replace(request, messages=messages, tools=tools)

        async def retry(event: ModelRetried) -> None:
            await on_retry(self.redactor.redact_value(event))

        try:
            reply = await self.chain.complete(
                routes, request, on_text=on_text, on_reset=on_reset, on_retry=retry
            )
        except ProviderError as error:
            text = self.redactor.redact_text(str(error))
            raise ProviderError(
                error.kind, text, retry_after=error.retry_after, status=error.status
            ) from error
        return self._redact(reply)

    def _redact(self, item: T) -> T:
        cleaned = self.redactor.redact_value(item)
        return item if cleaned is item else replace(cleaned, native=None)


@value
class ModelCaller:
    """Makes a turn's model calls."""

    context: ContextBuilder
    chain: RedactingChain
    routing: ModelRouting
    budgets: Budgets
    live: EventBus
    clock: Clock
    new_seed: Callable[[], int]

    async def call(
        self,
        turn: Turn,
        context: TurnContext,
        plan: PromptPlan | None = None,
        *,
        closing: bool = False,
    ) -> None:
        """Record ModelAsked, call, record ModelReplied. Raises ProviderError when nobody answers,
        and BudgetExceeded.
        """
        prompt = self.context.build_prompt(turn, context, plan, tools_allowed=not closing)
        try:
            await self._call_once(turn, context, prompt, closing)
        except ProviderError as error:
            notice = await self.routing.on_failure(error.kind)
            if not notice:
                raise
            route, was = self._list_routes(turn, context)[0], turn.open_request
            name, model = (was.provider, was.model) if was else ("", "")
            retried = ModelRetried(
                name, model, error.kind.value, notice, 0.0, route.provider.name, route.model
            )
            turn.record(retried, self.clock.now())
            await self._call_once(turn, context, prompt, closing)

    def _list_routes(self, turn: Turn, context: TurnContext) -> Sequence[ModelRoute]:
        return self.routing.list_routes(context.model or turn.spec.model, turn.intent)

    async def _call_once(
        self, turn: Turn, context: TurnContext, prompt: Prompt, closing: bool
    ) -> None:
        routes = self._list_routes(turn, context)
        first = routes[0]
        request, held = await self._reserve(context, prompt, first)
        actual: Cost | None = None  # until we know better: a call that was cut counts as spent
        asked = ModelAsked(
            iteration=turn.iterations + 1,
            provider=first.provider.name,
            model=first.model,
            prompt_hash=prompt.prompt_hash,
            tools_hash=prompt.tools.hash,
            tools=prompt.tools.names,
            memory_hits=turn.memory_ids,
            clock=self.clock.now(),
            seed=self.new_seed(),
            reserved_tokens=held.input_tokens,
            reserved_usd=held.usd,
            closing=closing,
            label=prompt.tools.label,
        )

        async def retry(event: ModelRetried) -> None:
            nonlocal held
            held = self._cover(context, routes, held, event)
            turn.record(event, self.clock.now())
            await turn.commit()

        try:
            turn.record(asked, self.clock.now())
            await turn.commit()
            started = self.clock.monotonic()
            reply = await self._complete(turn, context, routes, request, retry)
            charged = self.routing.usage.charge(reply.usage)
            seconds = round(self.clock.monotonic() - started, 4)
            self._record_reply(turn, reply, charged, seconds, closing)
            actual = Cost(reply.usage.input_tokens, reply.usage.output_tokens, charged)
        except ProviderError as error:
            actual = Cost() if error.kind in UNBILLED else None
            raise
        finally:
            self.budgets.settle(context.account, held, held if actual is None else actual)
        if (reply.provider, reply.model) == (first.provider.name, first.model):
            await (
                self.routing.on_success()
            )  # a fallback that answered proves nothing about the config

    async def _complete(
        self,
        turn: Turn,
        context: TurnContext,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        retry: RetryCallback,
    ) -> ModelReply:
        if not (context.stream or self.live.is_watched(turn.id)):
            return await self.chain.complete(routes, request, on_retry=retry)
        redactor = self.chain.redactor
        draft = Draft(self.live, turn, redactor, redactor.open_stream())
        with self.live.on_subscribe(turn.id, draft.publish_pieces):
            reply = await self.chain.complete(
                routes, request, on_text=draft.add, on_reset=draft.drop, on_retry=retry
            )
        draft.finish()
        return reply

    def _record_reply(
        self, turn: Turn, reply: ModelReply, charged: float, seconds: float, closing: bool
    ) -> None:
        event = ModelReplied(
            text=reply.text,
            calls=reply.calls,
            usage=reply.usage,
            provider=reply.provider,
            model=reply.model,
            finish=reply.finish,
            importance=score_importance(MessageRole.ASSISTANT, reply.text),
            seconds=seconds,
            closing=closing,
            native=reply.native,
            cycle=turn.spec.cycles,
            charged_usd=charged,
        )
        turn.record(event, self.clock.now())

    async def _reserve(
        self, context: TurnContext, prompt: Prompt, route: ModelRoute
    ) -> tuple[ModelRequest, Cost]:
        """The request and the most that it can cost, set aside. With little left, the reply must
        be short.

        Raises BudgetExceeded.
        """
        request, sent = prompt.request, prompt.tokens * 4 // 3 + prompt.extra
        wanted = (request.max_tokens or OUTPUT) + THOUGHTS.get(request.effort or "", 0)
        held = Cost(sent, wanted, self.routing.estimate_max_cost(route, sent, wanted))
        try:
            await self.budgets.hold(context.account, held)
            return request, held
        except BudgetExceeded:
            room, output = context.account.compute_remaining(), wanted
        if room.tokens is not None:
            output = min(output, room.tokens - sent)
        if room.usd is not None:
            before = self.routing.estimate_max_cost(route, sent, 0)
            each = (self.routing.estimate_max_cost(route, sent, OUTPUT) - before) / OUTPUT
            output = min(output, int((room.usd - before) / each)) if each > 0 else output
        output = max(min(wanted, LEAST_OUTPUT), output)
        held = Cost(sent, output, self.routing.estimate_max_cost(route, sent, output))
        await self.budgets.hold(context.account, held)
        return replace(request, max_tokens=output, effort=None), held

    def _cover(
        self, context: TurnContext, routes: Sequence[ModelRoute], held: Cost, event: ModelRetried
    ) -> Cost:
        """What is held now: a fallback that is asked next may cost more. Raises BudgetExceeded."""
        for route in routes:
            if (route.provider.name, route.model) == (event.next_provider, event.next_model):
                usd = self.routing.estimate_max_cost(route, held.input_tokens, held.output_tokens)
                more = Cost(usd=max(0.0, usd - held.usd))
                held = self.budgets.hold_more(context.account, held, more)
        return held
