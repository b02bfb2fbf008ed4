"""The registry of the enabled tools."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from daemon.core.errors import ConfigError
from daemon.core.messages import ToolSpec
from daemon.tools.base import Tool
from daemon.tools.stemming import list_stems, split_words, stem

CORE_TOOLS = (
    "current_time",
    "remember",
    "recall",
    "read_file",
    "shell",
    "request_more_iterations",
    "schedule",
    "find_tools",
)


class ToolRegistry:
    """All tools: our own, and those of sources that come and go. A name keeps its source (D7).

    `edition` changes whenever tools come or go. `list_absent` names MCP servers that are out.
    """

    def __init__(
        self, tools: Sequence[Tool], *, enabled: Sequence[str] = (), disabled: Sequence[str] = ()
    ) -> None:
        """`enabled` and `disabled` are names or patterns; without `enabled` all are enabled.

        Raises ConfigError for a name used twice.
        """
        self._enabled, self._disabled = tuple(enabled), tuple(disabled)
        self._tools: dict[str, Tool] = {}
        self._from: dict[str, tuple[str, ...]] = {}
        self._gone: dict[str, ToolSpec] = {}
        self.list_absent: Callable[[], Collection[str]] = tuple
        self._stems: dict[str, list[tuple[str, int]]] = {}
        self.edition = 0
        if twice := self.replace_source("", tools):
            raise ConfigError(f"two tools have the same name: {', '.join(twice)}")

    def replace_source(self, source: str, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Replace the tools of a source; the names refused because another tool has them."""
        self.edition += 1
        for name in self._from.pop(source, ()):
            self._gone[name] = self._tools.pop(name).spec
        fresh = {tool.name: tool for tool in tools if tool.name not in self._tools}
        self._from[source] = tuple(
            name for name in fresh if is_enabled(name, self._enabled, self._disabled)
        )
        self._tools |= {name: fresh[name] for name in self._from[source]}
        self._stems.clear()
        return tuple(tool.name for tool in tools if fresh.get(tool.name) is not tool)

    def is_enabled(self, name: str) -> bool:
        """As the config says of this name, whether there is such a tool or not."""
        return is_enabled(name, self._enabled, self._disabled)

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

    def explain_outage(self, name: str) -> str:
        """That the server whose tool this is cannot be reached; "" where none is missing."""
        for server in self.list_absent():
            own = f"{server}__"
            if name.startswith(own) and not any(one.startswith(own) for one in self._tools):
                why = f"{name} cannot be called now: the MCP server {server} is not there."
                return f"{why} `aidaemon mcp list` says what is wrong."
        return ""

    def explain_missing(self, name: str) -> str:
        """Why there is no such tool now; the most similar name."""
        if outage := self.explain_outage(name):
            return outage
        close = get_close_matches(name.casefold(), self._tools, n=1, cutoff=0.5)
        hint = f"; nearest: {close[0]}" if close else ""
        return f"no tool named {name}{hint}. find_tools lists others."

    def search(self, query: str, limit: int = 8) -> tuple[ToolSpec, ...]:
        """Tools whose name or description has words of the query, best first."""
        words = {stem(word) for word in split_words(query) if len(word) > 2}
        worth = Counter[str]()
        for word in words:
            for name, weight in self._index_words().get(word, ()):
                worth[name] += weight
        best = sorted(filter(worth.__contains__, self._tools), key=worth.__getitem__, reverse=True)
        return tuple(self._tools[name].spec for name in best[:limit])

    def _index_words(self) -> dict[str, list[tuple[str, int]]]:
        """By stem the tools that have it, and how much it counts: in the name more."""
        if not self._stems:
            for name, tool in self._tools.items():
                for weight, text in ((3, name), (1, tool.spec.description)):
                    for word in list_stems(text):
                        self._stems.setdefault(word, []).append((name, weight))
        return self._stems


def is_enabled(name: str, enabled: Sequence[str], disabled: Sequence[str]) -> bool:
    """By names or patterns; without `enabled` all are."""
    return is_allowed(name, enabled) and not (disabled and is_allowed(name, disabled))


def is_allowed(name: str, patterns: Sequence[str]) -> bool:
    """An agent may use this tool; with no patterns it may use all (B1)."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
