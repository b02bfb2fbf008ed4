"""The keywords of JSON Schema that look at one value, without going into it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),  # type: ignore[call-overload]
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
LONGEST = 60


@dataclass(frozen=True, slots=True)
class Rule:
    """`mistake` tells what a schema should have there instead, "" if it is right; `faults` what is wrong with a value."""

    mistake: Callable[[object], str]
    faults: Callable[[object, object], Iterator[str]]


def shown(value: object) -> str:
    """A value as JSON, short enough for a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def pointed(root: object, reference: str) -> object:
    """The schema that a `$ref` into this same document means; None where there is none."""
    if not reference.startswith("#"):
        return None
    place = root
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = place.get(name)
        elif isinstance(place, list) and name.isascii() and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place if isinstance(place, Mapping | bool) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "a whole number, 0 or more"


def _number(value: object) -> str:
    return "" if _is_number(value) else "a number"


def _step(value: object) -> str:
    return "" if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else "a number above 0"


def _names(value: object) -> str:
    return "" if isinstance(value, list) and all(isinstance(name, str) for name in value) else "a list of names"


def _types(value: object) -> str:
    listed = value if isinstance(value, list) else [value]
    known = listed and all(isinstance(name, str) and name in TYPES for name in listed)
    return "" if known else f"one of {', '.join(TYPES)}, or a list of them"


def _choices(value: object) -> str:
    return "" if isinstance(value, list) and value else "a list of values"


def _truth(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _anything(value: object) -> str:
    return ""


def _type_faults(value: object, wanted: object) -> Iterator[str]:
    names = [str(name) for name in wanted] if isinstance(wanted, list) else [str(wanted)]
    if not any(TYPES[name](value) for name in names):
        yield f"found {shown(value)}, expected {' or '.join(names)}"


def _required_faults(value: object, wanted: object) -> Iterator[str]:
    if isinstance(value, dict) and isinstance(wanted, list):
        yield from (f"{name} is missing" for name in wanted if name not in value)


def _enum_faults(value: object, wanted: object) -> Iterator[str]:
    choices = wanted if isinstance(wanted, list) else []
    if _key(value) not in {_key(one) for one in choices}:
        yield f"found {shown(value)}, expected {' or '.join(shown(one) for one in choices)}"


def _const_faults(value: object, wanted: object) -> Iterator[str]:
    return _enum_faults(value, [wanted])


def _unique_faults(value: object, wanted: object) -> Iterator[str]:
    if wanted and isinstance(value, list) and len({_key(one) for one in value}) < len(value):
        yield "found the same entry twice, expected different ones"


def _key(value: object) -> str:
    """Equal as JSON has it: 1 is 1.0, and is not true."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: object) -> object:
    match value:
        case float() if value == int(value):
            return int(value)
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case _:
            return value


def _compared(fits: Callable[[float, float], bool], words: str) -> Rule:
    def faults(value: object, wanted: object) -> Iterator[str]:
        if isinstance(value, int | float) and not isinstance(value, bool) and isinstance(wanted, int | float):
            yield from () if fits(value, wanted) else (f"found {shown(value)}, expected {words} {wanted}",)

    return Rule(_number, faults)


def _divides(value: float, step: float) -> bool:
    return abs(value / step - round(value / step)) < 1e-9


def _sized(kind: type, fits: Callable[[int, int], bool], words: str) -> Rule:
    def faults(value: object, wanted: object) -> Iterator[str]:
        if isinstance(value, kind) and isinstance(value, str | list | dict) and isinstance(wanted, int):
            yield from () if fits(len(value), wanted) else (f"found {len(value)}, expected {words.format(wanted)}",)

    return Rule(_count, faults)


RULES: dict[str, Rule] = {
    "type": Rule(_types, _type_faults),
    "enum": Rule(_choices, _enum_faults),
    "const": Rule(_anything, _const_faults),
    "required": Rule(_names, _required_faults),
    "minProperties": _sized(dict, lambda size, least: size >= least, "{} entries or more"),
    "maxProperties": _sized(dict, lambda size, most: size <= most, "{} entries at most"),
    "minItems": _sized(list, lambda size, least: size >= least, "{} entries or more"),
    "maxItems": _sized(list, lambda size, most: size <= most, "{} entries at most"),
    "uniqueItems": Rule(_truth, _unique_faults),
    "minLength": _sized(str, lambda size, least: size >= least, "{} characters or more"),
    "maxLength": _sized(str, lambda size, most: size <= most, "{} characters at most"),
    "minimum": _compared(lambda value, least: value >= least, "at least"),
    "maximum": _compared(lambda value, most: value <= most, "at most"),
    "exclusiveMinimum": _compared(lambda value, least: value > least, "more than"),
    "exclusiveMaximum": _compared(lambda value, most: value < most, "less than"),
    "multipleOf": Rule(_step, _compared(_divides, "a multiple of").faults),
}
