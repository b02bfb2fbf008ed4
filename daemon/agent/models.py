"""Which models are asked, in which order (A7, A8); the model calls of a turn, each with its cost
reserved and written down before; small questions to a model beside the loop.

Secrets are redacted from requests, drafts, replies and errors (A6).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from daemon.agent.budget_tree import Cost
from daemon.agent.budgets import Budgets, DailyUsage
from daemon.agent.context.builder import Prompt, TurnContext
from daemon.agent.context.history import estimate_max_tokens, estimate_tokens
from daemon.agent.request_ladder import Adaptations, adapt, find_step
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import UNBILLED, BudgetExceeded, ErrorClass, ProviderError
from daemon.core.event_bus import DraftDropped, EventBus, TextDelta
from daemon.core.events import Consulted, Consulting, ModelAsked, ModelReplied, ModelRetried
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelReply,
    ModelRequest,
    Usage,
    score_importance,
)
from daemon.core.turn import Turn
from daemon.core.turn_spec import Intent
from daemon.providers.base import TextCallback
from daemon.providers.chain import (
    ACCOUNT_ERRORS,
    NEXT_ROUTE,
    ModelRoute,
    PriceList,
    ProviderChain,
    RetryCallback,
)
from daemon.settings.redaction import RedactedStream, Redactor

log = logging.getLogger(__name__)
Work = Literal["primary", "fast", "smart"]
WORK: Mapping[object, str] = {
    Intent.TRIVIAL: "fast",
    Intent.SIMPLE_QUERY: "fast",
    Intent.COMPLEX: "smart",
}
OUTPUT = 8_192
THOUGHTS = {"low": 2_048, "medium": 8_192, "high": 24_000, "max": 24_000}
LEAST_OUTPUT = 256
INTENT, CLAIMS = "intent", "claims"  # what the fast model is asked, whatever a chat has pinned
PATIENCE_S, SHORT_PATIENCE_S = 60.0, 10.0
SHORT_TOKENS = 1024  # a model that thinks first needs room for it
EMBEDDED = "local"


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
    once each. `failures`: calls since one last was answered, the first of them at `failing_since`
    (monotonic).
    """

    choice: ModelChoice
    prices: PriceList
    usage: DailyUsage
    confirm_config: Callable[[], Awaitable[None]]
    load_last_good: Callable[[ErrorClass], Awaitable[tuple[ModelChoice, str] | None]]
    proven: bool = False
    failures: int = 0
    failing_since: float = 0.0
    failing_why: str = ""

    def list_routes(self, chosen: str, work: Work | Intent | None = None) -> Sequence[ModelRoute]:
        """The chosen model first, else the one for this work (A2); then the primary, then the
        fallbacks.
        """
        chosen, primary = chosen or self.model_for_work(work), self.choice.primary
        first = () if chosen == primary.model else (ModelRoute(primary.provider, chosen),)
        return (*first, primary, *self.choice.fallbacks)

    def model_for_work(self, work: Work | Intent | None) -> str:
        """The model for this kind of work, or of message; the primary where all are the same."""
        special = {"fast": self.choice.fast, "smart": self.choice.smart}
        return special.get(WORK.get(work, work or "")) or self.choice.primary.model

    def list_models(self) -> Sequence[str]:
        """All that are configured, the default one first."""
        choice = self.choice
        fallbacks = [route.model for route in choice.fallbacks]
        first = choice.primary.model
        return tuple(dict.fromkeys(filter(None, (first, choice.fast, choice.smart, *fallbacks))))

    def estimate_max_cost(self, route: ModelRoute, sent: int, received: int) -> float:
        """What a call may cost, in USD; the configured worst case where the price is unknown
        (F2).
        """
        known = self.prices.get_usd(route.provider.name, route.model, Usage(sent, received))
        return self.usage.worst(sent, received) if known is None else known

    async def on_failure(self, kind: ErrorClass) -> str:
        """The first call failed for good: where the last good config takes over, its routes from
        now on, and a notice.
        """
        found = None if self.proven else await self.load_last_good(kind)
        if found is None:
            return ""
        self.proven, (self.choice, notice) = True, found
        return notice

    def add_failure(self, error: ProviderError, now: float) -> None:
        """A call failed, with all fallbacks. What is wrong with the request says nothing of the
        model.
        """
        if error.kind not in (*NEXT_ROUTE, *ACCOUNT_ERRORS):
            return
        if self.failures == 0:
            self.failing_since = now
        self.failures += 1
        self.failing_why = str(error)


@dataclass(slots=True)
class Draft:
    """The text of a reply while it comes: redacted and published.

    A secret that comes in pieces is held back until it is complete.
    """

    bus: EventBus
    turn: Turn
    stream: RedactedStream

    def add(self, text: str) -> None:
        """A piece has come."""
        if text := self.stream.feed(text):
            self.bus.publish(self.turn.id, TextDelta(text, self.turn.seq))

    def finish(self) -> None:
        """Nothing more comes: show what was held back."""
        if text := self.stream.flush():
            self.bus.publish(self.turn.id, TextDelta(text, self.turn.seq))

    def drop(self) -> None:
        """The call is repeated: what was shown is void."""
        self.stream = RedactedStream(self.stream.redactor)
        self.bus.publish(self.turn.id, DraftDropped())


async def log_retry(event: ModelRetried) -> None:
    """Auxiliary calls show their retries in the log only."""
    log.info("an auxiliary call is repeated: %s", event.message)


@value
class RedactingChain:
    """A provider chain whose every word is redacted. `fill` puts pictures into a request."""

    chain: ProviderChain
    redactor: Redactor
    fill: Callable[[ModelRequest], Awaitable[ModelRequest]]

    async def complete(
        self,
        routes: Sequence[ModelRoute],
        request: ModelRequest,
        *,
        on_text: TextCallback | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: RetryCallback = log_retry,
    ) -> ModelReply:
        """The reply of the first route that answers. Texts come as the model wrote them. Raises
        ProviderError.
        """
        redactor, has_pictures = self.redactor, False
        texts = {tool.description for tool in request.tools}
        for message in request.messages:
            texts.add(message.text)
            has_pictures = has_pictures or bool(message.pictures)
            for call in message.calls:
                texts.add(call.arguments)
            if message.native:
                texts.add(message.native.blocks)
        if not redactor.is_clean(texts):
            messages = tuple(
                one if (clean := redactor.redact_value(one)) is one else replace(clean, native=None)
                for one in request.messages
            )
            tools = redactor.redact_value(request.tools)
            request = replace(request, messages=messages, tools=tools)
        request = await self.fill(request) if has_pictures else request

        async def retry(event: ModelRetried) -> None:
            await on_retry(redactor.redact_value(event))

        try:
            reply = await self.chain.complete(
                routes, request, on_text=on_text, on_reset=on_reset, on_retry=retry
            )
        except ProviderError as error:
            text = redactor.redact_text(str(error))
            raise ProviderError(
                error.kind,
                text,
                retry_after=error.retry_after,
                status=error.status,
                parameters=error.parameters,
            ) from error
        cleaned = redactor.redact_value(reply)
        return reply if cleaned is reply else replace(cleaned, native=None)


@dataclass(slots=True)
class ModelCaller:
    """Makes a turn's model calls, and asks small questions beside them: for a summary, a verdict, a
    class, a reflection.
    """

    chain: RedactingChain
    routing: ModelRouting
    budgets: Budgets
    live: EventBus
    clock: Clock
    new_seed: Callable[[], int]
    adaptations: Adaptations

    async def call(self, turn: Turn, context: TurnContext, prompt: Prompt) -> None:
        """Record ModelAsked, call, record ModelReplied. Raises ProviderError when nobody answers,
        and BudgetExceeded.
        """
        chosen = context.model or turn.spec.model
        routes = self.routing.list_routes(chosen, turn.intent)
        try:
            await self._climb(turn, context, prompt, routes)
        except ProviderError as error:
            notice = await self.routing.on_failure(error.kind)
            if not notice:
                self.routing.add_failure(error, self.clock.monotonic())
                raise
            routes, was = self.routing.list_routes(chosen, turn.intent), turn.open_request
            first, (name, model) = routes[0], (was.provider, was.model) if was else ("", "")
            retried = ModelRetried(
                name, model, error.kind.value, notice, 0.0, first.provider.name, first.model
            )
            turn.record(retried, self.clock.now())
            await self._call_once(turn, context, prompt, routes)

    async def _climb(
        self, turn: Turn, context: TurnContext, prompt: Prompt, routes: Sequence[ModelRoute]
    ) -> None:
        """Call; a request that is refused for what is in it is made again without that (A7)."""
        asked = [(route.provider.name, route.model) for route in routes]
        any_known = turn.adapted or self.adaptations.helped
        known = self.adaptations.find(turn, asked) if any_known else None
        if known and not turn.adapted and any(one.pictures for one in turn.messages):
            known = self.adaptations.show_again(turn, known)
        while True:
            try:
                await self._call_once(
                    turn, context, adapt(prompt, known) if known else prompt, routes
                )
                break
            except ProviderError as error:
                step = find_step(turn, error, prompt.request, known)
                if known:
                    self.adaptations.forget(turn, known.provider, known.model)
                if step is None:
                    raise
                log.info("turn %s: the request was refused (%s); asked again", turn.id, error)
                turn.record(step, self.clock.now())
                known = step
        if known:
            self.adaptations.remember(turn, known)

    async def _call_once(
        self, turn: Turn, context: TurnContext, prompt: Prompt, routes: Sequence[ModelRoute]
    ) -> None:
        first, clock, closing = routes[0], self.clock, not prompt.request.tools_allowed
        request, held = await self._reserve(context, prompt, first)
        actual: Cost | None = None  # until we know better: a call that was cut counts as spent
        asked = ModelAsked(
            turn.iterations + 1,
            first.provider.name,
            first.model,
            prompt.prompt_hash,
            prompt.tools.hash,
            prompt.tools.names,
            turn.memory_ids,
            clock.now(),
            self.new_seed(),
            held.input_tokens,
            held.usd,
            closing,
            prompt.tools.label,
        )

        async def retry(event: ModelRetried) -> None:
            nonlocal held
            held = self._cover(context, routes, held, event)
            turn.record(event, clock.now())
            await turn.commit()

        try:
            turn.record(asked, clock.now())
            await turn.commit()
            started = clock.monotonic()
            reply = await self._complete(turn, context, routes, request, retry)
            usage, charged = reply.usage, self.routing.usage.charge(reply.usage)
            event = ModelReplied(
                reply.text,
                reply.calls,
                usage,
                reply.provider,
                reply.model,
                reply.finish,
                score_importance(MessageRole.ASSISTANT, reply.text),
                round(clock.monotonic() - started, 4),
                closing,
                reply.native,
                cycle=turn.spec.cycles,
                charged_usd=charged,
                recovered=reply.recovered,
            )
            turn.record(event, clock.now())
            actual = Cost(usage.input_tokens, usage.output_tokens, charged)
        except ProviderError as error:
            actual = Cost() if error.kind in UNBILLED else None
            raise
        finally:
            self.budgets.settle(context.account, held, held if actual is None else actual)
        self.routing.failures = 0  # but a fallback proves nothing about the config
        if (reply.provider, reply.model) == (asked.provider, asked.model):
            self.routing.proven = True
            await self.routing.confirm_config()

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
        draft = Draft(self.live, turn, RedactedStream(self.chain.redactor))
        reply = await self.chain.complete(
            routes, request, on_text=draft.add, on_reset=draft.drop, on_retry=retry
        )
        draft.finish()
        return reply

    async def _reserve(
        self, context: TurnContext, prompt: Prompt, route: ModelRoute
    ) -> tuple[ModelRequest, Cost]:
        """The request and the most that it can cost, set aside. With little left, the reply must
        be short.

        Raises BudgetExceeded.
        """
        request, estimate = prompt.request, self.routing.estimate_max_cost
        sent = estimate_max_tokens(request.messages, prompt.tokens)
        wanted = (request.max_tokens or OUTPUT) + THOUGHTS.get(request.effort or "", 0)
        held = Cost(sent, wanted, estimate(route, sent, wanted))
        try:
            await self.budgets.hold(context.account, held)
            return request, held
        except BudgetExceeded:
            room, output = context.account.compute_remaining(), wanted
        if room.tokens is not None:
            output = min(output, room.tokens - sent)
        if room.usd is not None:
            before = estimate(route, sent, 0)
            each = (estimate(route, sent, OUTPUT) - before) / OUTPUT
            output = min(output, int((room.usd - before) / each)) if each > 0 else output
        output = max(min(wanted, LEAST_OUTPUT), output)
        held = Cost(sent, output, estimate(route, sent, output))
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
                self.budgets.daily.roll_over()
                if short := context.account.find_shortage(more):
                    raise BudgetExceeded(short)
                context.account.settle(held, Cost())
                held += more
                context.account.reserve(held)
        return held

    def is_embedded(self, turn: Turn, context: TurnContext) -> bool:
        """Too small to decide, or to plan."""
        route = self.routing.list_routes(context.model or turn.spec.model, "primary")[0]
        return route.provider.name == EMBEDDED

    async def consult(
        self, turn: Turn, context: TurnContext, purpose: str, system: str, question: str
    ) -> str | None:
        """A plain question in a word or two. The embedded model is not asked."""
        if self.is_embedded(turn, context):
            return None
        messages = [Message(MessageRole.SYSTEM, system), Message(MessageRole.USER, question)]
        return await self.ask(turn, context, purpose, messages, max_tokens=SHORT_TOKENS)

    async def ask(
        self,
        turn: Turn,
        context: TurnContext,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
    ) -> str | None:
        """The model's words; None when nobody answered in time, or there is no budget for it: who
        asks does without, and nothing here ends a turn.
        """
        clock, patience = self.clock, PATIENCE_S
        if purpose in (INTENT, CLAIMS):
            route, patience = self.routing.list_routes("", "fast")[0], SHORT_PATIENCE_S
        else:
            route = self.routing.list_routes(context.model or turn.spec.model, "primary")[0]
        sent = estimate_max_tokens(messages, estimate_tokens(messages))
        usd = self.routing.estimate_max_cost(route, sent, max_tokens)
        actual = held = Cost(sent, max_tokens, usd)
        try:
            await self.budgets.hold(context.account, held)
        except BudgetExceeded as error:
            log.info("turn %s: no budget for a %s (%s)", turn.id, purpose, error)
            return None
        request = ModelRequest(tuple(messages), max_tokens=max_tokens)
        asked = Consulting(purpose, route.provider.name, route.model, sent, usd)
        began = clock.monotonic()
        try:
            turn.record(asked, clock.now())
            await turn.commit()
            async with asyncio.timeout(patience):
                reply = await self.chain.complete((route,), request)
            usage, charged = reply.usage, self.routing.usage.charge(reply.usage)
            seconds = round(clock.monotonic() - began, 4)
            done = Consulted(
                purpose, reply.text, usage, reply.provider, reply.model, charged, seconds
            )
            actual = Cost(usage.input_tokens, usage.output_tokens, charged)
        except (ProviderError, TimeoutError) as error:
            why = str(error) or "too slow"
            log.warning("no model answered for a %s: %s", purpose, why)
            done, actual = Consulted(purpose, "", Usage(usd=0.0), "", "", error=why), Cost()
        finally:
            self.budgets.settle(context.account, held, actual)
        turn.record(done, clock.now())
        return None if done.error else done.text
