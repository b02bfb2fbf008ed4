"""A final answer is held against the JSON schema that its agent declares (D3).

A schema with a keyword outside KEYWORDS is refused when its agent is loaded, so that nothing is
silently left unchecked; `pattern` is one, since a text of the model's could keep it busy for
ever.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from referencing.exceptions import Unresolvable

ANNOTATIONS = (
    "$schema $id $comment title description default examples format deprecated readOnly writeOnly"
)
TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]
SCHEMA: dict[str, object] = {"$ref": "#"}
SCHEMAS: dict[str, object] = {"type": "array", "items": SCHEMA, "minItems": 1}
BY_NAME: dict[str, object] = {"type": "object", "additionalProperties": SCHEMA}
COUNT: dict[str, object] = {"type": "integer", "minimum": 0}
NUMBER: dict[str, object] = {"type": "number"}
KEYWORDS: dict[str, object] = {
    **{name: {} for name in ANNOTATIONS.split()},
    **dict.fromkeys(("additionalProperties", "items", "not"), SCHEMA),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), SCHEMAS),
    **dict.fromkeys(("properties", "$defs", "definitions"), BY_NAME),
    **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems"), COUNT),
    **dict.fromkeys(("minLength", "maxLength"), COUNT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBER),
    "multipleOf": {"type": "number", "exclusiveMinimum": 0},
    "type": {
        "if": {"type": "string"},
        "then": {"enum": TYPES},
        "else": {"type": "array", "items": {"enum": TYPES}, "minItems": 1},
    },
    "enum": {"type": "array", "minItems": 1},
    "const": {},
    "required": {"type": "array", "items": {"type": "string"}},
    "uniqueItems": {"type": "boolean"},
    "$ref": {"type": "string"},
}
META = {"type": ["object", "boolean"], "properties": KEYWORDS, "additionalProperties": False}
CODE_FENCE = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
RETRY_PROMPT = (
    "Your answer does not have the required form:\n{errors}\nAnswer again with the"
    " whole JSON value, and nothing else."
)
MAX_ERRORS, MAX_REFS, MAX_CHARS = 5, 20_000, 300


def validate_reply(reply: str, schema: str) -> list[str]:
    """What is wrong with this answer, each error with its place; an empty list when it fits."""
    try:
        value, root = _parse_json(strip_fence(reply)), _parse_json(schema)
        errors = islice(_make_validator(root).iter_errors(value), MAX_ERRORS)
        return [_describe(error, "answer") for error in errors]
    except ValueError as error:
        return [f"it is not JSON: {error}"]
    except (RecursionError, OverflowError):
        return ["it is nested too deeply, is too complex, or a number in it is too large"]


def check_schema(schema: object) -> list[str]:
    """What cannot be checked in this schema, each with its place. Raises RecursionError."""
    errors = [_describe(error) for error in _make_validator(META).iter_errors(schema)]
    if errors:
        return errors
    for node in _iter_references(schema):
        try:
            list(_make_validator(schema).evolve(schema=node).iter_errors(None))
        except Unresolvable:
            errors.append(
                f'$ref is {node["$ref"]!r}, expected a place in this schema like "#/$defs/NAME"'
            )
        except RecursionError:
            errors.append(f"$ref is {node['$ref']!r}, which refers to itself without end")
    return errors


def _make_validator(schema: object) -> Draft202012Validator:
    """It gives up after so many references, for nested alternatives can take for ever."""
    left = MAX_REFS

    def follow(
        validator: Draft202012Validator, ref: str, value: object, node: object
    ) -> Iterator[ValidationError]:
        nonlocal left
        left -= 1
        if left < 0:
            raise RecursionError
        yield from Draft202012Validator.VALIDATORS["$ref"](validator, ref, value, node)

    rules = {"$ref": follow, "multipleOf": _check_multiple}
    return extend(Draft202012Validator, rules)(schema)


def _check_multiple(
    validator: object, step: float, value: object, node: object
) -> Iterator[ValidationError]:
    """0.3 is a multiple of 0.1, whatever floats are."""
    if isinstance(value, int | float) and abs(value / step - round(value / step)) > 1e-9:
        yield ValidationError(f"{value} is not a multiple of {step}")


def _iter_references(schema: object) -> Iterator[Mapping[str, object]]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema
        for part in schema.values():
            yield from _iter_references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _iter_references(part)


def _describe(error: ValidationError, root: str = "") -> str:
    error = best_match([error]) or error
    place = ".".join(map(str, (*([root] if root else []), *error.absolute_path)))
    text = error.message
    return f"{place or 'it'}: {text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + '...'}"


def _parse_json(text: str) -> object:
    return json.loads(text, parse_constant=_parse_number, parse_float=_parse_number)


def _parse_number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is not a finite number")
    return number


def strip_fence(reply: str) -> str:
    """Models like to put JSON into a code fence and to add words; a single fence is the answer."""
    fences = CODE_FENCE.findall(reply)
    return (
        fences[0]
        if len(fences) == 1 and not reply.lstrip().startswith(("{", "["))
        else reply.strip()
    )
