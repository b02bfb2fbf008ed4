"""What the embedded model is shown."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.context.builder import limit_arguments
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec
from daemon.providers.base import get_object
from daemon.providers.local.prompt import (
    MAX_RESULT_CHARS,
    MAX_SYSTEM_CHARS,
    ONLY_REPLY,
    PromptLine,
    build_conversation,
    build_opening,
    build_schema,
    fit_lines,
    simplify_schema,
)

SHELL = ToolSpec(
    "shell",
    "Run a command in the workspace. It is stopped\nafter 30 s.",
    {
        "type": "object",
        "title": "Args",
        "properties": {
            "command": {
                "type": "string",
                "description": "the command",
                "pattern": "^.*$",
                "maxLength": 9,
            },
            "timeout": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["command"],
    },
)
CLOCK = ToolSpec("current_time", "Tell the time", {"type": "object", "properties": {}})


def user(text: str) -> Message:
    return Message(MessageRole.USER, text)


def calls(*calls: ToolCall) -> Message:
    return Message(MessageRole.ASSISTANT, "", calls)


def result(text: str, provider_id: str = "step", *, is_error: bool = False) -> Message:
    return Message(MessageRole.TOOL, text, provider_id=provider_id, is_error=is_error)


def wire(*messages: Message) -> list[tuple[str, str]]:
    return [(line.role, line.content) for line in build_conversation(ModelRequest(messages))]


def test_a_tool_is_one_line_with_its_arguments_and_its_first_sentence():
    system = build_opening(ModelRequest((), (SHELL, CLOCK)))[0].content
    assert "\nshell(command, timeout?): Run a command in the workspace.\n" in system
    assert "\ncurrent_time(): Tell the time\n" in system


def test_the_examples_are_the_same_whatever_the_tools_are():
    assert build_opening(ModelRequest((), (SHELL,)))[1:] == build_opening(ModelRequest(()))[1:]


def test_a_short_system_text_is_kept_and_a_long_one_replaced():
    short, long = (
        Message(MessageRole.SYSTEM, "The user is Ada."),
        Message(MessageRole.SYSTEM, "x" * (MAX_SYSTEM_CHARS + 1)),
    )
    assert build_opening(ModelRequest((short,)))[0].content.endswith("\nThe user is Ada.")
    assert build_opening(ModelRequest((long,))) == build_opening(ModelRequest(()))


def test_the_conversation_is_shown_as_steps_and_results():
    call = ToolCall("step", "shell", '{"command": "ls"}')
    assert wire(
        user("list"),
        calls(call),
        result("a.txt"),
        Message(MessageRole.ASSISTANT, 'There is "a.txt".'),
    ) == [
        ("user", "list"),
        ("assistant", '{"tool":"shell","args":{"command":"ls"}}'),
        ("user", "[result of shell] a.txt"),
        ("assistant", '{"tool":"reply","args":{"text":"There is \\"a.txt\\".","kind":"answer"}}'),
    ]


def test_calls_side_by_side_are_shown_one_after_the_other_each_with_its_result():
    first, second = ToolCall("a", "shell", "{}"), ToolCall("b", "current_time", "{}")
    assert wire(calls(first, second), result("now", "b", is_error=True), result("done", "a")) == [
        ("assistant", '{"tool":"current_time","args":{}}'),
        ("user", "[result of current_time] error: now"),
        ("assistant", '{"tool":"shell","args":{}}'),
        ("user", "[result of shell] done"),
    ]


def test_calls_with_the_same_id_get_their_results_in_order():
    first, second = ToolCall("call_0", "shell", "{}"), ToolCall("call_0", "current_time", "{}")
    texts = [
        content
        for _, content in wire(
            calls(first, second), result("one", "call_0"), result("two", "call_0")
        )
    ]
    assert texts[1::2] == ["[result of shell] one", "[result of current_time] two"]


def test_a_long_result_keeps_its_head_and_its_tail():
    _, (_, text) = wire(
        calls(ToolCall("step", "shell", "{}")), result("HEAD" + "x" * 9000 + "TAIL")
    )
    assert text.startswith("[result of shell] HEAD")
    assert text.endswith("TAIL")
    assert len(text) < MAX_RESULT_CHARS + 100
    assert "5008 characters left out" in text


@given(
    st.lists(
        st.sampled_from([user("hello"), Message(MessageRole.ASSISTANT, "hi"), result("ok")]),
        max_size=8,
    ),
    st.text(),
)
def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(
    messages: list[Message], text: str
):
    before = build_conversation(ModelRequest(tuple(messages), (SHELL,)))
    after = build_conversation(ModelRequest((*messages, user(text)), (SHELL,)))
    closing = build_conversation(ModelRequest(tuple(messages), (SHELL,), tools_allowed=False))
    assert after[: len(before)] == before
    assert closing == (*before, PromptLine("user", ONLY_REPLY))
    assert build_opening(ModelRequest((user(text),), (SHELL,))) == build_opening(
        ModelRequest((), (SHELL,), tools_allowed=False)
    )


def test_a_step_is_one_of_the_tools_or_a_reply():
    assert names(build_schema(ModelRequest((), (SHELL, CLOCK)))) == [
        "shell",
        "current_time",
        "reply",
    ]


def test_without_leave_to_use_tools_only_a_reply_is_possible():
    assert names(build_schema(ModelRequest((), (SHELL, CLOCK), tools_allowed=False))) == ["reply"]


def test_a_tool_is_shown_with_the_arguments_that_a_small_model_can_fill_in():
    shown = limit_arguments(SHELL, ("command",))
    assert build_opening(ModelRequest((), (shown,)))[0].content.count("shell(command):") == 1
    assert limit_arguments(SHELL, None) == SHELL
    assert [*get_object(simplify_schema(shown.parameters), "properties")] == ["command"]


def names(step: Mapping[str, object]) -> list[object]:
    branches = step["anyOf"]
    assert isinstance(branches, list)
    return [branch["properties"]["tool"]["const"] for branch in branches]


def test_a_schema_is_cut_down_to_what_a_grammar_can_hold():
    assert simplify_schema(SHELL.parameters) == {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "timeout": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        },
        "required": ["command"],
        "additionalProperties": False,
    }


def test_references_in_a_schema_are_resolved_and_circles_end():
    tree = {
        "type": "object",
        "properties": {
            "next": {"$ref": "#/$defs/Tree"},
            "tags": {"type": "array", "items": {"enum": ["a"]}},
        },
    }
    schema = simplify_schema(
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}}
    )
    assert '"items": {"enum": ["a"]}' in str(schema).replace("'", '"')
    assert "$ref" not in str(schema)


lines = st.lists(
    st.builds(PromptLine, st.just("user"), st.text(max_size=60), st.booleans()),
    min_size=1,
    max_size=20,
)


@given(lines, st.integers(0, 300), st.integers(1, 100))
def test_what_is_kept_fits_ends_with_the_newest_and_begins_where_the_user_spoke(
    before: list[PromptLine], room: int, block: int
):
    kept = fit_lines(before, room, block)
    if kept is None:
        assert sum(line.estimate_tokens for line in before) > room
        return
    assert sum(line.estimate_tokens for line in kept) <= room
    assert kept == tuple(before[len(before) - len(kept) :])
    assert len(kept) == len(before) or kept[0].starts_turn


def test_the_cut_stays_where_it_is_while_a_block_fills_up():
    history = [PromptLine("user", "x" * 88, starts_turn=True)] * 20  # 33 tokens each
    cuts = {count - len(fit_lines(history[:1] * count, 200, 165) or ()) for count in range(8, 12)}
    assert len(cuts) == 1
