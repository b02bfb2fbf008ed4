"""What the embedded model is shown: a compact prompt, fixed examples, the conversation as steps, and a schema of them.

Everything up to the newest message is the same bytes from call to call: the runtime keeps what it has already read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.core.messages import Message, ModelRequest, Role, ToolCall, ToolSpec
from daemon.providers.local_schema import narrowed, parameters
from daemon.providers.local_step import REPLY, compact, sound, tidied, written

INTRODUCTION = (
    "You are aidaemon, an assistant that runs on the user's machine. Be brief. You work in steps; each step is one JSON object."
)
RULES = (
    "reply(text): answer the user. Use a tool only when it is needed; "
    "after a tool's result, use reply to tell the user what you found."
)
ONLY_REPLY = "No tool can be used now: use reply to tell the user what was done and what remains."
LONGEST_ADDITION = 600
LONGEST_RESULT = 4000
SENTENCE = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the prompt; `starts` is a place where the user began to speak, and history may be cut."""

    role: str
    content: str
    starts: bool = False

    @property
    def wire(self) -> dict[str, str]:
        """As the runtime takes it."""
        return {"role": self.role, "content": self.content}

    @property
    def tokens(self) -> int:
        """A careful guess of its size: a token is at least three bytes of most texts, and a frame of four goes round it."""
        return len(self.content.encode()) // 3 + 4


def _example(said: str, tool: str, **args: str) -> tuple[Line, Line]:
    return Line("user", said), Line("assistant", written(tool, compact(args)))


EXAMPLES: tuple[Line, ...] = (
    *_example("good morning!", REPLY, text="Good morning! How can I help?"),
    *_example("do you have the time", "current_time"),
    *_example("[result of current_time] 2026-03-01 09:14", REPLY, text="It is 9:14 on March 1, 2026."),
    *_example("my favourite color is green, keep that in mind", "remember", fact="The user's favourite color is green"),
    *_example("[result of remember] saved", REPLY, text="I will remember that."),
    *_example("how big is the logs folder", "shell", command="du -sh logs"),
    *_example("[result of shell] 4.0K logs", REPLY, text="The logs folder takes 4.0K."),
)


def opening(request: ModelRequest) -> tuple[Line, ...]:
    """The part that never changes in a conversation. A short system text of the house is kept; a long one is replaced by ours."""
    said = "\n".join(message.text for message in request.messages if message.role is Role.SYSTEM)
    addition = [said] if said and len(said) <= LONGEST_ADDITION else []
    text = "\n".join([INTRODUCTION, "Tools:", *map(_tool_line, request.tools), RULES, *addition])
    return (Line("system", text), *EXAMPLES)


def conversation(request: ModelRequest) -> tuple[Line, ...]:
    """The messages as steps and results. The last line of a call without tools says so, so that nothing before it changes."""
    lines: list[Line] = []
    waiting: list[ToolCall] = []
    for message in request.messages:
        match message.role:
            case Role.USER:
                lines.append(Line("user", sound(message.text), starts=True))
            case Role.ASSISTANT if message.calls:
                waiting = list(message.calls)
            case Role.ASSISTANT:
                lines.append(Line("assistant", written(REPLY, compact({"text": sound(message.text)}))))
            case Role.TOOL:
                lines.extend(_result(message, waiting))
            case Role.SYSTEM:
                pass
    if request.tools and not request.tools_allowed:
        lines.append(Line("user", ONLY_REPLY))
    return tuple(lines)


def schema(request: ModelRequest) -> dict[str, object]:
    """The JSON schema of a step: one of the tools with its arguments, or a reply; only a reply when tools are not allowed."""
    tools = request.tools if request.tools_allowed else ()
    branches = [_branch(tool.name, narrowed(tool.parameters)) for tool in tools]
    answer = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
    return {"anyOf": [*branches, _branch(REPLY, answer)]}


def fitted(lines: Sequence[Line], room: int, block: int) -> tuple[Line, ...] | None:
    """The newest lines that fit into `room` tokens; None when not even those since the user last spoke do.

    The oldest go first, a block of tokens at a time: the next calls then begin at the same line and find their prefix read.
    """
    sizes = [line.tokens for line in lines]
    surplus = sum(sizes) - room
    if surplus <= 0:
        return tuple(lines)
    target = -(-surplus // block) * block
    starts = [index for index, line in enumerate(lines) if line.starts]
    enough = [start for start in starts if sum(sizes[:start]) >= target]
    barely = [start for start in starts if sum(sizes[:start]) >= surplus]
    cut = next(iter(enough), None) or next(iter(barely), None)
    return tuple(lines[cut:]) if cut else None


def _tool_line(tool: ToolSpec) -> str:
    sentence = SENTENCE.match(tool.description.strip())
    described = " ".join((sentence.group() if sentence else tool.description).split())
    return f"{tool.name}({', '.join(parameters(tool.parameters))}): {described}"


def _branch(name: str, args: Mapping[str, object]) -> dict[str, object]:
    properties = {"tool": {"const": name}, "args": args}
    return {"type": "object", "properties": properties, "required": ["tool", "args"], "additionalProperties": False}


def _result(message: Message, waiting: list[ToolCall]) -> tuple[Line, ...]:
    """A result behind the call it answers; ids repeat, so the first open call of that id is meant."""
    call = next((call for call in waiting if call.provider_id == message.provider_id), None)
    text = ("error: " if message.is_error else "") + _shortened(sound(message.text))
    if call is None:
        return (Line("user", f"[result of a tool] {text}"),)
    waiting.remove(call)
    return Line("assistant", written(call.name, tidied(call.arguments))), Line("user", f"[result of {call.name}] {text}")


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_RESULT:
        return text
    half = LONGEST_RESULT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
