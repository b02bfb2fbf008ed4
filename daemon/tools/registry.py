"""The registry of the enabled tools."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

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
    """All tools: our own, and those of sources that come and go. A name keeps its source (D7).

    `edition` changes whenever tools come or go.
    """

    def __init__(
        self, tools: Sequence[Tool], *, enabled: Sequence[str] = (), disabled: Sequence[str] = ()
    ) -> None:
        """`enabled` and `disabled` are names or patterns; without `enabled` all are enabled.

        Raises ConfigError for a name used twice.
        """
        names = [tool.name for tool in tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"two tools have the same name: {', '.join(twice)}")
        self._enabled, self._disabled = tuple(enabled), tuple(disabled)
        self._tools = {tool.name: tool for tool in tools if self._is_enabled(tool.name)}
        self._from: dict[str, tuple[str, ...]] = {}
        self._gone: dict[str, ToolSpec] = {}
        self.edition = 0

    def replace_source(self, source: str, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Replace the tools of a source; the names refused because another source has them."""
        self.edition += 1
        for name in self._from.pop(source, ()):
            self._gone[name] = self._tools.pop(name).spec
        fresh = {tool.name: tool for tool in tools if tool.name not in self._tools}
        self._from[source] = tuple(name for name in fresh if self._is_enabled(name))
        self._tools |= {name: fresh[name] for name in self._from[source]}
        return tuple(tool.name for tool in tools if fresh.get(tool.name) is not tool)

    def _is_enabled(self, name: str) -> bool:
        return is_allowed(name, self._enabled) and not _matches(name, self._disabled)

    def get(self, name: str) -> Tool | None:
        """The tool of that name; None when there is none or it is disabled."""
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        """Every tool that can be called, in order."""
        return tuple(self._tools)

    def core_names(self) -> tuple[str, ...]:
        """The tools of every conversation; the model searches for the others."""
        return tuple(name for name in CORE_TOOLS if name in self._tools)

    def specs(self, names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """The definitions of these, in this order. A tool that is gone stays listed
        (architecture.md).
        """
        known = ((self._tools.get(name), self._gone.get(name)) for name in names)
        return tuple(spec for tool, gone in known if (spec := tool.spec if tool else gone))

    def nearest(self, name: str) -> str | None:
        """The most similar name."""
        close = get_close_matches(name.casefold(), self._tools, n=1, cutoff=0.5)
        return close[0] if close else None

    def search(self, query: str, limit: int = 8) -> tuple[ToolSpec, ...]:
        """Tools whose name or description has words of the query, best first."""
        words = {word.casefold() for word in WORD.findall(query) if len(word) > 2}
        specs = [tool.spec for tool in self._tools.values()]
        scores = {spec.name: _score(spec.name, spec.description, words) for spec in specs}
        found = [spec for spec in specs if scores[spec.name]]
        return tuple(sorted(found, key=lambda spec: -scores[spec.name])[:limit])


def check_enabled_names(
    known: Sequence[str], *, enabled: Sequence[str], disabled: Sequence[str]
) -> None:
    """Raises ConfigError for a name in [tools] that matches none of the known tools."""
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


def _score(name: str, description: str, words: set[str]) -> int:
    named, described = _search_words(name), _search_words(description)
    return sum(3 * _has_word(named, word) + _has_word(described, word) for word in words)


def _has_word(known: frozenset[str], word: str) -> bool:
    """This word; of a longer one the ending may differ."""
    if word in known or len(word) <= 3:
        return word in known
    return any(other.startswith(word[:-1]) or word.startswith(other) for other in known)


@lru_cache(maxsize=1024)
def _search_words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in WORD.findall(text))
