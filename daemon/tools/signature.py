"""A tool is one decorated function: the model fills in plain parameters, the daemon the others
(A10).
"""

import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from inspect import Parameter, getdoc, signature
from typing import Annotated, Literal, ParamSpec, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from daemon.core import value
from daemon.core.messages import ToolSpec
from daemon.tools.arguments import BadArguments
from daemon.tools.base import (
    IsSafe,
    Preview,
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
Function = Callable[..., Awaitable[str | ToolOutput]]
P = ParamSpec("P")


@value
class Signature:
    """The parameters of a tool, by who fills them in."""

    tool: str
    arguments: type[BaseModel]
    context_names: tuple[str, ...]
    hidden_names: tuple[str, ...]
    part_types: Mapping[str, type]
    parameters: tuple[Parameter, ...]

    def check(self, given: Mapping[str, object]) -> dict[str, object]:
        """The model's arguments as typed values. Raises BadArguments with the usage."""
        try:
            read = self.arguments.model_validate(dict(given))
        except ValidationError as error:
            faults = []
            for one in error.errors():
                where = ".".join(map(str, one["loc"]))
                faults.append(f"{where}: {one['msg']}" if where else one["msg"])
            text = f"bad arguments for {self.tool}: {'; '.join(faults)}. Expected: {self.usage()}"
            raise BadArguments(text) from error
        return {one.name: getattr(read, f"arg_{one.name}") for one in self.parameters}

    def schema(self) -> dict[str, object]:
        """The JSON schema that the model is shown, without what it can do without."""
        properties: dict[str, object] = {}
        for one in self.parameters:
            shape = _type_schema(one.annotation)
            if not shape:  # only pydantic knows it, which takes its time
                slim = _slim_schema(self.arguments.model_json_schema(by_alias=True))
                return slim if isinstance(slim, dict) else {}
            has_default = one.default is not Parameter.empty and one.default
            properties[one.name] = ({"default": one.default} if has_default else {}) | shape
        required = [one.name for one in self.parameters if one.default is Parameter.empty]
        needs: dict[str, object] = {"required": required} if required else {}
        return {"properties": properties, **needs, "type": "object"}

    def usage(self) -> str:
        """The call in one line, for a model that got it wrong."""
        shown = []
        for one in self.parameters:
            plain = isinstance(one.annotation, type) and not get_args(one.annotation)
            kind = one.annotation.__name__ if plain else one.annotation
            shown.append(f"{one.name}{'' if one.default is Parameter.empty else '?'}: {kind}")
        return f"{self.tool}({', '.join(shown)})"


def read_signature(tool: str, function: Callable[..., object]) -> Signature:
    """Sort the parameters of a function. Raises TypeError for one that nobody can fill in."""
    given: list[Parameter] = []
    context, hidden, parts = [], [], {}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if name.startswith("_"):
            if HIDDEN_TYPES.get(name) is not kind:
                known = ", ".join(f"{one}: {type_.__name__}" for one, type_ in HIDDEN_TYPES.items())
                raise TypeError(
                    f"tool {tool}: {name} is not one of the injected parameters ({known})"
                )
            hidden.append(name)
        elif kind is ToolContext:
            context.append(name)
        elif is_json_type(kind):
            given.append(parameter)
        elif isinstance(kind, type) and kind is not Parameter.empty:
            parts[name] = kind
        else:
            raise TypeError(
                f"tool {tool}: parameter {name} needs a type that the model or daemon can fill in"
            )
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True, defer_build=True)
    fields = {}
    for one in given:  # prefixed, so that an argument may be named `copy` or `json`
        default = ... if one.default is Parameter.empty else one.default
        fields[f"arg_{one.name}"] = (one.annotation, Field(default, alias=one.name))
    model = create_model(f"{tool}_arguments", __config__=config, **fields)  # pyrefly: ignore[no-matching-overload]
    return Signature(tool, model, tuple(context), tuple(hidden), parts, tuple(given))


def is_json_type(annotation: object) -> bool:
    """A type that arguments written as JSON can have."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_json_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(map(is_json_type, get_args(annotation)))
    known = annotation if origin is None else origin
    return known is Literal or (
        isinstance(known, type) and (known in JSON_TYPES or issubclass(known, BaseModel))
    )


def _type_schema(annotation: object) -> dict[str, object]:
    """The schema of the usual types; {} for others."""
    if isinstance(annotation, type) and annotation in SCHEMA_TYPES:
        return {"type": SCHEMA_TYPES[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is list and (items := _type_schema(parts[0])):
        return {"items": items, "type": "array"}
    if origin in (Union, types.UnionType) and len(parts) == 2 and parts[1] is types.NoneType:
        return _type_schema(parts[0])
    return {}


def _slim_schema(schema: object, *, of_names: bool = False) -> object:
    """Drop titles, empty defaults and the null of an optional; `of_names`: keys are arguments."""
    if isinstance(schema, list):
        return [_slim_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if of_names:
        return {name: _slim_schema(part) for name, part in schema.items()}
    slim: dict[str, object] = {}
    for key, part in schema.items():
        if key == "default" and part:
            slim[key] = part
        elif key not in ("default", *DROPPED_KEYS):
            slim[key] = _slim_schema(part, of_names=key in ("properties", "$defs"))
    choices = slim.get("anyOf")
    if isinstance(choices, list):
        slim["anyOf"] = choices = [choice for choice in choices if choice != {"type": "null"}]
        if len(choices) == 1:
            del slim["anyOf"]
            slim |= choices[0]
    return slim


@value
class ToolDefinition:
    """A tool as written, before `bind` gives it its parts."""

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


def _make_decorator(
    make_meta: Callable[P, ToolMeta],
) -> Callable[P, Callable[[Function], ToolDefinition]]:
    def tool(*args: P.args, **kwargs: P.kwargs) -> Callable[[Function], ToolDefinition]:
        meta = make_meta(*args, **kwargs)
        return lambda function: ToolDefinition(function, meta)

    return tool


# `@tool(effect=..., ...)`, with the fields of ToolMeta, makes an async function a tool: its plain
# parameters are the model's, ToolContext and `_...` the daemon's, the rest are parts for `bind`.
tool = _make_decorator(ToolMeta)


def bind(definitions: Iterable[ToolDefinition], parts: Mapping[type, object]) -> list[Tool]:
    """The tools, ready to run. Raises TypeError for a wrong definition, LookupError for a missing
    part.
    """
    return [_bind_one(definition, parts) for definition in definitions]


def _bind_one(definition: ToolDefinition, parts: Mapping[type, object]) -> Tool:
    name, function = definition.name, definition.function
    if not definition.description:
        raise TypeError(f"tool {name}: it needs a docstring, which the model is told")
    wants = read_signature(name, function)
    given: dict[str, object] = {}
    for parameter, kind in wants.part_types.items():
        if kind not in parts:
            raise LookupError(f"tool {name} needs a {kind.__name__}, and none was given")
        given[parameter] = parts[kind]

    async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolOutput:
        injected = given | dict.fromkeys(wants.context_names, context)
        for hidden in wants.hidden_names:
            injected[hidden] = getattr(context, hidden[1:])
        output = await function(**wants.check(arguments), **injected)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    def check(arguments: Mapping[str, object]) -> None:
        wants.check(arguments)

    spec = ToolSpec(name, definition.description, wants.schema())
    return Tool(spec, definition.meta, run, check, definition.is_safe, definition.preview)
