"""Cuts what cannot be dropped whole, so that a request is never larger than the window (D7). The
journal keeps every word.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from daemon.agent.context.history import (
    CHARS_PER_TOKEN,
    HistoryWindow,
    TurnMessages,
    estimate_tokens,
)
from daemon.core.messages import Message, MessageRole, ToolCall
from daemon.core.turn import Turn, select_user_messages
from daemon.tools.calls import truncate_middle

LEAST_CHARS = 100
LEAST_ROOM = 100


def find_iterations(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Where each iteration of a turn begins and ends: a reply, the results of its calls, what was
    said then.
    """
    begins = [
        index
        for index, message in enumerate(messages)
        if index and message.role is MessageRole.ASSISTANT
    ]
    return list(pairwise((*begins, len(messages))))


def limit_user_texts(messages: Sequence[Message], most: int) -> Sequence[Message]:
    """With the middle left out of user texts of more than so many tokens: they would leave no room
    for the work itself.
    """
    shorter = [
        shorten((message,), most)[0] if message.role is MessageRole.USER else message
        for message in messages
    ]
    same = all(new is old for new, old in zip(shorter, messages, strict=True))
    return messages if same else shorter


def fit_history(
    turn: Turn, earlier: HistoryWindow, own: Sequence[Message], room: int
) -> tuple[HistoryWindow, Sequence[Message]]:
    """What can be sent of the turns before and of this one. Earlier turns go first, then old
    iterations; then texts are cut.
    """
    room = max(room, LEAST_ROOM)
    summary = earlier.summary.tokens if earlier.summary else 0
    left = room - summary if summary <= room // 4 else room
    own = own if estimate_tokens(own) <= left else _own(turn, left)
    return _earlier(earlier, room - estimate_tokens(own)), own


def shorten(messages: Sequence[Message], room: int) -> list[Message]:
    """All of them in so many tokens: the middle of the longest texts is left out, with a mark in
    its place.
    """
    cut = list(messages)
    for most in _steps(room * CHARS_PER_TOKEN):
        if estimate_tokens(cut) <= room:
            break
        cut = [_cut(message, most) for message in messages]
    return cut


def _steps(chars: int) -> Iterator[int]:
    """How long texts may be, less and less: always the same few lengths, so that the bytes seldom
    change.
    """
    length = 1 << chars.bit_length()
    while length > LEAST_CHARS:
        yield from (length, length * 3 // 4)
        length //= 2
    yield LEAST_CHARS


def _earlier(earlier: HistoryWindow, room: int) -> HistoryWindow:
    """The turns before, as far as there is room; the latest of them in part, rather than
    nothing.
    """
    whole = earlier.fit(room)
    if whole.groups or not earlier.groups:
        return whole
    cut = TurnMessages.of(shorten(earlier.groups[-1].messages, room - whole.tokens))
    return HistoryWindow.of((cut,), whole.summary) if cut.tokens <= room - whole.tokens else whole


def _own(turn: Turn, room: int) -> list[Message]:
    messages = turn.messages
    units = find_iterations(messages)
    tail = len(messages)
    while units and estimate_tokens(messages[units[-1][0] :]) <= room // 2:
        tail = units.pop()[0]
    if units and tail == len(messages):
        tail = units[-1][0]  # the latest step is always shown, and be it in part
    return shorten(
        [*messages[:1], *select_user_messages(messages[1:tail], turn.events), *messages[tail:]],
        room,
    )


def _cut(message: Message, most: int) -> Message:
    text = truncate_middle(message.text, most)
    calls = tuple(_cut_call(call, most) for call in message.calls)
    bulky = message.native is not None and len(message.native.blocks) > most
    if text == message.text and calls == message.calls and not bulky:
        return message
    return replace(message, text=text, calls=calls, native=None)


def _cut_call(call: ToolCall, most: int) -> ToolCall:
    """Arguments stay a JSON object, whatever is left of them: some providers refuse anything
    else.
    """
    if len(call.arguments) <= most:
        return call
    with suppress(ValueError, RecursionError):
        given = json.loads(call.arguments)
        if isinstance(given, dict):
            arguments = json.dumps(
                {
                    key: truncate_middle(v, most // 2) if isinstance(v, str) else v
                    for key, v in given.items()
                }
            )
            if len(arguments) <= 2 * most:
                return replace(call, arguments=arguments)
    return replace(call, arguments=json.dumps({"cut": truncate_middle(call.arguments, most // 2)}))


def render_message(message: Message, limit: int | None = None) -> Iterator[str]:
    """A message in plain words for another model; long texts are shortened."""
    who = {MessageRole.ASSISTANT: "Assistant", MessageRole.TOOL: "Result"}.get(message.role, "User")
    failed = " (failed)" if message.is_error else ""
    most = limit or sys.maxsize
    if message.text or message.role is MessageRole.TOOL:
        yield f"{who}{failed}: {truncate_middle(message.text, most)}"
    for call in message.calls:
        yield f"Assistant calls {call.name} {truncate_middle(call.arguments, most)}"
