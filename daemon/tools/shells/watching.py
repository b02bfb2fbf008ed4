"""Who looks at what a command did to the files of the workspace: their owner is told what it may have read and what it wrote."""

from typing import Protocol

from daemon.core.label import Label
from daemon.tools.base import ToolContext


class Watching(Protocol):
    """Looks before a command and after it. Both may raise StoreUnavailable."""

    async def began(self, context: ToolContext | None = None) -> object:
        """Before it starts: what is needed to know later what it changed."""
        ...

    async def ended(self, began: object, context: ToolContext, *, label: Label = Label.TRUSTED, over: bool = True) -> Label:
        """After it: mark what has changed, and say what its output may be trusted for.

        `label` is what it had from elsewhere, from the network; `over` is False while it goes on in the background.
        """
        ...


class Unwatched:
    """For whoever keeps no labels of files."""

    async def began(self, context: ToolContext | None = None) -> object:
        """Nothing to keep."""
        return None

    async def ended(self, began: object, context: ToolContext, *, label: Label = Label.TRUSTED, over: bool = True) -> Label:
        """Nothing more is known against the output."""
        return label
