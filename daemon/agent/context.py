"""What the model sees: system prompt, earlier turns, this turn; repaired, fitted, and the same bytes up to what is new."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from daemon.agent.prompt import SYSTEM
from daemon.agent.repair import repair
from daemon.core.label import Label
from daemon.core.messages import Message, ModelRequest, Role, ToolSpec
from daemon.core.turn import Turn
from daemon.tools.base import Toolbox

CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Earlier:
    """The turns before this one, repaired, measured and hashed once for all calls of the turn."""

    messages: tuple[Message, ...] = ()
    tokens: int = 0
    digest: bytes = b""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "Earlier":
        """Of the messages as they were said."""
        sound = tuple(repair(messages))
        return cls(sound, tokens_of(sound), digest_of(sound))

    def fitted(self, room: int) -> "Earlier":
        """What fits. Too much: the oldest go, down to half of the room, so that the prefix then stays the same again."""
        if self.tokens <= room:
            return self
        for index, message in enumerate(self.messages):
            if message.role is Role.USER and tokens_of(self.messages[index:]) <= room // 2:
                return Earlier.of(self.messages[index:])
        return Earlier()

    def then(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """With this turn's messages behind it, repaired; only where the two meet badly is all of it looked at again."""
        last = self.messages[-1] if self.messages else None
        if last is None or (last.role is Role.ASSISTANT and not last.calls and messages[:1] and messages[0].role is Role.USER):
            return (*self.messages, *repair(messages))
        return tuple(repair((*self.messages, *messages)))


@dataclass(frozen=True, slots=True)
class Scene:
    """What a turn stands in: its session's label and settings, the turns before it, the tools found earlier."""

    session_label: Label = Label.TRUSTED
    earlier: Earlier = field(default_factory=Earlier)
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
        own = tokens_of(turn.messages)
        earlier = scene.earlier.fitted(self.window - shelf.tokens - own)
        messages = (Message(Role.SYSTEM, self.system), *earlier.then(turn.messages))
        request = ModelRequest(messages, shelf.specs, tools_allowed, self.max_tokens, scene.effort or None)
        tokens = tokens_of(messages[:1]) + earlier.tokens + own + shelf.tokens
        prompt_hash = digest_of((messages[0], *turn.messages), earlier.digest).hex()
        return Prompt(request, prompt_hash, shelf.hash, shelf.names, tokens)

    def _shelf(self, names: tuple[str, ...]) -> "Shelf":
        if names not in self._shelves:
            specs = self.toolbox.specs(names)
            text = json.dumps([(spec.name, spec.description, spec.parameters) for spec in specs])
            digest = blake2b(text.encode(), digest_size=12).hexdigest()
            size = (len(text) + 40 * len(specs)) // CHARS_PER_TOKEN
            self._shelves[names] = Shelf(specs, tuple(spec.name for spec in specs), digest, size)
        return self._shelves[names]


def tokens_of(messages: Sequence[Message]) -> int:
    """A start estimate: four characters a token, and a few for the envelope."""
    chars = sum(len(m.text) + 16 + sum(len(c.name) + len(c.arguments) + 16 for c in m.calls) for m in messages)
    return chars // CHARS_PER_TOKEN


def digest_of(messages: Sequence[Message], before: bytes = b"") -> bytes:
    """A short name for exactly these messages, after those of which `before` is the name."""
    digest = blake2b(before, digest_size=12)
    for message in messages:
        digest.update(f"{message.role}\0{message.text}\0{message.provider_id}\0".encode("utf-8", "surrogatepass"))
        for call in message.calls:
            digest.update(f"{call.provider_id}\0{call.name}\0{call.arguments}\0".encode("utf-8", "surrogatepass"))
    return digest.digest()
