"""Why a server is not there: what it printed last, and what that says of the network (G2)."""

import errno
import os
from collections import deque
from collections.abc import Callable

from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.tools import sanitize_line

KEPT_LINES, SHOWN_CHARS, LINE_CHARS, PROBLEM_CHARS = 40, 1000, 200, 500
# How programs say that no name was found or no network is there: the C library, Node, Rust.
NO_NETWORK = (
    os.strerror(errno.ENETUNREACH),
    "name resolution",
    "Name or service not known",
    "nodename nor servname",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETUNREACH",
    "dns error",
)


class LastWords:
    """What a server printed last on its error output."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def note(self, line: str) -> None:
        """One more line."""
        self._lines.append(sanitize_line(self._redact(line), LINE_CHARS))

    def explain(self, problem: str, config: McpConfig) -> str:
        """The problem, and what to change."""
        plain = sanitize_line(self._redact(problem), PROBLEM_CHARS)
        return f"{plain}{self.advise(problem, config)}"

    def advise(self, problem: str, config: McpConfig) -> str:
        """What to change, in our own words; "" where that cannot be told."""
        shut = bool(config.command) and config.sandbox != "off" and not config.network
        if shut and any(sign in line for line in (*self._lines, problem) for sign in NO_NETWORK):
            wanted = "a host beyond its domains" if config.domains else "the network"
            return f"; it wanted {wanted}: add domains, or network = true, to its section"
        return ""

    def quote(self) -> str:
        """The last lines themselves, "" for none."""
        shown, left = deque[str](), SHOWN_CHARS
        for line in reversed(self._lines):
            left -= len(line)
            if left < 0:
                break
            if any(map(str.isalnum, line)):  # tracebacks underline
                shown.appendleft(line)
        return f"; its last words: {' | '.join(shown)}" if shown else ""
