"""Servers that speak nearly OpenAI's dialect: whatever can be understood is an answer, and nothing they say breaks the daemon."""

import json

import pytest
from aiohttp import web

from daemon.core.clock import SystemClock
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, ToolCall
from daemon.providers.openai import OpenAI
from tests.fakes.adapters import prepare
from tests.fakes.openai import Exchange, FakeOpenAI, Json, Step

ASK = ModelRequest((Message(MessageRole.USER, "hi"),))
SAID = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}
WHOLE = json.dumps(SAID).encode()
END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
DEEP = b"[" * 200_000


def pieces(*deltas: Json, end: Json = END) -> bytes:
    chunks: list[Json] = [{"choices": [{"delta": delta}]} for delta in deltas]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in [*chunks, end])


def asks_for(*parts: Json | None) -> bytes:
    return pieces(*({"tool_calls": [part]} for part in parts))


def sends(kind: str, body: bytes, status: int = 200) -> Step:
    async def step(x: Exchange) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers={"Content-Type": kind})

    return step


async def answered(
    step: Step, *, stream: bool, asked: ModelRequest | None = None, after_s: float = 20
) -> ModelReply:
    async with FakeOpenAI() as fake:
        fake.script(step)
        provider = OpenAI(
            base_url=fake.base_url, clock=SystemClock(), timeout_s=20, after_s=after_s
        )
        shown: list[str] = []
        try:
            reply = await provider.complete("m", asked or ASK, shown.append if stream else None)
        finally:
            await provider.aclose()
    assert "".join(shown) == (reply.text if stream else "")
    return reply


BODIES = {
    "JSON called text": ("text/plain", WHOLE),
    "JSON called a stream": ("text/event-stream", WHOLE),
    "JSON behind a byte order mark": ("application/json", b"\xef\xbb\xbf" + WHOLE),
    "a stream called JSON": ("application/json", pieces({"content": "hello"})),
    "a stream called text": ("text/plain", pieces({"content": "hello"})),
    "a stream with a comment first": (
        "text/event-stream",
        b": working\n\n" + pieces({"content": "hello"}),
    ),
    "an event without data": ("text/event-stream", b"data:\n\n" + pieces({"content": "hello"})),
    "no empty line at the end": ("text/event-stream", pieces({"content": "hello"}).rstrip()),
    "no line end after DONE": (
        "text/event-stream",
        pieces({"content": "hello"}, end={"choices": []}) + b"data: [DONE]",
    ),
    "parts with nulls and bare texts": (
        "application/json",
        json.dumps(
            {
                "choices": [
                    {
                        "message": {
                            "content": [{"type": "thinking", "text": None}, "hel", {"text": "lo"}]
                        }
                    }
                ]
            }
        ).encode(),
    ),
    "one part without a list": (
        "application/json",
        json.dumps({"choices": [{"message": {"content": {"text": "hello"}}}]}).encode(),
    ),
    "a number for the end": (
        "application/json",
        json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": 1}]}).encode(),
    ),
    "a null among the calls": (
        "text/event-stream",
        pieces({"content": "hello"}, {"tool_calls": [None]}),
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(("kind", "body"), BODIES.values(), ids=BODIES.keys())
async def test_an_answer_is_read_by_what_it_is_and_not_by_what_it_is_called(
    kind: str, body: bytes, stream: bool
) -> None:
    """A7, issue 2 item 5."""
    assert (await answered(sends(kind, body), stream=stream)).text == "hello"


CALLS = {
    "function null in between": asks_for(
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"n"'}},
        {"index": 0, "id": None, "type": None, "function": None},
        {"index": 0, "id": None, "function": {"name": None, "arguments": ":1}"}},
    ),
    "empty names later": asks_for(
        {"id": "a", "function": {"name": "f", "arguments": '{"n"'}},
        {"id": "", "function": {"name": "", "arguments": ":1}"}},
    ),
}


@pytest.mark.parametrize("body", CALLS.values(), ids=CALLS.keys())
async def test_a_call_that_comes_with_nulls_is_one_call(body: bytes) -> None:
    """Issue 2 item 5."""
    reply = await answered(sends("text/event-stream", body), stream=True)
    assert reply.calls == (ToolCall("a", "f", '{"n":1}'),)


async def test_an_id_that_is_a_number_and_arguments_that_are_a_list_reach_the_tools_border() -> (
    None
):
    call = {"id": 7, "function": {"name": "f", "arguments": [1]}}
    body = json.dumps({"choices": [{"message": {"content": None, "tool_calls": [call]}}]}).encode()
    assert (await answered(sends("application/json", body), stream=False)).calls == (
        ToolCall("7", "f", "[1]"),
    )


@pytest.mark.parametrize(
    "told", ["n/a", {}, {"prompt_tokens": 0, "completion_tokens": None}, {"prompt_tokens": -5}, [1]]
)
async def test_usage_that_is_none_is_estimated_and_never_negative(told: object) -> None:
    """A19: a server cannot give a budget back."""
    reply = await answered(
        sends("application/json", json.dumps({**SAID, "usage": told}).encode()), stream=False
    )
    assert reply.usage.estimated
    assert reply.usage.input_tokens > 0


async def test_usage_beyond_all_measure_still_fits_the_journal() -> None:
    told = {"prompt_tokens": 10**30, "completion_tokens": 1.5, "prompt_tokens_details": []}
    reply = await answered(
        sends("application/json", json.dumps({**SAID, "usage": told}).encode()), stream=False
    )
    assert 10**6 < reply.usage.input_tokens < 2**63
    assert reply.usage.output_tokens == 1


FAULTS = {
    "an error event": (
        "text/event-stream",
        b'event: error\ndata: {"message": "slow down", "code": 429}\n\n',
        200,
        ErrorClass.RATE_LIMIT,
    ),
    "an error that is nested too deep": ("application/json", DEEP, 500, ErrorClass.SERVER),
    "an answer that is nested too deep": ("application/json", DEEP, 200, ErrorClass.MALFORMED),
    "a login page": ("text/html", b"<html>log in</html>", 200, ErrorClass.MALFORMED),
    "an empty stream": ("text/event-stream", b"", 200, ErrorClass.NETWORK),
}


@pytest.mark.parametrize(("kind", "body", "status", "wanted"), FAULTS.values(), ids=FAULTS.keys())
async def test_what_is_no_answer_has_a_class(
    kind: str, body: bytes, status: int, wanted: ErrorClass
) -> None:
    """A7."""
    with pytest.raises(ProviderError) as raised:
        await answered(sends(kind, body, status), stream=True)
    assert raised.value.kind is wanted


def test_arguments_nested_too_deep_can_be_sent_back() -> None:
    history = (
        *ASK.messages,
        Message(MessageRole.ASSISTANT, calls=(ToolCall("a", "f", DEEP.decode()),)),
        Message(MessageRole.TOOL, "no", provider_id="a"),
    )
    sent = json.loads(prepare(OpenAI, "m", ModelRequest(history))[0])
    assert list(json.loads(sent["messages"][1]["tool_calls"][0]["function"]["arguments"])) == [
        "invalid"
    ]


def floods(piece: bytes, status: int = 200) -> Step:
    async def step(x: Exchange) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Type": "text/event-stream"})
        await response.prepare(x.request)
        while True:  # until the other side has had enough
            await response.write(piece)

    return step


@pytest.mark.parametrize(
    ("piece", "status", "wanted"),
    [
        (b"data" + b"a" * 60_000, 200, ErrorClass.MALFORMED),
        (b"sorry " * 10_000, 401, ErrorClass.AUTH),
    ],
    ids=["a line without end", "an error without end"],
)
async def test_an_answer_without_end_does_not_fill_the_memory_a7(
    piece: bytes, status: int, wanted: ErrorClass
) -> None:
    """A7: the error is in its class all the same."""
    with pytest.raises(ProviderError) as raised:
        await answered(floods(piece, status), stream=True)
    assert raised.value.kind is wanted


async def test_an_answer_that_a_filter_withholds_is_not_asked_for_again_a7() -> None:
    """A7: asking again would be refused again."""
    withheld = json.dumps(
        {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    ).encode()
    with pytest.raises(ProviderError, match="withholds the answer") as raised:
        await answered(sends("application/json", withheld), stream=False)
    assert raised.value.kind is ErrorClass.FILTERED
