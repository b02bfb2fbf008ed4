"""What a server answers, read part by part: what cannot be used is left out by name, with the
reason, and the rest counts.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any

from mcp.types import InitializeResult, ToolAnnotations
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from daemon.core import value
from daemon.tools.base import ToolOutput
from daemon.tools.documents.pictures import is_picture
from daemon.tools.mcp.tools import ServerTool, UnfitTool, fill_tables, sanitize_line, stable_json

Json = dict[str, object]
OUTPUT, LEFT_OUT, NAMES = "outputSchema", "aidaemon/left-out", "aidaemon/names"
OTHER_MEMBERS = {"title": str, "description": str, "annotations": dict, OUTPUT: dict}
SHOWN_CHARS = 2000
OLDEST, CAPABILITIES = "2024-11-05", ("tools", "resources", "prompts", "logging", "completions")
INPUT_REFUSED = (
    "The server asked for something in return that it does not get here, such as a model's text."
)


@value
class ServerTools:
    """All tools of a server that can be read, and what was left out of each other one, and why."""

    tools: tuple[ServerTool, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def read_tool_page(answer: Mapping[str, object], check: Callable[[Json], None]) -> Json:
    """One page of a server's tools, as the library wants it. Each is looked at by itself; `check`
    raises UnfitTool for one that cannot be used. LEFT_OUT has a reason by the name of a tool, or by
    its place; NAMES are those of the others.
    """
    given, cursor = answer.get("tools"), answer.get("nextCursor")
    tools: list[Json] = []
    left_out: dict[str, str] = {}
    if not isinstance(given, list):
        left_out["(its list of tools)"] = f"it is no list: {describe(given, 200)}"
        given = []
    for number, one in enumerate(given, 1):
        name = one.get("name") if isinstance(one, dict) else None
        shown = name if isinstance(name, str) and name.strip() else f"(tool number {number})"
        try:
            tool, remark = _read_tool(one)
            check(tool)
            tools.append(tool)
        except UnfitTool as error:
            remark = f"left out: {error}"
        if remark:
            former = left_out.get(shown)
            left_out[shown] = f"{former}; {remark}" if former else remark
    if not isinstance(cursor, str | None):
        left_out["(its next tools)"] = f"their cursor is no text: {describe(cursor, 200)}"
        cursor = None
    sent = {LEFT_OUT: left_out, NAMES: [tool["name"] for tool in tools]}
    return {"tools": tools, "_meta": sent, **({"nextCursor": cursor} if cursor else {})}


def _read_tool(given: object) -> tuple[Json, str]:
    """The members that are used, and what is wrong with others. Raises UnfitTool."""
    if not isinstance(given, dict):
        raise UnfitTool(f"it is no JSON object: {describe(given, 200)}")
    name, schema = given.get("name"), given.get("inputSchema")
    if not isinstance(name, str) or not name.strip():
        raise UnfitTool(f"its name is no text or empty: {describe(name, 200)}")
    schema = {} if schema is None or schema == [] else schema
    if not isinstance(schema, dict):
        raise UnfitTool(f"its inputSchema is no JSON object: {describe(schema, 200)}")
    kind = schema.get("type")
    if kind not in (None, "object") and not (isinstance(kind, list) and "object" in kind):
        raise UnfitTool(f"its inputSchema describes no object: {describe(kind, 200)}")
    found: Json = {}
    wrong: list[str] = []
    for key, shape in OTHER_MEMBERS.items():
        part = given.get(key)
        if isinstance(part, dict) and key == "annotations":
            part, unfit = _split_hints(part)
            wrong += unfit
        if isinstance(part, shape):
            found[key] = part
        elif part is not None:
            wrong.append(f"its {key} is not used: {describe(part, 200)}")
    # the library has its own rules for it, and does not use it
    found["_meta"] = {OUTPUT: found.pop(OUTPUT, {})}
    return {
        **found,
        "name": name,
        "inputSchema": {**fill_tables(schema), "type": "object"},
    }, "; ".join(wrong)


def _split_hints(given: Json) -> tuple[Json, list[str]]:
    try:
        ToolAnnotations.model_validate(given)
    except ValidationError as error:
        wrong = {str(one["loc"][0]) for one in error.errors()}
        unfit = [f"its {key} is not used: {describe(given[key], 200)}" for key in sorted(wrong)]
        return {key: part for key, part in given.items() if key not in wrong}, unfit
    return given, []


def read_result(answer: Mapping[str, object]) -> ToolOutput:
    """What came, in words for the model, whatever came."""
    content, structured = answer.get("content"), answer.get("structuredContent")
    failed = answer.get("isError")
    blocks = content if isinstance(content, list) else []
    parts = [_describe_block(block) for block in blocks]
    if content is not None and not isinstance(content, list):
        parts.append(f"[its content is no list: {describe(content)}]")
    has_text = any(map(_has_text, blocks))
    said = "\n".join(parts) if has_text else ""
    if structured is not None and not (has_text and _is_said(structured, said)):
        parts.append(json.dumps(structured, ensure_ascii=False))
    if content is None and structured is None:
        parts.append(f"[the result has neither content nor structuredContent: {describe(answer)}]")
    if not isinstance(failed, bool | None):
        parts.append(f"[its isError is neither true nor false: {describe(failed, 200)}]")
    records = "" if structured is None else stable_json(structured)
    text = "\n".join(parts)
    return ToolOutput(
        text if text.strip() else "[the result is empty]",
        bool(failed),
        records=records,
        images=tuple(one for block in blocks if (one := _read_image(block))),
    )


def _is_said(part: object, text: str) -> bool:
    """Each text and number of it stands in the text, too: most servers send the same twice."""
    match part:
        case dict():
            return all(_is_said(one, text) for one in part.values())
        case list():
            return all(_is_said(one, text) for one in part)
        case str():
            spelled = (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1])
            return any(one in text for one in spelled)
        case int() | float() if not isinstance(part, bool):
            return f"{part:g}" in text or json.dumps(part) in text
        case _:
            return True


def mend_answer(method: str, answer: Json) -> Json:
    """What the library takes of an answer to `initialize`, or with resources or prompts: one odd
    part would cost all others.
    """
    match method:
        case "initialize":
            return _mend_greeting(answer)
        case "resources/list":
            given = [one for one in _list_of(answer, "resources") if _has(one, "uri")]
            kept = [
                {"name": one["uri"], **_pick(one, "uri", "name", "description")} for one in given
            ]
            return {**_pick(answer, "nextCursor"), "resources": kept}
        case "resources/templates/list":
            given = [
                one for one in _list_of(answer, "resourceTemplates") if _has(one, "uriTemplate")
            ]
            kept = [
                {"name": one["uriTemplate"], **_pick(one, "uriTemplate", "name", "description")}
                for one in given
            ]
            return {**_pick(answer, "nextCursor"), "resourceTemplates": kept}
        case "resources/read":
            contents = [_mend_content(one) for one in _list_of(answer, "contents")]
            return {"contents": contents}
        case "prompts/list":
            given = [one for one in _list_of(answer, "prompts") if _has(one, "name")]
            kept = [{"name": one["name"], "arguments": _name_arguments(one)} for one in given]
            return {**_pick(answer, "nextCursor"), "prompts": kept}
        case "prompts/get":
            messages = [
                {"role": "user", "content": {"type": "text", "text": _describe_content(block)}}
                for one in _list_of(answer, "messages")
                for block in _list_of(one if isinstance(one, dict) else {"content": one}, "content")
            ]
            return {"messages": messages}
    return answer


def _mend_greeting(answer: Json) -> Json:
    version = str(answer.get("protocolVersion") or OLDEST)
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:  # the last that it may know
        older = [one for one in HANDSHAKE_PROTOCOL_VERSIONS if one <= version]
        answer = {**answer, "protocolVersion": [OLDEST, *older][-1]}
    with suppress(ValidationError):
        InitializeResult.model_validate(answer, by_name=False)
        return answer
    info, can = answer.get("serverInfo"), answer.get("capabilities")
    told = _pick(info, "name", "version") if isinstance(info, dict) else {}
    offers = can if isinstance(can, dict) else {"tools": {}}  # PHP writes [] for nothing
    return {
        "protocolVersion": OLDEST,
        **_pick(answer, "protocolVersion", "instructions"),
        "serverInfo": {"name": "unnamed", "version": "unknown", **told},
        "capabilities": {
            key: {name: on for name, on in part.items() if isinstance(on, bool)}
            if isinstance(part, dict)
            else {}
            for key, part in offers.items()
            if key in CAPABILITIES and part is not None and part is not False
        },
    }


def _list_of(table: Json, key: str) -> list[Any]:
    """A list; of one that stands there without one."""
    found = table.get(key)
    return found if isinstance(found, list) else [] if found is None else [found]


def _has(given: Any, key: str) -> bool:
    return isinstance(given, dict) and isinstance(given.get(key), str) and bool(given[key])


def _pick(table: Json, *keys: str) -> Json:
    return {key: table[key] for key in keys if _has(table, key)}


def _name_arguments(prompt: Json) -> list[Json]:
    return [_pick(one, "name") for one in _list_of(prompt, "arguments") if _has(one, "name")]


def _mend_content(given: Any) -> Json:
    if isinstance(given, dict) and (_has(given, "text") or _has(given, "blob")):
        kind = "text" if _has(given, "text") else "blob"
        return {"uri": "", **_pick(given, "uri", "mimeType", kind)}
    is_empty = isinstance(given, dict) and given.get("text") == ""
    return {"uri": "", "text": "" if is_empty else _describe_content(given)}


def _describe_content(block: Any) -> str:
    return block if isinstance(block, str) else _describe_block(block)


def _read_image(block: Any) -> bytes:
    """A picture that may be shown; b"" for anything else."""
    match block:
        case {"type": "image", "data": str(data)}:
            with suppress(ValueError):
                found = b64decode(data)
                return found if is_picture(found) else b""
    return b""


def _has_text(block: Any) -> bool:
    match block:
        case {"type": "text", "text": str(text)}:
            return bool(text.strip())
        case _:
            return False


def _describe_block(block: Any) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource_link", "uri": str(uri)}:
            return f"[link to {uri}: {block.get('name') or uri}]"
        case {"type": "image"} if _read_image(block):
            return f"[image, {block.get('mimeType') or 'of no named type'}]"
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            kind = f"{kind}, {block.get('mimeType') or 'of no named type'}"
        case {"type": "resource", "resource": {"text": str(text)} as resource}:
            return f"[{resource.get('uri') or 'a resource'}]\n{text}"
        case {"type": "resource", "resource": {"blob": str(data)} as resource}:
            kind = f"{resource.get('uri') or 'a resource'}, {resource.get('mimeType') or 'bytes'}"
        case {"type": str(kind)}:
            return f"[a part of type {kind} that cannot be read: {describe(block)}]"
        case _:
            return f"[a part of no named type: {describe(block)}]"
    return f"[{kind}, {max(len(data) * 3 // 4 // 1024, 1)} kB: not shown]"


def describe(given: object, limit: int = SHOWN_CHARS) -> str:
    """JSON of it on one line, not more than so much of it; "missing" for nothing."""
    if given is None:
        return "missing"
    return sanitize_line(json.dumps(given, ensure_ascii=False), limit)


def describe_invalid(error: ValidationError, skip: int = 0) -> str:
    """What does not fit, in one line; without the first parts of where it is."""
    return "; ".join(
        f"{'.'.join(map(str, one['loc'][skip:])) or 'the whole'}: {one['msg']}"
        for one in error.errors(include_input=False, include_url=False)[:5]
    )
