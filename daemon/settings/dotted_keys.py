"""Dotted keys as people write them, `provider.prices."my-model".input`; changes key by key."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence

from daemon.core.errors import UsageError

KeyPath = tuple[str, ...]


def parse_key(key: str) -> KeyPath:
    """The parts of a dotted key, quoted ones too. Raises UsageError for what is none."""
    try:
        found: object = tomllib.loads(f"{key} = 0") if "\n" not in key and "\r" not in key else {}
    except (ValueError, RecursionError):
        found = {}
    steps: list[str] = []
    while isinstance(found, Mapping) and len(found) == 1:
        name, found = next(iter(found.items()))
        steps.append(str(name))
    if not steps or found != 0:
        raise UsageError(f"{key[:100]!r} is no key; expected something like agent.max_iterations")
    return tuple(steps)


def parse_literals(text: str) -> list[object]:
    """What a value may mean: as TOML has it, if it is TOML, else as text."""
    try:
        value: object = tomllib.loads(f"x = {text}")["x"] if "\n" not in text else text
    except (ValueError, RecursionError):
        return [text]
    plain = isinstance(value, str | int | float | bool | list | dict)
    return [value, text] if plain and value != text else [text]


def replace_value(table: object, steps: KeyPath, value: object) -> object:
    """The same table with this value at this place; None takes out what is there. Raises UsageError
    where there is no place.
    """
    step, below = steps[0], steps[1:]
    if isinstance(table, list):
        if not step.isdecimal() or int(step) >= len(table):
            raise UsageError(
                f"there is no entry {step!r}: the list has {len(table)}, counted from 0. Give "
                "the whole list"
            )
        at = int(step)
        inner = (
            []
            if value is None and not below
            else [replace_value(table[at], below, value) if below else value]
        )
        return [*table[:at], *inner, *table[at + 1 :]]
    if not isinstance(table, Mapping):
        raise UsageError(f"there is no table at {step!r}")
    rest = {name: inner for name, inner in table.items() if name != step}
    if not below and value is None:
        return rest
    return {**table, step: replace_value(table.get(step, {}), below, value) if below else value}


def find_changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[KeyPath]:
    """Every place whose value differs, whichever way it is written."""
    old, new = dict(iter_leaves(before)), dict(iter_leaves(after))
    return [steps for steps in dict.fromkeys((*old, *new)) if old.get(steps) != new.get(steps)]


def iter_leaves(value: object, above: KeyPath = ()) -> Iterator[tuple[KeyPath, tuple[str, object]]]:
    """(place, (kind, value)) of everything that is no table and no list; an empty one counts as a
    value.
    """
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from iter_leaves(inner, (*above, str(name)))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from iter_leaves(inner, (*above, str(index)))
    else:
        yield above, (type(value).__name__, value)


def format_key(steps: Sequence[str]) -> str:
    """The key as it is told."""
    return ".".join(
        step if step.replace("_", "").replace("-", "").isalnum() else f'"{step}"' for step in steps
    )
