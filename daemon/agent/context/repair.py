"""Three passes that make any history acceptable to any provider, just before a model call (A9,
E8).

Calls and results belong together by place, not by id: some servers use the same id every time.
Results stand directly behind the assistant message that asked for them. No user text is ever lost.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from daemon.core.messages import Message, MessageRole

STRIPPED = "[a tool call that was cut off]"


def repair(history: Sequence[Message]) -> list[Message]:
    """Merge same-role neighbours; drop orphan results and strip orphan calls; merge again. Twice
    is the same as once.
    """
    return merge(list(pair(merge(history))))


def merge(history: Sequence[Message]) -> list[Message]:
    """Neighbours of the same role become one message, their tool calls one list; tool results stay
    single.
    """
    merged: list[Message] = []
    for message in history:
        if merged and merged[-1].role is message.role is not MessageRole.TOOL:
            last = merged[-1]
            text = "\n\n".join(part for part in (last.text, message.text) if part)
            label, calls = last.label.join_with(message.label), last.calls + message.calls
            merged[-1] = replace(last, text=text, calls=calls, label=label, native=None)
        else:
            merged.append(message)
    return merged


def pair(history: Sequence[Message]) -> Iterator[Message]:
    """Every assistant call directly followed by its result, every result preceded by its call; the
    rest goes.
    """
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
        calls, paired = [], []
        for call in message.calls:
            ids = [result.provider_id for result in results]
            if call.provider_id in ids:
                calls.append(call)
                paired.append(results.pop(ids.index(call.provider_id)))
        if len(calls) < len(message.calls):
            message = replace(message, calls=tuple(calls), native=None)
        if message.text or message.calls:
            yield message
        elif message.role is MessageRole.ASSISTANT:
            yield replace(message, text=STRIPPED, native=None)
        yield from paired
