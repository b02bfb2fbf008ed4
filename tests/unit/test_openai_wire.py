"""OpenAI's wire format: what we send, what we read, with the official SDK as the judge of both."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from daemon.core.clock import SystemClock
from daemon.core.errors import ErrorClass
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec, Usage
from daemon.providers.base import EncodingCache
from daemon.providers.errors import CallFailed
from daemon.providers.openai import ChatReplyBuilder, OpenAI
from tests.fakes.adapters import parse_reply, prepare
from tests.fakes.openai import FakeOpenAI, Step, calls, says, tokens

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
            ToolCall("call_1", "current_time", "{}"),
        ),
    ),
    Message(MessageRole.TOOL, "a.txt", provider_id="call_0"),
    Message(MessageRole.TOOL, "noon", provider_id="call_1"),
)
SDK_TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "grüß dich"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_0",
                "type": "function",
                "function": {"name": "shell", "arguments": '{"command": "ls"}'},
            },
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "current_time", "arguments": "{}"},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_0", "content": "a.txt"},
    {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
]
ASK = ModelRequest(HELLO)


def body(request: ModelRequest, **options: Any) -> dict[str, Any]:
    return json.loads(prepare(OpenAI, "m", request, **options)[0])


def answer(message: dict[str, object], **more: object) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **more}).encode()


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
async def provider(fake: FakeOpenAI) -> AsyncIterator[OpenAI]:
    provider = OpenAI(base_url=fake.base_url, api_key="sk-test", clock=SystemClock())
    yield provider
    await provider.aclose()


# the official SDK as oracle


async def test_the_request_is_what_the_official_sdk_sends(
    fake: FakeOpenAI, provider: OpenAI
) -> None:
    await provider.complete(
        "gpt", ModelRequest(TALK, (SHELL, CLOCK), max_tokens=9, effort="low", seed=7)
    )
    from openai import AsyncOpenAI  # a second, which only this test needs

    async with AsyncOpenAI(base_url=fake.base_url, api_key="sk-test", max_retries=0) as sdk:
        tools: Any = [
            {
                "type": "function",
                "function": {
                    "name": t.name,
                    "description": t.description,
                    "parameters": t.parameters,
                },
            }
            for t in (SHELL, CLOCK)
        ]
        messages: Any = SDK_TALK
        await sdk.chat.completions.create(
            model="gpt",
            messages=messages,
            tools=tools,
            max_tokens=9,
            reasoning_effort="low",
            seed=7,
        )
    ours, theirs = fake.requests
    assert ours.body == theirs.body
    assert ours.headers["Authorization"] == theirs.headers["Authorization"]
    assert ours.headers["Content-Type"] == theirs.headers["Content-Type"]


STEPS = {
    "text": says("hello there", usage=tokens(100, 7, cached=40)),
    "calls": calls(("shell", {"command": "ls -l"}), ("current_time", {}), text="Let me look."),
    "bad arguments": calls(("shell", '{"command": "l')),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_reply_is_what_the_official_sdk_reads(
    fake: FakeOpenAI, provider: OpenAI, step: Step, stream: bool
) -> None:
    fake.otherwise(step)
    pieces: list[str] = []
    ours = await provider.complete(
        "gpt", ModelRequest(HELLO, (SHELL, CLOCK)), pieces.append if stream else None
    )
    from openai import AsyncOpenAI  # a second, which only this test needs

    async with AsyncOpenAI(base_url=fake.base_url, api_key="sk-test", max_retries=0) as sdk:
        theirs = await sdk.chat.completions.create(
            model="gpt", messages=[{"role": "user", "content": "hi"}]
        )
    message, usage = theirs.choices[0].message, theirs.usage
    assert usage and usage.prompt_tokens_details
    assert ours.text == (message.content or "")
    assert [(c.provider_id, c.name, c.arguments) for c in ours.calls] == [
        (c.id, c.function.name, c.function.arguments)
        for c in message.tool_calls or ()
        if c.type == "function"
    ]
    cached = usage.prompt_tokens_details.cached_tokens
    assert ours.usage == Usage(usage.prompt_tokens, usage.completion_tokens, cached or 0)
    assert ours.finish == theirs.choices[0].finish_reason
    assert (ours.provider, ours.model) == (provider.name, "gpt")
    assert "".join(pieces) == (ours.text if stream else "")


async def test_streamed_text_comes_in_pieces_and_in_order(
    fake: FakeOpenAI, provider: OpenAI
) -> None:
    """E12."""
    fake.script(says("one two three four five"))
    pieces: list[str] = []
    reply = await provider.complete("gpt", ASK, pieces.append)
    assert "".join(pieces) == reply.text == "one two three four five"
    assert fake.requests[0]["stream_options"] == {"include_usage": True}


# what we send


def test_the_beginning_of_a_request_stays_the_same_bytes_from_call_to_call() -> None:
    """architecture.md: providers cache by prefix."""
    first = prepare(OpenAI, "m", ModelRequest(HELLO, (SHELL, CLOCK), max_tokens=5, seed=1))[0]
    later, _ = prepare(
        OpenAI,
        "m",
        ModelRequest(TALK, (SHELL, CLOCK), tools_allowed=False, max_tokens=9, seed=2),
        stream=True,
    )
    shared = first[: first.index(b'],"max_completion_tokens"')]
    assert later.startswith(shared)


def test_an_appended_tool_leaves_the_bytes_before_it_alone() -> None:
    short, long = (
        prepare(OpenAI, "m", ModelRequest(HELLO, (SHELL,)))[0],
        prepare(OpenAI, "m", ModelRequest(HELLO, (SHELL, CLOCK)))[0],
    )
    assert long.startswith(short[: short.index(b'],"messages"')])


def test_forbidden_tools_stay_listed() -> None:
    """A12: the closing call has no tool choice."""
    sent = body(ModelRequest(HELLO, (SHELL,), tools_allowed=False))
    assert sent["tool_choice"] == "none"
    assert len(sent["tools"]) == 1
    assert "tool_choice" not in body(ModelRequest(HELLO, (), tools_allowed=False))


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert body(ASK).keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("api.openai.com", ("max_completion_tokens", "seed")),
        ("me.openai.azure.com", ("max_completion_tokens", "seed")),
        ("api.mistral.ai", ("max_tokens", "random_seed")),
        ("127.0.0.1", ("max_tokens", "seed")),
    ],
)
def test_servers_have_their_own_names_for_things(host: str, names: tuple[str, str]) -> None:
    sent = body(ModelRequest(HELLO, max_tokens=9, seed=3), base_url=f"https://{host}/v1")
    assert sent.keys() == {"model", "messages", *names}
    assert [sent[name] for name in names] == [9, 3]


@pytest.mark.parametrize(
    ("effort", "sent"), [("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "high")]
)
def test_effort_is_passed_on_in_words_that_every_model_knows(effort: str, sent: str) -> None:
    """E13."""
    assert body(ModelRequest(HELLO, effort=effort))["reasoning_effort"] == sent


@pytest.mark.parametrize("written", ['{"command": "l', "", "[1]", "null", "42"])
def test_arguments_that_are_no_json_object_are_echoed_as_one(written: str) -> None:
    """Servers that parse the history refuse it otherwise, and the turn could not go on."""
    said = Message(MessageRole.ASSISTANT, "hm", (ToolCall("c", "shell", written),))
    echoed = body(ModelRequest((*HELLO, said)))["messages"][-1]["tool_calls"][0]["function"][
        "arguments"
    ]
    assert isinstance(json.loads(echoed), dict)
    assert written in json.loads(echoed).values() or not written


def test_half_a_surrogate_pair_does_not_break_the_call() -> None:
    assert (
        body(ModelRequest((Message(MessageRole.USER, "a\ud800b"),)))["messages"][0]["content"]
        == "a\ufffdb"
    )


def test_tools_and_messages_are_put_into_bytes_once() -> None:
    cache, encoded = EncodingCache(), list[object]()

    def to_json(thing: object) -> object:
        encoded.append(thing)
        return str(thing)

    both = [cache.encode((SHELL, CLOCK), to_json) for _ in range(2)]
    assert both[0] == both[1]
    assert encoded == [SHELL, CLOCK]
    for number in range(5000):
        assert (
            cache.encode([ToolSpec(f"t{number}", "", {})], lambda t: t.name) == b'["t%d"]' % number
        )


# what we read


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (tokens(50, 6, cached=30), Usage(50, 6, 30)),
        (
            {"prompt_tokens": 50, "completion_tokens": 6, "prompt_cache_hit_tokens": 8},
            Usage(50, 6, 8),
        ),
        (
            {"prompt_tokens": 50, "completion_tokens": 6, "prompt_tokens_details": None},
            Usage(50, 6),
        ),
    ],
)
def test_cached_tokens_are_counted(usage: dict[str, object], read: Usage) -> None:
    assert (
        parse_reply(ChatReplyBuilder(), answer({"content": "ok"}, usage=usage), ASK).usage == read
    )


def test_usage_that_the_server_does_not_tell_is_estimated_and_says_so() -> None:
    asked = ModelRequest((Message(MessageRole.USER, "x" * 400),), (SHELL,))
    usage = parse_reply(ChatReplyBuilder(), answer({"content": "y" * 40}), asked).usage
    assert usage.estimated
    assert 100 < usage.input_tokens < 150
    assert usage.output_tokens == 11


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"type": "text", "text": "no"}, {"type": "text", "text": " way"}]},
        {"content": None, "refusal": "no way"},
    ],
)
def test_text_in_parts_and_refusals_are_text(message: dict[str, object]) -> None:
    assert parse_reply(ChatReplyBuilder(), answer(message), ASK).text == "no way"


def test_calls_without_ids_or_with_the_same_id_get_ids_of_their_own() -> None:
    wanted = [
        {"id": i, "function": {"name": "shell", "arguments": {"n": 1}}}
        for i in ("", "x", "x", None)
    ]
    reply = parse_reply(ChatReplyBuilder(), answer({"content": None, "tool_calls": wanted}), ASK)
    assert [call.provider_id for call in reply.calls] == ["call_0", "x", "x_2", "call_3"]
    assert reply.calls[0].arguments == '{"n": 1}'


@pytest.mark.parametrize("numbers", [(0, 1), (0, 0), (None, None)])
def test_streamed_calls_are_told_apart_however_the_server_numbers_them(
    numbers: tuple[int | None, int | None],
) -> None:
    draft = ChatReplyBuilder()
    for index, name in zip(numbers, ("shell", "current_time"), strict=True):
        for call in (
            {"id": f"id-{name}", "function": {"name": name, "arguments": '{"a'}},
            {"function": {"arguments": '":1}'}},
        ):
            draft.feed(
                json.dumps({"choices": [{"delta": {"tool_calls": [{"index": index, **call}]}}]})
            )
    assert draft.build(ASK).calls == (
        ToolCall("id-shell", "shell", '{"a":1}'),
        ToolCall("id-current_time", "current_time", '{"a":1}'),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": "many"}',
        answer({"content": ""}),
        answer({"content": " \n"}),
        answer({"content": None, "tool_calls": []}),
        answer({"content": {"a": 1}}),
    ],
)
def test_an_answer_of_the_wrong_shape_or_an_empty_one_is_malformed(wrong: bytes) -> None:
    """A7."""
    with pytest.raises(CallFailed) as raised:
        parse_reply(ChatReplyBuilder(), wrong, ASK)
    assert raised.value.kind is ErrorClass.MALFORMED
