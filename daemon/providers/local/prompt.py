"""The prompt of the embedded model: compact, with fixed examples, steps as JSON, and a schema.

Everything up to the newest message is the same bytes from call to call: the runtime keeps what it
has already read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.core import value
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import (
    Message,
    MessageRole,
    ModelRequest,
    ToolCall,
    ToolSpec,
    describe_unseen,
    drop_lone_surrogates,
)
from daemon.providers.base import Json, encode_json, get_object

REPLY = "reply"
ANSWER, QUESTION, PLAN = "answer", "question", "plan"
REPLY_OPENS = re.compile(r'\s*\{\s*"tool"\s*:\s*"reply"\s*,\s*"args"\s*:\s*\{\s*"text"\s*:\s*"')
HIGH, LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
JSON_CHARS = re.compile(
    r'[^"\\]+'
    r'|\\["\\/bfnrt]'
    rf"|{HIGH}{LOW}"
    rf"|{HIGH}(?=[^\\]|\\[^u]|\\u(?![dD][c-fC-F])[0-9a-fA-F]{{4}})"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
)


def parse_step(raw: str) -> tuple[str, Json]:
    """The tool and its arguments in what the model wrote. Raises ProviderError (malformed)."""
    try:
        found: object = json.loads(raw, strict=False)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() == {"tool", "args"}:
        tool, args = found["tool"], found["args"]
        if isinstance(tool, str) and isinstance(args, dict):
            return tool, args
    broken = f"the embedded model wrote a broken step: {raw[:200]!r}"
    raise ProviderError(ErrorClass.MALFORMED, broken)


def parse_reply(args: Json) -> tuple[str, bool]:
    """The words of a reply step, and whether they are only a plan. Raises ProviderError
    (malformed).
    """
    if args.keys() == {"text", "kind"} and isinstance(text := args["text"], str):
        return drop_lone_surrogates(text), args["kind"] == PLAN
    raise ProviderError(ErrorClass.MALFORMED, "the embedded model wrote a reply without a text")


def normalize_arguments(arguments: str) -> str:
    """Arguments as any model wrote them, in our form; what is not JSON is shown as none."""
    try:
        return compact_json(json.loads(arguments))
    except ValueError:
        return "{}"


def format_step(tool: str, arguments: str) -> str:
    """A step as the model writes it. The same bytes each time, so that the prompt cache is met."""
    return f'{{"tool":{compact_json(tool)},"args":{arguments}}}'


def compact_json(value: object) -> str:
    """JSON without spare spaces."""
    return encode_json(value).decode()


@dataclass(slots=True)
class ReplyDecoder:
    """Turns a growing reply step into its growing text. Of other steps nothing is shown."""

    text: str = ""
    is_reply: bool = False
    _pending: str = ""
    _closed: bool = False

    def feed(self, piece: str) -> str:
        """What this piece adds to the text; an escape cut in two waits for its other half."""
        self._pending += piece
        if not self.is_reply and (opening := REPLY_OPENS.match(self._pending)):
            self.is_reply, self._pending = True, self._pending[opening.end() :]
        if not self.is_reply or self._closed:
            return ""
        letters: list[str] = []
        at = 0
        while match := JSON_CHARS.match(self._pending, at):
            letters.append(match.group())
            at = match.end()
        self._pending = self._pending[at:]
        self._closed = self._pending.startswith('"')
        decoded = [json.loads(f'"{letter}"', strict=False) for letter in letters]
        shown = drop_lone_surrogates("".join(decoded))
        self.text += shown
        return shown


KEPT_KEYWORDS = ("type", "enum", "const", "minimum", "maximum", "minItems", "maxItems")
MAX_DEPTH = 4


def simplify_schema(schema: Mapping[str, object]) -> Json:
    """The arguments object: closed, references resolved, without patterns, formats and words."""
    given = dict(schema)
    closed: Json = {"properties": given.get("properties"), "required": given.get("required")}
    return _simplify(closed, get_object(given, "$defs"), MAX_DEPTH)


def _simplify(value: object, definitions: Json, depth: int) -> Json:
    schema: Json = value if isinstance(value, dict) else {}
    if reference := schema.get("$ref"):
        schema = get_object(definitions, str(reference).removeprefix("#/$defs/"))
    if not depth:
        return {}
    if choices := _as_list(schema.get("anyOf") or schema.get("oneOf")):
        return {"anyOf": [_simplify(choice, definitions, depth - 1) for choice in choices]}
    if "properties" in schema:
        inner = {
            name: _simplify(value, definitions, depth - 1)
            for name, value in get_object(schema, "properties").items()
        }
        required = [name for name in _as_list(schema.get("required")) if name in inner]
        closed: Json = {"required": required, "additionalProperties": False}
        return {"type": "object", "properties": inner, **closed}
    kept = {key: schema[key] for key in KEPT_KEYWORDS if key in schema}
    if "items" in schema:
        kept["items"] = _simplify(schema["items"], definitions, depth - 1)
    return kept


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


INTRODUCTION = (
    "You are aidaemon, an assistant that runs on the user's machine. Be brief. "
    "You work in steps; each step is one JSON object."
)
RULES = (
    "reply(text, kind): answer the user. Use a tool only when it is needed; "
    "after a tool's result, use reply to tell the user what you found. The kind is answer, "
    "question, or plan when the text says what you will do and it is not done yet."
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
    def estimate_tokens(self) -> int:
        """A careful guess of its size: a token is at least three bytes of most texts, and a frame
        of four goes round it.
        """
        return len(self.content.encode()) // 3 + 4


def _make_example(said: str, tool: str, **args: object) -> tuple[PromptLine, PromptLine]:
    return PromptLine("user", said), PromptLine("assistant", format_step(tool, compact_json(args)))


def _make_answer(said: str, text: str) -> tuple[PromptLine, PromptLine]:
    return _make_example(said, REPLY, text=text, kind=ANSWER)


EXAMPLES: tuple[PromptLine, ...] = (
    *_make_answer("good morning!", "Good morning! How can I help?"),
    *_make_answer("who painted the Mona Lisa?", "Leonardo da Vinci painted it."),
    *_make_example("how much is 6 times 1.5", "calculate", expression="6*1.5"),
    *_make_answer("[result of calculate] 6 * 1.5 = 9", "It is 9."),
    *_make_example("do you have the time", "current_time"),
    *_make_answer("[result of current_time] 2026-03-01 09:14", "It is 9:14 on March 1, 2026."),
    *_make_example(
        "my favourite color is green, keep that in mind",
        "remember",
        fact="The user's favourite color is green",
    ),
    *_make_answer("[result of remember] saved", "I will remember that."),
    *_make_example("how many bytes does draft.txt have", "shell", command="wc -c draft.txt"),
    *_make_answer("[result of shell] 812 draft.txt", "draft.txt has 812 bytes."),
    *_make_example("what is in the folder old", "list_dir", path="old"),
    *_make_answer("[result of list_dir] a.txt 12 bytes\nb/", "The file a.txt and the folder b."),
    *_make_example("what does Ben owe, says debts.csv?", "read_file", path="debts.csv"),
    *_make_answer("[result of read_file] name,owes\nAnn,4\nBen,7", "Ben owes 7."),
    *_make_example("a.md should be called b.md", "shell", command="mv a.md b.md"),
    *_make_example("keep a second plan.txt as old.txt", "copy_file", path="plan.txt", to="old.txt"),
    *_make_example(
        "tea instead of coffee in plan.txt", "edit_file", path="plan.txt", old="coffee", new="tea"
    ),
    *_make_answer(
        "[result of edit_file] edited plan.txt, line 3: 'coffee' became 'tea'",
        "Line 3 of plan.txt now says tea.",
    ),
    *_make_example("add rice to food.txt", "edit_file", path="food.txt", old="", new="rice"),
    *_make_example("rename run to go in cat.py", "edit_file", path="cat.py", old="run", new="go"),
    *_make_example(
        "[result of edit_file] error: cat.py: old stands in it 2 times (lines 1, 4), not once.",
        "edit_file",
        path="cat.py",
        old="run",
        new="go",
        every=True,
    ),
    *_make_example(
        "check off mop in chores.md", "edit_file", path="chores.md", old="[ ] mop", new="[x] mop"
    ),
    *_make_example(
        "the tent is no longer on pack.txt", "delete_line", path="pack.txt", text="tent"
    ),
    *_make_example(
        "remind me on thursday at 3 pm to lock the shed",
        "schedule",
        when="thursday at 3 pm",
        prompt="lock the shed",
        remind=True,
    ),
    *_make_answer(
        "[result of schedule] Scheduled as lock-the-shed. It runs once: Thu 2026-03-05 15:00",
        "I will remind you on Thursday, March 5, at 15:00.",
    ),
    *_make_example(
        "the car must be charged each evening at 20:00, tell me then",
        "schedule",
        when="every day at 20:00",
        prompt="charge the car",
        remind=True,
    ),
    *_make_answer(
        "[result of schedule] Scheduled as charge-the-car. Next runs: Sun 2026-03-01 20:00",
        "I will tell you every day at 20:00.",
    ),
    *_make_example("which reminders do I have", "schedule", action="list"),
    *_make_answer(
        "[result of schedule] charge-the-car: every day at 20:00: charge the car",
        "One: charge the car, every day at 20:00.",
    ),
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
                said = drop_lone_surrogates(describe_unseen(message))
                lines.append(PromptLine("user", said, starts_turn=True))
            case MessageRole.ASSISTANT if message.calls:
                waiting = list(message.calls)
            case MessageRole.ASSISTANT:
                step = format_step(REPLY, compact_json({"text": message.text, "kind": ANSWER}))
                lines.append(PromptLine("assistant", step))
            case MessageRole.TOOL:
                lines.extend(_result_lines(message, waiting))
            case MessageRole.SYSTEM:
                pass
    if request.tools and not request.tools_allowed:
        lines.append(PromptLine("user", ONLY_REPLY))
    return tuple(lines)


def build_schema(request: ModelRequest) -> Json:
    """The JSON schema of a step: one of the tools with its arguments, or a reply; only a reply when
    tools are not allowed.
    """
    tools = request.tools if request.tools_allowed else ()
    branches = [_schema_branch(tool.name, simplify_schema(tool.parameters)) for tool in tools]
    kinds = {"enum": [ANSWER, QUESTION, PLAN]}
    words: Json = {"text": {"type": "string"}, "kind": kinds}
    answer = simplify_schema({"properties": words, "required": [*words]})
    return {"anyOf": [*branches, _schema_branch(REPLY, answer)]}


def fit_lines(lines: Sequence[PromptLine], room: int, block: int) -> tuple[PromptLine, ...] | None:
    """The newest lines that fit into `room` tokens; None when not even those since the user last
    spoke do.

    The oldest go first, a block of tokens at a time, so that the next calls begin at the same line
    and find their prefix read.
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
    schema = dict(tool.parameters)
    required = _as_list(schema.get("required"))
    names = [n if n in required else f"{n}?" for n in get_object(schema, "properties")]
    return f"{tool.name}({', '.join(names)}): {described}"


def _schema_branch(name: str, args: Json) -> Json:
    properties = {"tool": {"const": name}, "args": args}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _result_lines(message: Message, waiting: list[ToolCall]) -> list[PromptLine]:
    """A result behind its call. Ids repeat: the first open call of that id is meant."""
    text = drop_lone_surrogates(message.text)
    if len(text) > MAX_RESULT_CHARS:
        half = MAX_RESULT_CHARS // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
    text = f"error: {text}" if message.is_error else text
    call = next((call for call in waiting if call.provider_id == message.provider_id), None)
    if call is None:
        return [PromptLine("user", f"[result of a tool] {text}")]
    waiting.remove(call)
    step = format_step(call.name, normalize_arguments(call.arguments))
    return [PromptLine("assistant", step), PromptLine("user", f"[result of {call.name}] {text}")]
