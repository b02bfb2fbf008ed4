"""Any history there may be is told to Claude in a form that its API takes, and told the same way again (A9)."""

import json

from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.repair import repair
from daemon.core.messages import Message, ModelRequest, Native, Role, ToolCall, ToolSpec
from daemon.providers.anthropic_messages import keep
from daemon.providers.anthropic_request import MARK, to_wire
from tests.fakes.anthropic.rules import Json, blocks, faults

NEW, OLD = "claude-haiku-5-5", "claude-haiku-4-5"
LS = ToolSpec("ls", "List files", {"type": "object", "properties": {}})
CAT = ToolSpec("cat", "Show a file", {"type": "object", "properties": {}})

IDS = st.sampled_from(["call_0", "call_1", "", "id.with:odd signs", "toolu_01"])
TEXTS = st.sampled_from(["", " ", "a", "b\ud800", "c" * 40])
ARGUMENTS = st.sampled_from(["{}", '{"a": 1}', '{"a"', "", "[1]", "null", '{"x": NaN}'])
NAMES = st.sampled_from(["ls", "cat", "", "no.such tool", "ls" * 60])
CALLS = st.lists(st.builds(ToolCall, IDS, NAMES, ARGUMENTS), max_size=3).map(tuple)
OWN: list[Json] = [{"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "hm"}]
USE: Json = {"type": "tool_use", "id": "call_0", "name": "ls", "input": {}}
NATIVES = st.sampled_from(
    [
        None,
        keep("anthropic", NEW, "", OWN),
        keep("anthropic", OLD, "", [*OWN, USE]),
        keep("anthropic", OLD, "", [*OWN, USE, USE]),
        Native("anthropic", OLD, "?"),
        Native("openai", "gpt", "[]"),
    ]
)
MESSAGES = st.one_of(
    st.builds(Message, st.sampled_from([Role.USER, Role.SYSTEM]), TEXTS),
    st.builds(lambda text, calls, native: Message(Role.ASSISTANT, text, calls, native=native), TEXTS, CALLS, NATIVES),
    st.builds(lambda text, name, bad: Message(Role.TOOL, text, provider_id=name, is_error=bad), TEXTS, IDS, st.booleans()),
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
def test_any_repaired_history_is_accepted_and_no_user_text_is_lost_a9(request: ModelRequest, model: str, stream: bool) -> None:
    """A9: from any mutilated history."""
    body = json.loads(to_wire(model, request, stream).body)
    assert faults(body) == []
    told = "\n".join(block["text"] for role, block in blocks(body) if role == "user" and block["type"] == "text")
    for message in request.messages:
        if message.role is Role.USER and message.text.strip():
            assert message.text.encode("utf-8", "replace").decode() in told


@given(st.lists(MESSAGES, max_size=8), st.lists(MESSAGES, max_size=4))
def test_what_is_added_to_a_history_changes_nothing_before_it(history: list[Message], more: list[Message]) -> None:
    """DESIGN 7: after a whole exchange, whatever follows leaves its bytes and the name of its prefix as they were."""
    done = [*repair(history), Message(Role.ASSISTANT, "so be it")]
    asked = [*repair(done), Message(Role.USER, "next")]
    short = to_wire(NEW, ModelRequest(tuple(asked), (LS,))).body
    long = to_wire(NEW, ModelRequest(tuple([*asked, Message(Role.ASSISTANT, "well"), *repair(more)]), (LS,))).body
    ended = short.replace(MARK, b"").rpartition(b'],"max_tokens"')[0]
    assert long.replace(MARK, b"").startswith(ended)
