"""What the model sees: system prompt, earlier turns, this turn; repaired, fitted, and the same bytes up to what is new."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from daemon.agent.prompt import SYSTEM
from daemon.agent.repair import repair
from daemon.core.label import Label, join_all
from daemon.core.messages import Message, ModelRequest, Role, ToolSpec
from daemon.core.turn import Turn
from daemon.tools.base import Toolbox

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Scene:
    """What a turn stands in: its session's label and settings, the turns before it, the tools found earlier."""

    session_label: Label = Label.TRUSTED
    history: tuple[Message, ...] = ()
    offers: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    stream: bool = True


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request with what its event says of it."""

    request: ModelRequest
    prompt_hash: str
    tools_hash: str
    tools: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """A list of tools as it is sent, with its hash and an estimate of its tokens."""

    specs: tuple[ToolSpec, ...]
    names: tuple[str, ...]
    hash: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """Builds the request of each call. `core` are the tools that are always shown; the rest is found by find_tools."""

    toolbox: Toolbox
    core: tuple[str, ...]
    system: str = SYSTEM
    window: int = 32_000
    max_tokens: int | None = None
    _shelves: dict[tuple[str, ...], "Shelf"] = field(default_factory=dict)

    def prompt(self, turn: Turn, scene: Scene, *, tools_allowed: bool = True) -> Prompt:
        """The request for the next call of this turn."""
        shelf = self._shelf(tuple(dict.fromkeys((*self.core, *scene.offers, *turn.offers))))
        history = fit(scene.history, self.window - shelf.tokens - tokens_of(turn.messages))
        messages = (Message(Role.SYSTEM, self.system), *repair((*history, *turn.messages)))
        request = ModelRequest(messages, shelf.specs, tools_allowed, self.max_tokens, scene.effort or None)
        return Prompt(request, hash_of(messages), shelf.hash, shelf.names, tokens_of(messages) + shelf.tokens)

    def _shelf(self, names: tuple[str, ...]) -> "Shelf":
        if names not in self._shelves:
            specs = self.toolbox.specs(names)
            text = json.dumps([(spec.name, spec.description, spec.parameters) for spec in specs])
            digest = blake2b(text.encode(), digest_size=12).hexdigest()
            size = (len(text) + 40 * len(specs)) // CHARS_PER_TOKEN
            self._shelves[names] = Shelf(specs, tuple(spec.name for spec in specs), digest, size)
        return self._shelves[names]


def label_of(turn: Turn, scene: Scene) -> Label:
    """A request's label is the join of everything in it (DESIGN 6)."""
    return join_all((turn.label, scene.session_label, *(message.label for message in scene.history)))


def tokens_of(messages: Sequence[Message]) -> int:
    """A start estimate: four characters a token, and a few for the envelope."""
    chars = sum(len(m.text) + 16 + sum(len(c.name) + len(c.arguments) + 16 for c in m.calls) for m in messages)
    return chars // CHARS_PER_TOKEN


def fit(history: Sequence[Message], room: int) -> Sequence[Message]:
    """What fits of the earlier turns. Too much: the oldest go, down to half of the room, so that the prefix then stays again."""
    if tokens_of(history) <= room:
        return history
    for index, message in enumerate(history):
        if message.role is Role.USER and tokens_of(history[index:]) <= room // 2:
            return history[index:]
    return ()


def hash_of(messages: Sequence[Message]) -> str:
    """A short name for exactly these messages."""
    digest = blake2b(digest_size=12)
    for message in messages:
        digest.update(f"{message.role}\0{message.text}\0{message.provider_id}\0".encode())
        for call in message.calls:
            digest.update(f"{call.provider_id}\0{call.name}\0{call.arguments}\0".encode())
    return digest.hexdigest()
