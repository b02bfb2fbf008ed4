"""A structured result beside the schema that its server declared, whoever wrote the schema."""

import json
import time

import pytest

from daemon.tools.mcp.misfit import find_misfit

NESTED = {"$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 8} for n in range(30)}}
NESTED["$defs"]["a30"] = {"type": "null"}  # pyrefly: ignore[bad-assignment]
PEOPLE = {
    "type": "object",
    "required": ["people"],
    "properties": {"people": {"type": "array", "items": {"$ref": "#/$defs/person"}}},
    "$defs": {"person": {"type": "object", "required": ["name"]}},
}


@pytest.mark.parametrize(
    ("schema", "records", "fault"),
    [
        (PEOPLE, {"people": [{"name": "Ann"}]}, ""),
        (PEOPLE, {"people": [{"name": "Ann"}, {}]}, "$.people[1]: 'name' is a required property"),
        (PEOPLE, {}, "$: 'people' is a required property"),
        ({"enum": [1, 2]}, 3, "$: 3 is not one of [1, 2]"),
        ({"type": "string", "pattern": "^a+$"}, "b", "$: 'b' does not match '^a+$'"),
        ({"type": "array", "items": {"type": "integer"}}, list(range(6000)), ""),
        ({"type": 7}, 1, None),
        ({"$ref": "#/$defs/nothing"}, 1, None),
        ({"$ref": "https://example.org/schema"}, 1, None),
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 40 + "b", None),
        ({"properties": {"v": {"multipleOf": 0.01}}}, {"v": 10**400}, None),
        ({"$ref": "#/type", "type": "object"}, {}, None),
        ({"$ref": "#/const", "const": 5}, {}, None),
        ({"$defs": {"a": {"$id": "u:0"}}, "$ref": "u:0"}, 1, ""),
        ({**NESTED, "$ref": "#/$defs/a0"}, 1, None),
    ],
)
async def test_the_first_fault_is_told_and_no_schema_takes_for_ever(
    schema: object, records: object, fault: str | None
) -> None:
    begun = time.monotonic()
    assert await find_misfit(json.dumps(schema), json.dumps(records)) == fault
    assert time.monotonic() - begun < 20
