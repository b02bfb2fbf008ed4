"""OpenAI's Responses over real sockets: errors put into their classes, its events, its reasoning through a whole house."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from daemon.core.errors import ErrorClass
from daemon.core.events import ModelReplied
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall
from daemon.providers.config import FallbackConfig, ProviderConfig
from daemon.providers.gemini import DUMMY_SIGNATURE
from daemon.providers.responses import Responses
from tests.fakes.adapters import failure, made
from tests.fakes.gemini import SIGNATURE, FakeGemini
from tests.fakes.gemini import calls as gemini_calls
from tests.fakes.gemini import says as gemini_says
from tests.fakes.house import SESSION, living
from tests.fakes.openai import drops, fails, hangs, raw
from tests.fakes.responses import (
    SECRET,
    FakeResponses,
    Step,
    breaks,
    calls,
    message,
    reasoning,
    refuses,
    replies,
    says,
    tokens,
)

KEY = "sk-very-secret-key"
MODEL = "gpt-5-mini"
ASK = ModelRequest((Message(MessageRole.USER, "hi"),))
Make = Callable[..., Responses]


@pytest.fixture
async def fake() -> AsyncIterator[FakeResponses]:
    async with FakeResponses() as fake:
        yield fake


@pytest.fixture
async def make(fake: FakeResponses) -> AsyncIterator[Make]:
    async with made(Responses, fake.base_url, KEY) as make:
        yield make


FAULTS: list[tuple[str, ErrorClass, Step]] = [
    ("wrong key", ErrorClass.AUTH, refuses(401, "Incorrect API key provided", "invalid_api_key")),
    (
        "no credit",
        ErrorClass.BILLING,
        refuses(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
    ),
    (
        "too fast",
        ErrorClass.RATE_LIMIT,
        refuses(429, "Rate limit reached", "rate_limit_exceeded", "tokens"),
    ),
    (
        "too long",
        ErrorClass.CONTEXT_TOO_LONG,
        refuses(400, "Your input exceeds the context window", "context_length_exceeded"),
    ),
    (
        "no such model",
        ErrorClass.NOT_FOUND,
        refuses(400, "The requested model 'x' does not exist.", "model_not_found"),
    ),
    ("bad request", ErrorClass.BAD_REQUEST, refuses(400, "Unknown parameter")),
    ("dropped before the answer", ErrorClass.NETWORK, drops()),
    ("failed", ErrorClass.SERVER, breaks({"code": "server_error", "message": "oops"})),
    (
        "failed for speed",
        ErrorClass.RATE_LIMIT,
        breaks({"code": "rate_limit_exceeded", "message": "slow down"}),
    ),
    (
        "failed for its size",
        ErrorClass.CONTEXT_TOO_LONG,
        breaks({"code": "context_length_exceeded", "message": "too long"}),
    ),
    (
        "an error event",
        ErrorClass.SERVER,
        breaks({"code": "server_error", "message": "oops", "param": None}, "error"),
    ),
    ("nothing said", ErrorClass.MALFORMED, replies(reasoning())),
    ("no JSON", ErrorClass.MALFORMED, raw(b"<html>hello</html>")),
]


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    ("kind", "step"), [(k, s) for _, k, s in FAULTS], ids=[name for name, _, _ in FAULTS]
)
async def test_what_goes_wrong_is_put_into_its_class_a7(
    make: Make, fake: FakeResponses, kind: ErrorClass, step: Step, stream: bool
) -> None:
    fake.script(step)
    error = await failure(make().complete(MODEL, ASK, print if stream else None))
    assert error.kind is kind
    assert str(error).startswith(f"127.0.0.1:{fake.port} ")


async def test_a_stream_that_stops_before_its_end_is_a_network_fault_a7(
    make: Make, fake: FakeResponses
) -> None:
    begun = {"type": "response.output_text.delta", "output_index": 0, "delta": "half"}
    fake.script(
        raw(b"data: " + json.dumps(begun).encode() + b"\n\n"), raw(b"event: error\ndata: {}\n\n")
    )
    assert (await failure(make().complete(MODEL, ASK, print))).kind is ErrorClass.NETWORK
    assert (await failure(make().complete(MODEL, ASK, print))).kind is ErrorClass.SERVER


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_silence_is_a_timeout_and_cancelling_reaches_into_the_call_e2(
    make: Make, fake: FakeResponses, stream: bool
) -> None:
    """E2."""
    fake.script(hangs(), hangs())
    show = print if stream else None
    assert (
        await failure(make(timeout_s=0.2).complete(MODEL, ASK, show))
    ).kind is ErrorClass.TIMEOUT
    fake.hanging.clear()
    fake.gone.clear()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(make().complete(MODEL, ASK, show))
        await asyncio.wait_for(fake.hanging.wait(), 5)
        call.cancel()
        await asyncio.wait_for(fake.gone.wait(), 1)
    assert call.cancelled()


async def test_the_key_is_in_no_message_even_when_the_server_echoes_it(
    make: Make, fake: FakeResponses
) -> None:
    """A7: errors are shown to people."""
    words = f"Incorrect API key provided: {KEY}"
    fake.script(
        refuses(401, words),
        fails(500, words),
        breaks({"code": "server_error", "message": words}),
        raw(KEY.encode()),
    )
    for _ in range(4):
        assert KEY not in str(await failure(make().complete(MODEL, ASK)))
    assert {request.headers["Authorization"] for request in fake.requests} == {f"Bearer {KEY}"}


async def test_streamed_text_comes_in_pieces_and_the_reply_is_the_same_as_in_one(
    make: Make, fake: FakeResponses
) -> None:
    """E12. The second message of an answer begins a paragraph, in the draft too."""
    step = replies(
        message("one two three", "commentary"),
        message("four"),
        usage=tokens(9, 4, reasoning=3, cached=2),
    )
    bare = replies(message("one two three"), message("four"), bare=True)
    fake.script(step, bare)
    for _ in range(2):
        pieces: list[str] = []
        streamed = await make().complete(MODEL, ASK, pieces.append)
        assert "".join(pieces) == streamed.text == "one two three\n\nfour"
    fake.script(step, step)
    streamed = await make().complete(MODEL, ASK, print)
    batch = await make().complete(MODEL, ASK)
    assert streamed.native
    assert batch.native
    assert replace(streamed, native=None) == replace(batch, native=None)
    assert json.loads(streamed.native.blocks)[0].keys() == json.loads(batch.native.blocks)[0].keys()


REFUSED = [
    refuses(400, "The encrypted content gAAA could not be verified.", "invalid_encrypted_content"),
    refuses(
        404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."
    ),
    refuses(
        400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    ),
]


@pytest.mark.parametrize("refusal", REFUSED)
async def test_thoughts_that_are_not_taken_back_do_not_end_the_conversation(
    make: Make, fake: FakeResponses, refusal: Step
) -> None:
    """A7: after a change of the key they are void; the request is made without them, and they are not tried again."""
    fake.script(calls(("shell", {})), refusal, says("fine"), says("again"))
    provider = make()
    first = await provider.complete(MODEL, ASK)
    wanted = Message(MessageRole.ASSISTANT, first.text, first.calls, native=first.native)
    talk = replace(
        ASK,
        messages=(
            *ASK.messages,
            wanted,
            Message(MessageRole.TOOL, "x", provider_id=first.calls[0].provider_id),
        ),
    )
    assert (await provider.complete(MODEL, talk)).text == "fine"
    assert (await provider.complete(MODEL, talk)).text == "again"
    assert [SECRET.encode() in request.raw for request in fake.requests] == [
        False,
        True,
        False,
        False,
    ]
    assert fake.refused == []


async def test_a_complaint_about_thoughts_where_none_were_sent_is_told(
    make: Make, fake: FakeResponses
) -> None:
    fake.otherwise(REFUSED[0])
    assert (await failure(make().complete(MODEL, ASK))).kind is ErrorClass.BAD_REQUEST
    assert fake.count == 1


async def test_a_history_of_another_model_is_no_bad_request(
    make: Make, fake: FakeResponses
) -> None:
    """A7, A9: a fallback takes over in the middle of a turn."""
    wanted = ToolCall("toolu_01", "shell", '{"command": "l')
    results = [Message(MessageRole.TOOL, "bad", provider_id="toolu_01")] * 2
    fake.script(says("I see"))
    talk = ModelRequest(
        (*ASK.messages, Message(MessageRole.ASSISTANT, calls=(wanted, wanted)), *results)
    )
    assert (await make().complete(MODEL, talk)).text == "I see"
    assert fake.refused == []


# a whole house


def test_the_config_says_which_way_openai_is_spoken_to() -> None:
    assert (
        ProviderConfig.model_validate(
            {"kind": "openai", "api_key": "k", "api": "responses"}
        ).get_provider_name()
        == "responses"
    )
    assert FallbackConfig.model_validate({"api_key": "k"}).get_provider_name() == "openai"
    with pytest.raises(ValueError, match='api = "responses" goes with kind = "openai"'):
        ProviderConfig.model_validate({"kind": "gemini", "api_key": "k", "api": "responses"})


def config(**more: Any) -> dict[str, Any]:
    return {"provider": {"api": "responses", "api_key": KEY, "models": {"primary": MODEL}, **more}}


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_a_daemon_on_responses_uses_tools_and_gives_its_reasoning_back(
    tmp_path: Path, stream: bool
) -> None:
    """A9, E12, architecture.md: two turns; each request begins with the bytes of the one before, and OpenAI would refuse none."""
    async with FakeResponses() as model:
        model.script(
            calls(("current_time", {}), ("read_file", {"path": "no-such-file"})),
            replies(reasoning("gAAAsecond"), message("It is noon.", "final_answer")),
            calls(("current_time", {}), thought="gAAAthird"),
            says("Still noon."),
        )
        async with living(tmp_path, model, config()) as it:
            for words, answer in (("what time is it?", "It is noon."), ("and now?", "Still noon.")):
                sent = await it.house.client.send(SESSION, words, stream=stream)
                run = await it.settled(sent.turn)
                assert (run.reply, run.stop_reason) == (answer, "done")
            replied = [
                event for event in await it.events(run.turn) if isinstance(event, ModelReplied)
            ]
    assert model.refused == []
    assert all(request.body.get("stream", False) is stream for request in model.requests)
    assert replied[0].native
    assert "gAAAthird" in replied[0].native.blocks
    raws = [request.raw for request in model.requests]
    for earlier, later in pairwise(raws):
        assert later.startswith(earlier[: earlier.rindex(b'],"store"')])
    thoughts = [
        item["encrypted_content"]
        for item in model.requests[3]["input"]
        if item.get("type") == "reasoning"
    ]
    assert thoughts == [SECRET, "gAAAsecond", "gAAAthird"]


async def test_a_turn_may_begin_at_one_service_and_end_at_another_and_the_next_goes_back(
    tmp_path: Path,
) -> None:
    """A7, A9: each is given the whole conversation in its own way, its own thoughts unchanged and nobody else's."""
    async with FakeResponses() as model, FakeGemini() as spare:
        spare.script(gemini_calls(("current_time", {})), gemini_says("It is noon."))
        gone = refuses(404, "The model `x` does not exist", "model_not_found")
        model.script(calls(("current_time", {})), gone, gone, says("Still noon."))
        fallback = {
            "kind": "gemini",
            "base_url": spare.base_url,
            "api_key": "AIza-key",
            "model": "gemini-3.8-flash",
        }
        async with living(tmp_path, model, config(fallbacks=[fallback])) as it:
            first = await it.ask("what time is it?")
            second = await it.ask("and now?")
    assert (first.reply, second.reply) == ("It is noon.", "Still noon.")
    assert (model.refused, spare.refused) == ([], [])
    assert SECRET not in spare.requests[1].raw.decode()
    signed = [
        part.get("thoughtSignature")
        for content in spare.requests[1]["contents"]
        for part in content["parts"]
    ]
    assert [signature for signature in signed if signature] == [DUMMY_SIGNATURE, SIGNATURE]
    last = model.requests[3]
    assert SIGNATURE not in last.raw.decode()
    assert [item.get("type") for item in last["input"]] == [
        None, "reasoning", "function_call", "function_call_output", "function_call", "function_call_output", None, None,
    ]  # fmt: skip
