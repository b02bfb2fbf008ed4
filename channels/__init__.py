"""`value`: the decorator of immutable values."""

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: C) -> C:
    """A dataclass with slots whose fields nobody sets again."""
    made: Any = dataclass(frozen=True, slots=True)(cls)
    return made
