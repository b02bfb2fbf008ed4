"""The fake as its own process, for benches and crash tests: `python -m tests.fakes.openai --port 0 --script FILE --latency S`.

Prints its base_url. FILE is a list of rules, the first that fits answers: {"match": part of the last user or tool message,
"user": part of the last user message, "round": model calls already made since then} -> {"reply": text} or {"pieces": n, "every": seconds} or
{"calls": [[tool, arguments], ...]} or {"status": 503}, with {"latency": seconds, "usage": {...}}. GET /requests: what was asked.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from tests.fakes.openai import Asked, Exchange, FakeOpenAI, Json, Step, calls, fails, says, trickles

KEPT = 2000


def follows(rules: Sequence[Json]) -> Step:
    """Answers by a list of rules."""
    ok = says("ok")
    made = [(rule, _made(rule)) for rule in rules]

    async def step(x: Exchange) -> web.StreamResponse:
        then = next((answer for rule, answer in made if _fits(rule, x.asked)), ok)
        return await then(x)

    return step


def _made(rule: Json) -> Step:
    if "status" in rule:
        return fails(rule["status"])
    delay, usage = rule.get("latency"), rule.get("usage")
    if "calls" in rule:
        return calls(
            *((name, arguments) for name, arguments in rule["calls"]),
            text=rule.get("reply"),
            usage=usage,
            delay=delay,
        )
    if "pieces" in rule:
        return trickles(rule["pieces"], rule.get("every", 0.004))
    return says(rule.get("reply", "ok"), usage=usage, delay=delay)


def _fits(rule: Json, asked: Asked) -> bool:
    fits = rule.get("match", "") in str(asked.last("user", "tool").get("content"))
    fits = fits and rule.get("user", "") in str(asked.last("user").get("content"))
    return fits and rule.get("round") in (None, _round(asked))


def _round(asked: Asked) -> int:
    roles = [message["role"] for message in asked.body["messages"]]
    return (
        roles[len(roles) - roles[::-1].index("user") :].count("assistant") if "user" in roles else 0
    )


async def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.openai")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path)
    parser.add_argument("--latency", type=float, default=0.0)
    options = parser.parse_args()
    async with FakeOpenAI(port=options.port) as model:
        rules = json.loads(options.script.read_text()) if options.script else []
        rules = [{"latency": options.latency, **rule} for rule in [*rules, {"reply": "ok"}]]
        model.otherwise(follows(rules))
        sys.stdout.write(model.base_url + "\n")
        sys.stdout.flush()
        while True:
            await asyncio.sleep(1)
            del model.requests[:-KEPT]


if __name__ == "__main__":
    asyncio.run(_main())
