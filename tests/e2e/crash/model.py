"""The model of the crash tests: does what the last words in brackets say, and kills who asks when it was told to.

"[m1 look+note send]" is: look and note in one reply, then send in the next, then the final text "re: m1". "[m1 spawn.a] {a note}"
sets an agent to work that is told "[m1a note]", "back.a" one in the background, "spawn.a.crew" one of that name. "write.a",
"edit.a" and "read.a" are about the file a.txt, "run.a" is a command that writes a.txt and run/a.txt, "commit" one of git, "set.21" is about the assistant's own limit.
"""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.openai import Asked, Exchange, Json, Step, calls, says

WORDS = re.compile(r"\[(\w+)((?: [\w+.]+)*)\]")
ROLE = re.compile(r"\(as (\w+)\)")
ATTEMPT = re.compile(r"Iteration (\d+) of")
UNKNOWN = re.compile(r"The outcome of (\w+) is unknown")
BEFORE = "## What {role} answered\nre: (\\w+)"
REPORT = "The background sub-agent"
AGAIN = "Your answer does not hold"
SUMMARY = "You keep the record"
LIMIT = "agent.max_iterations"
PLACE = "HERE"
RUN = "rm -rf run; mkdir run; printf '{what}' > run/{what}.txt; printf '{what}' > {name}.txt; printf '{what}' > .envrc"
COMMIT = (
    "[ -d .git ] || git init -q -b main .; printf '{what}' > in-git.txt; git add in-git.txt;"
    " git -c user.name=o -c user.email=o@x commit -qm '{what}'"
)
HOUSE: dict[str, Callable[..., tuple[str, Json]]] = {
    "pay": lambda what: ("pay", {"to": "bob"}),
    "write": lambda what, name: ("write_file", {"path": f"{name}.txt", "text": f"{what} {PLACE}"}),
    "edit": lambda what, name: (
        "edit_file",
        {"path": f"{name}.txt", "old": PLACE, "new": f"{what} {PLACE}"},
    ),
    "read": lambda what, name: ("read_file", {"path": f"{name}.txt"}),
    "run": lambda what, name: ("shell", {"command": RUN.format(what=what, name=name)}),
    "commit": lambda what: ("shell", {"command": COMMIT.format(what=what)}),
    "set": lambda what, value: ("config_set", {"key": LIMIT, "value": int(value)}),
}


@dataclass(frozen=True, slots=True)
class Order:
    """What a message asks for. `told` is the message, which says what agents below are to do."""

    name: str
    steps: list[str]
    told: str

    def calls(self, step: int) -> Step:
        """The tool calls of one step; each says which it is."""
        return calls(
            *(
                self._call(f"{self.name}.{step}.{hand}", *hand.split("."))
                for hand in self.steps[step].split("+")
            )
        )

    def _call(self, what: str, hand: str, *about: str) -> tuple[str, Json]:
        if hand in HOUSE:
            tool, arguments = HOUSE[hand](what, *about)
            return tool, {**arguments, "_step": what}
        if hand not in ("spawn", "back"):
            return hand, {"text": what}
        steps = re.findall(rf"\{{{about[0]}((?: [\w+.]+)*)\}}", self.told)[0]
        below = " ".join(re.findall(r"\{[^}]+\}", self.told))
        agent = {"agent": about[1]} if about[1:] else {}
        return "spawn_agent", {
            "task": f"[{self.name}{about[0]}{steps}] {below} ({what})",
            "background": hand == "back",
            **agent,
        }


MEMORY = re.compile(r"\A<memory>\n.*?\n</memory>\n", re.DOTALL)  # of other turns


def orders(text: str) -> list[Order]:
    """What a message asks for; the report of an agent in the background only wants to be heard. Each attempt of a loop has a name
    of its own, and so has each agent that is told to be somebody, and each round of it.
    """
    found = WORDS.findall(text)
    if text.startswith(REPORT):
        return [Order(f"{found[0][0]}report", [], text)]
    role, attempt = (
        "".join(ROLE.findall(text)),
        "".join(f"at{number}" for number in ATTEMPT.findall(text)),
    )
    before = re.findall(BEFORE.format(role=role), text) if role else []
    return [
        Order(f"{before[0]}again" if before else name + role + attempt, steps.split(), text)
        for name, steps in found
    ]


def names(text: str) -> list[str]:
    """What a reply to this text has to mention."""
    return [order.name for order in orders(text)]


def markers(asked: Asked) -> list[str]:
    """The names of the messages that a request is about: those since the last final text."""
    return [] if is_summary(asked.body) else [order.name for order in _orders(_tail(asked.body))]


def is_summary(body: Json) -> bool:
    """A question beside the loop."""
    return str(body["messages"][0]["content"]).startswith(SUMMARY)


def chosen(body: Json) -> Step:
    """What a reasonable model would do."""
    if is_summary(body):
        return says(
            "they spoke of "
            + ", ".join(name for name, _ in WORDS.findall(str(body["messages"][1]["content"])))
        )
    tail = _tail(body)
    wanted = _orders(tail)
    if not wanted:
        return says("ok")
    last = wanted[-1]
    done = [
        int(step)
        for step in re.findall(rf"\b{last.name}\.(\d+)\.", str([m.get("tool_calls") for m in tail]))
    ]
    if (step := max(done, default=-1) + 1) < len(last.steps):
        return last.calls(step)
    unknown = [
        "unknown: " + hand
        for message in tail
        for hand in UNKNOWN.findall(str(message.get("content")))
    ]
    return says("re: " + ", ".join([order.name for order in wanted] + unknown))


@dataclass(slots=True)
class Deadly:
    """Answers, unless this is the call at which the asking process is to die: "arrived:N" or "midway:N"."""

    asked: Counter[str] = field(default_factory=Counter)

    async def __call__(self, x: Exchange) -> web.StreamResponse:
        how, _, number = x.asked.headers.get("X-Die", "").partition(":")
        pid = x.asked.headers.get("X-Pid", "")
        self.asked[pid] += 1
        if not number or self.asked[pid] != int(number):
            try:
                return await chosen(x.asked.body)(x)
            except ConnectionResetError:  # it has died of something else meanwhile
                return x.drop()
        if how == "midway":
            response = await x.open()
            half = {
                "id": "half",
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": "half a"}}],
            }
            await response.write(b"data: " + json.dumps(half).encode() + b"\n\n")
        os.kill(int(pid), signal.SIGKILL)
        return x.drop()


def _tail(body: Json) -> list[dict[str, Any]]:
    messages = body["messages"]
    finals = (
        n for n, m in enumerate(messages) if m["role"] == "assistant" and not m.get("tool_calls")
    )
    last = max(
        (n for n in finals if not str(messages[n + 1]["content"]).startswith(AGAIN)), default=-1
    )
    return messages[last + 1 :]


def _orders(tail: list[dict[str, Any]]) -> list[Order]:
    return [
        order
        for message in tail
        if message["role"] == "user"
        for order in orders(MEMORY.sub("", str(message["content"])))
    ]
