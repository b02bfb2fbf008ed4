"""Gemini's wire format: what we send, what we read, with Google's own SDK as the judge of both, and its rules as another."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.context.history import repair
from daemon.core.clock import SystemClock
from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelReply,
    ModelRequest,
    Native,
    ToolCall,
    ToolSpec,
    Usage,
)
from daemon.providers.errors import CallFailed
from daemon.providers.gemini import DUMMY_SIGNATURE, Gemini, GeminiReplyBuilder, parse_version
from tests.fakes.adapters import parse_reply, prepare
from tests.fakes.gemini import SIGNATURE, FakeGemini, call, calls, replies, says, text, tokens
from tests.fakes.gemini.rules import faults
from tests.fakes.openai import Step

MODEL = "gemini-3.8-flash"
OLDER = "gemini-2.5-flash"
US = "gemini"
SHELL = ToolSpec(
    "shell", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}}
)
CLOCK = ToolSpec("current_time", "The time", {"type": "object", "properties": {}})
HELLO = (Message(MessageRole.SYSTEM, "Be brief."), Message(MessageRole.USER, "grüß dich"))
TALK = (
    *HELLO,
    Message(
        MessageRole.ASSISTANT,
        calls=(
            ToolCall("call_0", "shell", '{"command": "ls"}'),
            ToolCall("call_0", "current_time", ""),
        ),
    ),
    Message(MessageRole.TOOL, "a.txt", provider_id="call_0"),
    Message(MessageRole.TOOL, "no clock", provider_id="call_0", is_error=True),
)
PARTS = [
    {"text": "let me think", "thought": True},
    {"text": "Looking.", "thoughtSignature": "dGV4dA=="},
    {
        "functionCall": {"id": "f1", "name": "shell", "args": {"command": "ls"}},
        "thoughtSignature": SIGNATURE,
    },
    {"functionCall": {"id": "f2", "name": "current_time"}},
]


def body(request: ModelRequest, model: str = MODEL) -> dict[str, Any]:
    return json.loads(prepare(Gemini, model, request)[0])


def contents(messages: Sequence[Message], model: str = MODEL) -> list[dict[str, Any]]:
    return body(ModelRequest(tuple(messages)), model)["contents"]


def answer(*parts: dict[str, Any], finish: str = "STOP", **more: object) -> bytes:
    return json.dumps(
        {"candidates": [{"content": {"parts": parts}, "finishReason": finish}], **more}
    ).encode()


def native(parts: list[dict[str, Any]], provider: str = US, model: str = MODEL) -> Native:
    return Native(provider, model, json.dumps(parts))


def spoken(model: str = MODEL, provider: str = US) -> tuple[Message, ...]:
    """A reply in Google's own form, with its results."""
    wanted = (ToolCall("f1", "shell", '{"command": "ls"}'), ToolCall("f2", "current_time", "{}"))
    return (
        Message(MessageRole.USER, "hi"),
        Message(MessageRole.ASSISTANT, "Looking.", wanted, native=native(PARTS, provider, model)),
        Message(MessageRole.TOOL, "a.txt", provider_id="f1"),
        Message(MessageRole.TOOL, "noon", provider_id="f2"),
    )


@pytest.fixture
async def fake() -> AsyncIterator[FakeGemini]:
    async with FakeGemini() as fake:
        yield fake


@pytest.fixture
async def provider(fake: FakeGemini) -> AsyncIterator[Gemini]:
    provider = Gemini(base_url=fake.base_url, api_key="key-of-mine", clock=SystemClock())
    yield provider
    await provider.aclose()


# Google's own SDK as oracle


@asynccontextmanager
async def sdk(fake: FakeGemini) -> AsyncIterator[genai.client.AsyncClient]:
    async with httpx.AsyncClient() as http:
        options = types.HttpOptions(
            base_url=f"http://127.0.0.1:{fake.port}", api_version="v1beta", httpx_async_client=http
        )
        yield genai.Client(api_key="key-of-mine", http_options=options).aio


SDK_TALK = [
    types.Content(role="user", parts=[types.Part(text="grüß dich")]),
    types.Content(
        role="model",
        parts=[
            types.Part(function_call=types.FunctionCall(name="shell", args={"command": "ls"})),
            types.Part(function_call=types.FunctionCall(name="current_time", args={})),
        ],
    ),
    types.Content(
        role="user",
        parts=[
            types.Part.from_function_response(name="shell", response={"output": "a.txt"}),
            types.Part.from_function_response(name="current_time", response={"error": "no clock"}),
        ],
    ),
]
DECLARED = [
    types.FunctionDeclaration(
        name="shell", description="Run a command", parameters_json_schema=SHELL.parameters
    ),
    types.FunctionDeclaration(name="current_time", description="The time"),
]


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_request_is_what_googles_sdk_sends(
    fake: FakeGemini, provider: Gemini, stream: bool
) -> None:
    asked = ModelRequest(
        TALK, (SHELL, CLOCK), tools_allowed=False, max_tokens=9, effort="high", seed=7
    )
    await provider.complete(OLDER, asked, (lambda _: None) if stream else None)
    config = types.GenerateContentConfig(
        system_instruction=types.Content(parts=[types.Part(text="Be brief.")]),
        tools=[types.Tool(function_declarations=DECLARED)],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.NONE
            )
        ),
        thinking_config=types.ThinkingConfig(thinking_budget=24_576),
        max_output_tokens=9,
        seed=7,
    )
    asking: Any = SDK_TALK
    async with sdk(fake) as google:
        if stream:
            async for _ in await google.models.generate_content_stream(
                model=OLDER, contents=asking, config=config
            ):
                pass
        else:
            await google.models.generate_content(model=OLDER, contents=asking, config=config)
    ours, theirs = fake.requests
    assert ours.body == theirs.body
    assert ours.headers["x-goog-api-key"] == theirs.headers["x-goog-api-key"] == "key-of-mine"
    assert fake.paths[0] == fake.paths[1]
    assert "key" not in fake.paths[0]


STEPS = {
    "text": says("hello there", usage=tokens(100, 7, thoughts=30, cached=40)),
    "calls": calls(("shell", {"command": "ls -l"}), ("current_time", {}), words="Let me look."),
    "ids": replies(
        call("shell", {"command": "ü"}, SIGNATURE, "f1"), call("current_time", None, "", "f2")
    ),
    "thoughts": replies(text("hm", thought=True), text("Well, yes.", "dGV4dA==")),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_reply_is_what_googles_sdk_reads(
    fake: FakeGemini, provider: Gemini, step: Step, stream: bool
) -> None:
    fake.otherwise(step)
    pieces: list[str] = []
    ours = await provider.complete(
        MODEL, ModelRequest(HELLO, (SHELL, CLOCK)), pieces.append if stream else None
    )
    async with sdk(fake) as google:
        theirs = await google.models.generate_content(model=MODEL, contents="hi")
    assert theirs.candidates and theirs.candidates[0].content and theirs.candidates[0].content.parts
    told, parts = theirs.usage_metadata, theirs.candidates[0].content.parts
    assert told
    assert ours.text == "".join(part.text for part in parts if part.text and not part.thought)
    assert [(c.name, json.loads(c.arguments)) for c in ours.calls] == [
        (wanted.name, wanted.args or {}) for wanted in theirs.function_calls or ()
    ]
    output = (told.candidates_token_count or 0) + (told.thoughts_token_count or 0)
    assert ours.usage == Usage(
        told.prompt_token_count or 0, output, told.cached_content_token_count or 0
    )
    assert (ours.provider, ours.model, ours.finish) == (provider.name, MODEL, "STOP")
    assert "".join(pieces) == (ours.text if stream else "")


async def test_what_is_kept_of_a_reply_is_what_googles_sdk_would_give_back(
    fake: FakeGemini, provider: Gemini
) -> None:
    """The SDK appends the content as it came; the next request of ours and of theirs is the same, signatures and all."""
    fake.otherwise(replies(text("hm", thought=True), *PARTS[1:]))
    hello = Message(MessageRole.USER, "hi")
    reply = await provider.complete(MODEL, ModelRequest((hello,)))
    said = Message(MessageRole.ASSISTANT, reply.text, reply.calls, native=reply.native)
    results = [
        Message(MessageRole.TOOL, "x", provider_id=wanted.provider_id) for wanted in reply.calls
    ]
    await provider.complete(MODEL, ModelRequest((hello, said, *results)))
    async with sdk(fake) as google:
        opening = types.Content(role="user", parts=[types.Part(text="hi")])
        first = await google.models.generate_content(model=MODEL, contents=[opening])
        assert first.candidates and first.candidates[0].content and first.function_calls
        answers = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=c.id, name=c.name, response={"output": "x"}
                )
            )
            for c in first.function_calls
        ]
        content = first.candidates[0].content
        await google.models.generate_content(
            model=MODEL, contents=[opening, content, types.Content(role="user", parts=answers)]
        )
    assert fake.requests[1].body == fake.requests[3].body
    assert fake.refused == []


# what we send


def test_a_reply_of_googles_own_goes_back_byte_by_byte() -> None:
    sent = prepare(Gemini, MODEL, ModelRequest(spoken()))[0]
    assert json.dumps(PARTS)[1:-1].encode() in sent
    assert faults(json.loads(sent)) == []


def test_results_carry_the_ids_that_the_calls_had() -> None:
    answers = contents(spoken())[2]["parts"]
    assert [part["functionResponse"]["id"] for part in answers] == ["f1", "f2"]
    assert all("id" not in part["functionResponse"] for part in contents(TALK)[2]["parts"])


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", MODEL), (US, OLDER), ("gemini:elsewhere", MODEL)]
)
def test_what_another_model_said_is_told_without_its_signatures_and_with_the_stand_in(
    provider: str, model: str
) -> None:
    """A7: after a fallback, history of another provider is no bad request."""
    sent = body(ModelRequest(spoken(model, provider)))
    assert SIGNATURE not in json.dumps(sent)
    assert [part.get("thoughtSignature") for part in sent["contents"][1]["parts"]] == [
        None,
        DUMMY_SIGNATURE,
        None,
    ]
    assert faults(sent) == []


def test_models_before_the_third_generation_get_no_stand_in() -> None:
    assert "thoughtSignature" not in json.dumps(body(ModelRequest(TALK), OLDER))
    assert faults(body(ModelRequest(TALK), OLDER), OLDER) == []


def test_an_own_reply_whose_call_is_not_signed_is_written_anew() -> None:
    unsigned = [PARTS[1], {"functionCall": {"name": "shell", "args": {}}}]
    said = Message(
        MessageRole.ASSISTANT, "Looking.", (ToolCall("a", "shell", "{}"),), native=native(unsigned)
    )
    sent = body(
        ModelRequest(
            (Message(MessageRole.USER, "hi"), said, Message(MessageRole.TOOL, "x", provider_id="a"))
        )
    )
    assert faults(sent) == []
    assert sent["contents"][1]["parts"][1]["thoughtSignature"] == DUMMY_SIGNATURE


def test_an_own_reply_without_the_calls_it_had_is_written_anew() -> None:
    said = Message(MessageRole.ASSISTANT, "Looking.", native=native(PARTS))
    assert contents((HELLO[1], said))[1]["parts"] == [{"text": "Looking."}]


def test_results_of_one_reply_stand_together_and_what_a_user_adds_behind_them() -> None:
    """A9. Text beside a function response would not be understood."""
    told = contents((*TALK, Message(MessageRole.USER, "hurry")))
    assert [(content["role"], len(content["parts"])) for content in told] == [
        ("user", 1),
        ("model", 2),
        ("user", 2),
        ("user", 1),
    ]
    first, second = (part["functionResponse"] for part in told[2]["parts"])
    assert (first["name"], first["response"]) == ("shell", {"output": "a.txt"})
    assert (second["name"], second["response"]) == ("current_time", {"error": "no clock"})


def test_a_conversation_begins_and_ends_with_a_user() -> None:
    """A9."""
    said = Message(MessageRole.ASSISTANT, "hello")
    for messages in ((), HELLO[:1], (said,), (*HELLO, said)):
        assert faults(body(ModelRequest(messages))) == []


@pytest.mark.parametrize(
    "written", ['{"a": ', "[1]", "7", '{"a": NaN}', '{"a": 1e999}', "\ud800", "[" * 100_000]
)
def test_arguments_that_are_no_object_are_told_as_a_text(written: str) -> None:
    talk = (
        HELLO[1],
        Message(MessageRole.ASSISTANT, calls=(ToolCall("a", "shell", written),)),
        Message(MessageRole.TOOL, "no", provider_id="a"),
    )
    sent = body(ModelRequest(talk))
    assert sent["contents"][1]["parts"][0]["functionCall"]["args"].keys() == {"invalid"}
    assert faults(sent) == []


def test_a_name_that_another_model_made_up_is_no_bad_request() -> None:
    wanted = ToolCall("a", "run a shell!" * 20, "{}")
    sent = body(
        ModelRequest(
            (
                HELLO[1],
                Message(MessageRole.ASSISTANT, calls=(wanted,)),
                Message(MessageRole.TOOL, "no", provider_id="a"),
            )
        )
    )
    assert faults(sent) == []


def test_a_function_without_parameters_declares_none() -> None:
    declared = body(ModelRequest(HELLO, (SHELL, CLOCK)))["tools"][0]["functionDeclarations"]
    assert declared[0]["parametersJsonSchema"] == SHELL.parameters
    assert "parametersJsonSchema" not in declared[1]


def test_forbidden_tools_stay_listed() -> None:
    """A12: the closing call has no tool choice."""
    sent = body(ModelRequest(HELLO, (SHELL,), tools_allowed=False))
    assert sent["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert sent["tools"]
    assert "toolConfig" not in body(ModelRequest(HELLO, tools_allowed=False))


EFFORTS = [
    (
        "gemini-3.8-flash",
        {
            "low": {"thinkingLevel": "LOW"},
            "medium": {"thinkingLevel": "MEDIUM"},
            "max": {"thinkingLevel": "HIGH"},
        },
    ),
    ("gemini-4-argon", {"high": {"thinkingLevel": "HIGH"}}),
    ("gemini-flash-latest", {"low": {"thinkingLevel": "LOW"}}),
    (
        "gemini-3-pro-preview",
        {"low": {"thinkingLevel": "LOW"}, "medium": {"thinkingLevel": "HIGH"}},
    ),
    ("gemini-3.1-pro-preview", {"medium": {"thinkingLevel": "MEDIUM"}}),
    (
        "gemini-2.5-flash",
        {
            "low": {"thinkingBudget": 1024},
            "medium": {"thinkingBudget": 8192},
            "max": {"thinkingBudget": 24_576},
        },
    ),
    (
        "models/gemini-2.5-pro",
        {"high": {"thinkingBudget": 24_576}, "max": {"thinkingBudget": 32_768}},
    ),
    ("gemini-2.0-flash", {"high": None}),
    ("gemma-4-31b-it", {"high": None}),
]


@pytest.mark.parametrize(("model", "expected"), EFFORTS, ids=[model for model, _ in EFFORTS])
def test_effort_becomes_what_each_generation_calls_it_e13(
    model: str, expected: dict[str, object]
) -> None:
    for effort, thinking in expected.items():
        sent = body(ModelRequest(HELLO, effort=effort), model)
        assert sent.get("generationConfig", {}).get("thinkingConfig") == thinking
        assert faults(sent, model.rpartition("/")[2]) == []


def test_generations_are_told_by_name() -> None:
    assert [
        parse_version(name)
        for name in ("gemini-2.5-pro", "models/gemini-4-argon", "gemini-pro-latest", "llama-3")
    ] == [
        (2, 5),
        (4, 0),
        (4, 0),
        (0, 0),
    ]


def test_the_beginning_of_a_request_stays_the_same_bytes_from_call_to_call() -> None:
    """architecture.md: providers cache by prefix; over iterations, a steering text, a new turn, and whatever varies behind it."""
    steps = [
        *spoken(),
        Message(MessageRole.USER, "and?"),
        Message(MessageRole.ASSISTANT, "done"),
        Message(MessageRole.USER, "more"),
        *TALK[2:],
    ]
    grown = [
        prepare(Gemini, MODEL, ModelRequest((HELLO[0], *steps[:n]), (SHELL, CLOCK)))[0]
        for n in (1, 4, 5, 7, 10)
    ]
    closing = ModelRequest(
        (HELLO[0], *steps), (SHELL, CLOCK), tools_allowed=False, max_tokens=5, seed=1, effort="low"
    )
    grown.append(prepare(Gemini, MODEL, closing)[0])
    for earlier, later in pairwise(grown):
        assert earlier.endswith(b"]}")
        assert later.startswith(earlier[:-2])


def test_an_appended_tool_leaves_the_bytes_before_it_alone() -> None:
    short, long = (
        prepare(Gemini, MODEL, ModelRequest(HELLO, tools))[0]
        for tools in ((SHELL,), (SHELL, CLOCK))
    )
    assert long.startswith(short[: short.index(b']}],"systemInstruction"')])


# what we read


def read(received: bytes) -> ModelReply:
    return parse_reply(GeminiReplyBuilder(), received, ModelRequest(HELLO))


def refusal(received: bytes) -> CallFailed:
    with pytest.raises(CallFailed) as raised:
        read(received)
    return raised.value


@pytest.mark.parametrize(
    ("kind", "words", "received"),
    [
        (ErrorClass.MALFORMED, "an empty reply", answer()),
        (ErrorClass.MALFORMED, "an empty reply (MAX_TOKENS)", answer(finish="MAX_TOKENS")),
        (ErrorClass.FILTERED, "it withholds its answer (SAFETY)", answer(finish="SAFETY")),
        (
            ErrorClass.MALFORMED,
            "the model spoilt its call of a tool",
            answer(text("hm"), finish="MALFORMED_FUNCTION_CALL"),
        ),
        (
            ErrorClass.FILTERED,
            "blocks what it was sent (SAFETY)",
            b'{"promptFeedback": {"blockReason": "SAFETY"}}',
        ),
        (ErrorClass.MALFORMED, "not an answer", b"{"),
        (ErrorClass.MALFORMED, "not an answer", b"[{"),
        (
            ErrorClass.MALFORMED,
            "not an answer",
            answer({"functionCall": {"name": "a", "args": [1]}}),
        ),
        (
            ErrorClass.OVERLOADED,
            "later",
            b'[{"error": {"code": 503, "message": "overloaded, later", "status": "UNAVAILABLE"}}]',
        ),
    ],
)
def test_an_answer_that_is_none_says_why_a7(kind: ErrorClass, words: str, received: bytes) -> None:
    fault = refusal(received)
    assert fault.kind is kind
    assert words in str(fault)


def test_a_reply_that_was_cut_short_is_told_with_its_reason() -> None:
    assert read(answer(text("so far"), finish="MAX_TOKENS")).finish == "MAX_TOKENS"
    assert read(answer(text("so far"), finish="SAFETY")).text == "so far"


def test_without_signatures_nothing_is_kept_in_googles_form() -> None:
    assert read(answer(text("plain"), call("shell", {}))).native is None


def test_a_stream_that_came_as_a_list_is_read_all_the_same() -> None:
    pieces = [
        json.loads(answer(text("one "))),
        json.loads(answer(text("two"), usageMetadata=tokens(3, 2))),
    ]
    reply = read(json.dumps(pieces).encode())
    assert (reply.text, reply.usage) == ("one two", Usage(3, 2))


def test_thinking_and_the_prompts_of_tools_are_counted() -> None:
    told = {
        "promptTokenCount": 5,
        "toolUsePromptTokenCount": 2,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4,
    }
    assert read(
        answer(text("a"), usageMetadata={**told, "cachedContentTokenCount": 1})
    ).usage == Usage(7, 7, 1)


def test_pieces_of_one_text_are_kept_as_one_and_thoughts_and_signatures_by_themselves() -> None:
    parts = [
        text("I ", thought=True),
        text("think", thought=True),
        text("one "),
        text("two"),
        text("", "dGV4dA=="),
        text("!"),
    ]
    reply = read(answer(*parts))
    assert (reply.text, reply.native and json.loads(reply.native.blocks)) == (
        "one two!",
        [text("I think", thought=True), text("one two"), text("", "dGV4dA=="), text("!")],
    )


def test_usage_that_is_not_told_is_estimated() -> None:
    assert read(answer(text("hello"))).usage.estimated


NAMES = st.sampled_from(
    [
        "candidates",
        "content",
        "parts",
        "text",
        "functionCall",
        "name",
        "args",
        "thoughtSignature",
        "finishReason",
        "error",
        "code",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["", "shell", "STOP", "SAFETY"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
)
SENT = st.lists(st.dictionaries(NAMES, ANYTHING, max_size=3), max_size=3)


@given(SENT, ANYTHING)
def test_whatever_a_server_sends_is_a_reply_or_a_fault_a7(
    parts: list[dict[str, Any]], other: object
) -> None:
    """A7: every fault has its class; none of them is an exception of ours."""
    for received in (answer(*parts), json.dumps(other).encode(), json.dumps([other]).encode()):
        with suppress(CallFailed):
            read(received)


# A9: any history


IDS = st.sampled_from(["call_0", "call_1", ""])
TEXTS = st.sampled_from(["", "a", "b", "c\ud800"])
WRITTEN = st.sampled_from(["{}", '{"a": 1}', "{", ""])
CALLS = st.lists(
    st.builds(ToolCall, IDS, st.sampled_from(["shell", "a tool!"]), WRITTEN), max_size=3
).map(tuple)


@st.composite
def own(draw: st.DrawFn) -> Message:
    """What Gemini itself said, signed or not, kept in its own form."""
    names = draw(st.lists(st.sampled_from(["shell", "current_time"]), max_size=2))
    signed = draw(st.booleans())
    parts = [text("x", "dGV4dA==")] if signed or not names else []
    parts += [
        call(name, {}, SIGNATURE if signed and not n else "", f"f{n}")
        for n, name in enumerate(names)
    ]
    said = "x" if parts and "text" in parts[0] else ""
    wanted = tuple(ToolCall(f"f{n}", name, "{}") for n, name in enumerate(names))
    return Message(MessageRole.ASSISTANT, said, wanted, native=native(parts))


MESSAGES = st.one_of(
    st.builds(Message, st.just(MessageRole.USER), TEXTS),
    st.builds(Message, st.just(MessageRole.SYSTEM), st.sampled_from(["be kind", "be brief"])),
    st.builds(Message, st.just(MessageRole.ASSISTANT), TEXTS, CALLS),
    own(),
    st.builds(
        lambda said, name, bad: Message(MessageRole.TOOL, said, provider_id=name, is_error=bad),
        TEXTS,
        IDS,
        st.booleans(),
    ),
    st.builds(
        lambda name: Message(MessageRole.TOOL, "r", provider_id=name), st.sampled_from(["f0", "f1"])
    ),
)


@given(st.lists(MESSAGES, max_size=14), st.sampled_from([MODEL, OLDER, "gemini-2.0-flash"]))
def test_a9_any_history_becomes_one_that_gemini_accepts_and_no_user_text_is_lost(
    history: list[Message], model: str
) -> None:
    sent = body(ModelRequest(tuple(repair(history)), (SHELL,)), model)
    assert faults(sent, model) == []
    told = [
        part.get("text", "")
        for content in sent["contents"]
        if content["role"] == "user"
        for part in content["parts"]
    ]
    said = [
        message.text.replace("\ud800", "\ufffd")
        for message in history
        if message.role is MessageRole.USER and message.text
    ]
    kept = [piece for words in told for piece in words.split("\n\n")]
    assert [piece for piece in kept if piece in {"a", "b", "c\ufffd"}] == said


@pytest.mark.parametrize(
    "written",
    [
        "print(default_api.shell(command='ls'))",
        "default_api.shell(command='ls')",
        'call:default_api:shell{command:"ls"}',
    ],
)
def test_a_call_that_google_could_not_read_is_read_from_its_words(written: str) -> None:
    ended = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": f"Malformed function call: {written}"}  # fmt: skip
    said = {"content": {"parts": [{"text": "I look."}]}}
    for candidate in (ended, {**ended, **said}):
        draft = GeminiReplyBuilder()
        draft.feed(json.dumps({"candidates": [candidate]}))
        reply = draft.build(ModelRequest((), tools=(SHELL,)))
        assert [(one.name, one.arguments) for one in reply.calls] == [("shell", '{"command": "ls"}')]
        assert reply.text == ("I look." if "content" in candidate else "") and reply.recovered


def test_arguments_as_a_text_are_read() -> None:
    call = {"functionCall": {"name": "shell", "args": '{"command": "ls"}'}}
    received = {"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}
    draft = GeminiReplyBuilder()
    draft.feed(json.dumps(received))
    assert [one.arguments for one in draft.build(ModelRequest(())).calls] == ['{"command": "ls"}']
