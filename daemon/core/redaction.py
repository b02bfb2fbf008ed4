"""Secrets are taken out of every text that enters the journal, goes to a model, a log or a person (A6 of the reference).

By exact value and the usual ways of writing it; nothing is guessed from what merely looks like a secret. What is left of one
is `[secret NAME]`. The text's label stays what it was.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

from daemon.core.needles import Needles, Span
from daemon.core.written import SHORTEST, forms

T = TypeVar("T")
Source = Callable[[], Mapping[str, str]]
BETWEEN = "\0"
REMEMBERED, LONGEST_REMEMBERED = 1000, 8000


def marker(name: str) -> str:
    """What stands where a secret was."""
    return f"[secret {name}]"


def handle(name: str) -> str:
    """How the model names a secret to a tool; it is passed on as it is."""
    return f"{{{{secret:{name}}}}}"


def usable(value: str, names: Iterable[str]) -> bool:
    """It can be looked for: long enough, and no part of the very words that stand for secrets."""
    return len(value) >= SHORTEST and not any(value in marker(name) or value in handle(name) for name in names)


def no_secrets() -> Mapping[str, str]:
    """For who has none."""
    return _NONE


_NONE: Mapping[str, str] = {}


def compiled(secrets: Mapping[str, str]) -> Needles:
    """Everything to look for; `secrets` are names by value."""
    names, needles = set(secrets.values()), dict[bytes, str]()
    for value, name in secrets.items():
        if usable(value, names):
            for form in forms(value):
                needles.setdefault(form.encode(), name)
    return Needles.of(needles)


@dataclass(slots=True)
class Redactor:
    """`source` gives the names by value, the same mapping as long as nothing changed; new ones are looked for at once."""

    source: Source = no_secrets
    _seen: Mapping[str, str] | None = field(default=None, repr=False)
    _search: "Search" = field(default_factory=lambda: Search(Needles.of({})), repr=False)

    @property
    def needles(self) -> Needles:
        """What is looked for."""
        return self._current().needles

    def _current(self) -> "Search":
        secrets = self.source()
        if secrets is not self._seen:
            self._seen, self._search = secrets, Search(compiled(secrets))
        return self._search

    def text(self, text: str) -> str:
        """Without any secret."""
        search = self._current()
        return text if search.is_clean((text,)) else _cleared(text, search.needles)

    def value(self, thing: T) -> T:
        """The same with every text in it cleaned: a dataclass, a tuple, a list, a mapping. The very thing if none is there."""
        search = self._current()
        if not search.needles.names or search.is_clean(_texts(thing)):
            return thing
        return cast(T, _cleaned(thing, search.needles))

    def is_clean(self, texts: Iterable[str]) -> bool:
        """No secret is in any of them."""
        return self._current().is_clean(texts)

    def stream(self) -> "Stream":
        """For a text that comes in pieces."""
        return Stream(self)


@dataclass(slots=True)
class Search:
    """A search for these strings. Texts without any are known again: most are sent to a model many times over."""

    needles: Needles
    _clean: set[str] = field(default_factory=set)

    def is_clean(self, texts: Iterable[str]) -> bool:
        """None of them is in any of these; what is new is looked through at once."""
        if not self.needles.names:
            return True
        new = [text for text in texts if text not in self._clean]
        if new and self.needles.find(BETWEEN.join(new).encode("utf-8", "surrogatepass")):
            return False
        if len(self._clean) + len(new) > REMEMBERED:
            self._clean.clear()
        self._clean.update(text for text in new if len(text) <= LONGEST_REMEMBERED)
        return True


def _cleared(text: str, needles: Needles) -> str:
    data = text.encode("utf-8", "surrogatepass")
    spans = needles.find(data)
    return Cut().through(data, spans, len(data)) if spans else text


def _cleaned(thing: object, needles: Needles) -> object:
    if type(thing) is str:
        return _cleared(thing, needles)
    if isinstance(thing, tuple | list):
        items = [_cleaned(item, needles) for item in thing]
        return thing if _same(items, thing) else type(thing)(items)
    if isinstance(thing, Mapping):
        pairs = [(_cleaned(key, needles), _cleaned(item, needles)) for key, item in thing.items()]
        same = all(key is old and item is thing[old] for (key, item), old in zip(pairs, thing, strict=True))
        return thing if same else dict(pairs)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    held = {one.name: getattr(thing, one.name) for one in fields(thing) if one.init}
    cleaned = {name: _cleaned(item, needles) for name, item in held.items()}
    changed = {name: item for name, item in cleaned.items() if item is not held[name]}
    return replace(thing, **changed) if changed else thing


def _texts(thing: object) -> Iterator[str]:
    """Every text that `_cleaned` looks at, in no order."""
    waiting = [thing]
    while waiting:
        one = waiting.pop()
        if type(one) is str:
            yield one
        else:
            waiting += _within(type(one))(one)


@lru_cache(maxsize=512)
def _within(kind: type) -> Callable[[Any], Iterable[object]]:
    """What gives the parts of a thing of this type."""
    if issubclass(kind, tuple | list):
        return iter
    if issubclass(kind, Mapping):
        return lambda thing: (*thing.keys(), *thing.values())
    names = [one.name for one in fields(kind) if one.init] if is_dataclass(kind) else []
    return lambda thing: [getattr(thing, name) for name in names]


def _same(items: list[object], old: tuple[object, ...] | list[object]) -> bool:
    return all(item is before for item, before in zip(items, old, strict=True))


@dataclass(slots=True)
class Cut:
    """Takes spans out of a text, piece by piece: `at` is how much of what comes is already gone, `last` what it was."""

    at: int = 0
    last: str = ""

    def through(self, data: bytes, spans: list[Span], until: int) -> str:
        """The text up to there; a span that begins before and ends behind it is taken out with its whole."""
        kept: list[str] = []
        for start, end, name in spans:
            if end <= self.at or start >= until:
                continue
            if start >= self.at or name != self.last:
                kept += (data[self.at : start].decode("utf-8", "surrogatepass"), marker(name))
            self.at, self.last = end, name
        kept.append(data[self.at : until].decode("utf-8", "surrogatepass"))
        self.at = max(self.at - until, 0)
        return "".join(kept)


@dataclass(slots=True)
class Stream:
    """A text in pieces. Held back is only what may be the beginning of a secret, at most the longest of them."""

    redactor: Redactor
    _held: bytes = b""
    _cut: Cut = field(default_factory=Cut)

    def feed(self, chunk: str) -> str:
        """What can be shown by now."""
        needles = self.redactor.needles
        if not (needles.names or self._held or self._cut.at):
            return chunk
        data = self._held + chunk.encode("utf-8", "surrogatepass")
        until = needles.unfinished(data)
        self._held = data[until:]
        return self._cut.through(data, needles.find(data), until)

    def flush(self) -> str:
        """The rest: nothing more will come."""
        if not self._held:
            self._cut = Cut()
            return ""
        data, self._held = self._held, b""
        shown = self._cut.through(data, self.redactor.needles.find(data), len(data))
        self._cut = Cut()
        return shown
