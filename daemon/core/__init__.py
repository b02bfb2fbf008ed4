"""`value`: the decorator of immutable values, as cheap at import as it can be."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform, overload

C = TypeVar("C", bound=type)

FROZEN = "AIDAEMON_FROZEN_VALUES" in os.environ  # as the tests set it


@overload
def value(cls: C, /) -> C: ...
@overload
def value(*, order: bool = False, kw_only: bool = False) -> Callable[[C], C]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(
    cls: C | None = None, /, *, order: bool = False, kw_only: bool = False
) -> C | Callable[[C], C]:
    """A dataclass with slots whose fields nobody sets again.

    Equality, hash and repr are shared functions: generating them for each class takes most of
    the import time of a dataclass.
    """

    def make(cls: C) -> C:
        own = cls.__dict__
        made: Any = dataclass(
            cls, slots=True, frozen=FROZEN, repr=False, eq=order, order=order, kw_only=kw_only
        )
        names = [one.name for one in fields(made) if one.compare]
        made.__value_key__ = attrgetter("__class__", *names)
        for name, shared in (("__repr__", _repr), ("__eq__", _is_equal), ("__hash__", _hash)):
            if own.get(name) is None:
                setattr(made, name, shared)
        return cast(C, made)

    return make if cls is None else make(cls)


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _is_equal(self: Any, other: object) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__value_key__(self) == self.__value_key__(other)


def _hash(self: Any) -> int:
    return hash(self.__value_key__(self))
