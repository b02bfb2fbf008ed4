"""Claude over real sockets: every way to fail, thinking that goes back, any history there may be, and a whole house behind it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import aiohttp
import pytest
from aiohttp import web

from daemon.core.errors import ErrorClass
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, ToolSpec
from daemon.providers.anthropic import CACHE_MARK, Anthropic
from tests.fakes.adapters import failure, made, prepare
from tests.fakes.anthropic import KEY, FakeAnthropic, breaks_midstream, calls, refuses, says, thinks
from tests.fakes.anthropic.thoughts import Thoughts
from tests.fakes.openai import Exchange, Step, drops, fails, hangs, raw

NEW, OLD = "claude-haiku-5-5", "claude-haiku-4-5"
ASK = ModelRequest((Message(MessageRole.USER, "hi"),))
LS = ToolSpec("ls", "List files", {"type": "object", "properties": {}})
CAT = ToolSpec("cat", "Show a file", {"type": "object", "properties": {}})
Make = Callable[..., Anthropic]


@pytest.fixture
async def fake() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic() as fake:
        yield fake


@pytest.fixture
async def make(fake: FakeAnthropic) -> AsyncIterator[Make]:
    async with made(Anthropic, fake.base_url, KEY) as make:
        yield make


# every way to fail


def limit(code: str) -> Step:
    details = {"type": "rate_limit_error", "message": "limit", "details": {"error_code": code}}
    return fails(429, {"type": "error", "error": details})


REFUSALS: list[tuple[ErrorClass, int, Step]] = [
    (
        ErrorClass.BAD_REQUEST,
        400,
        refuses("invalid_request_error", "messages.0: Extra inputs are not permitted"),
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        400,
        refuses("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        400,
        refuses(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000",
        ),
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        413,
        refuses("request_too_large", "Request exceeds the maximum size", 413),
    ),
    (
        ErrorClass.BILLING,
        400,
        refuses(
            "invalid_request_error", "Your credit balance is too low to access the Anthropic API."
        ),
    ),
    (
        ErrorClass.BILLING,
        400,
        refuses("invalid_request_error", "You have reached your specified API usage limits."),
    ),
    (ErrorClass.BILLING, 402, refuses("billing_error", "pay", 402)),
    (ErrorClass.BILLING, 429, limit("enforced_spend_limit_reached")),
    (ErrorClass.AUTH, 401, refuses("authentication_error", "invalid x-api-key", 401)),
    (ErrorClass.AUTH, 403, refuses("permission_error", "not for you", 403)),
    (ErrorClass.NOT_FOUND, 404, refuses("not_found_error", "model: claude-9", 404)),
    (ErrorClass.RATE_LIMIT, 429, refuses("rate_limit_error", "tokens per minute", 429)),
    (ErrorClass.OVERLOADED, 529, refuses("overloaded_error", "Overloaded", 529)),
    (ErrorClass.SERVER, 500, refuses("api_error", "Internal server error", 500)),
    (ErrorClass.SERVER, 504, refuses("timeout_error", "took too long", 504)),
]


@pytest.mark.parametrize(
    ("kind", "status", "step"),
    REFUSALS,
    ids=[f"{k}-{s}-{n}" for n, (k, s, _) in enumerate(REFUSALS)],
)
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_a_refusal_is_put_into_its_class_a7(
    make: Make, fake: FakeAnthropic, kind: ErrorClass, status: int, step: Step, stream: bool
) -> None:
    """A7: the class decides what follows; the message names the host and the status."""
    fake.script(step)
    error = await failure(make().complete(NEW, ASK, print if stream else None))
    assert (error.kind, error.status) == (kind, status)
    assert str(error).startswith(f"127.0.0.1:{fake.port} ({status}) ")


async def test_a_limit_says_when_to_come_back_a7(make: Make, fake: FakeAnthropic) -> None:
    """A7."""
    fake.script(
        refuses("rate_limit_error", "slow", 429, retry_after="7"),
        refuses("overloaded_error", "busy", 529),
    )
    assert [(await failure(make().complete(NEW, ASK))).retry_after for _ in range(2)] == [7, None]


def midway(kind: str, message: str = "no") -> Step:
    return breaks_midstream("half a", "error", {"type": kind, "message": message})


BROKEN: list[tuple[str, ErrorClass, Step]] = [
    ("dropped before the answer", ErrorClass.NETWORK, drops()),
    ("cut in the middle", ErrorClass.NETWORK, breaks_midstream("half a", "drop")),
    ("broken JSON", ErrorClass.MALFORMED, breaks_midstream("half a", "malformed")),
    ("error in the middle", ErrorClass.SERVER, midway("api_error")),
    ("overloaded in the middle", ErrorClass.OVERLOADED, midway("overloaded_error", "Overloaded")),
    ("limit in the middle", ErrorClass.RATE_LIMIT, midway("rate_limit_error")),
    ("no credit in the middle", ErrorClass.BILLING, midway("billing_error")),
    (
        "too long in the middle",
        ErrorClass.CONTEXT_TOO_LONG,
        midway("invalid_request_error", "prompt is too long: 5 > 4"),
    ),
    ("a key that ended in the middle", ErrorClass.AUTH, midway("authentication_error")),
    ("only a thought", ErrorClass.MALFORMED, says("", thinks(), finish="max_tokens")),
    ("no text at all", ErrorClass.MALFORMED, says("")),
    (
        "no room for an answer",
        ErrorClass.CONTEXT_TOO_LONG,
        says("", finish="model_context_window_exceeded"),
    ),
    ("no JSON", ErrorClass.MALFORMED, raw(b"<html>hello</html>")),
    ("an empty body", ErrorClass.MALFORMED, raw(b"{}")),
]


@pytest.mark.parametrize(
    ("kind", "step"), [pair[1:] for pair in BROKEN], ids=[pair[0] for pair in BROKEN]
)
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_an_answer_that_breaks_is_put_into_its_class_a7(
    make: Make, fake: FakeAnthropic, kind: ErrorClass, step: Step, stream: bool
) -> None:
    """A7; and the next call, on whatever connection, is not harmed by it."""
    fake.script(step, says("fine"))
    provider = make()
    assert (await failure(provider.complete(NEW, ASK, print if stream else None))).kind is kind
    assert (await provider.complete(NEW, ASK)).text == "fine"


async def test_a_stream_that_ends_without_its_end_is_cut_off(
    make: Make, fake: FakeAnthropic
) -> None:
    whole = await streamed(fake, says("one two", thinks()))
    end = whole.index(b"event: message_delta")
    fake.script(raw(whole[:end]), raw(whole[: whole.index(b"event: message_stop")]))
    assert (await failure(make().complete(NEW, ASK, print))).kind is ErrorClass.NETWORK
    assert (await make().complete(NEW, ASK, print)).text == "one two"


@pytest.mark.parametrize(
    "step", [hangs(), breaks_midstream("half a", "silence")], ids=["at once", "midway"]
)
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_silence_is_a_timeout_e2(
    make: Make, fake: FakeAnthropic, step: Step, stream: bool
) -> None:
    """E2, A7."""
    fake.script(step)
    error = await failure(make(timeout_s=0.2).complete(NEW, ASK, print if stream else None))
    assert error.kind is ErrorClass.TIMEOUT


async def test_a_cancelled_call_leaves_the_server_e2(make: Make, fake: FakeAnthropic) -> None:
    """E2: stop reaches into the call."""
    fake.script(hangs())
    call = asyncio.create_task(make().complete(NEW, ASK))
    async with asyncio.timeout(20):
        await fake.hanging.wait()
        call.cancel()
        await fake.gone.wait()


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_key_is_told_to_nobody(make: Make, fake: FakeAnthropic, stream: bool) -> None:
    fake.script(
        refuses("authentication_error", f"bad key {KEY}", 401), midway("api_error", f"oh, {KEY}")
    )
    provider = make()
    for _ in range(2):
        error = await failure(provider.complete(NEW, ASK, print if stream else None))
        assert KEY not in str(error)
        assert error.__context__ is None or error.__suppress_context__


async def test_many_calls_go_over_one_connection(make: Make, fake: FakeAnthropic) -> None:
    ports: set[object] = set()

    async def noted(x: Exchange) -> web.StreamResponse:
        ports.add(
            x.request.remote
            and x.request.transport
            and x.request.transport.get_extra_info("peername")
        )
        return await says("ok")(x)

    fake.otherwise(noted)
    provider = make()
    for number in range(6):
        await provider.complete(NEW, ASK, print if number % 2 else None)
    assert len(ports) == 1


# odd cuts


async def streamed(fake: FakeAnthropic, step: Step) -> bytes:
    """The bytes that a stream of this consists of."""
    fake.script(step)
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    body = prepare(Anthropic, NEW, ASK, True)[0]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{fake.base_url}/messages", data=body, headers=headers) as got,
    ):
        return await got.read()


@pytest.mark.parametrize("size", [1, 2, 7, 61, 100_000])
async def test_a_stream_says_the_same_however_its_bytes_are_cut(
    make: Make, fake: FakeAnthropic, size: int
) -> None:
    """E12: pings, text, thinking, signatures and arguments in pieces, in the middle of a letter too."""
    whole = await streamed(
        fake,
        calls(("ls", {"päth": "ü/ß", "n": [1, {}]}), thoughts=(thinks("größer?"),), text="Schön:"),
    )
    fake.script(raw(*(whole[at : at + size] for at in range(0, len(whole), size))))
    pieces: list[str] = []
    reply = await make().complete(NEW, ASK, pieces.append)
    assert (reply.text, "".join(pieces)) == ("Schön:", "Schön:")
    assert json.loads(reply.calls[0].arguments) == {"päth": "ü/ß", "n": [1, {}]}
    assert reply.native
    content = json.loads(reply.native.blocks)["content"]
    assert [(block["type"], block.get("thinking")) for block in content] == [
        ("thinking", "größer?"),
        ("text", None),
        ("tool_use", None),
    ]
    assert content[0]["signature"]


# thinking goes back


async def test_a_loop_of_calls_takes_its_thinking_along(make: Make, fake: FakeAnthropic) -> None:
    """Issue: thinking blocks and signatures replayed unchanged. The fake refuses thinking that changed or is left out."""
    fake.script(
        calls(
            ("ls", {}),
            ("cat", {"path": "a"}),
            thoughts=(thinks("first"), thinks(redacted=True)),
            text="Let me see.",
        ),
        calls(("ls", {"all": True}), thoughts=(thinks(""),)),
        says("Two files.", thinks("done")),
        says("You are welcome."),
    )
    history: list[Message] = [
        Message(MessageRole.SYSTEM, "Be brief."),
        Message(MessageRole.USER, "what is here?"),
    ]
    provider = make()
    for stream in (False, True, False):
        reply = await provider.complete(
            NEW, ModelRequest(tuple(history), (LS, CAT), effort="high"), print if stream else None
        )
        history += followed(reply)
    history += [Message(MessageRole.USER, "thanks")]
    await provider.complete(NEW, ModelRequest(tuple(history), (LS, CAT)))
    assert fake.refused == []
    assert [fake.thoughts_in(n) for n in range(4)] == [0, 2, 3, 4]
    sent = [
        asked.raw.replace(CACHE_MARK, b"").rpartition(b'],"max_tokens"')[0]
        for asked in fake.requests
    ]
    assert all(after.startswith(before) for before, after in pairwise(sent))


def followed(reply: ModelReply) -> list[Message]:
    """The reply in the history, with results of its calls."""
    said = Message(MessageRole.ASSISTANT, reply.text, reply.calls, native=reply.native)
    return [
        said,
        *(
            Message(MessageRole.TOOL, f"{call.name} done", provider_id=call.provider_id)
            for call in reply.calls
        ),
    ]


@pytest.mark.parametrize("model", [NEW, OLD])
async def test_a_tool_that_is_found_midway_ends_no_conversation(
    make: Make, fake: FakeAnthropic, model: str
) -> None:
    """What a newer model thought about other tools it would not take back; an older one insists on having it."""
    fake.thoughts.bound = model == NEW
    fake.script(
        calls(("ls", {}), thoughts=(thinks(),)),
        calls(("cat", {}), thoughts=(thinks(),)),
        says("ok", thinks()),
    )
    history: list[Message] = [Message(MessageRole.USER, "go")]
    provider = make()
    for tools in ((LS,), (LS, CAT), (LS, CAT)):
        history += followed(
            await provider.complete(model, ModelRequest(tuple(history), tools, effort="low"))
        )
    assert fake.refused == []
    assert [fake.thoughts_in(n) for n in range(3)] == ([0, 0, 1] if model == NEW else [0, 1, 2])


async def test_a_shortened_history_ends_no_conversation(make: Make, fake: FakeAnthropic) -> None:
    fake.otherwise(says("ok", thinks()))
    provider, history = make(), [Message(MessageRole.USER, "one")]
    for text in ("two", "three", "four"):
        history += [
            *followed(await provider.complete(NEW, ModelRequest(tuple(history)))),
            Message(MessageRole.USER, text),
        ]
    await provider.complete(NEW, ModelRequest(tuple(history[2:])))
    assert fake.refused == []
    assert [fake.thoughts_in(n) for n in range(4)] == [0, 1, 2, 0]


async def test_thinking_that_the_api_does_not_know_again_is_left_out_from_then_on(
    make: Make, fake: FakeAnthropic
) -> None:
    """As after a change of the account behind the key: the conversation goes on, and no later call pays for it again."""
    fake.script(calls(("ls", {}), thoughts=(thinks(),)))
    history: list[Message] = [Message(MessageRole.USER, "go")]
    provider = make()
    history += followed(await provider.complete(NEW, ModelRequest(tuple(history), (LS,))))
    fake.thoughts = Thoughts()
    fake.script(calls(("ls", {}), thoughts=(thinks(),)), says("done"))
    for _ in range(2):
        history += followed(await provider.complete(NEW, ModelRequest(tuple(history), (LS,))))
    assert len(fake.refused) == 1
    assert [fake.thoughts_in(n) for n in range(len(fake.requests))] == [0, 1, 0, 1]


OTHERS = [
    refuses("invalid_request_error", "temperature: no"),
    refuses("api_error", "thinking broke down", 500),
]


@pytest.mark.parametrize(
    ("step", "kind"), [(OTHERS[0], ErrorClass.BAD_REQUEST), (OTHERS[1], ErrorClass.SERVER)]
)
async def test_another_refusal_is_not_tried_again(
    make: Make, fake: FakeAnthropic, step: Step, kind: ErrorClass
) -> None:
    fake.script(calls(("ls", {}), thoughts=(thinks(),)), step)
    history: list[Message] = [Message(MessageRole.USER, "go")]
    history += followed(await make().complete(NEW, ModelRequest(tuple(history), (LS,))))
    assert (await failure(make().complete(NEW, ModelRequest(tuple(history), (LS,))))).kind is kind
    assert fake.count == 2
