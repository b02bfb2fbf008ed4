"""The prompt of the embedded model: compact, with fixed examples, steps as JSON, and a schema.

Everything up to the newest message is the same bytes from call to call: the runtime keeps what it
has already read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.core import value
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec

REPLY = "reply"
REPLY_OPENS = re.compile(r'\s*\{\s*"tool"\s*:\s*"reply"\s*,\s*"args"\s*:\s*\{\s*"text"\s*:\s*"')
HIGH, LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
JSON_CHARS = re.compile(
    r'[^"\\]+'
    r'|\\["\\/bfnrt]'
    rf"|{HIGH}{LOW}"
    rf"|{HIGH}(?=[^\\]|\\[^u]|\\u(?![dD][c-fC-F])[0-9a-fA-F]{{4}})"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
)
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class ModelStep(BaseModel):
    """What the model wrote, understood."""

    model_config = ConfigDict(extra="forbid")
    tool: str
    args: dict[str, object]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str


def parse_step(raw: str) -> ModelStep:
    """The step in what the model wrote. Raises ProviderError (malformed)."""
    try:
        return ModelStep.model_validate(json.loads(raw, strict=False))
    except (ValidationError, ValueError) as exc:
        raise ProviderError(
            ErrorClass.MALFORMED, f"the embedded model wrote a broken step: {raw[:200]!r}"
        ) from exc


def parse_reply_text(step: ModelStep) -> str:
    """The words of a reply step. Raises ProviderError (malformed)."""
    try:
        return replace_surrogates(_Reply.model_validate(step.args).text)
    except ValidationError as exc:
        raise ProviderError(
            ErrorClass.MALFORMED, "the embedded model wrote a reply without a text"
        ) from exc


def encode_arguments(step: ModelStep) -> str:
    """The arguments as compact JSON, the form in which they stand in later prompts."""
    return replace_surrogates(compact_json(step.args))


def normalize_arguments(arguments: str) -> str:
    """Arguments as any model wrote them, in our form; what is not JSON is shown as none."""
    try:
        return replace_surrogates(compact_json(json.loads(arguments)))
    except ValueError:
        return "{}"


def format_step(tool: str, arguments: str) -> str:
    """A step as the model writes it. The same bytes each time, so that the prompt cache is met."""
    return f'{{"tool":{compact_json(tool)},"args":{arguments}}}'


def compact_json(value: object) -> str:
    """JSON without spare spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def replace_surrogates(text: str) -> str:
    """Half a surrogate pair cannot be sent anywhere: it becomes a replacement character."""
    return LONE_SURROGATE.sub("\ufffd", text)


@dataclass(slots=True)
class ReplyDecoder:
    """Turns a growing reply step into its growing text. Of other steps nothing is shown."""

    _pending: str = ""
    _opened: bool = False
    _closed: bool = False
    _shown: list[str] = field(default_factory=list)

    def feed(self, piece: str) -> str:
        """What this piece adds to the text; an escape cut in two waits for its other half."""
        self._pending += piece
        if not self._opened and (opening := REPLY_OPENS.match(self._pending)):
            self._opened, self._pending = True, self._pending[opening.end() :]
        if not self._opened or self._closed:
            return ""
        return self._decode()

    @property
    def text(self) -> str:
        """All that was shown."""
        return "".join(self._shown)

    @property
    def is_reply(self) -> bool:
        """This is a reply step and its text has begun."""
        return self._opened

    def _decode(self) -> str:
        letters: list[str] = []
        at = 0
        while match := JSON_CHARS.match(self._pending, at):
            letters.append(match.group())
            at = match.end()
        self._pending = self._pending[at:]
        self._closed = self._pending.startswith('"')
        shown = replace_surrogates(
            "".join(json.loads(f'"{letter}"', strict=False) for letter in letters)
        )
        self._shown.append(shown)
        return shown


KEPT_KEYWORDS = ("type", "enum", "const", "minimum", "maximum", "minItems", "maxItems")
MAX_DEPTH = 4


def list_parameters(schema: Mapping[str, object]) -> list[str]:
    """The arguments' names in order; the optional ones carry a question mark."""
    required = _as_names(schema.get("required"))
    return [name if name in required else f"{name}?" for name in _as_dict(schema.get("properties"))]


def simplify_schema(schema: Mapping[str, object]) -> dict[str, object]:
    """The arguments object: closed, references resolved, without patterns, formats and words."""
    definitions = {
        f"#/$defs/{name}": value for name, value in _as_dict(schema.get("$defs")).items()
    }
    return _simplify_object(schema, definitions, MAX_DEPTH)


def _simplify(value: object, definitions: Mapping[str, object], depth: int) -> dict[str, object]:
    schema = _as_dict(value)
    if reference := schema.get("$ref"):
        schema = _as_dict(definitions.get(str(reference)))
    if not depth:
        return {}
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return {
            "anyOf": [_simplify(choice, definitions, depth - 1) for choice in _as_list(choices)]
        }
    if "properties" in schema:
        return _simplify_object(schema, definitions, depth)
    kept = {key: schema[key] for key in KEPT_KEYWORDS if key in schema}
    if "items" in schema:
        kept["items"] = _simplify(schema["items"], definitions, depth - 1)
    return kept


def _simplify_object(
    schema: Mapping[str, object], definitions: Mapping[str, object], depth: int
) -> dict[str, object]:
    properties = _as_dict(schema.get("properties"))
    return {
        "type": "object",
        "properties": {
            name: _simplify(value, definitions, depth - 1) for name, value in properties.items()
        },
        "required": [name for name in _as_names(schema.get("required")) if name in properties],
        "additionalProperties": False,
    }


def _as_dict(value: object) -> dict[str, object]:
    return {str(key): inner for key, inner in value.items()} if isinstance(value, Mapping) else {}


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _as_names(value: object) -> list[str]:
    return [str(name) for name in _as_list(value)]


INTRODUCTION = (
    "You are aidaemon, an assistant that runs on the user's machine. Be brief. "
    "You work in steps; each step is one JSON object."
)
RULES = (
    "reply(text): answer the user. Use a tool only when it is needed; "
    "after a tool's result, use reply to tell the user what you found."
)
ONLY_REPLY = "No tool can be used now: use reply to tell the user what was done and what remains."
MAX_SYSTEM_CHARS = 600
MAX_RESULT_CHARS = 4000
SENTENCE = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


@value
class PromptLine:
    """One entry of the prompt; `starts` is a place where the user began to speak, and history may
    be cut.
    """

    role: str
    content: str
    starts_turn: bool = False

    @property
    def to_message(self) -> dict[str, str]:
        """As the runtime takes it."""
        return {"role": self.role, "content": self.content}

    @property
    def estimate_tokens(self) -> int:
        """A careful guess of its size: a token is at least three bytes of most texts, and a frame
        of four goes round it.
        """
        return len(self.content.encode()) // 3 + 4


def _make_example(said: str, tool: str, **args: str) -> tuple[PromptLine, PromptLine]:
    return PromptLine("user", said), PromptLine("assistant", format_step(tool, compact_json(args)))


EXAMPLES: tuple[PromptLine, ...] = (
    *_make_example("good morning!", REPLY, text="Good morning! How can I help?"),
    *_make_example("do you have the time", "current_time"),
    *_make_example(
        "[result of current_time] 2026-03-01 09:14", REPLY, text="It is 9:14 on March 1, 2026."
    ),
    *_make_example(
        "my favourite color is green, keep that in mind",
        "remember",
        fact="The user's favourite color is green",
    ),
    *_make_example("[result of remember] saved", REPLY, text="I will remember that."),
    *_make_example("how big is the logs folder", "shell", command="du -sh logs"),
    *_make_example("[result of shell] 4.0K logs", REPLY, text="The logs folder takes 4.0K."),
)


def build_opening(request: ModelRequest) -> tuple[PromptLine, ...]:
    """The part that never changes in a conversation. A short system text is kept; a
    long one is replaced by ours.
    """
    said = "\n".join(
        message.text for message in request.messages if message.role is MessageRole.SYSTEM
    )
    addition = [said] if said and len(said) <= MAX_SYSTEM_CHARS else []
    text = "\n".join(
        [INTRODUCTION, "Tools:", *map(_describe_tool, request.tools), RULES, *addition]
    )
    return (PromptLine("system", text), *EXAMPLES)


def build_conversation(request: ModelRequest) -> tuple[PromptLine, ...]:
    """The messages as steps and results. The last line of a call without tools says so, so that
    nothing before it changes.
    """
    lines: list[PromptLine] = []
    waiting: list[ToolCall] = []
    for message in request.messages:
        match message.role:
            case MessageRole.USER:
                lines.append(PromptLine("user", replace_surrogates(message.text), starts_turn=True))
            case MessageRole.ASSISTANT if message.calls:
                waiting = list(message.calls)
            case MessageRole.ASSISTANT:
                lines.append(
                    PromptLine(
                        "assistant",
                        format_step(
                            REPLY, compact_json({"text": replace_surrogates(message.text)})
                        ),
                    )
                )
            case MessageRole.TOOL:
                lines.extend(_result_lines(message, waiting))
            case MessageRole.SYSTEM:
                pass
    if request.tools and not request.tools_allowed:
        lines.append(PromptLine("user", ONLY_REPLY))
    return tuple(lines)


def build_schema(request: ModelRequest) -> dict[str, object]:
    """The JSON schema of a step: one of the tools with its arguments, or a reply; only a reply when
    tools are not allowed.
    """
    tools = request.tools if request.tools_allowed else ()
    branches = [_schema_branch(tool.name, simplify_schema(tool.parameters)) for tool in tools]
    answer = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    return {"anyOf": [*branches, _schema_branch(REPLY, answer)]}


def fit_lines(lines: Sequence[PromptLine], room: int, block: int) -> tuple[PromptLine, ...] | None:
    """The newest lines that fit into `room` tokens; None when not even those since the user last
    spoke do.

    The oldest go first, a block of tokens at a time: the next calls then begin at the same line and
    find their prefix read.
    """
    sizes = [line.estimate_tokens for line in lines]
    surplus = sum(sizes) - room
    if surplus <= 0:
        return tuple(lines)
    target = -(-surplus // block) * block
    starts = [index for index, line in enumerate(lines) if line.starts_turn]
    enough = [start for start in starts if sum(sizes[:start]) >= target]
    barely = [start for start in starts if sum(sizes[:start]) >= surplus]
    cut = next(iter(enough), None) or next(iter(barely), None)
    return tuple(lines[cut:]) if cut else None


def _describe_tool(tool: ToolSpec) -> str:
    sentence = SENTENCE.match(tool.description.strip())
    described = " ".join((sentence.group() if sentence else tool.description).split())
    return f"{tool.name}({', '.join(list_parameters(tool.parameters))}): {described}"


def _schema_branch(name: str, args: Mapping[str, object]) -> dict[str, object]:
    properties = {"tool": {"const": name}, "args": args}
    return {
        "type": "object",
        "properties": properties,
        "required": ["tool", "args"],
        "additionalProperties": False,
    }


def _result_lines(message: Message, waiting: list[ToolCall]) -> tuple[PromptLine, ...]:
    """A result behind its call. Ids repeat: the first open call of that id is meant."""
    call = next((call for call in waiting if call.provider_id == message.provider_id), None)
    text = ("error: " if message.is_error else "") + _truncate(replace_surrogates(message.text))
    if call is None:
        return (PromptLine("user", f"[result of a tool] {text}"),)
    waiting.remove(call)
    return PromptLine(
        "assistant", format_step(call.name, normalize_arguments(call.arguments))
    ), PromptLine("user", f"[result of {call.name}] {text}")


def _truncate(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
