"""remember and recall, over whatever memory the house has."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from daemon.core.label import Effect, Label, join_all
from daemon.core.sources import is_owners
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.decorate import tool

BEST = 8


class Remembered(Protocol):
    """Something that was remembered."""

    @property
    def text(self) -> str:
        """The words."""
        ...

    @property
    def at(self) -> datetime:
        """When it was said."""
        ...

    @property
    def label(self) -> str:
        """What it may be trusted for."""
        ...

    @property
    def owned(self) -> bool:
        """The owner said it."""
        ...


class Memories(Protocol):
    """A memory, as these tools need it."""

    async def remember(self, text: str, *, at: datetime, source: str, label: str = "trusted", owned: bool = True) -> str:
        """Keep it; gives its id."""
        ...

    async def recall(self, query: str, limit: int) -> Sequence[Remembered]:
        """What fits the query, the best first."""
        ...


@tool(effect=Effect.WRITE, idempotent=True, critical=())
async def remember(memories: Memories, context: ToolContext, fact: str) -> str:
    """Keep a fact for later conversations."""
    if not fact.strip():
        raise ToolError("fact is empty; say what to remember")
    label = Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED
    source = f"{context.session_id} {context.turn.id}"
    await memories.remember(fact.strip(), at=context.clock.now(), source=source, label=label.value, owned=is_owners(context.turn))
    return "remembered"


@tool(effect=Effect.READ, parallel=True, idempotent=True)
async def recall(memories: Memories, query: str) -> ToolOutput:
    """Search what was remembered."""
    if not query.strip():
        raise ToolError("query is empty; say what to look for")
    hits = await memories.recall(query, BEST)
    lines = [f"- {hit.text} ({hit.at:%Y-%m-%d})" for hit in hits]
    text = "\n".join(lines) or "nothing in memory fits that"
    return ToolOutput(text, label=join_all(Label(hit.label) for hit in hits), owned=all(hit.owned for hit in hits))
