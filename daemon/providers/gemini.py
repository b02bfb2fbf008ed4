"""Google's Gemini, by generateContent."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from yarl import URL

from daemon.core.errors import ErrorClass
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelRequest,
    Native,
    Picture,
    ToolCall,
    ToolSpec,
    drop_lone_surrogates,
)
from daemon.providers.base import (
    SPOILT,
    ReplyBuilder,
    encode_body,
    encode_json,
    encode_list,
    get_count,
    get_object,
    get_text,
    list_objects,
    make_native,
)
from daemon.providers.errors import CallFailed, make_object_error
from daemon.providers.http import HttpProvider
from daemon.providers.rules import (
    EMPTY_TEXT,
    GO_ON,
    MISSING_START,
    Json,
    fold_schema,
    is_from,
    make_valid_name,
    parse_arguments,
    split_instructions,
)

BAD_CALL_REASONS = (
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
)
BLOCKED_REASONS = (
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "SPII",
    "LANGUAGE",
    "MODEL_ARMOR",
    "MISSING_THOUGHT_SIGNATURE",
)
# Google's documented stand-in for a call of another model: Gemini 3 refuses an unsigned call.
DUMMY_SIGNATURE = "skip_thought_signature_validator"
SEED_BITS = 0x7FFF_FFFF
VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
INVALID_NAME_CHAR = re.compile(r"[^A-Za-z0-9_.:-]")
BUDGETS = {"low": 1024, "medium": 8192, "high": 24_576, "max": 24_576}
PRO_BUDGET = 32_768


@dataclass(slots=True)
class GeminiReplyBuilder(ReplyBuilder):
    """Reads answers of generateContent and their pieces."""

    what = "an answer of generateContent"
    withheld = dict.fromkeys(BLOCKED_REASONS, (ErrorClass.FILTERED, "it withholds its answer"))

    _calls: list[tuple[str, str, str]] = field(default_factory=list)
    _parts: list[Json] = field(default_factory=list)
    _signed: bool = False
    _joinable: bool | None = None

    def read(self, fields: Json) -> str:
        if fields.get("error"):
            raise make_object_error(fields["error"])
        feedback = get_object(fields, "promptFeedback")
        if reason := get_text(feedback, "blockReason"):
            more = get_text(feedback, "blockReasonMessage")
            blocked = f"its filter blocks what it was sent ({reason})"
            raise CallFailed(ErrorClass.FILTERED, f"{blocked}: {more}" if more else blocked)
        used = get_object(fields, "usageMetadata")
        counts = (
            get_count(used, "promptTokenCount", "toolUsePromptTokenCount"),
            get_count(used, "candidatesTokenCount", "thoughtsTokenCount"),  # both are paid for
            get_count(used, "cachedContentTokenCount"),
        )
        self.counts = [*map(max, self.counts, counts)]
        candidate = next(iter(list_objects(fields.get("candidates"))), {})
        self.finish = get_text(candidate, "finishReason") or self.finish
        self.detail = get_text(candidate, "finishMessage") or self.detail
        if self.finish == BAD_CALL_REASONS[0]:  # "Malformed function call: print(...)"
            self.unread_call = self.detail.partition(":")[2].strip()
        parts = list_objects(get_object(candidate, "content").get("parts"))
        return "".join([self._add_part(part) for part in parts])

    def _add_part(self, part: Json) -> str:
        """Neighbours of one kind are joined; what is signed stays as it came."""
        text, thought = get_text(part, "text"), bool(part.get("thought"))
        call, signature = get_object(part, "functionCall"), get_text(part, "thoughtSignature")
        if part.get("text") == "" and not signature and not call:
            return ""
        joinable = thought if text and not signature and not call else None
        if joinable is not None and joinable == self._joinable:
            joined = f"{self._parts[-1]['text']}{text}"
            self._parts[-1] = {**self._parts[-1], "text": joined}
        else:
            self._parts.append(part)
        self._joinable = joinable
        self._signed = self._signed or bool(signature)
        if call:
            arguments = call.get("args") or {}
            if not isinstance(arguments, dict | str):
                raise TypeError("args")
            is_text = isinstance(arguments, str)
            written = arguments if is_text else json.dumps(arguments, ensure_ascii=False)
            self._calls.append((get_text(call, "id"), get_text(call, "name"), written))
        if thought or not text:
            return ""
        self.text.append(text)
        return text

    def _list_calls(self) -> list[tuple[str, str, str]]:
        if self.finish in BAD_CALL_REASONS and (self._calls or not self.unread_call):
            raise self._make_error(ErrorClass.MALFORMED, SPOILT)
        return self._calls

    def _make_native(self, calls: Sequence[ToolCall], raw: str, text: str) -> Native | None:
        return make_native(self._parts) if self._signed else None


class Gemini(HttpProvider):
    """generateContent."""

    kind = "gemini"
    path = ""
    rejects_native = re.compile(r"thought.?signature", re.IGNORECASE)

    def prepare(
        self, model: str, request: ModelRequest, stream: bool
    ) -> tuple[URL, Json, ReplyBuilder]:
        """Tools, system prompt and contents first, what varies last."""
        tools = self.cache.encode(request.tools, _tool_declaration)
        instructions, messages = split_instructions(request.messages)
        system = "\n\n".join(message.text for message in instructions)
        is_forbidden = request.tools and not request.tools_allowed
        settings: Json = {
            "maxOutputTokens": request.max_tokens or None,
            "seed": None if request.seed is None else request.seed & SEED_BITS,
            "thinkingConfig": _thinking_settings(model, request.effort or "") or None,
        }
        has_settings = any(value is not None for value in settings.values())
        body: Json = {
            "tools": b'[{"functionDeclarations":%s}]' % tools if request.tools else None,
            "systemInstruction": {"parts": [{"text": system}]} if system else None,
            "contents": encode_list(_encode_contents(self.name, model, messages)),
            "toolConfig": {"functionCallingConfig": {"mode": "NONE"}} if is_forbidden else None,
            "generationConfig": encode_body(settings) if has_settings else None,
        }
        # Model and way of answering are part of the address; the key never is.
        resource = model if "/" in model else f"models/{model}"
        method = "streamGenerateContent" if stream else "generateContent"
        path = f"{self.url.path.rstrip('/')}/{resource}:{method}"
        url = self.url.with_path(path, keep_query=True)
        url = url.update_query(alt="sse") if stream else url
        return url, body, GeminiReplyBuilder()


def parse_version(model: str) -> tuple[int, int]:
    """(2, 5) for gemini-2.5-flash, the newest for an alias of the latest, (0, 0) for no Gemini."""
    name = model.rpartition("/")[2]
    if found := VERSION.match(name):
        return int(found[1]), int(found[2] or 0)
    return (4, 0) if name.startswith("gemini-") and name.endswith("-latest") else (0, 0)


def _tool_declaration(tool: ToolSpec) -> Json:
    declared: Json = {"name": tool.name, "description": tool.description}
    schema = fold_schema(tool.parameters)
    return declared | ({"parametersJsonSchema": schema} if schema["properties"] else {})


def _thinking_settings(model: str, effort: str) -> Json:
    """Gemini 3 has levels, 2.5 a budget in tokens, and what is older does not think (E13)."""
    version, is_pro = parse_version(model), "-pro" in model
    if effort not in BUDGETS or version < (2, 5):
        return {}
    if version < (3, 0):
        return {"thinkingBudget": PRO_BUDGET if effort == "max" and is_pro else BUDGETS[effort]}
    has_no_medium = version == (3, 0) and is_pro
    is_high = effort == "max" or (effort == "medium" and has_no_medium)
    return {"thinkingLevel": "HIGH" if is_high else effort.upper()}


def _encode_contents(provider: str, model: str, messages: Sequence[Message]) -> Iterator[bytes]:
    """Results of one reply stand together, without text: beside one Gemini does not know them.

    A user speaks first, and a model is not asked after its own words.
    """
    if not messages or messages[0].role is not MessageRole.USER:
        yield _encode_user([MISSING_START])
    asked: list[Json] = []
    user = MessageRole.USER
    for role, group in groupby(
        messages, key=lambda m: user if m.role is MessageRole.SYSTEM else m.role
    ):
        together = list(group)
        match role:
            case MessageRole.TOOL:
                answers = map(_function_response, asked, together)
                yield _encode_content("user", map(encode_json, answers))
            case MessageRole.ASSISTANT:
                replies = [_encode_reply(message, provider, model) for message in together]
                asked = [call for _, calls in replies for call in calls]
                yield _encode_content("model", (parts for parts, _ in replies))
            case _:
                pictures = [one for message in together for one in message.pictures]
                yield _encode_user((message.text for message in together), pictures)
    if messages and messages[-1].role is MessageRole.ASSISTANT:
        yield _encode_user([GO_ON])


def _encode_user(texts: Iterable[str], pictures: Sequence[Picture] = ()) -> bytes:
    said = [{"text": text if text.strip() else EMPTY_TEXT} for text in texts]
    shown = [{"inlineData": {"mimeType": one.mime, "data": one.data}} for one in pictures]
    return _encode_content("user", map(encode_json, (*said, *shown)))


def _encode_content(role: str, parts: Iterable[bytes]) -> bytes:
    return b'{"role":"%s","parts":%s}' % (role.encode(), encode_list(parts))


def _function_response(call: Json, result: Message) -> Json:
    """A result; it repeats the name and the id of its call."""
    response = {"error" if result.is_error else "output": result.text}
    return {"functionResponse": {**call, "response": response}}


def _encode_reply(message: Message, provider: str, model: str) -> tuple[bytes, list[Json]]:
    """A reply as it came, if it came from here with its signatures; else written anew. And its
    calls, by id and name.
    """
    signs = parse_version(model) >= (3, 0)
    native = message.native
    if is_from(native, (provider, model)):
        found: list[Json] = json.loads(native.blocks)
        own = [(call, part) for part in found if (call := get_object(part, "functionCall"))]
        signed = not signs or not own or own[0][1].get("thoughtSignature")
        if signed and len(own) == len(message.calls):
            refs: list[Json] = [
                {key: text for key in ("id", "name") if (text := get_text(call, key))}
                for call, _ in own
            ]
            return drop_lone_surrogates(native.blocks.strip()[1:-1]).encode(), refs
    parts: list[Json] = []
    if message.text or not message.calls:
        parts.append({"text": message.text})
    calls: list[Json] = []
    for call in message.calls:
        name = make_valid_name(call.name, INVALID_NAME_CHAR)
        signature = {"thoughtSignature": DUMMY_SIGNATURE} if signs and not calls else {}
        asked = {"name": name, "args": parse_arguments(call.arguments)}
        parts.append({"functionCall": asked, **signature})
        calls.append({"name": name})
    return b",".join(map(encode_json, parts)), calls
