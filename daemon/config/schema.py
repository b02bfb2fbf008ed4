"""What keys there are, read off the models; and a step along one of them."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Union, get_args, get_origin

from pydantic import BaseModel


def keys(root: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every dotted key that holds a value, in order; a list of tables counts by the keys of one table."""
    for name, info in root.model_fields.items():
        inner = _model_in(info.annotation)
        if inner is None:
            yield f"{prefix}{name}"
        else:
            yield from keys(inner, f"{prefix}{name}.")


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
    """The names known in the table at this place; none where there is no table of ours."""
    model: type[BaseModel] | None = root
    for part in parents:
        if model is None or part.isdigit():
            continue
        info = model.model_fields.get(part)
        model = _model_in(info.annotation) if info else None
    return list(model.model_fields) if model else []


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
    if get_origin(annotation) in (list, tuple, Union, UnionType):
        return next((model for part in get_args(annotation) if (model := _model_in(part))), None)
    return None
