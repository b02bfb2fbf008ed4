"""The keywords of JSON Schema that look at one value, without going into it.

Does an agent's answer fit the schema that its spec declares? (D3)

A part of JSON Schema: every keyword in KEYWORDS. A schema that uses another one is refused when the spec is read, so that
nothing is silently left unchecked. NOTES only tell; `format` is one of them, as the standard has it.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from urllib.parse import unquote

from daemon.core import value

JSON_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),  # type: ignore[call-overload]
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
MAX_SHOWN = 60


@value
class KeywordRule:
    """`mistake` tells what a schema should have there instead, "" if it is right; `faults` what is wrong with a value."""

    schema_error: Callable[[object], str]
    value_errors: Callable[[object, object], Iterator[str]]


def short_json(value: object) -> str:
    """A value as JSON, short enough for a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def resolve_ref(root: object, reference: str) -> object:
    """The schema that a `$ref` into this same document means; None where there is none."""
    if not reference.startswith("#"):
        return None
    place = root
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = place.get(name)
        elif (
            isinstance(place, list)
            and name.isascii()
            and name.isdecimal()
            and int(name) < len(place)
        ):
            place = place[int(name)]
        else:
            return None
    return place if isinstance(place, Mapping | bool) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _expect_count(value: object) -> str:
    return (
        ""
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0
        else "a whole number, 0 or more"
    )


def _expect_number(value: object) -> str:
    return "" if _is_number(value) else "a number"


def _expect_step(value: object) -> str:
    return (
        ""
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        else "a number above 0"
    )


def _expect_names(value: object) -> str:
    return (
        ""
        if isinstance(value, list) and all(isinstance(name, str) for name in value)
        else "a list of names"
    )


def _expect_types(value: object) -> str:
    listed = value if isinstance(value, list) else [value]
    known = listed and all(isinstance(name, str) and name in JSON_TYPES for name in listed)
    return "" if known else f"one of {', '.join(JSON_TYPES)}, or a list of them"


def _expect_choices(value: object) -> str:
    return "" if isinstance(value, list) and value else "a list of values"


def _expect_bool(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _expect_anything(value: object) -> str:
    return ""


def _type_errors(value: object, wanted: object) -> Iterator[str]:
    names = [str(name) for name in wanted] if isinstance(wanted, list) else [str(wanted)]
    if not any(JSON_TYPES[name](value) for name in names):
        yield f"found {short_json(value)}, expected {' or '.join(names)}"


def _required_errors(value: object, wanted: object) -> Iterator[str]:
    if isinstance(value, dict) and isinstance(wanted, list):
        yield from (f"{name} is missing" for name in wanted if name not in value)


def _enum_errors(value: object, wanted: object) -> Iterator[str]:
    choices = wanted if isinstance(wanted, list) else []
    if _json_key(value) not in {_json_key(one) for one in choices}:
        yield f"found {short_json(value)}, expected {' or '.join(short_json(one) for one in choices)}"


def _const_errors(value: object, wanted: object) -> Iterator[str]:
    return _enum_errors(value, [wanted])


def _unique_errors(value: object, wanted: object) -> Iterator[str]:
    if wanted and isinstance(value, list) and len({_json_key(one) for one in value}) < len(value):
        yield "found the same entry twice, expected different ones"


def _json_key(value: object) -> str:
    """Equal as JSON has it: 1 is 1.0, and is not true."""
    return json.dumps(_normalize(value), sort_keys=True)


def _normalize(value: object) -> object:
    match value:
        case float() if value == int(value):
            return int(value)
        case list():
            return [_normalize(one) for one in value]
        case dict():
            return {name: _normalize(one) for name, one in value.items()}
        case _:
            return value


def _comparison_rule(fits: Callable[[float, float], bool], words: str) -> KeywordRule:
    def faults(value: object, wanted: object) -> Iterator[str]:
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and isinstance(wanted, int | float)
        ):
            yield from (
                ()
                if fits(value, wanted)
                else (f"found {short_json(value)}, expected {words} {wanted}",)
            )

    return KeywordRule(_expect_number, faults)


def _divides(value: float, step: float) -> bool:
    return abs(value / step - round(value / step)) < 1e-9


def _size_rule(kind: type, fits: Callable[[int, int], bool], words: str) -> KeywordRule:
    def faults(value: object, wanted: object) -> Iterator[str]:
        if (
            isinstance(value, kind)
            and isinstance(value, str | list | dict)
            and isinstance(wanted, int)
        ):
            yield from (
                ()
                if fits(len(value), wanted)
                else (f"found {len(value)}, expected {words.format(wanted)}",)
            )

    return KeywordRule(_expect_count, faults)


KEYWORD_RULES: dict[str, KeywordRule] = {
    "type": KeywordRule(_expect_types, _type_errors),
    "enum": KeywordRule(_expect_choices, _enum_errors),
    "const": KeywordRule(_expect_anything, _const_errors),
    "required": KeywordRule(_expect_names, _required_errors),
    "minProperties": _size_rule(dict, lambda size, least: size >= least, "{} entries or more"),
    "maxProperties": _size_rule(dict, lambda size, most: size <= most, "{} entries at most"),
    "minItems": _size_rule(list, lambda size, least: size >= least, "{} entries or more"),
    "maxItems": _size_rule(list, lambda size, most: size <= most, "{} entries at most"),
    "uniqueItems": KeywordRule(_expect_bool, _unique_errors),
    "minLength": _size_rule(str, lambda size, least: size >= least, "{} characters or more"),
    "maxLength": _size_rule(str, lambda size, most: size <= most, "{} characters at most"),
    "minimum": _comparison_rule(lambda value, least: value >= least, "at least"),
    "maximum": _comparison_rule(lambda value, most: value <= most, "at most"),
    "exclusiveMinimum": _comparison_rule(lambda value, least: value > least, "more than"),
    "exclusiveMaximum": _comparison_rule(lambda value, most: value < most, "less than"),
    "multipleOf": KeywordRule(
        _expect_step, _comparison_rule(_divides, "a multiple of").value_errors
    ),
}


ANNOTATIONS = frozenset(
    {
        "$schema",
        "$id",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "format",
    }
)
MORE_ANNOTATIONS = frozenset({"deprecated", "readOnly", "writeOnly"})
KEYWORDS = (
    *KEYWORD_RULES,
    "$ref",
    "properties",
    "additionalProperties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
)
ONE_SCHEMA, SCHEMA_LISTS, NAMED_SCHEMAS = (
    ("additionalProperties", "items", "not"),
    ("anyOf", "oneOf", "allOf", "prefixItems"),
    ("properties", "$defs"),
)
CODE_FENCE = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
RETRY_PROMPT = "Your answer does not have the form that it must have:\n{told}\nAnswer again with the whole JSON value, and nothing else."
MAX_DEPTH = 60
MAX_ERRORS = 5
MAX_STEPS = 100_000

Schema = Mapping[str, object] | bool


@dataclass(slots=True)
class _Validation:
    """The schema that a `$ref` is looked up in, and how many steps are left: forms within forms can take for ever."""

    schema: object
    left: int = MAX_STEPS

    def step(self) -> None:
        """One more. Raises RecursionError when that is too many."""
        self.left -= 1
        if self.left < 0:
            raise RecursionError


def validate_reply(reply: str, schema: str) -> list[str]:
    """What is wrong with this answer, each with its place; none when it fits."""
    wanted = _parse_json(schema)
    try:
        value = _parse_json(_strip_fence(reply))
        return list(
            islice(_value_errors(value, wanted, _Validation(wanted), "answer", 0), MAX_ERRORS)
        )
    except ValueError as error:
        return [f"it is not JSON: {error}"]
    except (RecursionError, OverflowError):
        return ["it is nested too deeply, holds too much, or a number in it is too large"]


def retry_prompt(faults: Sequence[str]) -> str:
    """In words for the model that wrote the answer."""
    return RETRY_PROMPT.format(told="\n".join(f"- {fault}" for fault in faults))


def check_schema(schema: object, root: object = None, where: str = "") -> list[str]:
    """What cannot be checked in this schema, each with its place; none when all of it can be."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, Mapping):
        return [f"{where or 'it'} is {short_json(schema)}, expected a table, true or false"]
    return [
        fault
        for name, value in schema.items()
        for fault in _keyword_errors(str(name), value, root, _join_path(where, str(name)))
    ]


def _keyword_errors(name: str, value: object, root: object, place: str) -> list[str]:
    if name in KEYWORD_RULES:
        told = KEYWORD_RULES[name].schema_error(value)
        return [f"{place} is {short_json(value)}, expected {told}"] if told else []
    if name == "$ref":
        found = resolve_ref(root, value) if isinstance(value, str) else None
        if found is None:
            return [
                f'{place} is {short_json(value)}, expected a place in this schema like "#/$defs/NAME"'
            ]
        return (
            [f"{place} is {short_json(value)}, which refers to itself without end"]
            if _refers_to_itself(found, root, (), set())
            else []
        )
    if name in ONE_SCHEMA:
        return check_schema(value, root, place)
    if name in SCHEMA_LISTS:
        parts = value if isinstance(value, list) else [value]
        if not parts:
            return [f"{place} is [], expected a list of schemas"]
        return [
            fault
            for index, part in enumerate(parts)
            for fault in check_schema(part, root, f"{place}.{index}")
        ]
    if name in NAMED_SCHEMAS or name == "definitions":
        parts = value if isinstance(value, Mapping) else {"": value}
        return [
            fault
            for key, part in parts.items()
            for fault in check_schema(part, root, _join_path(place, str(key)))
        ]
    if name in ANNOTATIONS or name in MORE_ANNOTATIONS:
        return []
    near = get_close_matches(name, KEYWORDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it checks {', '.join(KEYWORDS)}"
    return [f"{place} is a keyword that this version does not check; {hint}"]


def _refers_to_itself(
    schema: object, root: object, above: tuple[int, ...], sound: set[int]
) -> bool:
    """It asks for itself of the very same value, and not of something within that."""
    if not isinstance(schema, Mapping) or id(schema) in sound:
        return False
    if id(schema) in above:
        return True
    parts = [
        part for name in ("allOf", "anyOf", "oneOf", "not") for part in _as_list(schema.get(name))
    ]
    parts += [resolve_ref(root, str(schema["$ref"]))] if "$ref" in schema else []
    if any(_refers_to_itself(part, root, (*above, id(schema)), sound) for part in parts):
        return True
    sound.add(id(schema))
    return False


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _parse_json(text: str) -> object:
    return json.loads(text, parse_constant=_parse_number, parse_float=_parse_number)


def _parse_number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is no number that can be kept")
    return number


def _strip_fence(reply: str) -> str:
    """Models like to wrap JSON into a fence, and to talk around it; one fence is taken for the answer."""
    fences = CODE_FENCE.findall(reply)
    return (
        fences[0]
        if len(fences) == 1 and not reply.lstrip().startswith(("{", "["))
        else reply.strip()
    )


def _value_errors(
    value: object, schema: object, root: _Validation, where: str, depth: int
) -> Iterator[str]:
    if isinstance(schema, bool):
        yield from () if schema else (f"{where} must not be there",)
        return
    if not isinstance(schema, Mapping):
        return
    root.step()
    if depth > MAX_DEPTH:
        yield f"{where}: the schema refers to itself without end"
        return
    for name, wanted in schema.items():
        if rule := KEYWORD_RULES.get(name):
            yield from (f"{where}: {fault}" for fault in rule.value_errors(value, wanted))
    for name in ("$ref", "allOf", "anyOf", "oneOf", "not"):
        if name in schema:
            yield from _combination_errors(name, value, schema[name], root, where, depth + 1)
    if isinstance(value, dict):
        yield from _object_errors(value, schema, root, where, depth + 1)
    elif isinstance(value, list):
        yield from _array_errors(value, schema, root, where, depth + 1)


def _combination_errors(
    name: str, value: object, wanted: object, root: _Validation, where: str, depth: int
) -> Iterator[str]:
    parts = _as_list(wanted)
    if name == "$ref":
        yield from _value_errors(value, resolve_ref(root.schema, str(wanted)), root, where, depth)
        return
    told = [list(_value_errors(value, part, root, where, depth)) for part in parts]
    fitting = sum(not faults for faults in told)
    match name:
        case "allOf":
            yield from (fault for faults in told for fault in faults)
        case "anyOf" if not fitting:
            yield (
                min(told, key=len)[0] + f" (or one of {len(told) - 1} other forms)"
                if len(told) > 1
                else told[0][0]
            )
        case "oneOf" if fitting != 1:
            yield f"{where}: found {short_json(value)}, which fits {fitting} of {len(told)} forms; expected exactly one"
        case "not" if fitting:
            yield f"{where}: found {short_json(value)}, which is excluded"
        case _:
            pass


def _object_errors(
    value: Mapping[str, object],
    schema: Mapping[str, object],
    root: _Validation,
    where: str,
    depth: int,
) -> Iterator[str]:
    known = schema.get("properties")
    properties: Mapping[str, object] = known if isinstance(known, Mapping) else {}
    for name, inner in value.items():
        place = _join_path(where, name)
        if name in properties:
            yield from _value_errors(inner, properties[name], root, place, depth)
        elif schema.get("additionalProperties") is False:
            yield f"{place} is not known here; known: {', '.join(properties) or 'none'}"
        else:
            yield from _value_errors(
                inner, schema.get("additionalProperties", True), root, place, depth
            )


def _array_errors(
    value: Sequence[object], schema: Mapping[str, object], root: _Validation, where: str, depth: int
) -> Iterator[str]:
    first = schema.get("prefixItems")
    prefix: Sequence[object] = first if isinstance(first, list) else ()
    rest = schema.get("items", True)
    for index, inner in enumerate(value):
        yield from _value_errors(
            inner, prefix[index] if index < len(prefix) else rest, root, f"{where}.{index}", depth
        )


def _join_path(where: str, name: str) -> str:
    return ".".join(part for part in (where, name) if part)
