"""MCP servers that break the rules in a part of what they say: the part is named, the rest works (A22)."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.core.events import Outcome
from daemon.services.admin import answer_mcp
from daemon.tools.mcp.client import connect
from daemon.tools.mcp.tools import ProcessAddress
from tests.fakes.mcp import Script, keeping
from tests.fakes.tools import Bench

AT = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = {"name": "look", "description": "Look something up", "inputSchema": AT}
EFFECTS = {"default_effect": "read", "effects": {"send": "egress"}}
UNUSABLE: list[tuple[Any, str, str]] = [
    ({"name": "bad", "inputSchema": "none"}, "bad", "its inputSchema is no JSON object"),
    ({"name": "bad", "inputSchema": ["at"]}, "bad", "its inputSchema is no JSON object"),
    ({"name": "bad", "inputSchema": {"type": "array"}}, "bad", "describes no object"),
    ({"name": "bad", "inputSchema": {"type": 5}}, "bad", "describes no object"),
    ({"name": "bad", "inputSchema": {"properties": ["at"]}}, "bad", "inputSchema.properties"),
    ({"name": "bad", "inputSchema": {"properties": {"at": "text"}}}, "bad", "inputSchema.properties.at"),
    ({"name": "bad", "inputSchema": {"properties": {"at": {"type": "txt"}}}}, "bad", "no type"),
    ({"name": "bad", "inputSchema": {"required": "at"}}, "bad", "inputSchema.required"),
    ({"name": "bad", "inputSchema": {"properties": {"at": {"items": 5}}}}, "bad", "items is a int"),
    ({"name": "bad", "inputSchema": {"properties": {"at": {"anyOf": ["x"]}}}}, "bad", "is no schema"),
    ({"name": "bad", "inputSchema": {"anyOf": {}}}, "bad", "anyOf is a dict"),
    ({"inputSchema": AT}, "(tool number 2)", "its name is no text or empty: missing"),
    ({"name": "", "inputSchema": AT}, "(tool number 2)", "its name is no text or empty"),
    ({"name": 7, "inputSchema": AT}, "(tool number 2)", "its name is no text or empty: 7"),
    ("bad", "(tool number 2)", "it is no JSON object"),
    (None, "(tool number 2)", "it is no JSON object"),
]  # fmt: skip
USABLE: list[tuple[dict[str, Any], str]] = [
    ({"name": "odd", "inputSchema": {"properties": {"at": {"type": "string"}}}}, "odd"),
    ({"name": "odd", "inputSchema": {}}, "odd"),
    ({"name": "odd", "inputSchema": {"type": "object", "properties": []}}, "odd"),
    ({"name": "odd", "inputSchema": {"properties": {"at": {"type": "object", "properties": []}}}}, "odd"),
    ({"name": "odd", "inputSchema": None}, "odd"),
    ({"name": "odd"}, "odd"),
    ({"name": "odd", "inputSchema": {"properties": {"at": {"type": "string", "required": True}}}}, "odd"),
    ({"name": "odd", "inputSchema": {"properties": {"at": {"type": "STRING"}, "n": {"type": "int"}}}}, "odd"),
    ({"name": "odd", "inputSchema": {"properties": {"at": {"description": ["a"], "format": False}}}}, "odd"),
    ({"name": "odd", "inputSchema": {"properties": {"at": {"maxLength": float("inf")}}}}, "odd"),
    ({"name": "odd", "inputSchema": {"type": ["object", "null"], "properties": None}}, "odd"),
    ({"name": "odd", "inputSchema": AT, "outputSchema": "text"}, "odd"),
    ({"name": "odd", "inputSchema": AT, "outputSchema": {"type": "array"}}, "odd"),
    ({"name": "odd", "inputSchema": AT, "annotations": {"readOnlyHint": "perhaps"}}, "odd"),
    ({"name": "odd", "inputSchema": AT, "annotations": [], "icons": "x", "_meta": 5}, "odd"),
    ({"name": "odd", "inputSchema": AT, "description": 5, "title": {}}, "odd"),
    ({"name": "look/at me: now!", "inputSchema": AT}, "look_at_me__now__"),
]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "server")


@pytest.mark.parametrize(("tool", "name", "why"), UNUSABLE)
async def test_a_tool_that_cannot_be_used_is_left_out_by_name_and_the_others_work(
    tmp_path: Path, script: Script, caplog: pytest.LogCaptureFixture, tool: Any, name: str, why: str
) -> None:
    script.write([LOOK, tool], {"look": [{"text": "a bird"}]}, bare=True)
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        assert kept.servers.problems() == {}
        assert kept.tools.names() == ("desk__look",)
        assert (await kept.one("desk__look")).text == "a bird"
        listed = await answer_mcp("list", kept.pins, ("desk",), kept.servers)
        shown = await answer_mcp("desk", kept.pins, ("desk",), kept.servers)
    for text in (listed, shown, caplog.text):
        assert name in text and why in text


@pytest.mark.parametrize(("tool", "name"), USABLE)
async def test_a_tool_that_is_only_odd_works(
    tmp_path: Path, script: Script, tool: dict[str, Any], name: str
) -> None:
    script.write([LOOK, tool], {tool["name"]: [{"text": "done"}]}, bare=True)
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        assert kept.servers.problems() == {}
        full = next(one for one in kept.tools.names() if one.startswith(f"desk__{name}"))
        found = kept.tools.get(full)
        assert found and found.spec.parameters["type"] == "object"
        assert (await kept.one(full, at="the roof")).text.startswith("done")
    assert script.executed() == [(tool["name"], {"at": "the roof"})]


async def test_each_member_of_a_tool_that_is_not_used_is_named(
    tmp_path: Path, script: Script
) -> None:
    wrong = {"annotations": {"readOnlyHint": "perhaps"}, "outputSchema": [], "description": 5}
    script.write([{**LOOK, **wrong}], bare=True)
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        listed = await answer_mcp("list", kept.pins, ("desk",), kept.servers)
    for member in ("readOnlyHint", "outputSchema", "description"):
        assert f"its {member} is not used" in listed


@pytest.mark.parametrize("tools", [None, {}, "look", 5])
async def test_a_list_of_tools_that_is_no_list_is_said_and_the_server_stays(
    tmp_path: Path, script: Script, tools: Any
) -> None:
    script.write(tools, bare=True)
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        assert (kept.servers.problems(), kept.tools.names()) == ({}, ())
        listed = await answer_mcp("list", kept.pins, ("desk",), kept.servers)
    assert "(its list of tools): it is no list" in listed


async def test_a_bad_tool_on_each_page_is_named_and_the_good_ones_of_all_pages_work(
    tmp_path: Path, script: Script
) -> None:
    good = [{"name": f"tool{number}", "inputSchema": AT} for number in range(3)]
    bad = [{"name": "", "inputSchema": AT} for _ in good]
    script.write([one for pair in zip(good, bad, strict=True) for one in pair], page=2, bare=True)
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        assert kept.tools.names() == tuple(f"desk__tool{number}" for number in range(3))
        listed = await answer_mcp("list", kept.pins, ("desk",), kept.servers)
    assert listed.count("its name is no text or empty") == 3


async def test_what_is_mended_is_no_longer_named(tmp_path: Path, script: Script) -> None:
    mended = {"name": "pay", "inputSchema": AT}
    becomes = {"tools": [LOOK, mended]}
    script.write(
        [LOOK, {**mended, "inputSchema": 5}],
        {"look": [{"text": "a bird", "becomes": becomes}]},
        bare=True,
    )
    bench = Bench(granted=("desk__look",))
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}, bench) as kept:
        assert "pay: left out" in await answer_mcp("list", kept.pins, ("desk",), kept.servers)
        assert (await kept.one("desk__look")).text == "a bird"
        assert (await kept.one("desk__look")).outcome is Outcome.OK
        listed = await answer_mcp("list", kept.pins, ("desk",), kept.servers)
    assert "left out" not in listed
    assert "1 changed or new" in listed


BIRDS = {"type": "object", "properties": {"birds": {"type": "integer"}}, "required": ["birds"]}
PATTERN = {"type": "object", "properties": {"birds": {"type": "string", "pattern": "^[a-z]+$"}}}
TEXT = {"type": "text", "text": "a bird"}
READABLE: list[tuple[Any, tuple[str, ...]]] = [
    ({"structuredContent": {"birds": 2}}, ('{"birds": 2}',)),
    ({"structuredContent": {"birds": 2}, "content": None}, ('{"birds": 2}',)),
    ({"structuredContent": [1, 2], "content": []}, ("[1, 2]",)),
    ({"structuredContent": {"birds": 2}, "content": [{"type": "text", "text": ""}]}, ('{"birds": 2}',)),
    ({"structuredContent": {"birds": 2}, "content": "two"}, ('{"birds": 2}', "no list", "two")),
    ({"content": [TEXT, {"type": "video", "data": "AAAA"}]}, ("a bird", "part of type video")),
    ({"content": [TEXT, {"type": "text"}, {"text": "an owl"}, 5]}, ("a bird", "an owl", "5")),
    ({"content": [{"type": "image"}, TEXT]}, ("a bird", "part of type image")),
    ({"content": [{"type": "resource", "resource": {"text": "an owl"}}]}, ("an owl",)),
    ({"content": [TEXT], "isError": "no", "_meta": 5}, ("a bird", "neither true nor false")),
    ({"answer": "a bird"}, ("neither content nor structuredContent", "a bird")),
    ({}, ("neither content nor structuredContent",)),
]  # fmt: skip


@pytest.mark.parametrize(("result", "shown"), READABLE)
async def test_whatever_a_result_holds_is_shown(
    tmp_path: Path, script: Script, result: Any, shown: tuple[str, ...]
) -> None:
    script.write([LOOK], {"look": [{"result": result}]})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        found = await kept.one("desk__look")
    assert all(part in found.text for part in shown), found.text
    assert "broke off" not in found.text
    assert len(script.executed()) == 1


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ('{"jsonrpc": "2.0", "id": $ID, "result": ["a bird"]}', "no JSON object"),
        ('{"jsonrpc": "2.0", "id": $ID, "result": null}', "no JSON object"),
        ('{"jsonrpc": "2.0", "id": $ID}', "no JSON object: missing"),
        ('{"jsonrpc": "2.0", "result": 5}', "no JSON object"),
        ('{"jsonrpc": "2.0", "id": {}, "result": 5}', "no JSON object"),
    ],
)
@pytest.mark.parametrize("tool", ["look", "send"])
async def test_an_answer_that_cannot_be_read_says_why_and_is_not_asked_for_again(
    tmp_path: Path, script: Script, tool: str, raw: str, why: str
) -> None:
    script.write([{**LOOK, "name": tool}], {tool: [{"raw": raw}]})
    bench = Bench(granted=("desk__send",))
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}, bench) as kept:
        found = await kept.one(f"desk__{tool}")
    assert found.outcome is Outcome.ERROR
    assert "cannot be read" in found.text and why in found.text
    assert "broke off" not in found.text
    assert len(script.executed()) == 1


@pytest.mark.parametrize(
    "raw",
    [
        '{"id": $ID, "result": {"content": [{"type": "text", "text": "a bird"}]}}',
        '{"jsonrpc": 2, "id": "$ID", "result": {"content": [{"type": "text", "text": "a bird"}]}}',
        '{"jsonrpc": "2.0", "result": {"content": [{"type": "text", "text": "a bird"}]}}',
        '{"jsonrpc": "2.0", "id": $ID, "error": null, "result": {"content": "a bird"}}',
        '{"jsonrpc": "2.0", "id": $ID, "result": {"content": [{"type": "text", "text": "a bird\\ud800"}]}}',
        '{"jsonrpc": "2.0", "id": null, "error": {"code": "x", "message": "a bird"}}',
        '{"jsonrpc": "2.0", "id": $ID, "error": {"reason": "a bird"}}',
        '{"jsonrpc": "2.0", "id": $ID, "error": "a bird"}',
        *(
            f'{{"jsonrpc": "2.0", "id": $ID, "error": {{"code": {code}, "message": "a bird"}}}}'
            for code in (-32_000, -32_001, -32_950, -32_951, -32_952, -32_953)
        ),
        '[{"jsonrpc": "2.0", "id": $ID, "result": {"content": [{"type": "text", "text": "a bird"}]}}]',
    ],
)
async def test_an_answer_whose_meaning_is_plain_is_taken(
    tmp_path: Path, script: Script, raw: str
) -> None:
    script.write([LOOK], {"look": [{"raw": raw}]})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        found = await kept.one("desk__look")
    assert "a bird" in found.text
    assert len(script.executed()) == 1


@pytest.mark.parametrize(
    ("schema", "structured", "misfit"),
    [
        (BIRDS, {"birds": "two"}, "$.birds: 'two' is not of type 'integer'"),
        (BIRDS, {}, "'birds' is a required property"),
        (BIRDS, None, "there is no structured result"),
        (PATTERN, {"birds": "TWO"}, "$.birds: 'TWO' does not match"),
        (BIRDS, {"birds": 2}, ""),
        (PATTERN, {"birds": "two"}, ""),
        ({"type": 5}, {"birds": 2}, ""),
        ({"properties": {"birds": {"multipleOf": 0}}}, {"birds": 2}, ""),
        ({"$ref": "https://eve.example/schema"}, {"birds": 2}, ""),
    ],
)
async def test_a_result_that_does_not_fit_its_declaration_is_shown_with_what_is_wrong(
    tmp_path: Path, script: Script, schema: Any, structured: Any, misfit: str
) -> None:
    # the text says all of the data, so nothing but the misfit stands behind it
    text = "a bird: 2, two, TWO"
    result = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    script.write([{**LOOK, "outputSchema": schema}], {"look": [{"result": result}]})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        found = await kept.one("desk__look")
    assert found.outcome is Outcome.OK
    first, _, line = found.text.partition("\n")
    assert first == text
    assert misfit in line and bool(misfit) == bool(line)


ROWS = {"rows": [{"name": "Ann", "age": 7, "tags": ["caf\u00e9 \"x\""]}]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Found 1 row.", 'Found 1 row.\n{"rows": [{"name": "Ann", "age": 7, "tags": ["café \\"x\\""]}]}'),
        (json.dumps(ROWS), json.dumps(ROWS)),
        (json.dumps(ROWS, indent=2, ensure_ascii=False), json.dumps(ROWS, indent=2, ensure_ascii=False)),
        ('Ann (7): café "x"', 'Ann (7): café "x"'),
    ],
)  # fmt: skip
async def test_data_that_the_text_of_a_result_does_not_say_is_shown_behind_it(
    tmp_path: Path, script: Script, text: str, shown: str
) -> None:
    result = {"content": [{"type": "text", "text": text}], "structuredContent": ROWS}
    script.write([LOOK], {"look": [{"result": result}]})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        assert (await kept.one("desk__look")).text == shown


INFO = {"name": "s", "version": "1"}
GREETINGS: list[dict[str, Any]] = [
    {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}},
    {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}},
    {"protocolVersion": "2025-06-18", "capabilities": {"tools": []}, "serverInfo": INFO},
    {"protocolVersion": "2025-06-18", "capabilities": [], "serverInfo": INFO},
    {"protocolVersion": "2025-06-18", "capabilities": {"tools": True}, "serverInfo": INFO},
    {"protocolVersion": "2025-06-18", "serverInfo": INFO, "instructions": ["a", "b"]},
    {"capabilities": {"tools": {"listChanged": "yes"}}, "serverInfo": INFO},
    *(
        {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": INFO}
        for version in ("2024-10-07", "1.0", "2025-09-01", "2030-01-01", 1, None)
    ),
]


@pytest.mark.parametrize("greeting", GREETINGS)
async def test_a_server_that_greets_oddly_is_at_work(
    tmp_path: Path, script: Script, greeting: dict[str, Any]
) -> None:
    outputs = {"look": [{"text": "a bird"}]}
    script.write([LOOK], outputs, answers={"initialize": greeting})
    async with keeping(tmp_path, {"desk": script.table(**EFFECTS)}) as kept:
        assert kept.servers.problems() == {}
        assert (await kept.one("desk__look")).text == "a bird"


async def test_an_odd_resource_or_prompt_costs_no_other_and_all_pages_are_read(
    tmp_path: Path, script: Script
) -> None:
    answers = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": INFO,
        },
        "resources/list": {
            "resources": [{"uri": "a://1"}, {"name": "no uri"}, 5, {"uri": "a://2", "name": "two", "size": "big"}],
            "nextCursor": "next",
        },
        "resources/list next": {"resources": [{"uri": "a://3", "name": "three", "annotations": []}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "b://{day}", "mimeType": 5}, {"name": "bare"}, 7]},
        "resources/read": {"contents": [{"uri": "a://1", "text": "an owl"}, {"text": "a hen"}, "a jay"]},
        "prompts/list": {
            "prompts": [{"name": "odd", "arguments": [{"description": "none"}]}, {}, {"name": "bare", "arguments": None}],
            "nextCursor": "next",
        },
        "prompts/list next": {"prompts": [{"name": "last", "arguments": [{"name": "day"}]}]},
        "prompts/get": {"messages": [{"role": "system", "content": "Look"}, {"role": "user", "content": [{"type": "text", "text": "up"}]}]},
    }  # fmt: skip
    script.write([LOOK], answers=answers)
    table = script.table(**EFFECTS)
    place = ProcessAddress((table["command"], *table["args"]), {}, str(tmp_path))
    async with connect(place, lambda: None, lambda line: None) as session:
        listed = (await session.read_resource("")).text
        *names, template = listed.splitlines()
        assert names == ["a://1: a://1", "a://2: two", "a://3: three"]
        assert template.startswith("b://{day} (put a value")
        read = (await session.read_resource("a://1")).text
        assert all(part in read for part in ("an owl", "a hen", "a jay"))
        assert await session.list_prompts() == {"odd": (), "bare": (), "last": ("day",)}
        assert await session.get_prompt("odd", {}) == "Look\nup"
