"""Three passes that make any history acceptable to any provider, just before a model call (A9, E8).

Calls and results belong together by place, not by id: some servers use the same id every time. Results stand directly behind the
assistant message that asked for them. No user text is ever lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from daemon.core.messages import Message, MessageRole
from daemon.core.trust import join_all

STRIPPED = "[a tool call that was cut off]"


def repair(history: Sequence[Message]) -> list[Message]:
    """Merge same-role neighbours; drop orphan results and strip orphan calls; merge again. Twice is the same as once."""
    return merge(list(pair(merge(history))))


def merge(history: Sequence[Message]) -> list[Message]:
    """Neighbours of the same role become one message, their tool calls one list; tool results stay single."""
    merged: list[Message] = []
    for message in history:
        if merged and merged[-1].role is message.role is not MessageRole.TOOL:
            merged[-1] = _joined(merged[-1], message)
        else:
            merged.append(message)
    return merged


def pair(history: Sequence[Message]) -> Iterator[Message]:
    """Every assistant call directly followed by its result, every result preceded by its call; the rest goes."""
    index = 0
    while index < len(history):
        message = history[index]
        index += 1
        if message.role is MessageRole.TOOL:
            continue
        results: list[Message] = []
        while index < len(history) and history[index].role is MessageRole.TOOL:
            results.append(history[index])
            index += 1
        yield from _settled(message, results) if message.calls else _kept(message)


def _settled(message: Message, results: list[Message]) -> Iterator[Message]:
    answered = []
    for call in message.calls:
        found = next((result for result in results if result.provider_id == call.provider_id), None)
        if found:
            results.remove(found)
            answered.append((call, found))
    whole = len(answered) == len(message.calls)
    yield from _kept(
        message
        if whole
        else replace(message, calls=tuple(call for call, _ in answered), native=None)
    )
    for _, result in answered:
        yield result


def _kept(message: Message) -> Iterator[Message]:
    if message.text or message.calls:
        yield message
    elif message.role is MessageRole.ASSISTANT:
        yield replace(message, text=STRIPPED, native=None)


def _joined(left: Message, right: Message) -> Message:
    text = "\n\n".join(part for part in (left.text, right.text) if part)
    label = join_all((left.label, right.label))
    return replace(left, text=text, calls=left.calls + right.calls, label=label, native=None)
