"""A tool that fails: tried again after a while where that may help, else shown to the model at once (E6)."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.events import ToolRetried
from daemon.core.trust import Effect
from daemon.tools.base import RetryableToolError, ToolError
from daemon.tools.signature import bind, tool
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says

TOLD = "It is as you see."


@dataclass
class Tally:
    """What was tried."""

    tried: list[str] = field(default_factory=list)


@tool(effect=Effect.READ, retries=4)
async def ask_service(tally: Tally) -> str:
    """Ask a service that is down."""
    tally.tried.append("asked")
    raise RetryableToolError("the service is down")


@tool(effect=Effect.READ, retries=4)
async def find_thing(tally: Tally) -> str:
    """Find a thing that is not there."""
    tally.tried.append("sought")
    raise ToolError("there is no such thing")


@tool(effect=Effect.READ, retries=4)
async def open_box(tally: Tally) -> str:
    """Open a box, by a faulty key."""
    tally.tried.append("opened")
    raise ValueError("the key does not fit")


@tool(effect=Effect.EGRESS, retries=4)
async def push(tally: Tally) -> str:
    """Push something out, which may have gone out before it failed."""
    tally.tried.append("pushed")
    raise RetryableToolError("the line broke")


def unasked(name: str) -> dict[str, object]:
    return {"tools": {"approvals": {name: "never"}}}


async def retries(it: Living, turn: str) -> list[tuple[int, float]]:
    return [
        (event.attempt, event.wait_s)
        for event in await it.events(turn)
        if isinstance(event, ToolRetried)
    ]


async def test_e6_waits_between_tries_grow_up_to_a_bound_and_tries_are_so_many(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    tally = Tally()
    model.script(calls(("ask_service", {})), says(TOLD))
    parts = Overrides(tools=bind([ask_service], {Tally: tally}))
    async with living(tmp_path, model, parts=parts) as it:
        run = await it.ask("ask the service")
        waited = await retries(it, run.turn)
    assert waited == [(1, 0.5), (2, 1.0), (3, 2.0), (4, 2.0)] and len(tally.tried) == 5
    assert run.calls[0].is_error and "the service is down" in str(run.calls[0].result)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("find_thing", "there is no such thing"),
        ("open_box", "the key does not fit"),
        ("push", "the line broke"),
    ],
    ids=["not there", "a fault", "may have happened"],
)
async def test_e6_what_no_repetition_helps_is_done_once_and_shown_to_the_model_at_once(
    tmp_path: Path, model: FakeOpenAI, name: str, said: str
) -> None:
    tally = Tally()
    model.script(calls((name, {})), says(TOLD))
    parts = Overrides(tools=bind([find_thing, open_box, push], {Tally: tally}))
    async with living(tmp_path, model, unasked("push"), parts) as it:
        run = await it.ask("go on")
        assert await retries(it, run.turn) == []
    assert len(tally.tried) == 1 and said in model.requests[1].last("tool")["content"]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("shell", {"command": "head -c 200000 /dev/urandom"}, "(binary output, 200,000 bytes"),
        ("read_file", {"path": "song.bin"}, "a binary file of 40000 bytes"),
    ],
)
async def test_e6_binary_results_are_described_and_not_sent_to_the_model(
    tmp_path: Path, model: FakeOpenAI, name: str, arguments: dict[str, str], told: str
) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "song.bin").write_bytes(b"\0\xf1la\xfe" * 8000)
    model.script(calls((name, arguments)), says(TOLD))
    async with living(tmp_path, model, unasked("shell")) as it:
        await it.ask("what is in it?")
    sent = model.requests[1].last("tool")["content"]
    assert told in sent and len(sent) < 200
