"""Does an agent's answer fit the schema that its spec declares? (D3)

A part of JSON Schema: every keyword in KEYWORDS. A schema that uses another one is refused when the spec is read, so that
nothing is silently left unchecked. NOTES only tell; `format` is one of them, as the standard has it.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from daemon.agent.specs.schema_rules import RULES, pointed, shown

NOTES = frozenset({"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "format"})
NOTES_TOO = frozenset({"deprecated", "readOnly", "writeOnly"})
KEYWORDS = (*RULES, "$ref", "properties", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "allOf", "not")
ONE, MANY, NAMED = ("additionalProperties", "items", "not"), ("anyOf", "oneOf", "allOf", "prefixItems"), ("properties", "$defs")
FENCED = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
FAULT = "Your answer does not have the form that it must have:\n{told}\nAnswer again with the whole JSON value, and nothing else."
DEEPEST = 60
MOST = 5
MOST_STEPS = 100_000

Schema = Mapping[str, object] | bool


@dataclass(slots=True)
class _Root:
    """The schema that a `$ref` is looked up in, and how many steps are left: forms within forms can take for ever."""

    schema: object
    left: int = MOST_STEPS

    def step(self) -> None:
        """One more. Raises RecursionError when that is too many."""
        self.left -= 1
        if self.left < 0:
            raise RecursionError


def schema_faults(reply: str, schema: str) -> list[str]:
    """What is wrong with this answer, each with its place; none when it fits."""
    wanted = _loads(schema)
    try:
        value = _loads(_unfenced(reply))
        return list(islice(_faults(value, wanted, _Root(wanted), "answer", 0), MOST))
    except ValueError as error:
        return [f"it is not JSON: {error}"]
    except (RecursionError, OverflowError):
        return ["it is nested too deeply, holds too much, or a number in it is too large"]


def told_faults(faults: Sequence[str]) -> str:
    """In words for the model that wrote the answer."""
    return FAULT.format(told="\n".join(f"- {fault}" for fault in faults))


def schema_mistakes(schema: object, root: object = None, where: str = "") -> list[str]:
    """What cannot be checked in this schema, each with its place; none when all of it can be."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, Mapping):
        return [f"{where or 'it'} is {shown(schema)}, expected a table, true or false"]
    return [fault for name, value in schema.items() for fault in _mistakes(str(name), value, root, _below(where, str(name)))]


def _mistakes(name: str, value: object, root: object, place: str) -> list[str]:
    if name in RULES:
        told = RULES[name].mistake(value)
        return [f"{place} is {shown(value)}, expected {told}"] if told else []
    if name == "$ref":
        found = pointed(root, value) if isinstance(value, str) else None
        if found is None:
            return [f'{place} is {shown(value)}, expected a place in this schema like "#/$defs/NAME"']
        return [f"{place} is {shown(value)}, which refers to itself without end"] if _endless(found, root, (), set()) else []
    if name in ONE:
        return schema_mistakes(value, root, place)
    if name in MANY:
        parts = value if isinstance(value, list) else [value]
        if not parts:
            return [f"{place} is [], expected a list of schemas"]
        return [fault for index, part in enumerate(parts) for fault in schema_mistakes(part, root, f"{place}.{index}")]
    if name in NAMED or name == "definitions":
        parts = value if isinstance(value, Mapping) else {"": value}
        return [fault for key, part in parts.items() for fault in schema_mistakes(part, root, _below(place, str(key)))]
    if name in NOTES or name in NOTES_TOO:
        return []
    near = get_close_matches(name, KEYWORDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it checks {', '.join(KEYWORDS)}"
    return [f"{place} is a keyword that this version does not check; {hint}"]


def _endless(schema: object, root: object, above: tuple[int, ...], sound: set[int]) -> bool:
    """It asks for itself of the very same value, and not of something within that."""
    if not isinstance(schema, Mapping) or id(schema) in sound:
        return False
    if id(schema) in above:
        return True
    parts = [part for name in ("allOf", "anyOf", "oneOf", "not") for part in _listed(schema.get(name))]
    parts += [pointed(root, str(schema["$ref"]))] if "$ref" in schema else []
    if any(_endless(part, root, (*above, id(schema)), sound) for part in parts):
        return True
    sound.add(id(schema))
    return False


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _loads(text: str) -> object:
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} is no number that can be kept")
    return number


def _unfenced(reply: str) -> str:
    """Models like to wrap JSON into a fence, and to talk around it; one fence is taken for the answer."""
    fences = FENCED.findall(reply)
    return fences[0] if len(fences) == 1 and not reply.lstrip().startswith(("{", "[")) else reply.strip()


def _faults(value: object, schema: object, root: _Root, where: str, depth: int) -> Iterator[str]:
    if isinstance(schema, bool):
        yield from () if schema else (f"{where} must not be there",)
        return
    if not isinstance(schema, Mapping):
        return
    root.step()
    if depth > DEEPEST:
        yield f"{where}: the schema refers to itself without end"
        return
    for name, wanted in schema.items():
        if rule := RULES.get(name):
            yield from (f"{where}: {fault}" for fault in rule.faults(value, wanted))
    for name in ("$ref", "allOf", "anyOf", "oneOf", "not"):
        if name in schema:
            yield from _combined(name, value, schema[name], root, where, depth + 1)
    if isinstance(value, dict):
        yield from _members(value, schema, root, where, depth + 1)
    elif isinstance(value, list):
        yield from _items(value, schema, root, where, depth + 1)


def _combined(name: str, value: object, wanted: object, root: _Root, where: str, depth: int) -> Iterator[str]:
    parts = _listed(wanted)
    if name == "$ref":
        yield from _faults(value, pointed(root.schema, str(wanted)), root, where, depth)
        return
    told = [list(_faults(value, part, root, where, depth)) for part in parts]
    fitting = sum(not faults for faults in told)
    match name:
        case "allOf":
            yield from (fault for faults in told for fault in faults)
        case "anyOf" if not fitting:
            yield min(told, key=len)[0] + f" (or one of {len(told) - 1} other forms)" if len(told) > 1 else told[0][0]
        case "oneOf" if fitting != 1:
            yield f"{where}: found {shown(value)}, which fits {fitting} of {len(told)} forms; expected exactly one"
        case "not" if fitting:
            yield f"{where}: found {shown(value)}, which is excluded"
        case _:
            pass


def _members(value: Mapping[str, object], schema: Mapping[str, object], root: _Root, where: str, depth: int) -> Iterator[str]:
    known = schema.get("properties")
    properties: Mapping[str, object] = known if isinstance(known, Mapping) else {}
    for name, inner in value.items():
        place = _below(where, name)
        if name in properties:
            yield from _faults(inner, properties[name], root, place, depth)
        elif schema.get("additionalProperties") is False:
            yield f"{place} is not known here; known: {', '.join(properties) or 'none'}"
        else:
            yield from _faults(inner, schema.get("additionalProperties", True), root, place, depth)


def _items(value: Sequence[object], schema: Mapping[str, object], root: _Root, where: str, depth: int) -> Iterator[str]:
    first = schema.get("prefixItems")
    prefix: Sequence[object] = first if isinstance(first, list) else ()
    rest = schema.get("items", True)
    for index, inner in enumerate(value):
        yield from _faults(inner, prefix[index] if index < len(prefix) else rest, root, f"{where}.{index}", depth)


def _below(where: str, name: str) -> str:
    return ".".join(part for part in (where, name) if part)
