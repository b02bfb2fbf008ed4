"""Parts of replies in general. Tokens: as servers tell them, and as we guess them where a server is silent."""

import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator

from daemon.core.messages import ModelRequest, Native, ToolCall, Usage

MOST_TOKENS = 10**9


def _count(value: object) -> int:
    """What is no count of tokens counts as not told; a negative one would give a budget back."""
    if isinstance(value, str) and value.isdecimal():
        value = float(value)
    return int(min(value, MOST_TOKENS)) if isinstance(value, int | float) and value > 0 else 0


def _table(value: object) -> object:
    """What is beside the point must not spoil an answer."""
    return value if isinstance(value, dict) else None


Count = Annotated[int, BeforeValidator(_count)]
ASIDE = BeforeValidator(_table)


def estimate(request: ModelRequest, text: str, calls: Iterable[ToolCall]) -> Usage:
    """Four characters a token, a little on the high side."""
    sent = sum(len(m.text) + _length(m.calls) for m in request.messages)
    sent += sum(len(t.name) + len(t.description) + len(json.dumps(t.parameters)) for t in request.tools)
    return Usage(sent // 4 + 1, (len(text) + _length(calls)) // 4 + 1, estimated=True)


def kept(blocks: object) -> Native | None:
    """A reply's own blocks for its provider and model to be filled in; none where they hold NaN, which is read but is no JSON."""
    try:
        return Native("", "", json.dumps(blocks, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except ValueError:
        return None


def _length(calls: Iterable[ToolCall]) -> int:
    return sum(len(call.name) + len(call.arguments) for call in calls)
