"""Gemini over real sockets: its errors put into their classes, its streams, its signatures through a whole house."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.core.errors import ErrorClass
from daemon.core.events import ModelReplied
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall
from daemon.ops.model_checks import probe_address
from daemon.providers.gemini import Gemini
from daemon.providers.http import make_auth_headers
from tests.fakes.adapters import failure, made
from tests.fakes.gemini import (
    SIGNATURE,
    FakeGemini,
    Step,
    blocks,
    calls,
    refuses,
    replies,
    says,
    text,
    tokens,
)
from tests.fakes.house import SESSION, living
from tests.fakes.openai import breaks_midstream, drops, fails, hangs, raw

KEY = "AIza-very-secret-key"
MODEL = "gemini-3.8-flash"
ASK = ModelRequest((Message(MessageRole.USER, "hi"),))
Make = Callable[..., Gemini]
QUOTA = "You exceeded your current quota, please check your plan and billing details."
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}
BAD_KEY = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}


@pytest.fixture
async def fake() -> AsyncIterator[FakeGemini]:
    async with FakeGemini() as fake:
        yield fake


@pytest.fixture
async def make(fake: FakeGemini) -> AsyncIterator[Make]:
    async with made(Gemini, fake.base_url, KEY) as make:
        yield make


REFUSALS: list[tuple[ErrorClass, float | None, Step]] = [
    (
        ErrorClass.AUTH,
        None,
        refuses(
            400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", BAD_KEY
        ),
    ),
    (
        ErrorClass.AUTH,
        None,
        refuses(401, "UNAUTHENTICATED", "Request had invalid authentication credentials."),
    ),
    (
        ErrorClass.AUTH,
        None,
        refuses(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers."),
    ),
    (
        ErrorClass.RATE_LIMIT,
        37.0,
        refuses(429, "RESOURCE_EXHAUSTED", QUOTA, {"@type": "QuotaFailure"}, RETRY),
    ),
    (
        ErrorClass.RATE_LIMIT,
        0.25,
        refuses(429, "RESOURCE_EXHAUSTED", "slow down", {**RETRY, "retryDelay": "0.250s"}),
    ),
    (
        ErrorClass.RATE_LIMIT,
        None,
        refuses(
            429,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted.",
            {**RETRY, "retryDelay": "soon"},
        ),
    ),
    (ErrorClass.BILLING, None, refuses(429, "RESOURCE_EXHAUSTED", QUOTA)),
    (
        ErrorClass.BILLING,
        None,
        refuses(
            400, "FAILED_PRECONDITION", "The free tier is not available here: please enable billing"
        ),
    ),
    (
        ErrorClass.NOT_FOUND,
        None,
        refuses(404, "NOT_FOUND", "models/x is not found for API version v1beta"),
    ),
    (
        ErrorClass.OVERLOADED,
        None,
        refuses(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    ),
    (
        ErrorClass.OVERLOADED,
        None,
        refuses(503, "UNAVAILABLE", "This model is currently experiencing high demand."),
    ),
    (ErrorClass.SERVER, None, refuses(500, "INTERNAL", "An internal error has occurred.")),
    (
        ErrorClass.BAD_REQUEST,
        None,
        refuses(400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
    ),
    (
        ErrorClass.CONTEXT_TOO_LONG,
        None,
        refuses(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
    ),
    (ErrorClass.FILTERED, None, blocks("PROHIBITED_CONTENT")),
]


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
@pytest.mark.parametrize(
    ("kind", "wait", "step"), REFUSALS, ids=[f"{k}-{n}" for n, (k, _, _) in enumerate(REFUSALS)]
)
async def test_a_refusal_of_googles_is_put_into_its_class_a7(
    make: Make, fake: FakeGemini, kind: ErrorClass, wait: float | None, step: Step, stream: bool
) -> None:
    """A7: the class decides what follows; how long to wait stands in the body."""
    fake.script(step)
    error = await failure(make().complete(MODEL, ASK, print if stream else None))
    assert (error.kind, error.retry_after) == (kind, wait)
    assert str(error).startswith(f"127.0.0.1:{fake.port} ")


MIDWAY = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": [RETRY]}
BROKEN: list[tuple[str, ErrorClass, Step]] = [
    ("dropped before the answer", ErrorClass.NETWORK, drops()),
    (
        "cut before its end",
        ErrorClass.NETWORK,
        raw(b'data: {"candidates": [{"content": {"parts": [{"text": "half"}]}}]}\n\n'),
    ),
    ("broken JSON", ErrorClass.MALFORMED, raw(b'data: {"candidates": [{"conte\n\n')),
    (
        "error in the middle",
        ErrorClass.RATE_LIMIT,
        raw(b"data: " + json.dumps({"error": MIDWAY}).encode() + b"\n\n"),
    ),
    ("nothing said", ErrorClass.MALFORMED, replies()),
    (
        "a spoilt call",
        ErrorClass.MALFORMED,
        replies(finish="MALFORMED_FUNCTION_CALL", why="print(default_api.shell("),
    ),
    ("withheld", ErrorClass.FILTERED, replies(finish="SAFETY")),
    ("no JSON", ErrorClass.MALFORMED, raw(b"<html>hello</html>")),
]


@pytest.mark.parametrize(
    ("kind", "step"), [(k, s) for _, k, s in BROKEN], ids=[name for name, _, _ in BROKEN]
)
async def test_a_broken_answer_is_put_into_its_class_a7(
    make: Make, fake: FakeGemini, kind: ErrorClass, step: Step
) -> None:
    fake.script(step)
    assert (await failure(make().complete(MODEL, ASK, print))).kind is kind


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_silence_is_a_timeout_and_cancelling_reaches_into_the_call_e2(
    make: Make, fake: FakeGemini, stream: bool
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


async def test_the_key_is_in_no_message_and_in_no_address(make: Make, fake: FakeGemini) -> None:
    """A7: errors are shown to people."""
    words = f"API key not valid: {KEY}"
    fake.script(
        refuses(400, "INVALID_ARGUMENT", words, BAD_KEY),
        fails(500, words),
        raw(KEY.encode()),
        breaks_midstream("x"),
    )
    for _ in range(4):
        assert KEY not in str(await failure(make().complete(MODEL, ASK)))
    assert {request.headers["x-goog-api-key"] for request in fake.requests} == {KEY}
    assert not any(KEY in path for path in fake.paths)


async def test_streamed_text_comes_in_pieces_without_the_thoughts_and_the_reply_is_the_same_as_in_one(
    make: Make, fake: FakeGemini
) -> None:
    """E12."""
    fake.otherwise(
        replies(
            text("hm, hm", thought=True),
            text("one two three four"),
            usage=tokens(9, 4, thoughts=3, cached=2),
        )
    )
    pieces: list[str] = []
    streamed = await make().complete(MODEL, ASK, pieces.append)
    assert "".join(pieces) == streamed.text == "one two three four"
    assert streamed == await make().complete(MODEL, ASK)
    assert fake.paths == [
        f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
        f"/v1beta/models/{MODEL}:generateContent",
    ]


async def test_a_signature_that_is_not_taken_back_does_not_end_the_conversation(
    make: Make, fake: FakeGemini
) -> None:
    """A7: after a change of the key the old ones are void; the request is made without them, and they are not tried again."""
    fake.script(
        calls(("shell", {})),
        refuses(400, "INVALID_ARGUMENT", "Corrupted thought signature."),
        says("fine"),
        says("again"),
    )
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
    assert [SIGNATURE.encode() in request.raw for request in fake.requests] == [
        False,
        True,
        False,
        False,
    ]
    assert fake.refused == []


async def test_a_complaint_about_signatures_where_none_was_sent_is_told(
    make: Make, fake: FakeGemini
) -> None:
    fake.otherwise(refuses(400, "INVALID_ARGUMENT", "Corrupted thought signature."))
    assert (await failure(make().complete(MODEL, ASK))).kind is ErrorClass.BAD_REQUEST
    assert fake.count == 1


async def test_the_doctor_reads_googles_list_of_models(fake: FakeGemini) -> None:
    reached = await probe_address(f"{fake.base_url}/models", make_auth_headers("gemini", KEY))
    assert (reached.status, reached.models) == (200, frozenset({"scripted"}))


# a whole house


def config(model: str = MODEL) -> dict[str, Any]:
    return {"provider": {"kind": "gemini", "api_key": KEY, "models": {"primary": model}}}


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_a_daemon_on_gemini_uses_tools_and_gives_signatures_back_unchanged(
    tmp_path: Path, stream: bool
) -> None:
    """A9, E12, architecture.md: two turns; each request begins with the bytes of the one before, and Google would refuse none."""
    async with FakeGemini() as model:
        model.script(
            calls(
                ("current_time", {}), ("read_file", {"path": "no-such-file"}), words="Let me look."
            ),
            replies(text("It is noon.", "dGV4dA==")),
            calls(("current_time", {})),
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
    assert all((":stream" in path) is stream for path in model.paths)
    assert replied[0].native
    assert SIGNATURE in replied[0].native.blocks
    ends = [
        request.raw.index(b'],"generationConfig"') if b"generationConfig" in request.raw else -2
        for request in model.requests
    ]
    for index, end in enumerate(ends[:-1]):
        assert model.requests[index + 1].raw.startswith(model.requests[index].raw[:end])
    parts = [part for content in model.requests[3]["contents"] for part in content["parts"]]
    assert [part["thoughtSignature"] for part in parts if "thoughtSignature" in part] == [
        SIGNATURE,
        "dGV4dA==",
        SIGNATURE,
    ]


async def test_a_history_of_another_model_is_no_bad_request_for_gemini(
    make: Make, fake: FakeGemini
) -> None:
    """A7, A9: a fallback takes over in the middle of a turn."""
    wanted = ToolCall("call_0", "shell", '{"command": "l')
    talk = (
        *ASK.messages,
        Message(MessageRole.ASSISTANT, calls=(wanted, wanted)),
        *[Message(MessageRole.TOOL, "bad", provider_id="call_0")] * 2,
    )
    fake.script(says("I see"))
    assert (await make().complete(MODEL, ModelRequest(talk))).text == "I see"
    assert fake.refused == []
