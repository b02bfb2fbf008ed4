"""Anthropic's wire format: what we send, what we read, with the official SDK as the judge of both."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from daemon.core.clock import SystemClock
from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolSpec,
    Usage,
)
from daemon.providers.anthropic import (
    CACHE_MARK,
    Anthropic,
    AnthropicReplyBuilder,
    get_capabilities,
)
from daemon.providers.errors import CallFailed
from tests.fakes.adapters import parse_reply
from tests.fakes.anthropic import KEY, FakeAnthropic, answers, calls, says, thinks, tokens
from tests.fakes.anthropic.rules import faults
from tests.fakes.anthropic.thoughts import encode_request, make_own_native
from tests.fakes.openai import Step

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

NEW, OLD = "claude-haiku-5-5", "claude-haiku-4-5"
SHELL = ToolSpec(
    "shell", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}}
)
CLOCK = ToolSpec("current_time", "The time", {"properties": {}})
HELLO = (Message(MessageRole.SYSTEM, "Be brief."), Message(MessageRole.USER, "grüß dich"))
CALLED = Message(
    MessageRole.ASSISTANT,
    "Let me look.",
    (ToolCall("call_0", "shell", '{"command": "ls"}'), ToolCall("call_1", "current_time", "{}")),
)
RESULTS = (
    Message(MessageRole.TOOL, "a.txt", provider_id="call_0"),
    Message(MessageRole.TOOL, "none", provider_id="call_1", is_error=True),
)
TALK = (*HELLO, CALLED, *RESULTS)
ASK = ModelRequest(HELLO)
CACHED: Any = {"cache_control": {"type": "ephemeral"}}


def body(request: ModelRequest, model: str = NEW, **options: Any) -> dict[str, Any]:
    """What is sent, which breaks no rule."""
    sent = json.loads(encode_request(model, request, **options)[0])
    assert faults(sent) == []
    return sent


def said(*messages: Message) -> list[dict[str, Any]]:
    """The messages that are sent behind the first one, without markers."""
    sent = encode_request(NEW, ModelRequest((*HELLO, *messages)))[0]
    assert faults(json.loads(sent)) == []
    return json.loads(sent.replace(CACHE_MARK, b""))["messages"][1:]


def answer(*content: object, **more: object) -> bytes:
    return json.dumps(
        {"type": "message", "content": content, "stop_reason": "end_turn", **more}
    ).encode()


def read(received: bytes, request: ModelRequest = ASK) -> ModelReply:
    return parse_reply(AnthropicReplyBuilder(), received, request)


@pytest.fixture
async def fake() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic() as fake:
        yield fake


@pytest.fixture
async def provider(fake: FakeAnthropic) -> AsyncIterator[Anthropic]:
    provider = Anthropic(base_url=fake.base_url, api_key=KEY, clock=SystemClock())
    yield provider
    await provider.aclose()


@pytest.fixture
async def sdk(fake: FakeAnthropic) -> AsyncIterator["AsyncAnthropic"]:
    from anthropic import AsyncAnthropic  # a second, which only this test needs

    async with AsyncAnthropic(
        base_url=fake.base_url.removesuffix("/v1"), api_key=KEY, max_retries=0
    ) as sdk:
        yield sdk


# the official SDK as oracle


async def test_the_request_is_what_the_official_sdk_sends(
    fake: FakeAnthropic, provider: Anthropic, sdk: "AsyncAnthropic"
) -> None:
    await provider.complete(
        NEW,
        ModelRequest(TALK, (SHELL, CLOCK), tools_allowed=False, max_tokens=9, effort="low", seed=7),
    )
    uses: Any = [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call_0", "name": "shell", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "call_1", "name": "current_time", "input": {}},
    ]
    results: Any = [
        {"type": "tool_result", "tool_use_id": "call_0", "content": "a.txt"},
        {
            "type": "tool_result",
            "tool_use_id": "call_1",
            "content": "none",
            "is_error": True,
            **CACHED,
        },
    ]
    await sdk.messages.create(
        model=NEW,
        max_tokens=9,
        system=[{"type": "text", "text": "Be brief.", **CACHED}],
        tools=[
            {
                "name": "shell",
                "description": "Run a command",
                "input_schema": dict(SHELL.parameters),
            },
            {
                "name": "current_time",
                "description": "The time",
                "input_schema": {"type": "object", "properties": {}},
                **CACHED,
            },
        ],
        tool_choice={"type": "none"},
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "grüß dich", **CACHED}]},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": results},
        ],
        thinking={"type": "adaptive"},
        output_config={"effort": "low"},
    )
    ours, theirs = fake.requests
    assert fake.refused == []
    assert ours.body == theirs.body
    assert ours.headers["Content-Type"] == theirs.headers["Content-Type"]
    assert (ours.headers["x-api-key"], ours.headers["anthropic-version"]) == (KEY, "2023-06-01")


STEPS = {
    "text": says("hello there", usage=tokens(10, 7, read=40, created=50)),
    "calls": calls(("shell", {"command": "ls -l 'ä'"}), ("current_time", {}), text="Let me look."),
    "thinking": calls(
        ("shell", {"n": [1, 2.5, None]}),
        thoughts=(thinks("first this"), thinks(redacted=True)),
        text="So:",
    ),
    "hidden thinking": says("yes", thinks("")),
    "text between": answers(
        thinks(), {"type": "text", "text": "a"}, thinks(), {"type": "text", "text": "b"}
    ),
    "cut": says("too lo", finish="max_tokens"),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_reply_is_what_the_official_sdk_reads(
    fake: FakeAnthropic, provider: Anthropic, sdk: "AsyncAnthropic", step: Step, stream: bool
) -> None:
    fake.otherwise(step)
    pieces: list[str] = []
    ours = await provider.complete(
        NEW, ModelRequest(HELLO, (SHELL, CLOCK)), pieces.append if stream else None
    )
    fake.signed = 0
    async with sdk.messages.stream(
        model=NEW, max_tokens=99, messages=[{"role": "user", "content": [TEXT]}]
    ) as coming:
        theirs = await coming.get_final_message()
    content = [block.model_dump(exclude_none=True) for block in theirs.content]
    assert ours.text == "".join(block["text"] for block in content if block["type"] == "text")
    assert [(c.provider_id, c.name, json.loads(c.arguments)) for c in ours.calls] == [
        (block["id"], block["name"], block["input"])
        for block in content
        if block["type"] == "tool_use"
    ]
    assert kept(ours) == (content if any("thinking" in block["type"] for block in content) else [])
    used = theirs.usage
    cached, created = used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0
    assert ours.usage == Usage(used.input_tokens + cached + created, used.output_tokens, cached)
    assert ours.finish == theirs.stop_reason
    assert (ours.provider, ours.model) == (provider.name, NEW)
    assert "".join(pieces) == (ours.text if stream else "")


TEXT: Any = {"type": "text", "text": "hi"}


def kept(reply: ModelReply) -> list[dict[str, object]]:
    return json.loads(reply.native.blocks)["content"] if reply.native else []


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
async def test_a_streamed_reply_and_one_in_a_piece_are_the_same(
    fake: FakeAnthropic, provider: Anthropic, step: Step
) -> None:
    """E12."""
    fake.otherwise(step)
    whole = await provider.complete(NEW, ASK)
    fake.signed = 0
    assert await provider.complete(NEW, ASK, print) == whole


async def test_streamed_text_comes_in_pieces_and_in_order_e12(
    fake: FakeAnthropic, provider: Anthropic
) -> None:
    """E12: and what was only thought is not shown."""
    fake.script(says("one two three four five", thinks("what are the numbers")))
    pieces: list[str] = []
    reply = await provider.complete(NEW, ASK, pieces.append)
    assert "".join(pieces) == reply.text == "one two three four five"


# what we send


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert body(ModelRequest(HELLO[1:])).keys() == {"model", "messages", "max_tokens"}


def test_forbidden_tools_stay_listed_a12() -> None:
    """A12: the closing call has no tool choice."""
    sent = body(ModelRequest(TALK, (SHELL,), tools_allowed=False))
    assert (sent["tool_choice"], len(sent["tools"])) == ({"type": "none"}, 1)
    assert "tool_choice" not in body(ModelRequest(HELLO, (), tools_allowed=False))


def test_a_history_with_calls_names_their_tools_where_none_are_offered() -> None:
    sent = body(ModelRequest(TALK))
    assert [tool["name"] for tool in sent["tools"]] == ["shell", "current_time"]
    assert sent["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize("effort", ["low", "medium", "high", "max"])
def test_effort_is_told_in_the_words_of_the_model_e13(effort: str) -> None:
    """E13: effort and adaptive thinking, or a budget that leaves room for the reply."""
    new = body(ModelRequest(HELLO, effort=effort, max_tokens=100))
    assert (new["thinking"], new["output_config"]) == ({"type": "adaptive"}, {"effort": effort})
    assert new["max_tokens"] == 100
    old = body(ModelRequest(HELLO, effort=effort, max_tokens=100), OLD)
    assert old["max_tokens"] == old["thinking"]["budget_tokens"] + 100
    oldest = body(ModelRequest(HELLO, effort=effort), "claude-3-haiku-20240307")
    assert oldest.keys() == {"model", "system", "messages", "max_tokens"}


def test_more_effort_is_a_larger_budget_e13() -> None:
    """E13."""
    budgets = [
        body(ModelRequest(HELLO, effort=e), OLD)["thinking"]["budget_tokens"]
        for e in ("low", "medium", "high", "max")
    ]
    assert budgets == sorted(set(budgets))


@pytest.mark.parametrize(
    ("model", "can"),
    [
        ("claude-3-5-haiku-20241022", ("none", False)),
        ("claude-3-7-sonnet-20250219", ("budget", False)),
        ("claude-opus-4-20250514", ("budget", False)),
        ("claude-opus-4-1-20250805", ("budget", False)),
        ("claude-haiku-4-5-20251001", ("budget", False)),
        ("anthropic/claude-sonnet-4.5", ("budget", False)),
        ("claude-opus-4-6", ("adaptive", False)),
        ("claude-sonnet-5", ("adaptive", False)),
        ("claude-fable-5-1", ("adaptive", True)),
        ("claude-haiku-5-5", ("adaptive", True)),
        ("claude-opus-12-20310101", ("adaptive", True)),
        ("claude-mythos-preview", ("adaptive", True)),
        ("kimi-k2", ("budget", False)),
    ],
)
def test_a_model_is_asked_for_what_it_can(model: str, can: tuple[str, bool]) -> None:
    assert get_capabilities(model) == can


def test_a_budget_is_not_asked_for_behind_calls_that_were_made_without_a_thought() -> None:
    """The API refuses it; and a fallback's calls stand in the middle of a turn."""
    assert "thinking" not in body(ModelRequest(TALK, (SHELL, CLOCK), effort="high"), OLD)
    assert "thinking" in body(
        ModelRequest(
            (*TALK, Message(MessageRole.ASSISTANT, "ok"), HELLO[1]), (SHELL, CLOCK), effort="high"
        ),
        OLD,
    )


def test_alternatives_of_a_whole_schema_are_shown_as_one_object() -> None:
    """A tool of somebody else's must not make every call fail; what it makes of its arguments is its own affair."""
    parameters = {
        "anyOf": [
            {"properties": {"path": {"type": "string"}}, "required": ["path"]},
            {"properties": {"url": {}}},
            True,
        ],
        "properties": {"url": {"type": "string"}},
        "allOf": "?",
        "$defs": {},
    }
    (tool,) = body(ModelRequest(HELLO, (ToolSpec("get", "", parameters),)))["tools"]
    url = {"path": {"type": "string"}, "url": {"type": "string"}}
    assert tool["input_schema"] == {"type": "object", "properties": url, "$defs": {}}


def test_results_come_together_in_their_order_and_what_the_user_says_behind_them() -> None:
    results = said(CALLED, *RESULTS, Message(MessageRole.USER, "and hurry"))[1]["content"]
    assert [block.get("tool_use_id", block.get("text")) for block in results] == [
        "call_0",
        "call_1",
        "and hurry",
    ]
    assert [block.get("is_error") for block in results] == [None, True, None]


@pytest.mark.parametrize(
    "written",
    ['{"command": "l', "", "[1]", "null", "42", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000],
)
def test_arguments_that_are_no_json_object_are_echoed_as_one(written: str) -> None:
    """A turn could not go on otherwise."""
    echoed = said(
        Message(MessageRole.ASSISTANT, "", (ToolCall("c", "shell", written),)),
        Message(MessageRole.TOOL, "no", provider_id="c"),
    )
    given = echoed[0]["content"][0]["input"]
    assert given == ({"invalid": written} if written else {})


def test_calls_of_other_servers_get_ids_that_the_api_takes_each_its_own() -> None:
    given = ["call_0", "call_0", "", "x.1:é", "call_0", "y" * 200]
    history: list[Message] = []
    for one in given:
        history += [
            Message(MessageRole.ASSISTANT, "", (ToolCall(one, "ls", "{}"),)),
            Message(MessageRole.TOOL, "ok", provider_id=one),
        ]
    sent = said(*history)
    ids = [message["content"][0]["id"] for message in sent[::2]]
    assert ids[0] == "call_0"
    assert len(set(ids)) == len(given)
    assert said(*history[:6]) == sent[:6]


def test_a_tool_that_nobody_has_keeps_the_history_sound() -> None:
    called = Message(
        MessageRole.ASSISTANT,
        "",
        (ToolCall("a", "functions.run ls", "{}"), ToolCall("b", "", "{}")),
    )
    results = (
        Message(MessageRole.TOOL, "no such tool", provider_id="a"),
        Message(MessageRole.TOOL, "", provider_id="b"),
    )
    assert [block["name"] for block in said(called, *results)[0]["content"]] == [
        "functions_run_ls",
        "unknown",
    ]


def test_blank_texts_are_told_as_such() -> None:
    history = (
        Message(MessageRole.ASSISTANT, " \n"),
        Message(MessageRole.USER, "\t"),
        Message(MessageRole.ASSISTANT, "a"),
        Message(MessageRole.USER, "b"),
    )
    assert [m["content"][0]["text"] for m in said(*history)] == [
        "[an empty message]",
        "[an empty message]",
        "a",
        "b",
    ]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    sent = body(ModelRequest((Message(MessageRole.ASSISTANT, "as I said"),)))
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert len(body(ModelRequest(()))["messages"]) == 1


def test_half_a_surrogate_pair_does_not_break_the_call() -> None:
    sent = body(ModelRequest((Message(MessageRole.USER, "a\ud800b"),)))
    assert sent["messages"][0]["content"][0]["text"] == "a\ufffdb"


# thinking goes back as it came


def thought(prefix: str, *, provider: str = "anthropic", model: str = NEW) -> Message:
    content: Any = [
        {"type": "thinking", "thinking": "ls, then", "signature": "Eq+/=="},
        {"type": "redacted_thinking", "data": "Er+/=="},
        {"type": "text", "text": "Let me"},
        {"type": "text", "text": " look."},
        {"type": "tool_use", "id": "call_0", "name": "shell", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "call_1", "name": "current_time", "input": {}},
    ]
    return replace(CALLED, native=make_own_native(provider, model, prefix, content))


def replayed(message: Message, model: str = NEW) -> list[str]:
    """The kinds of the blocks that are sent for this reply."""
    return [
        block["type"]
        for block in body(ModelRequest((*HELLO, message, *RESULTS), (SHELL,)), model)["messages"][
            1
        ]["content"]
    ]


PLAIN = ["text", "tool_use", "tool_use"]
OWN = ["thinking", "redacted_thinking", "text", "text", "tool_use", "tool_use"]
PREFIX = encode_request(NEW, ModelRequest(HELLO, (SHELL,)))[1]


def test_thinking_goes_back_unchanged_to_whom_it_belongs() -> None:
    assert replayed(thought(PREFIX)) == OWN
    assert replayed(thought(PREFIX, model=OLD)) == PLAIN
    assert replayed(thought(PREFIX, provider="anthropic:elsewhere.example")) == PLAIN


def test_thinking_behind_other_words_stays_away_where_the_model_would_refuse_it() -> None:
    assert replayed(thought("something else")) == PLAIN
    assert replayed(thought("something else", model=OLD), OLD) == OWN


def test_an_id_is_replaced_in_the_models_own_blocks_too() -> None:
    talk = (
        *HELLO,
        thought(PREFIX),
        *RESULTS,
        replace(thought("x", model=OLD), text="Again."),
        *RESULTS,
    )
    ids = [
        block["id"]
        for m in body(ModelRequest(talk), OLD)["messages"]
        for block in m["content"]
        if block["type"] == "tool_use"
    ]
    assert ids == ["call_0", "call_1", "call_2", "call_3"]


@pytest.mark.parametrize(
    "blocks",
    ["", "no JSON", "[]", "{}", '{"prefix": "", "content": 1}', '{"prefix": "", "content": []}'],
)
def test_what_cannot_be_read_of_ones_own_is_told_in_text_and_calls(blocks: str) -> None:
    native = make_own_native("anthropic", NEW, PREFIX, [])
    assert replayed(replace(CALLED, native=replace(native, blocks=blocks)), OLD) == PLAIN
    assert replayed(replace(CALLED, native=replace(native, blocks=blocks))) == PLAIN


# the cache


def bare(sent: bytes) -> bytes:
    """The bytes up to the end of the messages, without markers: what the API compares."""
    return sent.replace(CACHE_MARK, b"").rpartition(b'],"max_tokens"')[0]


def test_each_call_begins_with_the_bytes_of_the_one_before() -> None:
    """architecture.md: without MARK, the bytes up to the end of the messages begin those of the next call of the loop, and turn."""
    talk = [
        *HELLO,
        thought(PREFIX),
        *RESULTS,
        CALLED,
        *RESULTS,
        Message(MessageRole.ASSISTANT, "done"),
        Message(MessageRole.USER, "thanks"),
    ]
    talk += [
        thought("old"),
        *RESULTS,
        Message(MessageRole.ASSISTANT, "bye"),
        Message(MessageRole.USER, "so long"),
    ]
    calls = [
        end
        for end in range(2, len(talk) + 1)
        if end == len(talk) or talk[end].role is MessageRole.ASSISTANT
    ]
    sent = [
        encode_request(NEW, ModelRequest(tuple(talk[:end]), (SHELL,), tools_allowed=end % 2 == 0))[
            0
        ]
        for end in calls
    ]
    assert len(sent) == 6
    assert all(b'"thinking"' in later for later in sent[1:])
    for before, after in pairwise(sent):
        assert bare(after).startswith(bare(before))


def test_a_call_marks_what_the_next_one_will_look_for() -> None:
    """architecture.md: behind tools, system prompt, the newest message, and where the newest ended before."""
    first, second = (
        body(ModelRequest(HELLO, (CLOCK, SHELL))),
        body(ModelRequest(TALK, (CLOCK, SHELL))),
    )
    assert ["cache_control" in tool for tool in second["tools"]] == [False, True]
    assert "cache_control" in second["system"][-1]
    marked = [[("cache_control" in block) for block in m["content"]] for m in second["messages"]]
    assert marked == [[True], [False, False, False], [False, True]]
    assert first["messages"] == second["messages"][:1]


def test_an_appended_tool_leaves_the_bytes_before_it_alone() -> None:
    short, long = (
        encode_request(NEW, ModelRequest(HELLO, (SHELL,))),
        encode_request(NEW, ModelRequest(HELLO, (SHELL, CLOCK))),
    )
    assert (
        long[0]
        .replace(CACHE_MARK, b"")
        .startswith(short[0].replace(CACHE_MARK, b"").partition(b'],"system"')[0])
    )


# what we read


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (tokens(50, 6, read=30, created=20), Usage(100, 6, 30)),
        ({"input_tokens": 50, "output_tokens": 6, "cache_read_input_tokens": None}, Usage(50, 6)),
        ({"input_tokens": -5, "output_tokens": "6"}, Usage(0, 6)),
    ],
)
def test_the_whole_prompt_is_counted_and_what_was_cached(
    usage: dict[str, object], expected: Usage
) -> None:
    assert read(answer(TEXT, usage=usage)).usage == expected


@pytest.mark.parametrize("usage", [{}, None, 7])
def test_usage_that_the_server_does_not_tell_is_estimated_and_says_so(usage: object) -> None:
    counted = read(
        answer({"type": "text", "text": "y" * 40}, usage=usage),
        ModelRequest((Message(MessageRole.USER, "x" * 400),)),
    ).usage
    assert counted.estimated
    assert (100 < counted.input_tokens < 150, counted.output_tokens) == (True, 11)


def test_the_counts_of_a_stream_are_those_told_last() -> None:
    draft = AnthropicReplyBuilder()
    draft.feed(
        json.dumps(
            {"type": "message_start", "message": {"content": [], "usage": tokens(10, 1, read=5)}}
        )
    )
    draft.feed(json.dumps({"type": "content_block_start", "index": 0, "content_block": TEXT}))
    draft.feed(
        json.dumps(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 70},
            }
        )
    )
    assert draft.build(ASK).usage == Usage(15, 70, 5)


def test_calls_without_ids_or_with_the_same_id_get_ids_of_their_own() -> None:
    wanted = [
        {"type": "tool_use", "id": i, "name": "shell", "input": {"n": 1}}
        for i in ("", "x", "x", None)
    ]
    assert [call.provider_id for call in read(answer(*wanted)).calls] == [
        "call_0",
        "x",
        "x_2",
        "call_3",
    ]


def test_arguments_cut_off_by_the_limit_are_kept_as_they_are() -> None:
    """So that the tool can say what is wrong with them; what is sent back is an object all the same."""
    draft = AnthropicReplyBuilder()
    begun = {"type": "tool_use", "id": "a", "name": "shell", "input": {}}
    draft.feed(
        json.dumps(
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": "x"},
            }
        )
    )
    draft.feed(json.dumps({"type": "content_block_start", "index": 1, "content_block": begun}))
    piece = {"type": "input_json_delta", "partial_json": '{"command": "l'}
    draft.feed(json.dumps({"type": "content_block_delta", "index": 1, "delta": piece}))
    reply = draft.build(ASK)
    assert reply.calls[0].arguments == '{"command": "l'
    assert reply.native
    kept = json.loads(reply.native.blocks)["content"]
    assert kept[1]["input"] == {"invalid": '{"command": "l'}


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b"{}",
        answer(),
        answer({"type": "text", "text": ""}),
        answer({"type": "text", "text": " \n"}),
        answer({"type": "thinking", "thinking": "hm", "signature": "s"}),
        b'{"content": 42}',
        b'{"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "a"}}',
    ],
)
def test_an_answer_of_the_wrong_shape_or_an_empty_one_is_malformed_a7(wrong: bytes) -> None:
    """A7."""
    with pytest.raises(CallFailed) as raised:
        read(wrong)
    assert raised.value.kind is ErrorClass.MALFORMED


def test_an_answer_without_room_for_one_says_that_the_conversation_is_too_long() -> None:
    with pytest.raises(CallFailed) as raised:
        read(answer(stop_reason="model_context_window_exceeded"))
    assert raised.value.kind is ErrorClass.CONTEXT_TOO_LONG


def test_an_answer_that_is_withheld_is_not_asked_for_again_a7() -> None:
    with pytest.raises(CallFailed, match="withholds its answer") as raised:
        read(answer(stop_reason="refusal"))
    assert raised.value.kind is ErrorClass.FILTERED


def test_kinds_of_blocks_and_events_that_nobody_knows_yet_are_no_trouble() -> None:
    assert read(answer({"type": "hologram", "beam": 1}, TEXT, None)).text == "hi"
    draft = AnthropicReplyBuilder()
    assert draft.feed(b'{"type": "confetti"}') == ""
    assert read(json.dumps({"content": "plain"}).encode()).text == "plain"
