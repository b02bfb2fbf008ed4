"""The model of the crash tests: does what the last words in brackets say, and kills who asks when it was told to.

"[m1 look+note send]" is: look and note in one reply, then send in the next, then the final text "re: m1".
"""

import json
import os
import re
import signal
from typing import Any

from aiohttp import web

from tests.fakes.openai import Asked, Exchange, Json, Step, calls, says

WORDS = re.compile(r"\[(\w+)((?: [\w+]+)*)\]")
UNKNOWN = re.compile(r"The outcome of (\w+) is unknown")


def markers(asked: Asked) -> list[str]:
    """The names of the messages that a request is about: those since the last final text."""
    return [name for name, _ in _orders(_tail(asked.body))]


def chosen(body: Json) -> Step:
    """What a reasonable model would do."""
    tail = _tail(body)
    orders = _orders(tail)
    if not orders:
        return says("ok")
    name, steps = orders[-1]
    since = next(place for place, message in enumerate(reversed(tail)) if message["role"] == "user")
    done = sum(message["role"] == "assistant" for message in tail[len(tail) - since :])
    if done < len(steps):
        return calls(*((hand, {"text": f"{name}.{done}.{hand}"}) for hand in steps[done].split("+")))
    unknown = ["unknown: " + hand for message in tail for hand in UNKNOWN.findall(str(message.get("content")))]
    return says("re: " + ", ".join([name for name, _ in orders] + unknown))


async def deadly(x: Exchange) -> web.StreamResponse:
    """Answers, unless this is the call at which the asking process is to die: "arrived:N" or "midway:N"."""
    how, _, number = x.asked.headers.get("X-Die", "").partition(":")
    pid = x.asked.headers.get("X-Pid", "")
    count = sum(asked.headers.get("X-Pid") == pid for asked in x.model.requests)
    if not number or count != int(number):
        try:
            return await chosen(x.asked.body)(x)
        except ConnectionResetError:  # it has died of something else meanwhile
            return x.drop()
    if how == "midway":
        response = await x.open()
        half = {"id": "half", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "half a"}}]}
        await response.write(b"data: " + json.dumps(half).encode() + b"\n\n")
    os.kill(int(pid), signal.SIGKILL)
    return x.drop()


def _tail(body: Json) -> list[dict[str, Any]]:
    messages = body["messages"]
    last = max((n for n, m in enumerate(messages) if m["role"] == "assistant" and not m.get("tool_calls")), default=-1)
    return messages[last + 1 :]


def _orders(tail: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    said = [str(message["content"]) for message in tail if message["role"] == "user"]
    return [(name, steps.split()) for text in said for name, steps in WORDS.findall(text)]
