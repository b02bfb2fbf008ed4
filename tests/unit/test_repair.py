"""A9, E8: from any mutilated history comes one that every provider accepts, with no user text lost."""

from contextlib import suppress
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from daemon.agent.context.history import repair
from daemon.core.messages import Message, MessageRole, ToolCall

IDS = st.sampled_from(["call_0", "call_1", "call_2"])
TEXTS = st.sampled_from(["", "a", "b", "c"])
CALLS = st.lists(
    st.builds(ToolCall, IDS, st.sampled_from(["ls", "cat"]), st.just("{}")), max_size=3
).map(tuple)
MESSAGES = st.one_of(
    st.builds(Message, st.just(MessageRole.USER), TEXTS),
    st.builds(Message, st.just(MessageRole.ASSISTANT), TEXTS, CALLS),
    st.builds(lambda text, name: Message(MessageRole.TOOL, text, provider_id=name), TEXTS, IDS),
)
HISTORIES = st.lists(MESSAGES, max_size=12)


def call(name: str) -> ToolCall:
    return ToolCall(name, "ls", "{}")


def assistant(*names: str, text: str = "") -> Message:
    return Message(MessageRole.ASSISTANT, text, tuple(call(name) for name in names))


def result(name: str, text: str = "done") -> Message:
    return Message(MessageRole.TOOL, text, provider_id=name)


def user(text: str) -> Message:
    return Message(MessageRole.USER, text)


def problems(history: list[Message]) -> list[str]:
    """What a strict provider would refuse."""
    found = [
        f"two {a.role}" for a, b in pairwise(history) if a.role is b.role is not MessageRole.TOOL
    ]
    open_calls: list[str] = []
    for message in history:
        if message.role is MessageRole.TOOL:
            found += [] if message.provider_id in open_calls else ["result without call"]
            with suppress(ValueError):
                open_calls.remove(message.provider_id)
        else:
            found += ["call without result"] if open_calls else []
            open_calls = [c.provider_id for c in message.calls]
        found += (
            [] if message.text or message.calls or message.role is MessageRole.TOOL else ["empty"]
        )
    return found + (["call without result"] if open_calls else [])


@given(HISTORIES)
def test_a9_any_history_becomes_acceptable(history: list[Message]) -> None:
    assert problems(repair(history)) == []


@given(HISTORIES)
def test_a9_every_call_has_its_result_right_behind_it_and_every_result_its_call(
    history: list[Message],
) -> None:
    repaired = repair(history)
    for index, message in enumerate(repaired):
        behind = repaired[index + 1 : index + 1 + len(message.calls)]
        assert [m.provider_id for m in behind if m.role is MessageRole.TOOL] == [
            c.provider_id for c in message.calls
        ]
    assert sum(len(m.calls) for m in repaired) == sum(m.role is MessageRole.TOOL for m in repaired)


@given(HISTORIES)
def test_a9_no_user_text_is_lost(history: list[Message]) -> None:
    said = [m.text for m in history if m.role is MessageRole.USER and m.text]
    kept = [
        part for m in repair(history) if m.role is MessageRole.USER for part in m.text.split("\n\n")
    ]
    assert kept == said


@given(HISTORIES)
def test_a9_repairing_twice_is_repairing_once(history: list[Message]) -> None:
    assert repair(repair(history)) == repair(history)


def test_a9_same_role_neighbours_are_merged_tool_calls_too() -> None:
    merged = repair(
        [
            user("a"),
            user("b"),
            assistant("call_0"),
            assistant("call_1"),
            result("call_0"),
            result("call_1"),
        ]
    )
    assert merged == [
        user("a\n\nb"),
        assistant("call_0", "call_1"),
        result("call_0"),
        result("call_1"),
    ]


def test_a9_orphan_results_are_dropped_and_orphan_calls_stripped_and_what_then_touches_is_merged() -> (
    None
):
    history = [
        user("a"),
        result("call_9"),
        user("b"),
        assistant("call_0", "call_1", text="hm"),
        result("call_1"),
        user("c"),
    ]
    assert repair(history) == [
        user("a\n\nb"),
        assistant("call_1", text="hm"),
        result("call_1"),
        user("c"),
    ]


def test_a9_a_sound_history_is_left_as_it_is() -> None:
    call_and_result = [assistant("call_0"), result("call_0")]
    history = [user("a"), *call_and_result, assistant(text="done"), user("b"), *call_and_result]
    assert repair(history) == history
