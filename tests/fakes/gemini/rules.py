"""What Gemini's generateContent refuses, as its documentation and its errors tell: pure, and stricter where they are unsure."""

import base64
import binascii
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

Json = dict[str, Any]

KNOWN = {
    "contents",
    "tools",
    "toolConfig",
    "systemInstruction",
    "generationConfig",
    "safetySettings",
    "cachedContent",
}
SETTINGS = {
    "maxOutputTokens",
    "seed",
    "thinkingConfig",
    "temperature",
    "topP",
    "topK",
    "stopSequences",
}
DATA = ("text", "inlineData", "functionCall", "functionResponse")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
VERSION = re.compile(r"gemini-(\d+)")
LEVELS = {"MINIMAL", "LOW", "MEDIUM", "HIGH"}
MODEL = "gemini-3.8-flash"
OPAQUE = {"args", "response", "parametersJsonSchema", "parameters"}
SNAKE = re.compile(r"_([a-z])")


def proto(value: Any) -> Any:
    """As protocol buffers read JSON: names may be in either case. What is the user's own stays as it is."""
    if isinstance(value, list):
        return [proto(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {SNAKE.sub(lambda match: match[1].upper(), name): item for name, item in value.items()}
    return {name: item if name in OPAQUE else proto(item) for name, item in named.items()}


def faults(body: Json, model: str = MODEL) -> list[str]:
    """Everything that the API would not take; an empty list for a request that it answers."""
    found = [f"unknown name {name!r}" for name in body.keys() - KNOWN]
    contents = body.get("contents") or []
    found += [] if contents else ["contents is not specified"]
    found += [
        f"contents[{n}]: {fault}"
        for n, content in enumerate(contents)
        for fault in _content(content)
    ]
    if found:
        return found
    found += [
        *_order(contents),
        *_calls(contents),
        *_tools(body),
        *_settings(body.get("generationConfig", {}), model),
    ]
    found += [
        f"systemInstruction: {fault}" for fault in _instruction(body.get("systemInstruction"))
    ]
    found += _signatures(contents) if _generation(model) >= 3 else []
    return found + (["a number that is none"] if _infinite(body) else [])


def _generation(model: str) -> int:
    match = VERSION.match(model)
    return int(match[1]) if match else 4 * model.endswith("-latest")


def _content(content: Json) -> Iterator[str]:
    if content.keys() != {"role", "parts"} or content["role"] not in ("user", "model"):
        yield "please use a valid role: user, model"
    if not content.get("parts"):
        yield "must include at least one parts field"
    for part in content.get("parts") or []:
        yield from _part(part, content.get("role", ""))


def _part(part: Json, role: str) -> Iterator[str]:
    if sum(key in part for key in DATA) != 1 or part.keys() - {
        *DATA,
        "thought",
        "thoughtSignature",
    }:
        yield f"a part must have exactly one data field: {sorted(part)}"
    if "text" in part and (
        not isinstance(part["text"], str) or not (part["text"] or part.get("thoughtSignature"))
    ):
        yield "an empty text parameter"
    if "inlineData" in part and not (
        part["inlineData"].keys() == {"mimeType", "data"}
        and role == "user"
        and part["inlineData"]["mimeType"].startswith("image/")
        and _base64(part["inlineData"]["data"])
    ):
        yield "inline data that is not valid"
    if "functionCall" in part:
        yield from _call(part["functionCall"], role)
    if "functionResponse" in part:
        yield from _response(part["functionResponse"], role)
    if "thoughtSignature" in part and (role != "model" or not _base64(part["thoughtSignature"])):
        yield "a thought signature that is not valid"


def _call(call: Json, role: str) -> Iterator[str]:
    if role != "model":
        yield "a function call by a user"
    if call.keys() - {"name", "args", "id"} or not NAME.fullmatch(call.get("name", "")):
        yield f"invalid function call: {call}"
    if not isinstance(call.get("args", {}), dict):
        yield "args is no object"


def _response(response: Json, role: str) -> Iterator[str]:
    if role != "user":
        yield "a function response by a model"
    if response.keys() - {"name", "response", "id"} or not NAME.fullmatch(response.get("name", "")):
        yield f"invalid function response: {response}"
    if not isinstance(response.get("response"), dict):
        yield "response is no object"


def _base64(signature: object) -> bool:
    try:
        return bool(base64.urlsafe_b64decode(str(signature).replace("+", "-").replace("/", "_")))
    except (ValueError, binascii.Error):
        return False


def _order(contents: list[Json]) -> Iterator[str]:
    if contents[0]["role"] != "user" or contents[-1]["role"] != "user":
        yield "please ensure that a conversation begins and ends with a user role"
    for before, after in pairwise(contents):
        if before["role"] == after["role"] and not (
            _of(before, "functionResponse") and not _of(after, "functionResponse")
        ):
            yield "please ensure that multiturn requests alternate between user and model"


def _calls(contents: list[Json]) -> Iterator[str]:
    """The results of a reply: all of them, in their order, right behind it, and nothing else there."""
    for n, content in enumerate(contents):
        asked = _of(content, "functionCall")
        told = _of(contents[n + 1], "functionResponse") if n + 1 < len(contents) else []
        if [call["name"] for call in asked] != [response["name"] for response in told]:
            yield f"contents[{n}]: the number of function response parts must equal the function call parts of the turn before"
        if [call.get("id") for call in asked] != [response.get("id") for response in told]:
            yield f"contents[{n}]: function responses with other ids than the calls"
        if (answers := _of(content, "functionResponse")) and len(answers) != len(content["parts"]):
            yield f"contents[{n}]: a function response beside something else"
    if _of(contents[0], "functionResponse"):
        yield "a function response must come right after a function call turn"


def _of(content: Json, kind: str) -> list[Json]:
    return [part[kind] for part in content["parts"] if kind in part]


def _signatures(contents: list[Json]) -> Iterator[str]:
    """The current turn begins with the last thing that a user said."""
    said = max(
        (
            n
            for n, content in enumerate(contents)
            if content["role"] == "user" and not _of(content, "functionResponse")
        )
    )
    for n, content in enumerate(contents[said:], said):
        call = next((part for part in content["parts"] if "functionCall" in part), None)
        if call and not call.get("thoughtSignature"):
            name = call["functionCall"]["name"]
            yield f"Function call `{name}` in the `{n}.` content block is missing a `thought_signature`"


def _tools(body: Json) -> Iterator[str]:
    declared = [
        function
        for tool in body.get("tools", [])
        for function in tool.get("functionDeclarations", [])
    ]
    names = [function.get("name", "") for function in declared]
    if len(set(names)) != len(names) or not all(map(NAME.fullmatch, names)):
        yield f"invalid or duplicate function names: {names}"
    for function in declared:
        if function.keys() - {"name", "description", "parameters", "parametersJsonSchema"}:
            yield f"unknown name in {function}"
        if "parameters" in function and "parametersJsonSchema" in function:
            yield "parameters and parametersJsonSchema are mutually exclusive"
        if function.get("parametersJsonSchema", {"type": "object"}).get("type") != "object":
            yield "parameters should be of type object"
    config = body.get("toolConfig", {}).get("functionCallingConfig")
    if config and (not declared or config.get("mode") not in ("AUTO", "ANY", "NONE", "VALIDATED")):
        yield "function calling config without function declarations, or with a wrong mode"


def _settings(settings: Json, model: str) -> Iterator[str]:
    if settings.keys() - SETTINGS:
        yield f"unknown name in generationConfig: {settings.keys() - SETTINGS}"
    if settings.get("maxOutputTokens", 1) < 1 or abs(settings.get("seed", 0)) > 0x7FFF_FFFF:
        yield "a number out of range"
    thinking = settings.get("thinkingConfig", {})
    if len(thinking.keys() & {"thinkingLevel", "thinkingBudget"}) == 2:
        yield "you can only set only one of thinking budget and thinking level"
    if "thinkingLevel" in thinking and (
        _generation(model) < 3 or thinking["thinkingLevel"] not in LEVELS
    ):
        yield "thinking level is not supported for this model"
    if thinking and (model.startswith("gemini-2.0") or _generation(model) < 2):
        yield "thinking is not supported by this model"
    if "thinkingBudget" in thinking and not -1 <= thinking["thinkingBudget"] <= (
        32_768 if "pro" in model else 24_576
    ):
        yield "the thinking budget is out of range"


def _instruction(instruction: Json | None) -> Iterator[str]:
    if instruction is not None and not all(
        part.get("text") for part in instruction.get("parts", [{}])
    ):
        yield "must be text"


def _infinite(value: object) -> bool:
    match value:
        case dict():
            return any(map(_infinite, value.values()))
        case list():
            return any(map(_infinite, value))
        case float():
            return not math.isfinite(value)
        case _:
            return False
