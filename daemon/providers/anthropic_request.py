"""A ModelRequest in Anthropic's dialect, as bytes whose beginning stays the same from call to call.

What may be cached ends at a marker (`cache_control`), of which the API takes four: behind the tools, behind the system prompt,
behind the newest message, and where the newest message ended at the call before, so that a call finds what the last one has
stored however much has come since (the API looks back only 20 blocks). A marker is one key at the end of a block. It is not
part of what is compared: with every MARK taken out, the bytes of one call begin those of the next, up to the end of its messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from daemon.core.messages import Message, ModelRequest, Role, ToolSpec
from daemon.providers.anthropic_messages import THOUGHTS, Block, Conversation, Owner, Said, call_names, encode
from daemon.providers.anthropic_models import Talents, talents

WHOLE = ("anyOf", "oneOf", "allOf")
MARK = b',"cache_control":{"type":"ephemeral"}'


@dataclass(frozen=True, slots=True)
class Wire:
    """A request body. `prefix` names what the reply will have been thought about."""

    body: bytes
    prefix: str


def to_wire(model: str, request: ModelRequest, stream: bool = False, *, provider: str = "anthropic") -> Wire:
    """The request body: model, tools, system and messages first, what varies from call to call last."""
    can = talents(model)
    instructions, history = _split(request.messages)
    tools = _tools(request, history)
    said = Conversation(Owner(provider, model, bound=can.bound))
    said.begin((*tools, *instructions))
    for message in history:
        said.add(message)
    said.end()
    parts = [b'{"model":' + encode(model)]
    if tools:
        parts.append(b'"tools":' + _list(_marked(tools)))
    if instructions:
        parts.append(b'"system":' + _list(_marked(instructions)))
    parts.append(b'"messages":' + _messages(said.messages))
    settings = _settings(request, can, may_think=_may_think(said.messages))
    if tools and not (request.tools and request.tools_allowed):
        settings["tool_choice"] = {"type": "none"}
    if stream:
        settings["stream"] = True
    parts.extend(encode(name) + b":" + encode(value) for name, value in settings.items())
    return Wire(b",".join(parts) + b"}", said.prefix)


def _split(messages: Sequence[Message]) -> tuple[list[bytes], Sequence[Message]]:
    """The system prompt, which has a place of its own, and the rest; what comes later in that role is told as the user's."""
    spoken = next((index for index, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    blocks = [encode({"type": "text", "text": m.text}) for m in messages[:spoken] if m.text.strip()]
    return blocks, messages[spoken:]


def _tools(request: ModelRequest, history: Sequence[Message]) -> list[bytes]:
    """The tools; where there are none, a history with calls in it needs them named all the same."""
    if request.tools:
        return [encode(_tool(tool)) for tool in request.tools]
    return [encode({"name": name, "input_schema": {"type": "object"}}) for name in call_names(history)]


def _tool(tool: ToolSpec) -> Block:
    return {"name": tool.name, "description": tool.description, "input_schema": _schema(tool.parameters)}


def _schema(parameters: Mapping[str, object]) -> Block:
    """An object without alternatives of its whole, which the API refuses: what any of them would take is shown."""
    schema: Block = {"type": "object", **{key: part for key, part in parameters.items() if key not in WHOLE}}
    taken: Block = {}
    for key in WHOLE:
        for choice in _listed(parameters.get(key)):
            taken |= _properties(choice)
    return schema | {"properties": taken | _properties(parameters)} if taken else schema


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _properties(schema: object) -> Block:
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, dict) else {}


def _settings(request: ModelRequest, can: Talents, *, may_think: bool) -> dict[str, object]:
    effort = request.effort if can.thinking == "adaptive" or (can.thinking == "budget" and may_think) else None
    most, budget = can.limits(request.max_tokens, effort)
    settings: dict[str, object] = {"max_tokens": most}
    if effort and budget:
        settings["thinking"] = {"type": "enabled", "budget_tokens": budget}
    elif effort:
        settings |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
    return settings


def _may_think(messages: Sequence[Said]) -> bool:
    """With a budget, a reply to tool results is thought about only where the calls were: the API refuses it otherwise."""
    answers = any(block["type"] == "tool_result" for block in messages[-1].blocks)
    return not answers or messages[-2].blocks[0]["type"] in THOUGHTS


def _messages(messages: Sequence[Said]) -> bytes:
    """The user's last two end what may be cached."""
    newest = len(messages) - 1
    return _list(_message(message, marked=index in (newest, newest - 2)) for index, message in enumerate(messages))


def _message(message: Said, *, marked: bool) -> bytes:
    content = _marked(message.encoded) if marked else message.encoded
    return b'{"role":' + encode(message.role) + b',"content":' + _list(content) + b"}"


def _marked(blocks: Sequence[bytes]) -> list[bytes]:
    return [*blocks[:-1], blocks[-1][:-1] + MARK + b"}"]


def _list(values: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(values) + b"]"
