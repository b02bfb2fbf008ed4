"""All tools there are, those that are switched off left out."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.messages import ToolSpec
from daemon.tools.base import Tool

CORE_TOOLS = (
    "current_time",
    "remember",
    "recall",
    "read_file",
    "shell",
    "request_more_iterations",
    "find_tools",
)
WORD = re.compile(r"[^\W_]+")


class ToolRegistry:
    """All tools: the house's own, and those of sources that come and go (`adopt`). A name never passes to another source (D7)."""

    def __init__(
        self, tools: Sequence[Tool], *, enabled: Sequence[str] = (), disabled: Sequence[str] = ()
    ) -> None:
        """`enabled` and `disabled` are names or patterns; with no `enabled` all are. Raises ConfigError for a name used twice."""
        names = [tool.name for tool in tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two tools have the same name: {', '.join(twice)}")
        self._enabled, self._disabled = tuple(enabled), tuple(disabled)
        self._tools = {tool.name: tool for tool in tools if self._is_enabled(tool.name)}
        self._from: dict[str, tuple[str, ...]] = {}
        self._gone: dict[str, ToolSpec] = {}
        self.edition = 0

    def replace_source(self, source: str, tools: Sequence[Tool]) -> tuple[str, ...]:
        """From now on these are the tools of that source, instead of those it had. A name that is taken stays with whom it is;
        gives the names that were refused for that.
        """
        self.edition += 1
        for name in self._from.pop(source, ()):
            self._gone[name] = self._tools.pop(name).spec
        fresh = {tool.name: tool for tool in tools if tool.name not in self._tools}
        self._from[source] = tuple(name for name in fresh if self._is_enabled(name))
        self._tools |= {name: fresh[name] for name in self._from[source]}
        return tuple(tool.name for tool in tools if fresh.get(tool.name) is not tool)

    def _is_enabled(self, name: str) -> bool:
        return (not self._enabled or _matches(name, self._enabled)) and not _matches(
            name, self._disabled
        )

    def get(self, name: str) -> Tool | None:
        """The tool of that name; None when there is none or it is switched off."""
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        """Every tool that can be called, in order."""
        return tuple(self._tools)

    def core_names(self) -> tuple[str, ...]:
        """The tools that every conversation begins with; the rest are found."""
        return tuple(name for name in CORE_TOOLS if name in self._tools)

    def specs(self, names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """What the model is shown of these, in this order. One that is gone stays listed and answers with an error (DESIGN 7)."""
        known = self._gone | {
            name: tool.spec for name, tool in self._tools.items() if name in names
        }
        return tuple(known[name] for name in names if name in known)

    def nearest(self, name: str) -> str | None:
        """The tool that was perhaps meant."""
        close = get_close_matches(name.casefold(), self._tools, n=1, cutoff=0.5)
        return close[0] if close else None

    def search(self, query: str, limit: int = 8) -> tuple[ToolSpec, ...]:
        """Tools whose name or description has words of the query, the best first."""
        words = {word.casefold() for word in WORD.findall(query) if len(word) > 2}
        scored = [
            (_score(tool.spec.name, tool.spec.description, words), tool.spec)
            for tool in self._tools.values()
        ]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return tuple(spec for _, spec in found[:limit])


def check_enabled_names(
    known: Sequence[str], *, enabled: Sequence[str], disabled: Sequence[str]
) -> None:
    """Raises ConfigError for a name in [tools] that fits no tool; for whoever knows all names there can be."""
    for key, given in (("enabled", enabled), ("disabled", disabled)):
        for name in given:
            if not any(fnmatchcase(one, name) for one in known):
                close = get_close_matches(name, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise ConfigError(f"tools.{key}: there is no tool {name!r}{hint}")


def is_allowed(name: str, patterns: Sequence[str]) -> bool:
    """An agent may use this tool; with no patterns it may use all (B1)."""
    return not patterns or _matches(name, patterns)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@value
class SearchWords:
    """The words of a name or a description, as they are looked for."""

    words: frozenset[str]
    joined: str

    def has_word(self, word: str) -> bool:
        """This word, or one that begins alike: for longer words an ending may differ."""
        if word in self.words:
            return True
        return len(word) > 3 and (
            f" {word[:-1]}" in self.joined or not self.words.isdisjoint(_prefixes(word))
        )


def _score(name: str, description: str, words: set[str]) -> int:
    named, told = _search_words(name), _search_words(description)
    return sum(3 * named.has_word(word) + told.has_word(word) for word in words)


@lru_cache(maxsize=1024)
def _search_words(text: str) -> SearchWords:
    found = [word.casefold() for word in WORD.findall(text)]
    return SearchWords(frozenset(found), " " + " ".join(found))


@lru_cache(maxsize=256)
def _prefixes(word: str) -> frozenset[str]:
    return frozenset(word[:end] for end in range(1, len(word)))
