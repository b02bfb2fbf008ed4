"""Dotted keys as people write them, `provider.prices."my-model".input`; changes key by key; and
what keys there are, read off the models.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from daemon.core.errors import UsageError

KeyPath = tuple[str, ...]


def suggest(name: str, names: Iterable[str]) -> str:
    """The one of these names that was probably meant, as the end of a message; "" for none."""
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


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
        raise UsageError(
            f"{key[:100]!r} is no key; expected something like agent.max_iterations; a part with"
            ' other signs stands in quotes: tools.approvals."mail_*"'
        )
    return tuple(steps)


def parse_literals(text: str) -> list[object]:
    """What a value may mean: as TOML has it, if it is TOML, else as text."""
    try:
        value: object = tomllib.loads(f"x = {text}")["x"] if "\n" not in text else text
    except (ValueError, RecursionError):
        return [text]
    plain = isinstance(value, str | int | float | bool | list | dict)
    return [value, text] if plain and value != text else [text]


def find_changes(before: object, after: object) -> list[KeyPath]:
    """Every place whose value differs, whichever way it is written."""
    old, new = dict(iter_leaves(before)), dict(iter_leaves(after))
    return [steps for steps in dict.fromkeys((*old, *new)) if old.get(steps) != new.get(steps)]


def name_members(value: object) -> object:
    """The value with each list of named tables as a table by these names."""
    if isinstance(value, Mapping):
        return {name: name_members(inner) for name, inner in value.items()}
    if isinstance(value, list) and value:
        names = [one.get("name") if isinstance(one, Mapping) else None for one in value]
        if all(isinstance(one, str) and one for one in names) and len({*names}) == len(names):
            return {name: name_members(one) for name, one in zip(names, value, strict=True)}
    return value


def summarize_changes(places: Sequence[KeyPath], before: object, after: object) -> list[str]:
    """A line for each table that is new, removed or changed, with what differs in it."""
    lines: dict[KeyPath, list[str]] = {}
    whole: dict[KeyPath, str] = {}
    for place in places:
        if any(one[: len(place)] == place != one for one in places):
            continue  # a table that was empty
        for count in range(1, len(place)):
            table = place[:count]
            if not _holds(before, table) or not _holds(after, table):
                whole[table] = "new" if _holds(after, table) else "removed"
                lines.setdefault(table, [])
                break
        else:
            lines.setdefault(place[:-1], []).append(format_key(place[-1:]))
    found = []
    for table, keys in lines.items():
        shown = whole.get(table, ", ".join(keys))
        mark = "." if table and table not in whole and len(keys) == 1 else ": " * bool(table)
        found.append(f"{format_key(table)}{mark}{shown}")
    return found


def _holds(value: object, steps: KeyPath) -> bool:
    for step in steps:
        if not isinstance(value, Mapping) or step not in value:
            return False
        value = value[step]
    return True


def iter_leaves(value: object, above: KeyPath = ()) -> Iterator[tuple[KeyPath, tuple[str, object]]]:
    """(place, (kind, value)) of everything that is no table and no list; an empty one counts as a
    value.
    """
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from iter_leaves(inner, (*above, str(name)))
    elif isinstance(value, list | tuple) and value:
        for index, inner in enumerate(value):
            yield from iter_leaves(inner, (*above, str(index)))
    else:
        yield above, (type(value).__name__, value)


def format_key(steps: Sequence[str]) -> str:
    """The key as it is told."""
    return ".".join(
        step if step.replace("_", "").replace("-", "").isalnum() else f'"{step}"' for step in steps
    )


def iter_keys(root: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key that holds a value, in order; `*` stands for a number or a name of the
    user's choice.
    """
    for name, info in _fields(root).items():
        inner = _list_models(info.annotation)
        if not inner:
            yield f"{prefix}{name}"
        below = f"{prefix}{name}.*." if _holds_many(info.annotation) else f"{prefix}{name}."
        yield from dict.fromkeys(key for model in inner for key in iter_keys(model, below))


def find_nearest(root: type[BaseModel], key: str) -> str:
    """The known key that was probably meant: one beside it of a similar name, else one elsewhere;
    empty when there is none.
    """
    *parents, name = key.split(".")
    beside = get_close_matches(name, list_names(root, parents), n=1)
    if beside:
        return ".".join([*parents, beside[0]])
    leaves = {known.rsplit(".", 1)[-1]: known for known in reversed(list(iter_keys(root)))}
    elsewhere = get_close_matches(name, leaves, n=1, cutoff=0.8)
    return leaves[elsewhere[0]] if elsewhere else ""


def list_names(root: type[BaseModel], parents: Sequence[str]) -> list[str]:
    """The names known in the table at this place; none where there is no table, or where the user
    chooses the names.
    """
    models, many = [root], False
    for part in parents:
        if many:
            many = False
            continue
        infos = [info for model in models if (info := _fields(model).get(part))]
        models = [inner for info in infos for inner in _list_models(info.annotation)]
        many = any(_holds_many(info.annotation) for info in infos)
    return [] if many else list(dict.fromkeys(name for model in models for name in _fields(model)))


def get_child(value: object, step: str | int) -> object:
    """One step down into a table or a list; None where there is nothing (TOML has no null)."""
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """By the name that the file uses, which may be another than ours."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _list_models(annotation: object) -> list[type[BaseModel]]:
    """The model itself, or those inside `list[Model]`, `One | Other`, `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if _holds_many(annotation) or get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for part in get_args(annotation) for model in _list_models(part)]
    return []


def _holds_many(annotation: object) -> bool:
    """A list of them, or a table whose names the user chooses."""
    if get_origin(annotation) in (Union, UnionType):
        return any(_holds_many(part) for part in get_args(annotation))
    return get_origin(annotation) in (list, tuple, dict)
