"""What keys there are, read off the models; and a step along one of them."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Union, get_args, get_origin

from pydantic import BaseModel


def keys(root: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key that holds a value, in order; `*` stands for a number or a name of the user's choice."""
    for name, info in root.model_fields.items():
        inner = _model_in(info.annotation)
        if inner is None:
            yield f"{prefix}{name}"
        else:
            yield from keys(inner, f"{prefix}{name}.*." if _holds_many(info.annotation) else f"{prefix}{name}.")


def nearest(root: type[BaseModel], key: str) -> str:
    """The known key that was probably meant: one beside it of a similar name, else one elsewhere; empty when there is none."""
    *parents, name = key.split(".")
    beside = get_close_matches(name, names_at(root, parents), n=1)
    if beside:
        return ".".join([*parents, beside[0]])
    leaves = {known.rsplit(".", 1)[-1]: known for known in reversed(list(keys(root)))}
    elsewhere = get_close_matches(name, leaves, n=1, cutoff=0.8)
    return leaves[elsewhere[0]] if elsewhere else ""


def names_at(root: type[BaseModel], parents: Sequence[str]) -> list[str]:
    """The names known in the table at this place; none where there is no table, or where the user chooses the names."""
    model, many = root, False
    for part in parents:
        if many:
            many = False
            continue
        info = model.model_fields.get(part)
        inner = _model_in(info.annotation) if info else None
        if info is None or inner is None:
            return []
        model, many = inner, _holds_many(info.annotation)
    return [] if many else list(model.model_fields)


def descend(value: object, step: str | int) -> object:
    """One step down into a table or a list; None where there is nothing (TOML has no null)."""
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list) and str(step).isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model itself, or the one inside `list[Model]`, `Model | None` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if _holds_many(annotation) or get_origin(annotation) in (Union, UnionType):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None


def _holds_many(annotation: object) -> bool:
    return get_origin(annotation) in (list, tuple, dict)
