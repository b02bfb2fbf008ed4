"""Any history there may be is told to Claude in a form that its API takes, and told the same way again (A9)."""

import json
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.context.history import repair
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelRequest,
    Native,
    ToolCall,
    ToolSpec,
    drop_lone_surrogates,
)
from daemon.providers.anthropic import CACHE_MARK
from tests.fakes.anthropic.rules import Json, blocks, faults
from tests.fakes.anthropic.thoughts import Thoughts, encode_request, make_own_native

NEW, OLD = "claude-haiku-5-5", "claude-haiku-4-5"
LS = ToolSpec("ls", "List files", {"type": "object", "properties": {}})
CAT = ToolSpec("cat", "Show a file", {"type": "object", "properties": {}})

IDS = st.sampled_from(["call_0", "call_1", "", "id.with:odd signs", "toolu_01"])
TEXTS = st.sampled_from(["", " ", "a", "b\ud800", "c" * 40])
ARGUMENTS = st.sampled_from(["{}", '{"a": 1}', '{"a"', "", "[1]", "null", '{"x": NaN}'])
NAMES = st.sampled_from(["ls", "cat", "", "no.such tool", "ls" * 60])
CALLS = st.lists(st.builds(ToolCall, IDS, NAMES, ARGUMENTS), max_size=3).map(tuple)
OWN: list[Json] = [
    {"type": "thinking", "thinking": "x", "signature": "s"},
    {"type": "text", "text": "hm"},
]
USE: Json = {"type": "tool_use", "id": "call_0", "name": "ls", "input": {}}
NATIVES = st.sampled_from(
    [
        None,
        make_own_native("anthropic", NEW, "", OWN),
        make_own_native("anthropic", OLD, "", [*OWN, USE]),
        make_own_native("anthropic", OLD, "", [*OWN, USE, USE]),
        Native("anthropic", OLD, "?"),
        Native("openai", "gpt", "[]"),
    ]
)
MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from([MessageRole.USER, MessageRole.SYSTEM]), TEXTS),
    st.builds(
        lambda text, calls, native: Message(MessageRole.ASSISTANT, text, calls, native=native),
        TEXTS,
        CALLS,
        NATIVES,
    ),
    st.builds(
        lambda text, name, bad: Message(MessageRole.TOOL, text, provider_id=name, is_error=bad),
        TEXTS,
        IDS,
        st.booleans(),
    ),
)
REQUESTS = st.builds(
    ModelRequest,
    st.lists(MESSAGES, max_size=12).map(repair).map(tuple),
    st.sampled_from([(), (LS,), (LS, CAT)]),
    st.booleans(),
    st.sampled_from([None, 1, 9000]),
    st.sampled_from([None, "low", "max"]),
)


@given(REQUESTS, st.sampled_from([NEW, OLD, "claude-3-haiku-20240307"]), st.booleans())
def test_any_repaired_history_is_accepted_and_no_user_text_is_lost_a9(
    request: ModelRequest, model: str, stream: bool
) -> None:
    """A9: from any mutilated history."""
    body = json.loads(encode_request(model, request, stream)[0])
    assert faults(body) == []
    told = "\n".join(
        block["text"] for role, block in blocks(body) if role == "user" and block["type"] == "text"
    )
    for message in request.messages:
        if message.role is MessageRole.USER and message.text.strip():
            assert drop_lone_surrogates(message.text) in told


@given(st.lists(MESSAGES, max_size=8), st.lists(MESSAGES, max_size=4))
def test_what_is_added_to_a_history_changes_nothing_before_it(
    history: list[Message], more: list[Message]
) -> None:
    """architecture.md: after a whole exchange, whatever follows leaves its bytes and the name of its prefix as they were."""
    done = [*repair(history), Message(MessageRole.ASSISTANT, "so be it")]
    asked = [*repair(done), Message(MessageRole.USER, "next")]
    short = encode_request(NEW, ModelRequest(tuple(asked), (LS,)))[0]
    long = encode_request(
        NEW,
        ModelRequest(tuple([*asked, Message(MessageRole.ASSISTANT, "well"), *repair(more)]), (LS,)),
    )[0]
    ended = short.replace(CACHE_MARK, b"").rpartition(b'],"max_tokens"')[0]
    assert long.replace(CACHE_MARK, b"").startswith(ended)


@dataclass
class Server:
    """What the API would say to each request, and the thinking that it gives away."""

    bound: bool
    model: str
    thoughts: Thoughts = field(default_factory=Thoughts)
    made: int = 0

    def __post_init__(self) -> None:
        self.thoughts.bound = self.bound

    def reply(
        self, history: list[Message], tools: tuple[ToolSpec, ...], uses: int, thoughts: int
    ) -> Message:
        """A reply with so many calls and thoughts, to a request that breaks no rule."""
        sent, prefix = encode_request(
            self.model, ModelRequest(tuple(repair(history)), tools, effort="low")
        )
        body = json.loads(sent)
        assert [*faults(body), *self.thoughts.faults(body)] == []
        self.made += 1
        signed = [
            {"type": "thinking", "thinking": "?", "signature": f"{self.made}.{n}"}
            for n in range(thoughts)
        ]
        used = [{**USE, "id": f"toolu_{self.made}_{n}"} for n in range(uses)]
        content: list[Json] = [*signed, *([] if used else [{"type": "text", "text": "so"}]), *used]
        self.thoughts.remember(body, content)
        calls = tuple(ToolCall(str(use["id"]), "ls", "{}") for use in used)
        native = make_own_native("anthropic", self.model, prefix, content) if signed else None
        return Message(MessageRole.ASSISTANT, "" if used else "so", calls, native=native)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from(
            [
                "",
                "",
                "",
                "tool found",
                "history cut",
                "call lost",
                "another model",
                "instructions changed",
            ]
        ),
    ),
    min_size=1,
    max_size=12,
)


@given(st.sampled_from([NEW, OLD]), STEPS)
def test_thinking_goes_along_where_it_may_and_nowhere_else_a9(
    model: str, steps: list[tuple[int, int, str]]
) -> None:
    """A9: whatever happens to a conversation, no request shows thinking that the API refuses, or lacks what it insists on."""
    server = Server(model == NEW, model)
    history, tools = (
        [Message(MessageRole.SYSTEM, "Be brief."), Message(MessageRole.USER, "go")],
        [LS],
    )
    for number, (uses, thoughts, event) in enumerate(steps):
        said = server.reply(history, tuple(tools), uses, thoughts)
        history += [
            said,
            *(
                Message(MessageRole.TOOL, "done", provider_id=call.provider_id)
                for call in said.calls
            ),
        ]
        history += [] if uses else [Message(MessageRole.USER, f"more {number}")]
        match event:
            case "tool found":
                tools.append(ToolSpec(f"tool_{number}", "", {}))
            case "history cut":
                cut = max(
                    n for n, message in enumerate(history) if message.role is MessageRole.USER
                )
                history = [history[0], *history[cut:]]
            case "call lost":
                history = [
                    message
                    for message in history
                    if message.role is not MessageRole.TOOL or number % 2
                ]
                history.append(Message(MessageRole.USER, "go on"))
            case "another model":
                history.append(
                    Message(MessageRole.ASSISTANT, "", (ToolCall("call_0", "ls", "{}"),))
                )
                history.append(Message(MessageRole.TOOL, "x", provider_id="call_0"))
            case "instructions changed":
                history[0] = Message(MessageRole.SYSTEM, f"Be brief, {number}.")
