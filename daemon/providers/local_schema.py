"""A tool's JSON schema, cut down to what a llama.cpp grammar can hold a model to."""

from collections.abc import Mapping

KEPT = ("type", "enum", "const", "minimum", "maximum", "minItems", "maxItems")
DEEPEST = 4


def parameters(schema: Mapping[str, object]) -> list[str]:
    """The arguments' names in order; the optional ones carry a question mark."""
    required = _names(schema.get("required"))
    return [name if name in required else f"{name}?" for name in _mapping(schema.get("properties"))]


def narrowed(schema: Mapping[str, object]) -> dict[str, object]:
    """The arguments object: closed, references resolved, without patterns, formats and words."""
    definitions = {f"#/$defs/{name}": value for name, value in _mapping(schema.get("$defs")).items()}
    return _object(schema, definitions, DEEPEST)


def _narrow(value: object, definitions: Mapping[str, object], depth: int) -> dict[str, object]:
    schema = _mapping(value)
    if reference := schema.get("$ref"):
        schema = _mapping(definitions.get(str(reference)))
    if not depth:
        return {}
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return {"anyOf": [_narrow(choice, definitions, depth - 1) for choice in _list(choices)]}
    if "properties" in schema:
        return _object(schema, definitions, depth)
    kept = {key: schema[key] for key in KEPT if key in schema}
    if "items" in schema:
        kept["items"] = _narrow(schema["items"], definitions, depth - 1)
    return kept


def _object(schema: Mapping[str, object], definitions: Mapping[str, object], depth: int) -> dict[str, object]:
    properties = _mapping(schema.get("properties"))
    return {
        "type": "object",
        "properties": {name: _narrow(value, definitions, depth - 1) for name, value in properties.items()},
        "required": [name for name in _names(schema.get("required")) if name in properties],
        "additionalProperties": False,
    }


def _mapping(value: object) -> dict[str, object]:
    return {str(key): inner for key, inner in value.items()} if isinstance(value, Mapping) else {}


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _names(value: object) -> list[str]:
    return [str(name) for name in _list(value)]
