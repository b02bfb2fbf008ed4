"""A tool's function read as a description: what the model fills in, what the house fills in (A10)."""

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from daemon.tools.arguments import BadArguments
from daemon.tools.base import ToolContext

PLAIN = (str, int, float, bool, list, dict, tuple, types.NoneType)
HIDDEN: Mapping[str, type] = {"_session_id": str, "_untrusted_source": bool}
NOISE = ("title", "additionalProperties")


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a tool, sorted by who fills them in."""

    tool: str
    arguments: type[BaseModel]
    context: tuple[str, ...]
    hidden: tuple[str, ...]
    parts: Mapping[str, type]

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """The model's arguments, in the types the function wants. Raises BadArguments, which says what was expected."""
        try:
            read = self.arguments.model_validate(dict(given))
        except ValidationError as error:
            faults = "; ".join(_fault(dict(one)) for one in error.errors())
            raise BadArguments(f"bad arguments for {self.tool}: {faults}. Expected: {self.usage()}") from error
        return {name: getattr(read, _field(name)) for name in self.names}

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that the model may give."""
        return tuple(field.alias or name for name, field in self.arguments.model_fields.items())

    def schema(self) -> dict[str, object]:
        """The JSON schema that the model is shown, without what it can do without."""
        shown = _slim(self.arguments.model_json_schema(by_alias=True))
        return shown if isinstance(shown, dict) else {}

    def usage(self) -> str:
        """The call in one line, for somebody who got it wrong."""
        fields = self.arguments.model_fields.values()
        shown = (f"{field.alias}{'' if field.is_required() else '?'}: {_named(field.annotation)}" for field in fields)
        return f"{self.tool}({', '.join(shown)})"


def read_signature(tool: str, function: Callable[..., object]) -> Signature:
    """Sort the parameters of a tool's function. Raises TypeError for one that nobody can fill in."""
    arguments: dict[str, object] = {}
    context, hidden, parts = [], [], {}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        if name.startswith("_"):
            hidden.append(_known_hidden(tool, name, parameter))
        elif parameter.annotation is ToolContext:
            context.append(name)
        elif is_plain(parameter.annotation):
            arguments[_field(name)] = _argument(name, parameter)
        elif isinstance(parameter.annotation, type) and parameter.annotation is not Parameter.empty:
            parts[name] = parameter.annotation
        else:
            raise TypeError(f"tool {tool}: parameter {name} needs a type that the model or the house can fill in")
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    model = create_model(f"{tool}_arguments", __config__=config, **arguments)  # pyrefly: ignore[no-matching-overload]
    return Signature(tool, model, tuple(context), tuple(hidden), parts)


def is_plain(annotation: object) -> bool:
    """A type that arguments written as JSON can have."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_plain(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(is_plain(part) for part in get_args(annotation))
    known = annotation if origin is None else origin
    return known is Literal or (isinstance(known, type) and (known in PLAIN or issubclass(known, BaseModel)))


def _field(name: str) -> str:
    """Fields are renamed, so that an argument may be called `copy` or `json` as well."""
    return f"arg_{name}"


def _argument(name: str, parameter: Parameter) -> tuple[object, object]:
    default = ... if parameter.default is Parameter.empty else parameter.default
    return parameter.annotation, Field(default, alias=name)


def _known_hidden(tool: str, name: str, parameter: Parameter) -> str:
    if HIDDEN.get(name) is not parameter.annotation:
        known = ", ".join(f"{one}: {kind.__name__}" for one, kind in HIDDEN.items())
        raise TypeError(f"tool {tool}: {name} is not one of the injected parameters ({known})")
    return name


def _fault(error: Mapping[str, object]) -> str:
    place = error.get("loc")
    where = ".".join(str(part) for part in place) if isinstance(place, tuple) else ""
    return f"{where}: {error.get('msg')}" if where else str(error.get("msg"))


def _named(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


def _slim(schema: object) -> object:
    if isinstance(schema, list):
        return [_slim(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _kept(key, value) for key, value in schema.items() if key not in NOISE and not _is_empty(key, value)}
    return _without_null(kept)


def _kept(key: str, value: object) -> object:
    if key in ("properties", "$defs") and isinstance(value, dict):
        return {name: _slim(part) for name, part in value.items()}
    return value if key == "default" else _slim(value)


def _is_empty(key: str, value: object) -> bool:
    return key == "default" and not value


def _without_null(schema: dict[str, object]) -> dict[str, object]:
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    kept = [choice for choice in choices if choice != {"type": "null"}]
    if len(kept) != 1:
        return schema | {"anyOf": kept}
    return {key: value for key, value in schema.items() if key != "anyOf"} | kept[0]
