"""Every way in which a model's server can fail, over real sockets: the class that decides what follows, and what people read."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from daemon.core.errors import ErrorClass
from daemon.core.events import ModelRetried
from daemon.core.messages import Message, MessageRole, ModelRequest
from daemon.providers.chain import ModelRoute, PriceList, ProviderChain
from daemon.providers.openai import OpenAI
from tests.fakes.adapters import failure, made
from tests.fakes.openai import FakeOpenAI, Step, breaks_midstream, drops, fails, hangs, raw, says

KEY = "sk-very-secret-key"
ASK = ModelRequest((Message(MessageRole.USER, "hi"),))
Make = Callable[..., OpenAI]


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
async def make(fake: FakeOpenAI) -> AsyncIterator[Make]:
    async with made(OpenAI, fake.base_url, KEY) as make:
        yield make


def says_error(
    message: str = "no", code: object = None, kind: str = "invalid_request_error"
) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


REFUSALS: list[tuple[ErrorClass, int, object]] = [
    (ErrorClass.BAD_REQUEST, 400, says_error("unknown parameter")),
    (ErrorClass.BAD_REQUEST, 422, {"detail": [{"loc": ["body"], "msg": "extra fields"}]}),
    (ErrorClass.BAD_REQUEST, 405, None),
    (ErrorClass.BAD_REQUEST, 307, ""),
    (ErrorClass.CONTEXT_TOO_LONG, 400, says_error("too long", "context_length_exceeded")),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        400,
        says_error("This model's maximum context length is 4096 tokens."),
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        400,
        says_error(
            "the request exceeds the available context size", 400, "exceed_context_size_error"
        ),
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        413,
        "<html><head><title>413 Request Entity Too Large</title></head></html>",
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        413,
        says_error("Request too large for model", "rate_limit_exceeded", "tokens"),
    ),
    *(
        (ErrorClass.CONTEXT_TOO_LONG, 400, says_error(words))
        for words in (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Invalid request: Your request exceeded model token limit: 262144",
            "Prompt exceeds max length",
            "Range of input length should be [1, 129024]",
            "prompt token count of 130000 exceeds the limit of 128000",
            "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
            "Total tokens of image and text exceed max message tokens",
        )
    ),
    *(
        (ErrorClass.BAD_REQUEST, 400, says_error(words))
        for words in (
            "max_tokens is too large: 200000. This model supports at most 8192 completion tokens",
            "Invalid 'messages[3].tool_calls[0].id': string too long. Expected a maximum length 40",
            "tool name too long in request: max length is 64 characters",
            "messages.0.content.1.image: image dimensions exceed max allowed size: 8000 pixels",
        )
    ),
    (ErrorClass.AUTH, 401, says_error("Incorrect API key", "invalid_api_key")),
    (ErrorClass.AUTH, 400, says_error("API key not valid. Please pass a valid API key.")),
    (ErrorClass.AUTH, 400, says_error("Incorrect API key provided: xa***YZ.")),
    (ErrorClass.OVERLOADED, 503, says_error("Loading model", "unavailable_error")),
    (ErrorClass.AUTH, 403, says_error("Country not supported", "unsupported_country")),
    (ErrorClass.BILLING, 402, says_error("Insufficient Balance")),
    (
        ErrorClass.BILLING,
        429,
        says_error("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
    ),
    (ErrorClass.BILLING, 429, says_error("limit", "billing_hard_limit_reached")),
    (ErrorClass.BILLING, 403, says_error("Your credit balance is too low")),
    (ErrorClass.RATE_LIMIT, 429, says_error("Rate limit reached", "rate_limit_exceeded", "tokens")),
    (ErrorClass.RATE_LIMIT, 429, ""),
    (ErrorClass.NOT_FOUND, 404, says_error("The model `x` does not exist", "model_not_found")),
    (ErrorClass.NOT_FOUND, 404, "404 page not found"),
    (ErrorClass.NOT_FOUND, 400, says_error("no such thing", "model_not_found")),
    (ErrorClass.NOT_FOUND, 400, says_error("Model 'gpt-9' not found")),
    (ErrorClass.TIMEOUT, 408, None),
    (
        ErrorClass.OVERLOADED,
        503,
        says_error("The engine is currently overloaded", None, "server_error"),
    ),
    (ErrorClass.OVERLOADED, 529, None),
    (ErrorClass.OVERLOADED, 500, says_error("Overloaded", None, "overloaded_error")),
    (ErrorClass.SERVER, 500, says_error("oops", None, "server_error")),
    (ErrorClass.SERVER, 502, "<html>Bad Gateway</html>"),
    (ErrorClass.SERVER, 503, None),
    (ErrorClass.SERVER, 504, [says_error("late")]),
    (ErrorClass.UNKNOWN, 600, None),
]


@pytest.mark.parametrize(
    ("kind", "status", "answer"),
    REFUSALS,
    ids=[f"{k}-{s}-{n}" for n, (k, s, _) in enumerate(REFUSALS)],
)
async def test_a_refusal_is_put_into_its_class(
    make: Make, fake: FakeOpenAI, kind: ErrorClass, status: int, answer: object
) -> None:
    """A7: the class decides what follows; the message names the host and the status."""
    fake.script(fails(status, answer))
    error = await failure(make().complete("m", ASK))
    assert (error.kind, error.status) == (kind, status)
    assert str(error).startswith(f"127.0.0.1:{fake.port} ({status}) ")
    assert "<" not in str(error)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_429_without_credit_is_billing_and_one_with_a_wait_is_not(
    make: Make, fake: FakeOpenAI, stream: bool
) -> None:
    """A7: the two meanings of 429. Google mentions billing in both."""
    words = "You exceeded your current quota, please check your plan and billing details."
    fake.script(fails(429, says_error(words)), fails(429, says_error(words), {"Retry-After": "3"}))
    show = print if stream else None
    assert (await failure(make().complete("m", ASK, show))).kind is ErrorClass.BILLING
    error = await failure(make().complete("m", ASK, show))
    assert (error.kind, error.retry_after) == (ErrorClass.RATE_LIMIT, 3)


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_retry_after_is_read_in_seconds_milliseconds_and_as_a_date(
    make: Make, fake: FakeOpenAI, status: int
) -> None:
    """A7."""
    long_gone = format_datetime(datetime(2020, 1, 1, tzinfo=UTC), usegmt=True)
    told = [
        {"Retry-After": "7"},
        {"retry-after-ms": "250"},
        {"Retry-After": long_gone},
        {"Retry-After": "later"},
        {},
    ]
    fake.script(*(fails(status, None, headers) for headers in told))
    provider = make()
    assert [(await failure(provider.complete("m", ASK))).retry_after for _ in told] == [
        7,
        0.25,
        0,
        None,
        None,
    ]


BROKEN: list[tuple[str, ErrorClass, Step]] = [
    ("dropped before the answer", ErrorClass.NETWORK, drops()),
    ("cut in the middle", ErrorClass.NETWORK, breaks_midstream("half a", "drop")),
    ("broken JSON", ErrorClass.MALFORMED, breaks_midstream("half a", "malformed")),
    ("error in the middle", ErrorClass.SERVER, breaks_midstream("half a", "error")),
    (
        "overloaded in the middle",
        ErrorClass.OVERLOADED,
        breaks_midstream("x", "error", {"type": "overloaded_error", "message": "busy"}),
    ),
    (
        "429 in the middle",
        ErrorClass.RATE_LIMIT,
        breaks_midstream("x", "error", {"code": 429, "message": "slow down"}),
    ),
    (
        "502 in the middle",
        ErrorClass.SERVER,
        breaks_midstream("x", "error", {"code": 502, "message": "upstream"}),
    ),
    (
        "no credit in the middle",
        ErrorClass.BILLING,
        breaks_midstream("x", "error", {"code": "insufficient_quota", "message": "pay"}),
    ),
    (
        "too long in the middle",
        ErrorClass.CONTEXT_TOO_LONG,
        breaks_midstream("x", "error", {"message": "maximum context length is 5"}),
    ),
    (
        "bad request in the middle",
        ErrorClass.BAD_REQUEST,
        breaks_midstream("x", "error", {"type": "invalid_request_error"}),
    ),
    ("empty text", ErrorClass.MALFORMED, says("")),
    ("no text at all", ErrorClass.MALFORMED, says(None)),
    ("no JSON", ErrorClass.MALFORMED, raw(b"<html>hello</html>")),
    ("JSON of another kind", ErrorClass.MALFORMED, raw(b'["ok"]')),
]


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    ("kind", "step"), [(k, s) for _, k, s in BROKEN], ids=[name for name, _, _ in BROKEN]
)
async def test_a_broken_answer_is_put_into_its_class(
    make: Make, fake: FakeOpenAI, kind: ErrorClass, step: Step, stream: bool
) -> None:
    """A7, issue 2 item 5."""
    fake.script(step)
    error = await failure(make().complete("m", ASK, (lambda _: None) if stream else None))
    assert error.kind is kind
    assert str(error).startswith(f"127.0.0.1:{fake.port} ")


async def test_a_stream_that_just_stops_is_a_network_fault_even_when_it_stops_politely(
    make: Make, fake: FakeOpenAI
) -> None:
    chunk = json.dumps(
        {"choices": [{"delta": {"content": "half"}, "finish_reason": None}]}
    ).encode()
    fake.script(
        raw(b"data: " + chunk + b"\n\n"),
        raw(b"data: " + chunk.replace(b"null", b'"stop"') + b"\n\n"),
    )
    assert (await failure(make().complete("m", ASK, print))).kind is ErrorClass.NETWORK
    assert (
        await make().complete("m", ASK, print)
    ).text == "half"  # a reason to stop is an end, with or without [DONE]


@pytest.mark.parametrize(
    "step",
    [hangs(), breaks_midstream("half a", "silence")],
    ids=["before the answer", "between bytes"],
)
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_silence_is_a_timeout(make: Make, fake: FakeOpenAI, step: Step, stream: bool) -> None:
    """README: timeout_s is the longest silence, between bytes too."""
    fake.script(step)
    error = await failure(
        make(timeout_s=0.5).complete("m", ASK, (lambda _: None) if stream else None)
    )
    assert error.kind is ErrorClass.TIMEOUT
    assert "silent for 0.5 s" in str(error)
    await asyncio.wait_for(fake.gone.wait(), 5)


async def test_a_server_that_is_not_there_is_a_network_fault(make: Make) -> None:
    async with FakeOpenAI() as gone:
        address = gone.base_url
    error = await failure(make(address).complete("m", ASK))
    assert error.kind is ErrorClass.NETWORK
    assert "connection problem" in str(error)


async def test_a_name_that_cannot_be_one_is_a_network_fault(make: Make) -> None:
    """A7: the resolver refuses it in its own way."""
    error = await failure(make(f"http://{'x' * 70}.example/v1").complete("m", ASK))
    assert error.kind is ErrorClass.NETWORK


async def test_a_name_that_does_not_exist_is_a_network_fault(make: Make) -> None:
    error = await failure(make("http://nowhere.invalid/v1").complete("m", ASK))
    assert error.kind is ErrorClass.NETWORK
    assert str(error).startswith("nowhere.invalid ")


async def test_a_redirect_is_not_followed_with_the_key_and_tells_where_it_leads(
    make: Make, fake: FakeOpenAI
) -> None:
    fake.script(fails(308, "", {"Location": "https://other.example/v1"}))
    error = await failure(make().complete("m", ASK))
    assert "https://other.example/v1" in str(error)
    assert fake.count == 1


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    "step",
    [hangs(), breaks_midstream("half a", "silence")],
    ids=["before the answer", "in the middle"],
)
async def test_cancelling_closes_the_connection(
    make: Make, fake: FakeOpenAI, step: Step, stream: bool
) -> None:
    """E2."""
    fake.script(step)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(make().complete("m", ASK, print if stream else None))
        await asyncio.wait_for(fake.hanging.wait(), 5)
        call.cancel()
        await asyncio.wait_for(fake.gone.wait(), 1)
    assert call.cancelled()


async def test_the_key_is_in_no_message_even_when_the_server_echoes_it(
    make: Make, fake: FakeOpenAI
) -> None:
    words = f"Incorrect API key provided: {KEY}.\n\x1b[31mHeaders: Bearer {KEY}"
    fake.script(
        fails(401, says_error(words)),
        fails(500, words),
        breaks_midstream("x", "error", {"message": words}),
        raw(KEY.encode()),
    )
    for _ in range(4):
        error = await failure(make().complete("m", ASK))
        assert KEY not in str(error)
        assert str(error).isprintable()
    assert fake.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_a_fallback_on_another_server_answers_when_the_first_is_down(
    make: Make, fake: FakeOpenAI
) -> None:
    """A7 across providers, with the draft of the broken stream withdrawn."""
    waits: list[float] = []
    told: list[ModelRetried] = []
    shown: list[str] = []

    async def note_wait(seconds: float) -> None:
        waits.append(seconds)

    async def note(event: ModelRetried) -> None:
        told.append(event)

    async with FakeOpenAI() as spare:
        fake.otherwise(breaks_midstream("half", "drop"))
        spare.script(says("from the spare"))
        chain = ProviderChain(sleep=note_wait, prices=PriceList({}))
        routes = [ModelRoute(make(), "big"), ModelRoute(make(spare.base_url), "small")]
        reply = await chain.complete(
            routes, ASK, on_text=shown.append, on_reset=shown.clear, on_retry=note
        )
    assert (reply.text, reply.model, reply.usage.usd) == ("from the spare", "small", None)
    assert "".join(shown) == "from the spare"
    assert (fake.count, spare.count, waits) == (2, 1, [2.0])
    assert [(event.model, event.next_model, event.error) for event in told] == [
        ("big", "big", "network"),
        ("big", "small", "network"),
    ]
