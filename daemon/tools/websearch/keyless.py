"""Search without a key: the package ddgs reads the pages of public search engines, in a child process of its own."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from daemon.tools.base import ToolError, Unavailable
from daemon.tools.pages import ask_child
from daemon.tools.websearch.base import Hit, hits_of

COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("keyless_child.py")))
SEARCH_S = 30.0


def is_installed() -> bool:
    """Whether the package is there."""
    return find_spec("ddgs") is not None


@dataclass(frozen=True, slots=True)
class Keyless:
    """The public engines. `command` reads a query and a number as JSON and prints rows, or what went wrong."""

    command: Sequence[str] = COMMAND
    timeout_s: float = SEARCH_S

    async def search(self, query: str, count: int) -> list[Hit]:
        """As SearchEngine says."""
        asked = json.dumps({"query": query, "count": count}).encode()
        printed = await ask_child(self.command, asked, self.timeout_s)
        if printed is None:
            raise Unavailable("the keyless search did not answer; try again later, or set [tools.web] engine to another one")
        told = json.loads(printed)
        if told["trouble"] == "missing":
            raise ToolError("the keyless search needs the package ddgs: pip install 'aidaemon[web]'")
        if told["trouble"]:
            raise Unavailable("the public search engines let no search through just now; try later, or set [tools.web] engine")
        return hits_of(told["rows"], count, snippet="body")
