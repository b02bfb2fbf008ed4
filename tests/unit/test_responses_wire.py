"""The wire format of OpenAI's Responses: what we send, what we read, with the official SDK as the judge of both."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
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
from daemon.providers.responses import Responses, ResponsesReplyBuilder
from tests.fakes.adapters import parse_reply, prepare
from tests.fakes.openai import Json, Step
from tests.fakes.responses import (
    SECRET,
    FakeResponses,
    call,
    message,
    reasoning,
    replies,
    says,
    tokens,
)
from tests.fakes.responses.rules import faults

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MODEL = "gpt-5-mini"
US = "openai"
SHELL = ToolSpec(
    "shell", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}}
)
CLOCK = ToolSpec("current_time", "The time", {"type": "object", "properties": {}})
HELLO = (Message(MessageRole.SYSTEM, "Be brief."), Message(MessageRole.USER, "grüß dich"))
TALK = (
    *HELLO,
    Message(
        MessageRole.ASSISTANT,
        "Looking.",
        (
            ToolCall("call_0", "shell", '{"command": "ls"}'),
            ToolCall("call_1", "current_time", "{}"),
        ),
    ),
    Message(MessageRole.TOOL, "a.txt", provider_id="call_0"),
    Message(MessageRole.TOOL, "noon", provider_id="call_1"),
)
ITEMS: list[Json] = [
    {"id": "rs_1", **reasoning()},
    {"id": "msg_1", **message("Looking.", "commentary")},
    {"id": "fc_1", **call("shell", {"command": "ls"}, "call_a")},
    {"id": "fc_2", **call("current_time", {}, "call_b")},
]


def body(request: ModelRequest, model: str = MODEL) -> dict[str, Any]:
    return json.loads(prepare(Responses, model, request)[0])


def items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return body(ModelRequest(tuple(messages)))["input"]


def spoken(provider: str = US, model: str = MODEL) -> tuple[Message, ...]:
    """A reply in OpenAI's own form, with its results."""
    wanted = (
        ToolCall("call_a", "shell", '{"command": "ls"}'),
        ToolCall("call_b", "current_time", "{}"),
    )
    return (
        Message(MessageRole.USER, "hi"),
        Message(
            MessageRole.ASSISTANT,
            "Looking.",
            wanted,
            native=Native(provider, model, json.dumps(ITEMS)),
        ),
        Message(MessageRole.TOOL, "a.txt", provider_id="call_a"),
        Message(MessageRole.TOOL, "noon", provider_id="call_b"),
    )


def whole(*output: Json, status: str = "completed", **more: object) -> bytes:
    return json.dumps({"object": "response", "status": status, "output": output, **more}).encode()


@pytest.fixture
async def fake() -> AsyncIterator[FakeResponses]:
    async with FakeResponses() as fake:
        yield fake


@pytest.fixture
async def provider(fake: FakeResponses) -> AsyncIterator[Responses]:
    provider = Responses(base_url=fake.base_url, api_key="sk-test", clock=SystemClock())
    yield provider
    await provider.aclose()


# the official SDK as oracle


@asynccontextmanager
async def sdk(fake: FakeResponses) -> AsyncIterator["AsyncOpenAI"]:
    from openai import AsyncOpenAI  # a second, which only this test needs

    async with AsyncOpenAI(base_url=fake.base_url, api_key="sk-test", max_retries=0) as openai:
        yield openai


SDK_INPUT: Any = [
    {"role": "user", "content": "grüß dich"},
    {"role": "assistant", "content": "Looking."},
    {
        "type": "function_call",
        "call_id": "call_0",
        "name": "shell",
        "arguments": '{"command": "ls"}',
    },
    {"type": "function_call", "call_id": "call_1", "name": "current_time", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_0", "output": "a.txt"},
    {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
]


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_request_is_what_the_official_sdk_sends(
    fake: FakeResponses, provider: Responses, stream: bool
) -> None:
    asked = ModelRequest(
        TALK, (SHELL, CLOCK), tools_allowed=False, max_tokens=99, effort="low", seed=7
    )
    await provider.complete(MODEL, asked, (lambda _: None) if stream else None)
    tools: Any = [
        {
            "type": "function",
            "name": t.name,
            "description": t.description,
            "parameters": t.parameters,
            "strict": False,
        }
        for t in (SHELL, CLOCK)
    ]
    more: Any = {"stream": True} if stream else {}
    async with sdk(fake) as openai:
        answer: Any = await openai.responses.create(
            model=MODEL, instructions="Be brief.", input=SDK_INPUT, tools=tools, tool_choice="none", store=False,
            include=["reasoning.encrypted_content"], max_output_tokens=99, reasoning={"effort": "low"}, **more,
        )  # fmt: skip
        if stream:
            async for _ in answer:
                pass
    ours, theirs = fake.requests
    assert ours.body == theirs.body
    assert ours.headers["Authorization"] == theirs.headers["Authorization"]
    assert fake.refused == []


STEPS = {
    "text": says("hello there", usage=tokens(100, 37, reasoning=30, cached=40)),
    "calls": replies(
        reasoning(), call("shell", {"command": "ls -l"}, "c1"), call("current_time", {}, "c2")
    ),
    "text and calls": replies(
        reasoning(), message("Let me look.", "commentary"), call("shell", {"command": "ü"}, "c1")
    ),
    "a refusal": replies(message("No, I will not.", refusal=True)),
    "bad arguments": replies(call("shell", '{"command": "l', "c1")),
    "cut short": replies(message("and so"), status="incomplete", reason="max_output_tokens"),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_the_reply_is_what_the_official_sdk_reads(
    fake: FakeResponses, provider: Responses, step: Step, stream: bool
) -> None:
    fake.otherwise(step)
    pieces: list[str] = []
    ours = await provider.complete(
        MODEL, ModelRequest(HELLO, (SHELL, CLOCK)), pieces.append if stream else None
    )
    async with sdk(fake) as openai:
        theirs = await openai.responses.create(model=MODEL, input="hi")
    said = [part for item in theirs.output if item.type == "message" for part in item.content]
    asked = [item for item in theirs.output if item.type == "function_call"]
    assert theirs.usage
    assert ours.text == "".join(
        part.text if part.type == "output_text" else part.refusal for part in said
    )
    assert [(c.provider_id, c.name, c.arguments) for c in ours.calls] == [
        (c.call_id, c.name, c.arguments) for c in asked
    ]
    cached = theirs.usage.input_tokens_details.cached_tokens
    assert ours.usage == Usage(theirs.usage.input_tokens, theirs.usage.output_tokens, cached)
    reason = theirs.incomplete_details.reason if theirs.incomplete_details else None
    assert (ours.provider, ours.model, ours.finish) == (
        provider.name,
        MODEL,
        reason or theirs.status,
    )
    assert "".join(pieces) == (ours.text if stream else "")


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
async def test_what_goes_back_is_what_the_official_sdk_would_give_back(
    fake: FakeResponses, provider: Responses, stream: bool
) -> None:
    """Its users append the output as it came; the next request of ours and of theirs is the same."""
    fake.otherwise(replies(*[{**item} for item in ITEMS]))
    hello = Message(MessageRole.USER, "hi")
    reply = await provider.complete(MODEL, ModelRequest((hello,)), print if stream else None)
    said = Message(MessageRole.ASSISTANT, reply.text, reply.calls, native=reply.native)
    results = [
        Message(MessageRole.TOOL, "x", provider_id=wanted.provider_id) for wanted in reply.calls
    ]
    await provider.complete(MODEL, ModelRequest((hello, said, *results)))
    async with sdk(fake) as openai:
        talk: Any = [{"role": "user", "content": "hi"}]
        include: Any = ["reasoning.encrypted_content"]
        first = await openai.responses.create(model=MODEL, input=talk, store=False, include=include)
        talk += first.output
        asked = [item for item in first.output if item.type == "function_call"]
        talk += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "x"}
            for item in asked
        ]
        await openai.responses.create(model=MODEL, input=talk, store=False, include=include)
    assert fake.requests[1].body == fake.requests[3].body
    assert fake.refused == []


# what we send


def test_a_reply_of_openais_own_goes_back_byte_by_byte() -> None:
    sent = prepare(Responses, MODEL, ModelRequest(spoken()))[0]
    assert json.dumps(ITEMS)[1:-1].encode() in sent
    assert faults(json.loads(sent)) == []


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", MODEL), (US, "gpt-5.1"), ("openai:elsewhere", MODEL)]
)
def test_what_another_model_said_is_told_without_its_thoughts(provider: str, model: str) -> None:
    """A7: after a fallback, history of another provider is no bad request."""
    sent = body(ModelRequest(spoken(provider, model)))
    assert SECRET not in json.dumps(sent)
    assert all("id" not in item for item in sent["input"])
    assert faults(sent) == []


def test_ids_that_are_missing_or_used_twice_are_replaced_by_place() -> None:
    """A9: some servers use the same id every time."""
    wanted = (
        ToolCall("call_0", "shell", "{}"),
        ToolCall("call_0", "shell", "{}"),
        ToolCall("", "shell", "{}"),
    )
    results = [
        Message(MessageRole.TOOL, text, provider_id=c.provider_id)
        for text, c in zip("abc", wanted, strict=True)
    ]
    turn = (Message(MessageRole.USER, "go"), Message(MessageRole.ASSISTANT, calls=wanted), *results)
    told = items((*turn, *turn))
    asked = [item["call_id"] for item in told if item.get("type") == "function_call"]
    answered = [
        (item["call_id"], item["output"])
        for item in told
        if item.get("type") == "function_call_output"
    ]
    assert len(set(asked)) == 6
    assert answered == list(zip(asked, "abcabc", strict=True))
    assert faults(body(ModelRequest((*turn, *turn)))) == []


@pytest.mark.parametrize(
    "ids", [("call_1", ""), ("x" * 64, "x" * 64), ("", "call_0"), ("x" * 65, "y")]
)
def test_a_replaced_id_is_one_that_the_api_takes_and_nobody_has(ids: tuple[str, ...]) -> None:
    wanted = tuple(ToolCall(name, "shell", "{}") for name in ids)
    results = [Message(MessageRole.TOOL, "x", provider_id=name) for name in ids]
    assert (
        faults(
            body(ModelRequest((HELLO[1], Message(MessageRole.ASSISTANT, calls=wanted), *results)))
        )
        == []
    )


def test_a_result_that_nobody_asked_for_is_left_out() -> None:
    assert items((HELLO[1], Message(MessageRole.TOOL, "x", provider_id="call_0"))) == [
        {"role": "user", "content": "grüß dich"}
    ]


def test_an_own_reply_without_the_calls_it_had_is_written_anew() -> None:
    said = Message(MessageRole.ASSISTANT, "Looking.", native=Native(US, MODEL, json.dumps(ITEMS)))
    assert items((HELLO[1], said))[1:] == [{"role": "assistant", "content": "Looking."}]


def test_an_own_reply_whose_calls_share_an_id_is_written_anew() -> None:
    output = [reasoning(), call("shell", {}, "c"), call("shell", {}, "c")]
    wanted = (ToolCall("c", "shell", "{}"), ToolCall("c_1", "shell", "{}"))
    said = Message(
        MessageRole.ASSISTANT, calls=wanted, native=Native(US, MODEL, json.dumps(output))
    )
    results = [Message(MessageRole.TOOL, "x", provider_id=name) for name in ("c", "c_1")]
    assert faults(body(ModelRequest((HELLO[1], said, *results)))) == []


def test_an_own_reply_whose_ids_were_used_before_is_written_anew() -> None:
    sent = body(ModelRequest((*spoken(), *spoken())))
    assert faults(sent) == []
    assert sum(item.get("type") == "reasoning" for item in sent["input"]) == 1


@pytest.mark.parametrize("written", ['{"a": ', "[1]", "7", "\ud800", "[" * 100_000])
def test_arguments_that_are_no_object_are_told_as_a_text(written: str) -> None:
    wanted = ToolCall("a", "shell", written)
    sent = body(
        ModelRequest(
            (
                HELLO[1],
                Message(MessageRole.ASSISTANT, calls=(wanted,)),
                Message(MessageRole.TOOL, "no", provider_id="a"),
            )
        )
    )
    assert json.loads(sent["input"][1]["arguments"]).keys() == {"invalid"}
    assert faults(sent) == []


def test_a_name_that_another_model_made_up_is_no_bad_request() -> None:
    wanted = ToolCall("a" * 100, "run a shell!" * 20, "")
    results = Message(MessageRole.TOOL, "no", provider_id=wanted.provider_id)
    assert (
        faults(
            body(ModelRequest((HELLO[1], Message(MessageRole.ASSISTANT, calls=(wanted,)), results)))
        )
        == []
    )


def test_the_server_keeps_nothing_and_sends_the_thoughts_encrypted() -> None:
    sent = body(ModelRequest(HELLO))
    assert (sent["store"], sent["include"], sent["instructions"]) == (
        False,
        ["reasoning.encrypted_content"],
        "Be brief.",
    )


def test_a_later_word_of_the_daemon_leaves_the_instructions_alone() -> None:
    sent = body(ModelRequest((*HELLO, Message(MessageRole.SYSTEM, "Stop soon."))))
    assert (sent["instructions"], sent["input"][-1]) == (
        "Be brief.",
        {"role": "developer", "content": "Stop soon."},
    )


def test_forbidden_tools_stay_listed() -> None:
    """A12: the closing call has no tool choice."""
    sent = body(ModelRequest(HELLO, (SHELL,), tools_allowed=False))
    assert (sent["tool_choice"], len(sent["tools"])) == ("none", 1)
    assert "tool_choice" not in body(ModelRequest(HELLO, tools_allowed=False))


def test_fewer_tokens_than_the_api_takes_are_as_few_as_it_takes() -> None:
    assert body(ModelRequest(HELLO, max_tokens=5))["max_output_tokens"] == 16


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gpt-5-mini", "low", {"effort": "low"}),
        ("gpt-5-mini", "max", {"effort": "high"}),
        ("gpt-5.4", "max", {"effort": "xhigh"}),
        ("o4-mini", "medium", {"effort": "medium"}),
        ("gpt-4.1", "high", None),
    ],
)
def test_effort_becomes_reasoning_where_a_model_reasons_e13(
    model: str, effort: str, expected: dict[str, str] | None
) -> None:
    sent = body(ModelRequest(HELLO, effort=effort), model)
    assert sent.get("reasoning") == expected
    assert faults(sent) == []


def test_the_beginning_of_a_request_stays_the_same_bytes_from_call_to_call() -> None:
    """architecture.md: providers cache by prefix; over iterations, a steering text, a new turn, and whatever varies behind it."""
    steps = [
        *spoken(),
        Message(MessageRole.USER, "and?"),
        Message(MessageRole.ASSISTANT, "done"),
        Message(MessageRole.USER, "more"),
        *TALK[2:],
    ]
    varied: dict[str, Any] = {"tools_allowed": False, "max_tokens": 50, "effort": "low"}
    grown = [ModelRequest((HELLO[0], *steps[:n]), (SHELL, CLOCK)) for n in (1, 4, 5, 7, 10)]
    sent = [
        prepare(Responses, MODEL, request)[0]
        for request in (*grown, ModelRequest(grown[-1].messages, (SHELL, CLOCK), **varied))
    ]
    for earlier, later in pairwise(sent):
        assert later.startswith(earlier[: earlier.rindex(b'],"store"')])


def test_an_appended_tool_leaves_the_bytes_before_it_alone() -> None:
    short, long = (
        prepare(Responses, MODEL, ModelRequest(HELLO, tools))[0]
        for tools in ((SHELL,), (SHELL, CLOCK))
    )
    assert long.startswith(short[: short.index(b'],"input"')])


# what we read


def read(received: bytes) -> ModelReply:
    return parse_reply(ResponsesReplyBuilder(), received, ModelRequest(HELLO))


@pytest.mark.parametrize(
    ("kind", "words", "received"),
    [
        (ErrorClass.MALFORMED, "an empty reply", whole()),
        (
            ErrorClass.MALFORMED,
            "max_output_tokens",
            whole(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ),
        (
            ErrorClass.FILTERED,
            "filter",
            whole(status="incomplete", incomplete_details={"reason": "content_filter"}),
        ),
        (
            ErrorClass.RATE_LIMIT,
            "slow",
            whole(status="failed", error={"code": "rate_limit_exceeded", "message": "slow down"}),
        ),
        (ErrorClass.SERVER, "failed", whole(status="failed")),
        (ErrorClass.MALFORMED, "not a response", whole({"type": "message", "content": 7})),
        (ErrorClass.MALFORMED, "not a response", b"{"),
    ],
)
def test_an_answer_that_is_none_says_why_a7(kind: ErrorClass, words: str, received: bytes) -> None:
    with pytest.raises(CallFailed) as raised:
        read(received)
    assert raised.value.kind is kind
    assert words in str(raised.value)


KEPT = [
    ("a thought", (reasoning(), message("hm")), True),
    ("a phase", (message("hm", "final_answer"),), True),
    ("nothing but text", (message("hm"),), False),
    ("a thought that is not encrypted", (reasoning(""), message("hm")), False),
    ("a thought at the end", (message("hm"), reasoning()), False),
]


def test_what_would_spoil_the_next_request_is_not_given_back() -> None:
    """NaN is read by us, and is no JSON: every request after it would be refused."""
    assert read(whole(reasoning() | {"odd": float("nan")}, message("hm"))).native is None


@pytest.mark.parametrize(
    ("output", "kept"), [case[1:] for case in KEPT], ids=[name for name, *_ in KEPT]
)
def test_items_are_kept_if_they_are_worth_it_and_will_be_taken_back(
    output: tuple[Json, ...], kept: bool
) -> None:
    assert (read(whole(*output)).native is not None) is kept


def test_two_messages_are_two_paragraphs() -> None:
    assert read(whole(message("one"), message("two"))).text == "one\n\ntwo"


def test_usage_that_is_not_told_is_estimated() -> None:
    assert read(whole(message("hello"))).usage.estimated


def test_calls_that_share_an_id_get_one_each() -> None:
    reply = read(
        whole(
            call("shell", {}, "c"),
            call("shell", {}, "c"),
            {"type": "function_call", "name": "shell"},
        )
    )
    assert len({wanted.provider_id for wanted in reply.calls}) == 3


def test_a_stream_that_never_says_that_an_item_is_done_is_read_all_the_same() -> None:
    draft = ResponsesReplyBuilder()
    added = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "function_call", "call_id": "c", "name": "shell"},
    }
    for event in (
        added,
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a"'},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ": 1}"},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "hm"},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ):
        draft.feed(json.dumps(event))
    reply = draft.build(ModelRequest(HELLO))
    assert (reply.text, reply.calls) == ("hm", (ToolCall("c", "shell", '{"a": 1}'),))


def test_items_without_a_number_are_as_many_as_their_ids() -> None:
    draft = ResponsesReplyBuilder()
    for call_id in ("a", "b"):
        item = {"type": "function_call", "call_id": call_id, "name": "shell"}
        draft.feed(json.dumps({"type": "response.output_item.added", "item": item}))
        done = {**item, "arguments": {"n": call_id}}  # an object: no server should, some do
        draft.feed(json.dumps({"type": "response.output_item.done", "item": done}))
    draft.feed(json.dumps({"type": "response.completed", "response": {"status": "completed"}}))
    assert draft.build(ModelRequest(HELLO)).calls == (
        ToolCall("a", "shell", '{"n": "a"}'),
        ToolCall("b", "shell", '{"n": "b"}'),
    )


def test_a_thought_that_was_announced_and_never_done_is_not_given_back() -> None:
    draft = ResponsesReplyBuilder()
    done = {
        "type": "response.output_item.done",
        "output_index": 1,
        "item": {"id": "msg_1", **message("hm")},
    }
    for event in (
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"id": "rs_1", **reasoning()},
        },
        done,
    ):
        draft.feed(json.dumps(event))
    draft.feed(json.dumps({"type": "response.completed", "response": {"status": "completed"}}))
    assert draft.build(ModelRequest(HELLO)).native is None


def test_what_was_told_in_pieces_is_not_told_again_by_the_whole() -> None:
    draft = ResponsesReplyBuilder()
    assert (
        draft.feed(
            json.dumps({"type": "response.output_text.delta", "output_index": 0, "delta": "hm"})
        )
        == "hm"
    )
    assert (
        draft.feed(
            json.dumps({"type": "response.completed", "response": json.loads(whole(message("hm")))})
        )
        == ""
    )
    assert draft.build(ModelRequest(HELLO)).text == "hm"


NAMES = st.sampled_from(
    [
        "type",
        "item",
        "delta",
        "response",
        "output",
        "content",
        "text",
        "arguments",
        "name",
        "call_id",
        "error",
        "status",
        "usage",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["", "message", "function_call", "reasoning", "completed"])
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
)
TYPES = st.sampled_from(
    [
        "response.completed",
        "response.output_item.done",
        "response.output_text.delta",
        "error",
        "response.new",
    ]
)
EVENTS = st.builds(
    lambda kind, rest: {**rest, "type": kind}, TYPES, st.dictionaries(NAMES, ANYTHING, max_size=5)
)


@given(st.lists(EVENTS, max_size=4), ANYTHING)
def test_whatever_a_server_sends_is_a_reply_or_a_fault_a7(events: list[Json], end: object) -> None:
    """A7: every fault has its class; none of them is an exception of ours."""
    draft = ResponsesReplyBuilder()
    with suppress(CallFailed):
        for event in events:
            draft.feed(json.dumps(event))
        draft.build(ModelRequest(HELLO))
    with suppress(CallFailed):
        read(json.dumps(end).encode())


def test_an_event_that_nobody_knows_spoils_nothing() -> None:
    draft = ResponsesReplyBuilder()
    for event in (
        {"type": "response.new", "delta": {"a": 1}, "item": 7, "response": []},
        {"type": "response.queued"},
    ):
        assert draft.feed(json.dumps(event)) == ""
    draft.feed(
        json.dumps({"type": "response.completed", "response": json.loads(whole(message("hm")))})
    )
    assert draft.build(ModelRequest(HELLO)).text == "hm"


# A9: any history


IDS = st.sampled_from(["call_0", "call_1", "", "call_2_"])
TEXTS = st.sampled_from(["", "a", "b", "c\ud800"])
WRITTEN = st.sampled_from(["{}", '{"a": 1}', "{", ""])
CALLS = st.lists(
    st.builds(ToolCall, IDS, st.sampled_from(["shell", "a tool!"]), WRITTEN), max_size=3
).map(tuple)


@st.composite
def own(draw: st.DrawFn) -> Message:
    """What OpenAI itself said, kept in its own form; its ids are its own, but some servers repeat them."""
    number = draw(st.integers(0, 3))
    ids = [f"call_{number}_{n}" for n in range(draw(st.integers(0, 2)))]
    output = [{"id": f"rs_{number}", **reasoning()}, {"id": f"msg_{number}", **message("x")}]
    output += [{"id": f"fc_{number}_{n}", **call("shell", {}, name)} for n, name in enumerate(ids)]
    wanted = tuple(ToolCall(name, "shell", "{}") for name in ids)
    return Message(MessageRole.ASSISTANT, "x", wanted, native=Native(US, MODEL, json.dumps(output)))


MESSAGES = st.one_of(
    st.builds(Message, st.just(MessageRole.USER), TEXTS),
    st.builds(Message, st.just(MessageRole.SYSTEM), st.sampled_from(["be kind", "be brief"])),
    st.builds(Message, st.just(MessageRole.ASSISTANT), TEXTS, CALLS),
    own(),
    st.builds(lambda said, name: Message(MessageRole.TOOL, said, provider_id=name), TEXTS, IDS),
    st.builds(
        lambda a, b: Message(MessageRole.TOOL, "r", provider_id=f"call_{a}_{b}"),
        st.integers(0, 3),
        st.integers(0, 1),
    ),
)


@given(st.lists(MESSAGES, max_size=14))
def test_a9_any_history_becomes_one_that_openai_accepts_and_no_user_text_is_lost(
    history: list[Message],
) -> None:
    sent = body(ModelRequest(tuple(repair(history)), (SHELL,)))
    assert faults(sent) == []
    told = [item["content"] for item in sent["input"] if item.get("role") == "user"]
    said = [
        entry.text.replace("\ud800", "\ufffd")
        for entry in history
        if entry.role is MessageRole.USER and entry.text
    ]
    kept = [piece for words in told for piece in words.split("\n\n")]
    assert [piece for piece in kept if piece in {"a", "b", "c\ufffd"}] == said
