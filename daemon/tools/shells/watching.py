"""Who looks at what a command did to the files of the workspace: their owner is told what it may have read and what it wrote."""

from typing import Protocol

from daemon.core.label import Label
from daemon.tools.base import ToolContext


class Watching(Protocol):
    """Looks before a command and after it."""

    async def began(self) -> object:
        """Before it starts: what is needed to know later what it changed."""
        ...

    async def ended(self, began: object, context: ToolContext) -> Label:
        """After it, or while it goes on in the background: mark what has changed; what its output may be trusted for."""
        ...


class Unwatched:
    """For whoever keeps no labels of files."""

    async def began(self) -> object:
        """Nothing to keep."""
        return None

    async def ended(self, began: object, context: ToolContext) -> Label:
        """Nothing is known against the output."""
        return Label.TRUSTED
