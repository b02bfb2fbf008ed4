"""What the house knows of MCP servers that run; no more of them is imported unless the config has some."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Running(Protocol):
    """See servers.Servers."""

    async def ready(self, seconds: float) -> bool:
        """Wait until every server has shown its tools or has failed once; False when that takes longer than these seconds."""
        ...

    def names(self) -> tuple[str, ...]:
        """All that are configured."""
        ...

    def ailments(self) -> Mapping[str, str]:
        """Why a server's tools cannot be used just now, by its name."""
        ...

    async def approve(self, server: str, code: str, tools: Sequence[str] = ()) -> tuple[str, ...]:
        """Take a change of its tools as the owner has seen it; KeyError for a server that is not configured."""
        ...
