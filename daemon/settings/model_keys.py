"""What keys there are, read off the models; and a step along one of them."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


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
