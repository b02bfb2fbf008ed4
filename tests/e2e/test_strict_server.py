"""A server that refuses whatever real ones refuse: 200 turns with tools, steering, a full window and kills, and no conversation dies."""

import asyncio
import json
import os
import random
import re
import signal
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.e2e.test_odd_servers import home_with_note, replies
from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import Exchange, FakeOpenAI, fails
from tests.full_form import FULL

Json = dict[str, Any]
TURNS, KILL_EVERY = (200, 20) if FULL else (40, 10)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[!-~]{1,64}")
WINDOW = "[agent]\ncontext_window = 4000\nmax_iterations = 12\n"
ODD_NAMES = (
    "read_file",
    "read_file<|channel|>commentary",
    "functions.read_file",
    "no such tool",
    "",
)
ODD_IDS = ("call_0", "call_0", "", "an id with blanks", "x" * 80)
ALTERNATIVES = {"anyOf", "oneOf", "allOf"}


def find_fault(body: Json) -> str:
    """What the strictest of servers would say of it; "" when it would take it."""
    asked: list[str] = []
    used: set[str] = set()
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles[1:]:
        return "System message must be at the beginning."
    for before, role in pairwise(roles):
        if before == role and role != "tool":
            return "Conversation roles must alternate user/assistant."
    for message in body["messages"]:
        calls = message.get("tool_calls") or []
        if not message["content"] and not calls:
            return "messages: text content must be non-empty"
        if message["role"] == "tool":
            if not asked or asked.pop(0) != message["tool_call_id"]:
                return "tool_call_id has no matching tool_calls"
            continue
        if asked:
            return f"tool_call_ids did not have response messages: {asked}"
        for one in calls:
            if not NAME.fullmatch(one["function"]["name"]):
                return "tool_calls.function.name: string does not match pattern"
            if not isinstance(json.loads(one["function"]["arguments"]), dict):
                return "arguments must be an object"
            if one["id"] in used or not ID.fullmatch(one["id"]):
                return f"duplicate or invalid tool call id {one['id']!r}"
            if one.get("extra_content") != SIGNED and one["id"] not in ("",):
                return "Function call is missing a thought_signature."
            used.add(one["id"])
        asked = [one["id"] for one in calls]
        if calls and message.get("reasoning_content") != "I look.":
            return "The reasoning_content in the thinking mode must be passed back."
    return _find_schema_fault(body)


SIGNED = {"google": {"thought_signature": "c2ln"}}


def _find_schema_fault(body: Json) -> str:
    for tool in body.get("tools", ()):
        schema = tool["function"]["parameters"]
        if schema.get("type") != "object" or ALTERNATIVES & schema.keys():
            return f"Invalid schema for function '{tool['function']['name']}'"
    return ""


@dataclass
class StrictServer:
    """Calls tools at random, in odd forms. Its refusals are kept."""

    dice: random.Random
    refused: list[str] = field(default_factory=list)

    async def __call__(self, x: Exchange) -> web.StreamResponse:
        body = x.asked.body
        if fault := find_fault(body):
            self.refused.append(fault)
            return await fails(400, {"error": {"message": fault, "type": "invalid_request_error"}})(
                x
            )
        if (
            body["messages"][-1]["role"] == "tool"
            or not body.get("tools")
            or self.dice.random() < 0.4
        ):
            text = self.dice.choice(("Fine. " * 80, "<think>hm</think>Fine.", "Half \ud83d"))
            return await replies(
                {"role": "assistant", "content": text, "reasoning_content": "I look."}
            )(x)
        calls = [self._call() for _ in range(self.dice.randint(1, 3))]
        message = {
            "role": "assistant",
            "content": "",
            "reasoning_content": "I look.",
            "tool_calls": calls,
        }
        return await replies(message, "tool_calls")(x)

    def _call(self) -> Json:
        path = self.dice.choice(("note.txt", "other.txt", "none.txt"))
        function = {"name": self.dice.choice(ODD_NAMES), "arguments": json.dumps({"path": path})}
        return {
            "id": self.dice.choice(ODD_IDS),
            "type": "function",
            "function": function,
            "extra_content": SIGNED,
        }


async def _say(daemon: Daemon, dice: random.Random, number: int) -> str:
    """One turn, steered now and then; why it ended."""
    text = f"Message {number}: " + "please look at the notes. " * dice.randint(1, 12)
    asking = asyncio.create_task(daemon.ask(text))
    if dice.random() < 0.3:
        await daemon.post("/v1/messages", 202, session="default", text=f"And {number} more.")
    run = await asking
    return f"{run['stop_reason']}: {run['reply']}" if run["stop_reason"] != "done" else "done"


async def test_no_conversation_dies_at_a_server_that_refuses_what_real_ones_refuse(
    tmp_path: Path,
) -> None:
    dice, stops = random.Random(24), list[str]()
    home_with_note(tmp_path)
    async with FakeOpenAI() as model:
        server = StrictServer(random.Random(7))
        model.otherwise(server)
        config: str | None = scripted(model.base_url, WINDOW)
        for first in range(0, TURNS, KILL_EVERY):
            async with running_daemon(tmp_path, config) as daemon:
                for number in range(first, first + KILL_EVERY - 1):
                    stops.append(await _say(daemon, dice, number))
                await daemon.begin(f"Message {first} that a kill may cut")
                os.killpg(daemon.process.pid, signal.SIGKILL)
                await asyncio.wait_for(daemon.process.wait(), 30)
            config = None
    assert set(stops) == {"done"}, (stops, server.refused)
    assert server.refused == []
