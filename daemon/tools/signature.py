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
SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}
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
    given: tuple[Parameter, ...]

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
        simple = {given.name: _simple(given) for given in self.given}
        if not all(simple.values()):
            shown = _slim(self.arguments.model_json_schema(by_alias=True))
            return shown if isinstance(shown, dict) else {}
        required = [given.name for given in self.given if given.default is Parameter.empty]
        return {"properties": simple, **({"required": required} if required else {}), "type": "object"}

    def usage(self) -> str:
        """The call in one line, for somebody who got it wrong."""
        fields = self.arguments.model_fields.values()
        shown = (f"{field.alias}{'' if field.is_required() else '?'}: {_named(field.annotation)}" for field in fields)
        return f"{self.tool}({', '.join(shown)})"


def read_signature(tool: str, function: Callable[..., object]) -> Signature:
    """Sort the parameters of a tool's function. Raises TypeError for one that nobody can fill in."""
    given: list[Parameter] = []
    context, hidden, parts = [], [], {}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        if name.startswith("_"):
            hidden.append(_known_hidden(tool, name, parameter))
        elif parameter.annotation is ToolContext:
            context.append(name)
        elif is_plain(parameter.annotation):
            given.append(parameter)
        elif isinstance(parameter.annotation, type) and parameter.annotation is not Parameter.empty:
            parts[name] = parameter.annotation
        else:
            raise TypeError(f"tool {tool}: parameter {name} needs a type that the model or the house can fill in")
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, defer_build=True)  # most tools are not called today
    arguments = {_field(parameter.name): _argument(parameter) for parameter in given}
    model = create_model(f"{tool}_arguments", __config__=config, **arguments)  # pyrefly: ignore[no-matching-overload]
    return Signature(tool, model, tuple(context), tuple(hidden), parts, tuple(given))


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


def _argument(parameter: Parameter) -> tuple[object, object]:
    default = ... if parameter.default is Parameter.empty else parameter.default
    return parameter.annotation, Field(default, alias=parameter.name)


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


def _simple(given: Parameter) -> dict[str, object]:
    """The schema of what most arguments are; {} for what has to be asked of pydantic, which takes its time."""
    shape = _shape(given.annotation)
    default = {} if given.default is Parameter.empty or not given.default else {"default": given.default}
    return default | shape if shape else {}


def _shape(annotation: object) -> dict[str, object]:
    if isinstance(annotation, type) and annotation in SIMPLE:
        return {"type": SIMPLE[annotation]}
    parts = get_args(annotation)
    if get_origin(annotation) is list and (items := _shape(parts[0])):
        return {"items": items, "type": "array"}
    if get_origin(annotation) in (Union, types.UnionType) and len(parts) == 2 and parts[1] is types.NoneType:
        return _shape(parts[0])
    return {}


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
