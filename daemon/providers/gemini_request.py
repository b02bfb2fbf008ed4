"""A ModelRequest for Gemini's generateContent, as bytes that begin the same at every call."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from daemon.core.messages import Message, MessageRole, ModelRequest, ToolSpec
from daemon.providers.base import (
    EncodingCache,
    encode_json,
    make_valid_name,
    parse_arguments,
    split_instructions,
)

MISSING_START = "[the beginning of this conversation is missing]"
GO_ON = "[go on]"
# Google's documented stand-in for a call of another model: Gemini 3 refuses an unsigned call.
DUMMY_SIGNATURE = "skip_thought_signature_validator"
SEED_BITS = 0x7FFF_FFFF
LATEST = (4, 0)
VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_.:-]")
LEVELS = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH", "max": "HIGH"}
BUDGETS = {"low": 1024, "medium": 8192, "high": 24_576, "max": 24_576}
PRO_BUDGET = 32_768

# Name and id of a call as they stand in the request: its answer repeats them.
CallRef = tuple[str, str]


def parse_version(model: str) -> tuple[int, int]:
    """(2, 5) for gemini-2.5-flash, the newest for an alias of the latest, (0, 0) for no Gemini."""
    name = model.rpartition("/")[2]
    if found := VERSION.match(name):
        return int(found[1]), int(found[2] or 0)
    return LATEST if name.startswith("gemini-") and name.endswith("-latest") else (0, 0)


def encode_request(
    provider: str, model: str, request: ModelRequest, *, cache: EncodingCache | None = None
) -> bytes:
    """The request body: tools, system prompt and contents first, what varies last."""
    parts: list[bytes] = []
    if request.tools:
        tools = (cache or EncodingCache()).encode_list(request.tools, _tool_declaration)
        parts.append(b'"tools":[{"functionDeclarations":[' + tools + b"]}]")
    instructions, messages = split_instructions(request.messages)
    if instructions:
        text = "\n\n".join(message.text for message in instructions)
        parts.append(b'"systemInstruction":' + encode_json({"parts": [{"text": text}]}))
    contents = list(_encode_contents(provider, model, messages))
    # A user speaks first, and a model is not asked after its own words.
    if not messages or messages[0].role is not MessageRole.USER:
        contents.insert(0, _user_content([MISSING_START]))
    if messages and messages[-1].role is MessageRole.ASSISTANT:
        contents.append(_user_content([GO_ON]))
    parts.append(b'"contents":[' + b",".join(contents) + b"]")
    if request.tools and not request.tools_allowed:
        parts.append(b'"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}')
    settings: dict[str, object] = {}
    if request.max_tokens:
        settings["maxOutputTokens"] = request.max_tokens
    if request.seed is not None:
        settings["seed"] = request.seed & SEED_BITS
    if thinking := _thinking_settings(model, request.effort or ""):
        settings["thinkingConfig"] = thinking
    if settings:
        parts.append(b'"generationConfig":' + encode_json(settings))
    return b"{" + b",".join(parts) + b"}"


def _tool_declaration(tool: ToolSpec) -> dict[str, object]:
    declared: dict[str, object] = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        declared["parametersJsonSchema"] = tool.parameters
    return declared


def _thinking_settings(model: str, effort: str) -> dict[str, object]:
    """Gemini 3 has levels, 2.5 a budget in tokens, and what is older does not think (E13)."""
    version, is_pro = parse_version(model), "-pro" in model
    if effort not in LEVELS or version < (2, 5):
        return {}
    if version < (3, 0):
        return {"thinkingBudget": PRO_BUDGET if effort == "max" and is_pro else BUDGETS[effort]}
    has_no_medium = version == (3, 0) and is_pro
    level = "HIGH" if effort == "medium" and has_no_medium else LEVELS[effort]
    return {"thinkingLevel": level}


def _encode_contents(provider: str, model: str, messages: Sequence[Message]) -> Iterator[bytes]:
    """Results of one reply stand together, without text: beside one Gemini does not know them."""
    asked: list[CallRef] = []
    user = MessageRole.USER
    for role, group in groupby(
        messages, key=lambda m: user if m.role is MessageRole.SYSTEM else m.role
    ):
        together = list(group)
        if role is MessageRole.TOOL:
            answers = map(_function_response, asked, together)
            yield _content(b"user", b",".join(map(encode_json, answers)))
        elif role is user:
            yield _user_content(message.text for message in together)
        else:
            replies = [_encode_reply(message, provider, model) for message in together]
            asked = [call for _, calls in replies for call in calls]
            yield _content(b"model", b",".join(parts for parts, _ in replies))


def _user_content(texts: Iterable[str]) -> bytes:
    return _content(b"user", b",".join(encode_json({"text": text}) for text in texts))


def _content(role: bytes, parts: bytes) -> bytes:
    return b'{"role":"' + role + b'","parts":[' + parts + b"]}"


def _function_response(call: CallRef, result: Message) -> dict[str, object]:
    name, call_id = call
    answer: dict[str, object] = {"id": call_id} if call_id else {}
    response = {"error" if result.is_error else "output": result.text}
    return {"functionResponse": {**answer, "name": name, "response": response}}


def _encode_reply(message: Message, provider: str, model: str) -> tuple[bytes, list[CallRef]]:
    """A reply as it came, if it came from here with its signatures; else written anew."""
    signs = parse_version(model) >= (3, 0)
    native = message.native
    if native and (native.provider, native.model) == (provider, model):
        found: list[dict[str, object]] = json.loads(native.blocks)
        own = [(call, part) for part in found if isinstance(call := part.get("functionCall"), dict)]
        signed = not signs or not own or bool(own[0][1].get("thoughtSignature"))
        if signed and len(own) == len(message.calls):
            refs = [(str(call.get("name") or ""), str(call.get("id") or "")) for call, _ in own]
            return native.blocks.strip()[1:-1].encode("utf-8", "replace"), refs
    parts: list[dict[str, object]] = []
    if message.text or not message.calls:
        parts.append({"text": message.text})
    names = [make_valid_name(call.name, INVALID_NAME_CHAR) for call in message.calls]
    for index, (name, call) in enumerate(zip(names, message.calls, strict=True)):
        signature = {"thoughtSignature": DUMMY_SIGNATURE} if signs and index == 0 else {}
        asked = {"name": name, "args": parse_arguments(call.arguments)}
        parts.append({"functionCall": asked, **signature})
    return b",".join(map(encode_json, parts)), [(name, "") for name in names]
