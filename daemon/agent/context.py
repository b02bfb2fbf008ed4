"""What the model sees: system prompt, earlier turns, this turn; repaired, fitted, and the same bytes up to what is new."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from daemon.agent.fit.earlier import Earlier
from daemon.agent.fit.fitting import bounded, fitted
from daemon.agent.fit.sizing import CHARS_PER_TOKEN, digest_of, due, tokens_of
from daemon.agent.prompt import SYSTEM
from daemon.core.budget import Account
from daemon.core.label import Label
from daemon.core.messages import Message, ModelRequest, Role, ToolSpec
from daemon.core.sources import Setting
from daemon.core.turn import Turn
from daemon.tools.base import Toolbox
from daemon.tools.toolbox import allowed

SHRINK = "shrink"


@dataclass(frozen=True, slots=True)
class Scene:
    """What a turn stands in: what its calls are judged by, the turns before it, the tools found earlier, its account."""

    setting: Setting = field(default_factory=Setting)
    earlier: Earlier = field(default_factory=Earlier)
    offers: tuple[str, ...] = ()
    model: str = ""
    effort: str = ""
    stream: bool = True
    account: Account = field(default_factory=lambda: Account(""))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request with what its event says of it."""

    request: ModelRequest
    prompt_hash: str
    tools_hash: str
    tools: tuple[str, ...]
    described: Label
    tokens: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """A list of tools as it is sent, with its hash and an estimate of its tokens. `label` is that of the words that describe
    them: a server describes its own, and one that is gone was a server's (A22).
    """

    specs: tuple[ToolSpec, ...]
    names: tuple[str, ...]
    hash: str
    tokens: int
    label: Label


@dataclass(frozen=True, slots=True)
class Whole:
    """All there is to send, and what it takes; `fixed` is what the system prompt and the tools take."""

    shelf: Shelf
    system: Message
    earlier: Earlier
    own: Sequence[Message]
    fixed: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """Builds the request of each call. `core` are the tools that are always shown; the rest is found by find_tools."""

    toolbox: Toolbox
    core: tuple[str, ...]
    system: str = SYSTEM
    window: int = 32_000
    max_tokens: int | None = None
    _shelves: dict[tuple[int, tuple[str, ...]], Shelf] = field(default_factory=dict)
    _lists: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def prompt(self, turn: Turn, scene: Scene, *, tools_allowed: bool = True) -> Prompt:
        """The request for the next call of this turn."""
        whole = self._whole(turn, scene)
        shelf, system, earlier, own, tokens = whole.shelf, whole.system, whole.earlier, whole.own, whole.tokens
        if tokens > self.window_of(turn):
            earlier, own = fitted(turn, earlier, own, self.window_of(turn) - whole.fixed)
            tokens = whole.fixed + earlier.tokens + tokens_of(own)
        request = ModelRequest((system, *earlier.then(own)), shelf.specs, tools_allowed, self.max_tokens, scene.effort or None)
        prompt_hash = digest_of((system, *own), earlier.digest).hex()
        return Prompt(request, prompt_hash, shelf.hash, shelf.names, shelf.label, tokens)

    def wanted(self, turn: Turn, scene: Scene) -> int:
        """How many tokens the next request would take if no turn and no step had to be left out."""
        return self._whole(turn, scene).tokens

    def fixed(self, turn: Turn, scene: Scene) -> int:
        """How many of them are no history: the system prompt and the tools."""
        return self._whole(turn, scene).fixed

    def _whole(self, turn: Turn, scene: Scene) -> Whole:
        shelf = self._shelf(self._names(turn, scene))
        system = Message(Role.SYSTEM, self._words(turn))
        earlier, own = scene.earlier.left_by(turn), turn.messages
        fixed = tokens_of((system,)) + shelf.tokens
        whole = Whole(shelf, system, earlier, own, fixed, fixed + earlier.tokens + tokens_of(own))
        window = self.window_of(turn)
        if not due(whole.tokens, window):
            return whole
        own = bounded(own, window // 2)
        return replace(whole, own=own, tokens=fixed + earlier.tokens + tokens_of(own))

    def window_of(self, turn: Turn) -> int:
        """How many tokens may be sent for this turn; less than declared once a provider found that to be too much."""
        window = turn.terms.window or self.window
        return min((window, *(event.tokens_after for event in turn.compressed if event.strategy == SHRINK)))

    def _words(self, turn: Turn) -> str:
        return f"{self.system}\n\n{turn.terms.instructions}" if turn.terms.instructions else self.system

    def _names(self, turn: Turn, scene: Scene) -> tuple[str, ...]:
        """A spec that lists its tools has those from the beginning, and no others (B1)."""
        only = turn.terms.tools
        if not only:
            return tuple(dict.fromkeys((*self.core, *scene.offers, *turn.offers)))
        found = (name for name in (*self.core, *self._listed(only), *scene.offers, *turn.offers) if allowed(name, only))
        return tuple(dict.fromkeys(found))

    def _listed(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """What a spec asks for by name, or by the beginning of it; "*" only says that all may be found."""
        if patterns not in self._lists:
            asked = [pattern for pattern in patterns if pattern != "*"]
            self._lists[patterns] = tuple(name for name in self.toolbox.names() if asked and allowed(name, asked))
        return self._lists[patterns]

    def _shelf(self, names: tuple[str, ...]) -> Shelf:
        key = (self.toolbox.edition, names)
        if key not in self._shelves:
            specs = self.toolbox.specs(names)
            text = json.dumps([(spec.name, spec.description, spec.parameters) for spec in specs])
            digest = blake2b(text.encode(), digest_size=12).hexdigest()
            size = (len(text) + 40 * len(specs)) // CHARS_PER_TOKEN
            shown = tuple(spec.name for spec in specs)
            self._shelves[key] = Shelf(specs, shown, digest, size, self._described(shown))
        return self._shelves[key]

    def _described(self, names: Sequence[str]) -> Label:
        found = (self.toolbox.get(name) for name in names)
        return Label.UNTRUSTED if any(tool is None or tool.meta.source for tool in found) else Label.TRUSTED
