"""The seam between the house and a language model: one method.

Parts of replies in general. Tokens: as servers tell them, and as we guess them where a server is silent.
"""

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Protocol

from pydantic import BeforeValidator

from daemon.core.messages import ModelReply, ModelRequest, Native, ToolCall, Usage

TextCallback = Callable[[str], None]


class Provider(Protocol):
    """One service that answers model calls. Adapters are two pure functions around one call: to_wire, from_wire."""

    @property
    def name(self) -> str:
        """Its name in events and messages to the user: the kind, with the host where there are several."""
        ...

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError.

        Cancelling stops the call.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


MAX_TOKENS = 10**9


def _parse_count(value: object) -> int:
    """What is no count of tokens counts as not told; a negative one would give a budget back."""
    if isinstance(value, str) and value.isdecimal():
        value = float(value)
    return int(min(value, MAX_TOKENS)) if isinstance(value, int | float) and value > 0 else 0


def _dict_or_none(value: object) -> object:
    """What is beside the point must not spoil an answer."""
    return value if isinstance(value, dict) else None


Count = Annotated[int, BeforeValidator(_parse_count)]
DictOrNone = BeforeValidator(_dict_or_none)


def estimate_usage(request: ModelRequest, text: str, calls: Iterable[ToolCall]) -> Usage:
    """Four characters a token, a little on the high side."""
    sent = sum(len(m.text) + _count_call_chars(m.calls) for m in request.messages)
    sent += sum(
        len(t.name) + len(t.description) + len(json.dumps(t.parameters)) for t in request.tools
    )
    return Usage(sent // 4 + 1, (len(text) + _count_call_chars(calls)) // 4 + 1, estimated=True)


def make_native(blocks: object) -> Native | None:
    """A reply's own blocks for its provider and model to be filled in; none where they hold NaN, which is read but is no JSON."""
    try:
        return Native(
            "", "", json.dumps(blocks, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        )
    except ValueError:
        return None


def _count_call_chars(calls: Iterable[ToolCall]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)
