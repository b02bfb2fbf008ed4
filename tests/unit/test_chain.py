"""A7, row by row: who is asked, after which wait, and what the user is told."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import ModelRetried
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, Usage
from daemon.providers.base import TextCallback
from daemon.providers.chain import ModelRoute, PriceList, ProviderChain
from daemon.providers.config import PriceConfig

PRICES = PriceList({"a-model": PriceConfig(input=500)})
ASK = ModelRequest((Message(MessageRole.USER, "hi"),))
TRANSIENT = [
    ErrorClass.TIMEOUT,
    ErrorClass.NETWORK,
    ErrorClass.SERVER,
    ErrorClass.OVERLOADED,
    ErrorClass.MALFORMED,
]
FINAL = [ErrorClass.BAD_REQUEST, ErrorClass.CONTEXT_TOO_LONG, ErrorClass.UNKNOWN]


def fault(kind: ErrorClass, retry_after: float | None = None) -> ProviderError:
    return ProviderError(kind, f"server says {kind}", retry_after=retry_after)


@dataclass
class Service:
    """A provider that fails as told, then answers."""

    name: str
    outcomes: list[ProviderError] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        self.log.append(f"{self.name}/{model}")
        if on_text:
            on_text(f"draft {len(self.log)} ")
        if self.outcomes:
            raise self.outcomes.pop(0)
        return ModelReply("hello", usage=Usage(1000, 100), provider=self.name, model=model)

    async def aclose(self) -> None:
        """Nothing to close."""


@dataclass
class World:
    """A chain with a stopwatch instead of waits, a price list of one, and one log of all that happens."""

    log: list[str] = field(default_factory=list)
    told: list[ModelRetried] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def service(self, name: str, *outcomes: ProviderError) -> ModelRoute:
        return ModelRoute(Service(name, list(outcomes), self.log), f"{name}-model")

    async def sleep(self, seconds: float) -> None:
        self.log.append(f"wait {seconds:g}")

    async def note(self, event: ModelRetried) -> None:
        self.told.append(event)
        self.log.append("told")

    async def ask(
        self,
        *routes: ModelRoute,
        on_text: TextCallback | None = None,
        on_reset: Callable[[], None] | None = None,
    ) -> ModelReply:
        chain = ProviderChain(sleep=self.sleep, prices=PRICES)
        return await chain.complete(
            routes, ASK, on_text=on_text, on_reset=on_reset, on_retry=self.note
        )

    async def fail(self, *routes: ModelRoute) -> ProviderError:
        with pytest.raises(ProviderError) as raised:
            await self.ask(*routes)
        return raised.value


@pytest.fixture
def world() -> World:
    return World()


A, B = "a/a-model", "b/b-model"


async def test_a7_a_call_that_works_is_one_call(world: World) -> None:
    reply = await world.ask(world.service("a"), world.service("b"))
    assert (reply.text, world.log, world.told) == ("hello", [A], [])


@pytest.mark.parametrize("kind", [ErrorClass.AUTH, ErrorClass.BILLING, *FINAL])
async def test_a7_auth_billing_and_what_no_other_try_would_mend_is_told_at_once(
    world: World, kind: ErrorClass
) -> None:
    error = await world.fail(world.service("a", fault(kind)), world.service("b"))
    assert (error.kind, str(error), world.log) == (kind, f"server says {kind}", [A])


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [(7.0, "wait 7"), (3600.0, "wait 60"), (None, "wait 2"), (0.0, "wait 0")],
)
@pytest.mark.parametrize("kind", [ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED])
async def test_a7_a_rate_limit_is_waited_for_as_long_as_told_but_never_over_a_minute(
    world: World, kind: ErrorClass, retry_after: float | None, wait: str
) -> None:
    await world.ask(world.service("a", fault(kind, retry_after)), world.service("b"))
    assert world.log == [A, "told", wait, A]


async def test_a7_a_second_rate_limit_goes_to_the_fallback_after_two_calls_in_all(
    world: World,
) -> None:
    limit = fault(ErrorClass.RATE_LIMIT, 5)
    reply = await world.ask(world.service("a", limit, limit, limit), world.service("b"))
    assert (reply.provider, world.log) == ("b", [A, "told", "wait 5", A, "told", B])


@pytest.mark.parametrize("kind", TRANSIENT)
async def test_a7_a_passing_trouble_is_tried_again_after_two_seconds(
    world: World, kind: ErrorClass
) -> None:
    reply = await world.ask(world.service("a", fault(kind)), world.service("b"))
    assert (reply.provider, world.log) == ("a", [A, "told", "wait 2", A])


@pytest.mark.parametrize("kind", TRANSIENT)
async def test_a7_a_trouble_that_stays_goes_to_the_fallback(world: World, kind: ErrorClass) -> None:
    reply = await world.ask(world.service("a", fault(kind), fault(kind)), world.service("b"))
    assert (reply.provider, world.log) == ("b", [A, "told", "wait 2", A, "told", B])


@pytest.mark.parametrize(
    "kind", [ErrorClass.TIMEOUT, ErrorClass.NETWORK, ErrorClass.SERVER, ErrorClass.MALFORMED]
)
async def test_a7_only_a_rate_limit_or_overload_sets_the_wait(
    world: World, kind: ErrorClass
) -> None:
    await world.ask(world.service("a", fault(kind, retry_after=30)))
    assert world.log == [A, "told", "wait 2", A]


async def test_a7_a_model_that_is_not_found_goes_to_the_fallback_at_once(world: World) -> None:
    reply = await world.ask(world.service("a", fault(ErrorClass.NOT_FOUND)), world.service("b"))
    assert (reply.provider, world.log) == ("b", [A, "told", B])


@pytest.mark.parametrize("kind", [ErrorClass.AUTH, ErrorClass.BILLING, *FINAL])
async def test_a7_the_second_try_is_judged_as_the_first(world: World, kind: ErrorClass) -> None:
    error = await world.fail(
        world.service("a", fault(ErrorClass.SERVER), fault(kind)), world.service("b")
    )
    assert (error.kind, world.log) == (kind, [A, "told", "wait 2", A])


@pytest.mark.parametrize("kind", [ErrorClass.AUTH, ErrorClass.BILLING, ErrorClass.NOT_FOUND])
async def test_a7_a_fallback_that_is_no_use_does_not_hide_the_next_one(
    world: World, kind: ErrorClass
) -> None:
    routes = (
        world.service("a", fault(ErrorClass.NOT_FOUND)),
        world.service("b", fault(kind)),
        world.service("c"),
    )
    assert (await world.ask(*routes)).provider == "c"
    assert world.log == [A, "told", B, "told", "c/c-model"]


async def test_a7_a_fallback_is_tried_twice_too(world: World) -> None:
    routes = (
        world.service("a", fault(ErrorClass.NOT_FOUND)),
        world.service("b", fault(ErrorClass.RATE_LIMIT, 90)),
    )
    assert (await world.ask(*routes)).provider == "b"
    assert world.log == [A, "told", B, "told", "wait 60", B]


@pytest.mark.parametrize("kind", FINAL)
async def test_a7_a_fallback_that_does_not_take_the_request_ends_it(
    world: World, kind: ErrorClass
) -> None:
    error = await world.fail(
        world.service("a", fault(ErrorClass.NOT_FOUND)),
        world.service("b", fault(kind)),
        world.service("c"),
    )
    assert (error.kind, world.log) == (kind, [A, "told", B])


async def test_a7_when_nobody_answers_the_user_reads_what_ailed_each(world: World) -> None:
    down, limit = fault(ErrorClass.SERVER), fault(ErrorClass.RATE_LIMIT, 4)
    error = await world.fail(world.service("a", down, down), world.service("b", limit, limit))
    assert (error.kind, error.retry_after) == (ErrorClass.RATE_LIMIT, 4)
    assert str(error) == (
        "no model answered. a-model at a: server says server; then b-model at b: server says rate_limit"
    )
    assert world.log == [A, "told", "wait 2", A, "told", B, "told", "wait 4", B]


async def test_a7_a_lonely_model_that_stays_away_is_told_in_its_own_words(world: World) -> None:
    error = await world.fail(
        world.service("a", fault(ErrorClass.NETWORK), fault(ErrorClass.TIMEOUT))
    )
    assert (error.kind, str(error)) == (ErrorClass.TIMEOUT, "server says timeout")


async def test_a7_without_any_model_the_user_is_told_so(world: World) -> None:
    assert (await world.fail()).kind is ErrorClass.NOT_FOUND


async def test_a7_each_retry_is_an_event_written_before_the_wait(world: World) -> None:
    limit = fault(ErrorClass.RATE_LIMIT, 5)
    await world.ask(world.service("a", limit, limit), world.service("b"))
    assert world.told == [
        ModelRetried("a", "a-model", "rate_limit", "server says rate_limit", 5.0, "a", "a-model"),
        ModelRetried("a", "a-model", "rate_limit", "server says rate_limit", 0.0, "b", "b-model"),
    ]


async def test_e12_a_draft_that_was_shown_is_withdrawn_before_another_begins(world: World) -> None:
    seen: list[str] = []
    down = fault(ErrorClass.NETWORK)
    routes = world.service("a", down, down), world.service("b")
    await world.ask(*routes, on_text=seen.append, on_reset=lambda: seen.append("reset"))
    assert [text.strip().split()[0] for text in seen] == [
        "draft",
        "reset",
        "draft",
        "reset",
        "draft",
        "reset",  # it is not what the reply says
        "hello",
    ]


async def test_e12_a_draft_is_withdrawn_when_the_call_fails_for_good(world: World) -> None:
    seen: list[str] = []
    with pytest.raises(ProviderError):
        await world.ask(
            world.service("a", fault(ErrorClass.AUTH)), on_text=seen.append, on_reset=seen.clear
        )
    assert seen == []


async def test_e12_a_draft_is_withdrawn_once(world: World) -> None:
    @dataclass
    class Shy(Service):
        async def complete(
            self, model: str, request: ModelRequest, on_text: TextCallback | None = None
        ) -> ModelReply:
            return await Service.complete(self, model, request, on_text if not self.log else None)

    seen: list[str] = []
    down = fault(ErrorClass.NETWORK)
    route = ModelRoute(Shy("a", [down, down], world.log), "a-model")
    await world.ask(
        route, world.service("b"), on_text=seen.append, on_reset=lambda: seen.append("reset")
    )
    assert [text.split()[0] for text in seen] == ["draft", "reset", "draft", "reset", "hello"]


async def test_nothing_shown_is_nothing_withdrawn(world: World) -> None:
    seen: list[str] = []
    await world.ask(
        world.service("a", fault(ErrorClass.SERVER)), on_reset=lambda: seen.append("reset")
    )
    assert seen == []


@pytest.mark.parametrize(("answering", "usd"), [("a", 0.5), ("b", None)])
async def test_a_reply_carries_its_price_or_none_where_it_is_unknown(
    world: World, answering: str, usd: float | None
) -> None:
    usage = (await world.ask(world.service(answering))).usage
    assert (usage.usd, usage.input_tokens) == (usd, 1000)


@dataclass
class Stuck(Service):
    """A provider that never answers."""

    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        self.began.set()
        return await asyncio.Future()


async def test_e2_after_a_cancellation_nobody_is_asked_again(world: World) -> None:
    stuck = Stuck("a")
    async with asyncio.TaskGroup() as group:
        call = group.create_task(world.ask(ModelRoute(stuck, "m"), world.service("b")))
        await stuck.began.wait()
        call.cancel()
    assert call.cancelled()
    assert world.log == []


async def test_e2_a_wait_can_be_cancelled(world: World) -> None:
    waiting = asyncio.Event()

    async def forever(seconds: float) -> None:
        waiting.set()
        await asyncio.Future()

    async with asyncio.TaskGroup() as group:
        routes: Sequence[ModelRoute] = [
            world.service("a", fault(ErrorClass.SERVER)),
            world.service("b"),
        ]
        call = group.create_task(
            ProviderChain(sleep=forever, prices=PRICES).complete(routes, ASK, on_retry=world.note)
        )
        await waiting.wait()
        call.cancel()
    assert call.cancelled()
    assert world.log == [A, "told"]
