"""What the model is shown of events, always in the same bytes."""

from collections.abc import Iterable, Sequence

from daemon.core.events import HistoryCompressed, Recorded, Steered, Todo, ToolFinished, UserSaid
from daemon.core.messages import Message, Role, ToolCall
from daemon.core.state import failed


def result_message(call: ToolCall, result: ToolFinished) -> Message:
    """What the model is shown of a result."""
    return Message(Role.TOOL, result.text, provider_id=call.provider_id, is_error=failed(result), label=result.label)


def with_memories(said: UserSaid) -> str:
    """The user's words and files, after what memory had to say about them; the same bytes in every later prompt."""
    if not said.memories:
        return said.whole
    lines = "\n".join(f"- {hit.text}" for hit in said.memories)
    return f"<memory>\n{lines}\n</memory>\n{said.whole}"


def summary_message(event: HistoryCompressed) -> Message:
    """What stands in the place of what is shown no more."""
    return Message(Role.USER, f"<summary>\n{event.summary}\n</summary>", label=event.label)


def of_people(messages: Iterable[Message], recorded: Sequence[Recorded]) -> list[Message]:
    """Of messages that are to be shown no more, those of people: they are never lost. What the house said may go."""
    said = {entry.event.text for entry in recorded if isinstance(entry.event, Steered)}
    return [message for message in messages if message.role is Role.USER and message.text in said]


def plan_text(todos: Sequence[Todo]) -> str:
    """A plan as the model and the user are shown it (E3)."""
    marks = {"done": "x", "doing": ">"}
    return "\n".join(f"[{marks.get(item.state, ' ')}] {item.text}" for item in todos)


def with_plan(messages: tuple[Message, ...], todos: Sequence[Todo]) -> tuple[Message, ...]:
    """The conversation, with the plan behind it: never in the middle, so that what was sent before stays as it was."""
    if not todos or all(item.state == "done" for item in todos):
        return messages
    text = f"<todo>\n{plan_text(todos)}\n</todo>"
    last = messages[-1]
    if last.role is Role.USER:
        return (*messages[:-1], Message(Role.USER, f"{last.text}\n\n{text}", label=last.label))
    return (*messages, Message(Role.USER, text))
