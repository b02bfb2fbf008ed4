"""An answer is held against the schema of its agent's spec (D3)."""

import json

import pytest

from daemon.agent.spec.json_schema import RETRY_PROMPT, check_schema, validate_reply

REVIEW: dict[str, object] = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["good", "bad"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 10},
        "points": {"type": "array", "items": {"$ref": "#/$defs/point"}, "minItems": 1},
    },
    "required": ["verdict", "points"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 3}},
            "required": ["text"],
        }
    },
}
GOOD = {"verdict": "good", "score": 7, "points": [{"text": "clear"}]}


def schema_fault(reply: str, schema: str) -> str:
    faults = validate_reply(reply, schema)
    errors = "\n".join(f"- {fault}" for fault in faults)
    return RETRY_PROMPT.format(errors=errors) if faults else ""


def fault(value: object, schema: object) -> str:
    return schema_fault(json.dumps(value), json.dumps(schema))


def test_an_answer_that_fits_has_no_fault():
    """D3"""
    assert fault(GOOD, REVIEW) == ""


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"points": [{"text": "clear"}]}, "answer: 'verdict' is a required property"),
        ({**GOOD, "verdict": "god"}, "answer.verdict: 'god' is not one of ['good', 'bad']"),
        ({**GOOD, "score": 7.5}, "answer.score: 7.5 is not of type 'integer'"),
        ({**GOOD, "score": True}, "answer.score: True is not of type 'integer'"),
        ({**GOOD, "score": 11}, "answer.score: 11 is greater than the maximum of 10"),
        ({**GOOD, "points": []}, "answer.points: [] should be non-empty"),
        (
            {**GOOD, "points": [{"text": "clear"}, {"txt": 1}]},
            "answer.points.1: 'text' is a required property",
        ),
        (
            {**GOOD, "points": [{"text": "no"}]},
            "answer.points.0.text: 'no' is too short",
        ),
        (
            {**GOOD, "more": 1},
            "answer: Additional properties are not allowed ('more' was unexpected)",
        ),
        (["good"], "answer: ['good'] is not of type 'object'"),
    ],
)
def test_a_fault_names_its_place_what_was_found_and_what_was_expected_d3(value: object, told: str):
    assert f"- {told}" in fault(value, REVIEW).splitlines()


def test_several_faults_are_told_at_once_but_not_without_end():
    """D3: there is one correction round, so the model should see them together."""
    told = fault({"verdict": "x", "points": [{}] * 20}, REVIEW)
    assert told.count("\n- ") == 5 and told.endswith(
        "Answer again with the whole JSON value, and nothing else."
    )


@pytest.mark.parametrize(
    "reply",
    [
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```',
        'Here it is:\n\n```json\n{"a": 1}\n```\nAnything else?',
        '  {"a": 1}\n',
    ],
)
def test_a_fence_around_the_json_is_tolerated(reply: str):
    """D3"""
    assert schema_fault(reply, '{"required": ["a"], "type": "object"}') == ""


def test_a_fence_inside_a_json_text_is_the_text_s_own():
    assert schema_fault(json.dumps({"a": "```json\n[]\n```"}), '{"type": "object"}') == ""


@pytest.mark.parametrize("reply", ["", "Sure!", "{", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000])
def test_what_is_not_json_is_a_fault_and_never_a_crash(reply: str):
    """D3"""
    assert schema_fault(reply, "{}").startswith("Your answer does not have the required form")


@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        ({"const": 1}, 1.0, True),
        ({"type": ["string", "null"]}, None, 3),
        ({"type": "integer"}, 3.0, "3"),
        ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, "a", 3),
        ({"oneOf": [{"minimum": 5}, {"maximum": 6}]}, 9, 5),
        ({"allOf": [{"minimum": 5}, {"maximum": 6}]}, 5, 9),
        ({"not": {"type": "null"}}, 0, None),
        ({"uniqueItems": True}, [1, True, "1"], [1, 1.0]),
        ({"maxLength": 2}, "éé", "abc"),
        ({"multipleOf": 0.1}, 0.3, 0.35),
        ({"exclusiveMinimum": 1}, 1.5, 1),
        ({"exclusiveMaximum": 1}, 0.5, 1),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "number"}}, ["a", 1], ["a", "b"]),
        ({"additionalProperties": {"type": "number"}}, {"a": 1}, {"a": "1"}),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}),
        ({"minProperties": 1}, {"a": 1}, {}),
        ({"maxItems": 1}, [1], [1, 2]),
        ({"properties": {"a": False}}, {"b": 1}, {"a": 1}),
        (True, 1, ...),
        (False, ..., 1),
    ],
)
def test_each_keyword_lets_through_what_fits_and_nothing_else(
    schema: object, fits: object, fails: object
):
    assert check_schema(schema) == []
    assert fits is ... or fault(fits, schema) == ""
    assert fails is ... or fault(fails, schema) != ""


def test_a_schema_that_refers_to_itself_is_followed_as_deep_as_the_value_goes():
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    }
    assert fault({"name": "a", "children": [{"name": "b", "children": []}]}, tree) == ""
    assert "answer.children.0: 'name' is a required property" in fault(
        {"name": "a", "children": [{}]}, tree
    )
    assert "too deeply" in fault(1, {"$ref": "#"})


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "objct"}, "type: 'objct' is not one of ['object', 'array'"),
        ({"requird": ["a"]}, "'requird' was unexpected"),
        ({"properties": {"a": {"if": {}}}}, "properties.a: "),
        ({"items": {"anyOf": [{}, {"minimum": "3"}]}}, "items.anyOf.1.minimum: '3' is not of type"),
        ({"$ref": "#/$defs/none"}, "$ref is '#/$defs/none', expected a place in this schema"),
        ({"$ref": "https://example.com/x.json"}, "expected a place in this schema"),
        ({"maxLength": -1}, "maxLength: -1 is less than the minimum of 0"),
        ({"required": "a"}, "required: 'a' is not of type 'array'"),
        ({"multipleOf": 0}, "multipleOf: 0 is less than or equal to the minimum of 0"),
        ({"enum": []}, "enum: [] should be non-empty"),
        ({"anyOf": []}, "anyOf: [] should be non-empty"),
        ({"type": [["object"]]}, "type.0: ['object'] is not one of"),
        ({"type": {"a": 1}}, "type: {'a': 1} is not"),
        ({"pattern": "^a+$"}, "pattern"),  # a text of the model's could keep it busy for ever
        ({"allOf": [{"$ref": "#"}]}, "$ref is '#', which refers to itself without end"),
        ({"uniqueItems": 1}, "uniqueItems: 1 is not of type 'boolean'"),
        ({"properties": ["a"]}, "properties: ['a'] is not of type 'object'"),
        ("text", "it: 'text' is not of type 'object', 'boolean'"),
    ],
)
def test_a_schema_that_cannot_be_checked_in_full_says_where(schema: object, told: str):
    """D3: nothing in a schema is silently left unchecked."""
    [mistake] = check_schema(schema)
    assert told in mistake


def test_what_only_tells_is_no_mistake():
    assert (
        check_schema(
            {"title": "T", "description": "D", "format": "date", "examples": [1], "default": 1}
        )
        == []
    )


def test_forms_within_forms_that_would_take_for_ever_are_given_up():
    """D3: whoever wrote the schema, and whatever the model answers, the daemon goes on."""
    either = {
        "anyOf": [
            {"type": "array", "items": {"$ref": "#"}},
            {"type": "array", "items": {"$ref": "#"}},
        ]
    }
    assert check_schema(either) == []
    value: object = 1
    for _ in range(28):
        value = [value]
    assert "is too complex" in fault(value, either)
