"""A tool's function read as a description: what the model fills in, what the house fills in (A10).

A new tool is one decorated function; `bind` gives it the parts it needs.
"""

import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from inspect import Parameter, getdoc, signature
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from daemon.core import value
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect
from daemon.tools.arguments import BadArguments
from daemon.tools.base import (
    Check,
    IsSafe,
    Preview,
    Run,
    Tool,
    ToolContext,
    ToolMeta,
    ToolOutput,
    never_safe,
    no_preview,
)

JSON_TYPES = (str, int, float, bool, list, dict, tuple, types.NoneType)
SCHEMA_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
HIDDEN_TYPES: Mapping[str, type] = {"_session_id": str, "_untrusted_source": bool}
DROPPED_KEYS = ("title", "additionalProperties")


@value
class Signature:
    """The parameters of a tool, sorted by who fills them in."""

    tool: str
    arguments: type[BaseModel]
    context_names: tuple[str, ...]
    hidden_names: tuple[str, ...]
    part_types: Mapping[str, type]
    parameters: tuple[Parameter, ...]

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """The model's arguments, in the types the function wants. Raises BadArguments, which says what was expected."""
        try:
            read = self.arguments.model_validate(dict(given))
        except ValidationError as error:
            faults = "; ".join(_describe_error(dict(one)) for one in error.errors())
            raise BadArguments(
                f"bad arguments for {self.tool}: {faults}. Expected: {self.usage()}"
            ) from error
        return {name: getattr(read, _field_name(name)) for name in self.names}

    @property
    def names(self) -> tuple[str, ...]:
        """The arguments that the model may give."""
        return tuple(field.alias or name for name, field in self.arguments.model_fields.items())

    def schema(self) -> dict[str, object]:
        """The JSON schema that the model is shown, without what it can do without."""
        simple = {given.name: _simple_schema(given) for given in self.parameters}
        if not all(simple.values()):
            shown = _slim_schema(self.arguments.model_json_schema(by_alias=True))
            return shown if isinstance(shown, dict) else {}
        required = [given.name for given in self.parameters if given.default is Parameter.empty]
        return {
            "properties": simple,
            **({"required": required} if required else {}),
            "type": "object",
        }

    def usage(self) -> str:
        """The call in one line, for somebody who got it wrong."""
        fields = self.arguments.model_fields.values()
        shown = (
            f"{field.alias}{'' if field.is_required() else '?'}: {_type_name(field.annotation)}"
            for field in fields
        )
        return f"{self.tool}({', '.join(shown)})"


def read_signature(tool: str, function: Callable[..., object]) -> Signature:
    """Sort the parameters of a tool's function. Raises TypeError for one that nobody can fill in."""
    given: list[Parameter] = []
    context, hidden, parts = [], [], {}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        if name.startswith("_"):
            hidden.append(_check_hidden(tool, name, parameter))
        elif parameter.annotation is ToolContext:
            context.append(name)
        elif is_json_type(parameter.annotation):
            given.append(parameter)
        elif isinstance(parameter.annotation, type) and parameter.annotation is not Parameter.empty:
            parts[name] = parameter.annotation
        else:
            raise TypeError(
                f"tool {tool}: parameter {name} needs a type that the model or the house can fill in"
            )
    config = ConfigDict(
        extra="forbid", coerce_numbers_to_str=True, defer_build=True
    )  # most tools are not called today
    arguments = {_field_name(parameter.name): _field_definition(parameter) for parameter in given}
    model = create_model(f"{tool}_arguments", __config__=config, **arguments)  # pyrefly: ignore[no-matching-overload]
    return Signature(tool, model, tuple(context), tuple(hidden), parts, tuple(given))


def is_json_type(annotation: object) -> bool:
    """A type that arguments written as JSON can have."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_json_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(is_json_type(part) for part in get_args(annotation))
    known = annotation if origin is None else origin
    return known is Literal or (
        isinstance(known, type) and (known in JSON_TYPES or issubclass(known, BaseModel))
    )


def _field_name(name: str) -> str:
    """Fields are renamed, so that an argument may be called `copy` or `json` as well."""
    return f"arg_{name}"


def _field_definition(parameter: Parameter) -> tuple[object, object]:
    default = ... if parameter.default is Parameter.empty else parameter.default
    return parameter.annotation, Field(default, alias=parameter.name)


def _check_hidden(tool: str, name: str, parameter: Parameter) -> str:
    if HIDDEN_TYPES.get(name) is not parameter.annotation:
        known = ", ".join(f"{one}: {kind.__name__}" for one, kind in HIDDEN_TYPES.items())
        raise TypeError(f"tool {tool}: {name} is not one of the injected parameters ({known})")
    return name


def _describe_error(error: Mapping[str, object]) -> str:
    place = error.get("loc")
    where = ".".join(str(part) for part in place) if isinstance(place, tuple) else ""
    return f"{where}: {error.get('msg')}" if where else str(error.get("msg"))


def _type_name(annotation: object) -> str:
    return (
        annotation.__name__
        if isinstance(annotation, type) and not get_args(annotation)
        else str(annotation)
    )


def _simple_schema(given: Parameter) -> dict[str, object]:
    """The schema of what most arguments are; {} for what has to be asked of pydantic, which takes its time."""
    shape = _type_schema(given.annotation)
    default = (
        {} if given.default is Parameter.empty or not given.default else {"default": given.default}
    )
    return default | shape if shape else {}


def _type_schema(annotation: object) -> dict[str, object]:
    if isinstance(annotation, type) and annotation in SCHEMA_TYPES:
        return {"type": SCHEMA_TYPES[annotation]}
    parts = get_args(annotation)
    if get_origin(annotation) is list and (items := _type_schema(parts[0])):
        return {"items": items, "type": "array"}
    if (
        get_origin(annotation) in (Union, types.UnionType)
        and len(parts) == 2
        and parts[1] is types.NoneType
    ):
        return _type_schema(parts[0])
    return {}


def _slim_schema(schema: object) -> object:
    if isinstance(schema, list):
        return [_slim_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _slim_value(key, value)
        for key, value in schema.items()
        if key not in DROPPED_KEYS and not _is_empty(key, value)
    }
    return _without_null(kept)


def _slim_value(key: str, value: object) -> object:
    if key in ("properties", "$defs") and isinstance(value, dict):
        return {name: _slim_schema(part) for name, part in value.items()}
    return value if key == "default" else _slim_schema(value)


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


Function = Callable[..., Awaitable[str | ToolOutput]]


@value
class ToolDefinition:
    """A tool as it was written, before it has its parts."""

    function: Function = field(repr=False)
    meta: ToolMeta
    is_safe: IsSafe = field(default=never_safe, repr=False)
    preview: Preview = field(default=no_preview, repr=False)

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        return getattr(self.function, "__name__", "")

    @property
    def description(self) -> str:
        """The first paragraph of the docstring: what the model is told."""
        paragraph = (getdoc(self.function) or "").partition("\n\n")[0]
        return " ".join(paragraph.split())


def tool(
    *,
    effect: Effect,
    parallel: bool = False,
    idempotent: bool = False,
    retries: int = 0,
    timeout_s: float = 60,
    critical: tuple[str, ...] | None = None,
    paths: tuple[str, ...] = (),
    volatile: bool = False,
    max_chars: int = 0,
    outside: bool = False,
) -> Callable[[Function], ToolDefinition]:
    """Make an async function a tool: plain parameters are the model's, ToolContext and `_...` the house's, the rest are parts."""
    meta = ToolMeta(
        effect, parallel, idempotent, retries, timeout_s, critical, paths,
        volatile=volatile, max_chars=max_chars, returns_outside_text=outside,
    )  # fmt: skip
    return lambda function: ToolDefinition(function, meta)


def bind(definitions: Iterable[ToolDefinition], parts: Mapping[type, object]) -> list[Tool]:
    """The tools, ready to run. Raises TypeError for a definition that cannot be one, LookupError for a part that is missing."""
    return [_bind_one(definition, parts) for definition in definitions]


def _bind_one(definition: ToolDefinition, parts: Mapping[type, object]) -> Tool:
    if not definition.description:
        raise TypeError(f"tool {definition.name}: it needs a docstring, which the model is told")
    wants = read_signature(definition.name, definition.function)
    given = {
        name: _find_part(definition.name, kind, parts) for name, kind in wants.part_types.items()
    }
    spec = ToolSpec(definition.name, definition.description, wants.schema())
    run, check = _make_run(definition.function, wants, given), _make_check(wants)
    return Tool(spec, definition.meta, run, check, definition.is_safe, definition.preview)


def _find_part(tool: str, kind: type, parts: Mapping[type, object]) -> object:
    if kind not in parts:
        raise LookupError(f"tool {tool} needs a {kind.__name__}, and none was given")
    return parts[kind]


def _make_run(function: Function, wants: Signature, given: Mapping[str, object]) -> Run:
    async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
        read = wants.check(arguments)
        hidden = {"_session_id": context.session_id, "_untrusted_source": context.untrusted_source}
        house = dict.fromkeys(wants.context_names, context) | {
            name: hidden[name] for name in wants.hidden_names
        }
        output = await function(**read, **given, **house)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    return run


def _make_check(wants: Signature) -> Check:
    def check(arguments: Mapping[str, object]) -> None:
        wants.check(arguments)

    return check
