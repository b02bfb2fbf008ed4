"""A ModelRequest in Gemini's generateContent dialect, as bytes whose beginning stays the same from call to call."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from daemon.core import value
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec
from daemon.providers.openai_request import encode

MISSING_START = "[the beginning of this conversation is missing]"
GO_ON = "[go on]"
# Google's documented stand-in for a call that another model made: Gemini 3 refuses a call without a signature.
DUMMY_SIGNATURE = "skip_thought_signature_validator"
SEED_BITS = 0x7FFF_FFFF
LATEST = (4, 0)
VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_.:-]")
MAX_NAME = 64
LEVELS = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH", "max": "HIGH"}
BUDGETS = {"low": 1024, "medium": 8192, "high": 24_576, "max": 24_576}
PRO_BUDGET = 32_768


@value
class CallRef:
    """A call as it stands in the request: its answer names it in the same way."""

    name: str
    id: str = ""


def parse_version(model: str) -> tuple[int, int]:
    """(2, 5) for gemini-2.5-flash; (0, 0) for a model that is no Gemini. An alias for the latest one is a new one."""
    name = model.rpartition("/")[2]
    found = VERSION.match(name)
    if found:
        return int(found[1]), int(found[2] or 0)
    return LATEST if name.startswith("gemini-") and name.endswith("-latest") else (0, 0)


def encode_tools(tools: tuple[ToolSpec, ...]) -> bytes:
    """The tool list. Appending a tool only appends bytes before the closing brackets."""
    return (
        b'[{"functionDeclarations":['
        + b",".join(encode(_tool_declaration(tool)) for tool in tools)
        + b"]}]"
    )


def _tool_declaration(tool: ToolSpec) -> dict[str, object]:
    declared: dict[str, object] = {"name": tool.name, "description": tool.description}
    return (
        {**declared, "parametersJsonSchema": tool.parameters}
        if tool.parameters.get("properties")
        else declared
    )


def encode_request(
    provider: str,
    model: str,
    request: ModelRequest,
    *,
    tools: Callable[[tuple[ToolSpec, ...]], bytes] = encode_tools,
) -> bytes:
    """The request body: tools, system prompt and contents first, what varies from call to call last."""
    first = next(
        (n for n, message in enumerate(request.messages) if message.role is not MessageRole.SYSTEM),
        len(request.messages),
    )
    parts = [b'"tools":' + tools(request.tools)] if request.tools else []
    if first:
        said = "\n\n".join(message.text for message in request.messages[:first])
        parts.append(b'"systemInstruction":' + encode({"parts": [{"text": said}]}))
    contents = _add_missing_turns(
        request.messages[first:], _encode_contents(provider, model, request.messages[first:])
    )
    parts.append(b'"contents":[' + b",".join(contents) + b"]")
    if request.tools and not request.tools_allowed:
        parts.append(b'"toolConfig":' + encode({"functionCallingConfig": {"mode": "NONE"}}))
    if settings := _make_settings(model, request):
        parts.append(b'"generationConfig":' + encode(settings))
    return b"{" + b",".join(parts) + b"}"


def _make_settings(model: str, request: ModelRequest) -> dict[str, object]:
    settings: dict[str, object] = {}
    if request.max_tokens:
        settings["maxOutputTokens"] = request.max_tokens
    if request.seed is not None:
        settings["seed"] = request.seed & SEED_BITS
    if thinking := _thinking_settings(model, request.effort or ""):
        settings["thinkingConfig"] = thinking
    return settings


def _thinking_settings(model: str, effort: str) -> dict[str, object]:
    """Gemini 3 has levels, 2.5 a budget in tokens, and what is older does not think (E13)."""
    made = parse_version(model)
    if effort not in LEVELS or made < (2, 5):
        return {}
    if made < (3, 0):
        return {
            "thinkingBudget": PRO_BUDGET if effort == "max" and "-pro" in model else BUDGETS[effort]
        }
    middle_missing = made == (3, 0) and "-pro" in model
    return {"thinkingLevel": "HIGH" if effort == "medium" and middle_missing else LEVELS[effort]}


def _add_missing_turns(messages: Sequence[Message], contents: Iterable[bytes]) -> Iterator[bytes]:
    """A user speaks first, and a model is not asked after its own words."""
    if not messages or messages[0].role is not MessageRole.USER:
        yield _user_content([MISSING_START])
    yield from contents
    if messages and messages[-1].role is MessageRole.ASSISTANT:
        yield _user_content([GO_ON])


def _encode_contents(provider: str, model: str, messages: Sequence[Message]) -> Iterator[bytes]:
    """Results of one reply stand together, in a content of their own: beside a text Gemini does not know them as such."""
    asked: list[CallRef] = []
    for role, group in groupby(messages, key=lambda message: _merge_roles(message.role)):
        together = list(group)
        if role is MessageRole.TOOL:
            answers = [
                _function_response(call, result)
                for call, result in zip(asked, together, strict=False)
            ]
            yield _content(b"user", b",".join(map(encode, answers)))
        elif role is MessageRole.USER:
            yield _user_content([message.text for message in together])
        else:
            said = [_encode_reply(message, provider, model) for message in together]
            asked = [call for _, calls in said for call in calls]
            yield _content(b"model", b",".join(parts for parts, _ in said))


def _merge_roles(role: MessageRole) -> MessageRole:
    """What the house says later than at the beginning can only be said as a user."""
    return MessageRole.USER if role is MessageRole.SYSTEM else role


def _user_content(texts: Iterable[str]) -> bytes:
    return _content(b"user", b",".join(encode({"text": text}) for text in texts))


def _content(role: bytes, parts: bytes) -> bytes:
    return b'{"role":"' + role + b'","parts":[' + parts + b"]}"


def _function_response(call: CallRef, result: Message) -> dict[str, object]:
    answer: dict[str, object] = {"id": call.id} if call.id else {}
    answer |= {
        "name": call.name,
        "response": {"error" if result.is_error else "output": result.text},
    }
    return {"functionResponse": answer}


def _encode_reply(message: Message, provider: str, model: str) -> tuple[bytes, list[CallRef]]:
    """A reply of the model's: as it came, if it came from here with all its signatures; else written anew."""
    signs = parse_version(model) >= (3, 0)
    native = message.native
    if native and (native.provider, native.model) == (provider, model):
        calls = _list_calls(native.blocks)
        if len(calls) == len(message.calls) and (not calls or calls[0][1] or not signs):
            return native.blocks.strip()[1:-1].encode("utf-8", "replace"), [
                asked for asked, _ in calls
            ]
    parts: list[dict[str, object]] = (
        [{"text": message.text}] if message.text or not message.calls else []
    )
    for index, call in enumerate(message.calls):
        signature = {"thoughtSignature": DUMMY_SIGNATURE} if signs and index == 0 else {}
        parts.append(
            {
                "functionCall": {
                    "name": _make_valid_name(call),
                    "args": _parse_arguments(call.arguments),
                },
                **signature,
            }
        )
    return b",".join(map(encode, parts)), [
        CallRef(_make_valid_name(call)) for call in message.calls
    ]


def _list_calls(blocks: str) -> list[tuple[CallRef, bool]]:
    """The calls in a reply's own parts, each with whether it is signed."""
    parts: list[dict[str, object]] = json.loads(blocks)
    found = []
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, dict):
            found.append(
                (
                    CallRef(str(call.get("name") or ""), str(call.get("id") or "")),
                    bool(part.get("thoughtSignature")),
                )
            )
    return found


def _make_valid_name(call: ToolCall) -> str:
    """A model elsewhere may have made up a name that is refused here."""
    return INVALID_NAME_CHAR.sub("_", call.name)[:MAX_NAME] or "unknown"


def _parse_arguments(written: str) -> dict[str, object]:
    """An object, as the API wants it: what the model wrote, or that it wrote something else."""
    try:
        arguments = json.loads(written, parse_constant=_reject_constant)
        json.dumps(arguments, allow_nan=False)  # 1e999 is read as infinity
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    return {"invalid": written} if written.strip() else {}


def _reject_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")
