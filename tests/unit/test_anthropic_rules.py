"""The judge of what we send to Anthropic refuses what the API refuses: what it lets pass is worth something (A9)."""

import json
from typing import Any

import pytest

from tests.fakes.anthropic.rules import faults

NEW, OLD = "claude-haiku-5-5", "claude-haiku-4-5"
TEXT: Any = {"type": "text", "text": "hi"}
CACHED: Any = {"cache_control": {"type": "ephemeral"}}
GOOD: dict[str, Any] = {
    "model": NEW,
    "max_tokens": 100,
    "tools": [{"name": "ls", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": [TEXT]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, TEXT]},
    ],
}
USER, USES, DONE = GOOD["messages"]
THINKING = {"type": "thinking", "thinking": "", "signature": "s"}


def turned(content: list[object]) -> dict[str, object]:
    return {"role": "assistant", "content": content}


WRONG: list[dict[str, Any]] = [
    {"model": ""},
    {"max_tokens": None},
    {"max_tokens": 0},
    {"temperature": 1},
    {"messages": []},
    {"messages": [USES, DONE]},
    {"messages": [USER, USES]},
    {"messages": [USER, USER]},
    {"messages": [USER, DONE]},
    {"messages": [USER, turned([TEXT]), DONE]},
    {"messages": [USER, USES, USER]},
    {"messages": [USER, USES, {"role": "user", "content": DONE["content"][::-1]}]},
    {"messages": [USER, USES, DONE, USES, DONE]},
    {"messages": [USER, turned([]), USER]},
    {"messages": [USER, turned([{"type": "text", "text": " "}]), USER]},
    {"messages": [USER, turned([TEXT, THINKING]), USER]},
    {"messages": [USER, turned([THINKING | {"signature": ""}, TEXT]), USER]},
    {"messages": [USER, turned([THINKING | CACHED, TEXT]), USER]},
    {"messages": [{"role": "user", "content": [THINKING]}]},
    {"messages": [{"role": "system", "content": [TEXT]}]},
    {"messages": [USER, turned([{**USES["content"][0], "id": "a b"}]), DONE]},
    {"messages": [USER, turned([{**USES["content"][0], "input": "{}"}]), DONE]},
    {"messages": [{"role": "user", "content": [TEXT | CACHED] * 5}]},
    {"messages": [{"role": "user", "content": [TEXT | {"cache_control": {"type": "ever"}}]}]},
    {"tools": []},
    {"tools": [{"name": "l s", "input_schema": {"type": "object"}}]},
    {"tools": [{"name": "ls", "input_schema": {}}]},
    {"tools": GOOD["tools"] * 2},
    {"tool_choice": "none"},
    {"system": [{"type": "text", "text": ""}]},
    {"output_config": {"effort": "huge"}},
    {"thinking": {"type": "enabled", "budget_tokens": 50}},
    {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1024, "model": OLD},
    {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000, "model": OLD},
    {"thinking": {"type": "adaptive"}, "model": OLD},
    {"output_config": {"effort": "low"}, "model": OLD},
]


@pytest.mark.parametrize("change", WRONG, ids=[json.dumps(change)[:60] for change in WRONG])
def test_the_judge_refuses_what_the_api_refuses(change: dict[str, Any]) -> None:
    assert faults(GOOD) == []
    assert faults(GOOD | change) != []
