"""What MCP servers send, mutated: members removed, doubled, of a wrong type. No server dies of it, and nothing is dropped in
silence (A22). Some hundred mutations with a fixed seed; 10,000 with AIDAEMON_TEST_FULL=1.
"""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.core.events import Outcome
from daemon.services.admin import answer_mcp
from tests.fakes.mcp import Script, keeping
from tests.full_form import FULL

COUNT = 10_000 if FULL else 300
SEED = 20_24
WRONG = [None, True, 0, -1, 1e300, "", "x", "\ud800", [], [None], {}, {"x": 1}, [{"type": "text"}]]
AT = {"type": "object", "properties": {"at": {"type": "string", "description": "where"}}}
TOOL = {
    "name": "odd",
    "title": "Odd",
    "description": "Do something odd",
    "inputSchema": {**AT, "required": ["at"], "additionalProperties": False},
    "outputSchema": {"type": "object", "properties": {"birds": {"type": "integer"}}},
    "annotations": {"title": "Odd", "readOnlyHint": True, "openWorldHint": False},
    "icons": [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "_meta": {"x": 1},
}
LOOK = {"name": "look", "description": "Look something up", "inputSchema": AT}
ANSWER = {
    "jsonrpc": "2.0",
    "id": "$ID",
    "result": {
        "content": [
            {"type": "text", "text": "a bird", "annotations": {"audience": ["user"], "priority": 1}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "an owl"}},
        ],
        "structuredContent": {"birds": 2},
        "isError": False,
        "_meta": {"x": 1},
    },
}  # fmt: skip
NOTIFICATION = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": {"birds": 2}, "logger": "desk", "_meta": {"x": 1}},
}


def places(whole: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of it."""
    inside = whole.items() if isinstance(whole, dict) else enumerate(whole)
    for key, part in inside:
        yield (*at, key)
        if isinstance(part, dict | list):
            yield from places(part, (*at, key))


def mutate(whole: Any, chance: random.Random) -> Any:
    """One to three of its members are removed, doubled or of a wrong type."""
    whole = copy.deepcopy(whole)
    for _ in range(chance.randint(1, 3)):
        found = list(places(whole))
        if not found:
            break
        *way, last = chance.choice(found)
        inside = whole
        for key in way:
            inside = inside[key]
        match chance.choice(("remove", "double", "wrong")):
            case "remove":
                del inside[last]
            case "double" if isinstance(inside, list):
                inside.append(copy.deepcopy(inside[last]))
            case "double":
                inside[f"{last}2"] = copy.deepcopy(inside[last])
            case _:
                inside[last] = copy.deepcopy(chance.choice(WRONG))
    return whole


def written(message: Any) -> str:
    return json.dumps(message).replace('"$ID"', "$ID")


async def test_a_mutated_tool_is_offered_or_named_with_the_reason_and_the_others_work(
    tmp_path: Path,
) -> None:
    chance, script = random.Random(SEED), Script(tmp_path / "server")
    mutated = []
    for number in range(COUNT):
        tool = mutate(TOOL, chance)
        if isinstance(tool.get("name"), str) and tool["name"].startswith("odd"):
            tool["name"] = f"odd{number}"
        mutated.append(tool)
    for begin in range(0, COUNT, 100):
        some = mutated[begin : begin + 100]
        script.write([LOOK, *some], {"look": [{"text": "a bird"}]}, bare=True, page=40)
        home = tmp_path / str(begin)
        async with keeping(home, {"desk": script.table(default_effect="read")}) as kept:
            assert kept.servers.problems() == {}
            assert (await kept.one("desk__look")).text == "a bird"
            pins = await kept.pins.get("desk")
            assert pins
            offered = set(kept.tools.names())
            for tool in some:
                name = tool.get("name")
                if isinstance(name, str) and name.startswith("odd"):
                    assert (f"desk__{name}" in offered) or name in pins.left_out, tool
            nameless = [
                one
                for one in some
                if not (isinstance(one.get("name"), str) and one["name"].strip())
            ]
            said = [why for why in pins.left_out.values() if "its name is no text" in why]
            assert len(said) == len(nameless)
            assert "desk: " in await answer_mcp("list", kept.pins, ("desk",), kept.servers)


async def test_a_mutated_answer_gives_its_data_or_says_what_is_wrong(tmp_path: Path) -> None:
    chance, script = random.Random(SEED + 1), Script(tmp_path / "server")
    calls = 0
    script.write([LOOK], {})
    async with keeping(tmp_path, {"desk": script.table(default_effect="read")}) as kept:
        for _ in range(COUNT):
            message = mutate(ANSWER, chance)
            if message.get("id") == 0 or message.keys().isdisjoint(("id", "result")):
                continue  # it answers another request, or none: ours would wait for a minute
            raw = written(message)
            script.write([LOOK], {"look": [{"raw": raw}]})
            found, calls = await kept.one("desk__look", n=calls), calls + 1
            assert found.text.strip(), raw
            assert "broke off" not in found.text, raw
            known = any(
                part in found.text for part in ("bird", "owl", "cannot be read", "image", "x")
            )
            assert known or found.outcome is Outcome.OK, raw
            assert kept.servers.problems() == {}, raw
    assert script.starts() == 1
    assert len(script.executed()) == calls


async def test_a_mutated_notification_harms_nothing_and_is_in_the_log_where_it_is_no_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chance, script = random.Random(SEED + 2), Script(tmp_path / "server")
    caplog.set_level("INFO")
    script.write([LOOK], {})
    good = written(
        {"jsonrpc": "2.0", "id": "$ID", "result": {"content": [{"type": "text", "text": "a bird"}]}}
    )
    async with keeping(tmp_path, {"desk": script.table(default_effect="read")}) as kept:
        for number in range(COUNT):
            message = mutate(NOTIFICATION, chance)
            before = len(caplog.records)
            script.write([LOOK], {"look": [{"raw": f"{json.dumps(message)}\n{good}"}]})
            assert (await kept.one("desk__look", n=number)).text == "a bird", message
            if not isinstance(message.get("method"), str):
                texts = [record.getMessage() for record in caplog.records[before:]]
                assert any("not a message" in text for text in texts), message
        assert kept.servers.problems() == {}
    assert script.starts() == 1
