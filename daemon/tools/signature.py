"""A tool is one decorated function: the model fills in plain parameters, the daemon the others
(A10).
"""

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from inspect import Parameter, getdoc, signature
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from daemon.core import value
from daemon.core.messages import ToolSpec
from daemon.tools.base import (
    Arguments,
    BadArguments,
    Function,
    Tool,
    ToolContext,
    ToolDefinition,
    ToolMeta,
    ToolOutput,
)

JSON_TYPES = (str, int, float, bool, list, dict, tuple, types.NoneType)
SCHEMA_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
HIDDEN_TYPES = {"_session_id": str, "_untrusted_source": bool}
DROPPED_KEYS = ("title", "additionalProperties")

tool = ToolMeta


@dataclass(eq=False)
class BoundFunction:
    """A function with its parts. `parameters` are the model's; `from_context` are parameters with
    the attribute of ToolContext that they get, "" for all of it.
    """

    name: str
    function: Function
    parameters: tuple[Parameter, ...]
    from_context: Mapping[str, str]
    parts: Mapping[str, object]

    def check(self, arguments: Arguments) -> dict[str, object]:
        """The model's arguments as typed values. Raises BadArguments with the usage."""
        try:
            read = _build_model(self.function).model_validate(dict(arguments))
        except ValidationError as error:
            faults = [
                ": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"])))
                for one in error.errors()
            ]
            text = f"bad arguments for {self.name}: {'; '.join(faults)}. Expected: {self.usage()}"
            raise BadArguments(text) from error
        return {one.name: getattr(read, f"arg_{one.name}") for one in self.parameters}

    async def run(self, arguments: Arguments, context: ToolContext) -> ToolOutput:
        """Call the function."""
        injected = {
            name: getattr(context, attribute) if attribute else context
            for name, attribute in self.from_context.items()
        }
        output = await self.function(**self.check(arguments), **self.parts, **injected)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    def schema(self) -> dict[str, object]:
        """The JSON schema that the model is shown, without what it can do without."""
        properties: dict[str, object] = {}
        required: list[str] = []
        for one in self.parameters:
            shape = _type_schema(one.annotation)
            if not shape:  # only pydantic knows it, which takes its time
                return _build_schema(self.function)
            if one.default is Parameter.empty:
                required.append(one.name)
            elif one.default:
                shape = {"default": one.default, **shape}
            properties[one.name] = shape
        needs = {"required": required} if required else {}
        return {"properties": properties, **needs, "type": "object"}

    def usage(self) -> str:
        """The call in one line, for a model that got it wrong."""
        words = []
        for one in self.parameters:
            plain = isinstance(one.annotation, type) and not get_args(one.annotation)
            kind = one.annotation.__name__ if plain else one.annotation
            words.append(f"{one.name}{'' if one.default is Parameter.empty else '?'}: {kind}")
        return f"{self.name}({', '.join(words)})"


def bind(definitions: Iterable[ToolDefinition], parts: Mapping[type, object]) -> list[Tool]:
    """The tools, ready to run. Raises TypeError for a wrong definition, LookupError for a missing
    part.
    """
    return [_bind_one(definition, parts) for definition in definitions]


def with_check(definition: ToolDefinition, check: Callable[[dict[str, Any]], object]) -> Tool:
    """The tool with one more check of its arguments, as typed values, before anybody is asked;
    `check` raises ToolError.
    """
    [made] = bind([definition], {})
    check_types = made.check
    assert check_types
    return replace(made, check=lambda given: check(cast("dict[str, Any]", check_types(given))))


@value
class ToolShape:
    """What a function says of itself: `parameters` are the model's, `kinds` the parts that it
    needs.
    """

    description: str
    parameters: tuple[Parameter, ...]
    from_context: Mapping[str, str]
    kinds: Mapping[str, type]


@cache
def _read_function(function: Function) -> ToolShape:
    """Read once, for that takes a millisecond. Raises TypeError for a wrong definition."""
    name = getattr(function, "__name__", "")
    # The model is told the first paragraph of the docstring.
    description = " ".join((getdoc(function) or "").partition("\n\n")[0].split())
    if not description:
        raise TypeError(f"tool {name}: it needs a docstring, which the model is told")
    parameters: list[Parameter] = []
    from_context: dict[str, str] = {}
    kinds: dict[str, type] = {}
    for key, parameter in signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        if key.startswith("_"):
            if HIDDEN_TYPES.get(key) is not kind:
                raise TypeError(
                    f"tool {name}: {key} is not one of the injected parameters ({HIDDEN_TYPES})"
                )
            from_context[key] = key[1:]
        elif kind is ToolContext:
            from_context[key] = ""
        elif _is_json_type(kind):
            parameters.append(parameter)
        elif not isinstance(kind, type) or kind is Parameter.empty:
            raise TypeError(
                f"tool {name}: parameter {key} needs a type that the model or daemon can fill in"
            )
        else:
            kinds[key] = kind
    return ToolShape(description, tuple(parameters), from_context, kinds)


@cache
def _build_model(function: Function) -> type[BaseModel]:
    """Validates the arguments; built at the first call, for that takes a millisecond."""
    fields = {}
    for one in _read_function(function).parameters:
        default = ... if one.default is Parameter.empty else one.default
        # prefixed, so that an argument may be named `copy` or `json`
        fields[f"arg_{one.name}"] = (one.annotation, Field(default, alias=one.name))
    config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    return create_model("arguments", __config__=config, **fields)  # pyrefly: ignore[no-matching-overload]


@cache
def _build_schema(function: Function) -> dict[str, object]:
    return _slim_schema(_build_model(function).model_json_schema(by_alias=True))


def _bind_one(definition: ToolDefinition, parts: Mapping[type, object]) -> Tool:
    name, shape = definition.name, _read_function(definition.function)
    for kind in shape.kinds.values():
        if kind not in parts:
            raise LookupError(f"tool {name} needs a {kind.__name__}, and none was given")
    given = {key: parts[kind] for key, kind in shape.kinds.items()}
    bound = BoundFunction(name, definition.function, shape.parameters, shape.from_context, given)
    spec = ToolSpec(name, shape.description, bound.schema())
    return Tool(spec, definition.meta, bound.run, bound.check)


def _is_json_type(annotation: object) -> bool:
    """A type that arguments written as JSON can have."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_json_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return all(map(_is_json_type, get_args(annotation)))
    known = origin or annotation
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
    if origin in (Union, types.UnionType) and parts[1:] == (types.NoneType,):
        return _type_schema(parts[0])
    return {}


def _slim_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """Drop titles, empty defaults and the null of an optional."""
    slim: dict[str, object] = {}
    for key, part in schema.items():
        if key in DROPPED_KEYS or (key == "default" and not part):
            continue
        match part:
            case dict() if key in ("properties", "$defs"):  # here keys are names
                slim[key] = {name: _slim_schema(inner) for name, inner in part.items()}
            case dict() if key != "default":
                slim[key] = _slim_schema(part)
            case list():
                choices = [
                    _slim_schema(one) if isinstance(one, dict) else one
                    for one in part
                    if one != {"type": "null"}
                ]
                slim |= choices[0] if key == "anyOf" and len(choices) == 1 else {key: choices}
            case _:
                slim[key] = part
    return slim
