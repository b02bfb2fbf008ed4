"""current_time.

request_more_iterations (A6).

todo: the model's own plan, shown to it before each step and to the user by /tasks (E3).

remember and recall, over whatever memory the house has.

find_tools: most tools are not shown to the model until it looks for them (DESIGN 7).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.events import BudgetExtended, Todo, TodosSet
from daemon.core.provenance import is_owner_turn
from daemon.core.trust import Effect, Label, join_all
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.registry import ToolRegistry
from daemon.tools.signature import tool


@tool(effect=Effect.READ, parallel=True, idempotent=True, volatile=True)
async def current_time(context: ToolContext) -> str:
    """The date and time now."""
    now = context.clock.now()
    local = now.astimezone()
    zone = local.tzname() or "local"
    return f"{local:%A, %Y-%m-%d %H:%M:%S} {zone} (UTC{local:%z}); UTC {now.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


EXTRA_ITERATIONS = 10


@tool(effect=Effect.READ, volatile=True)
async def request_more_iterations(context: ToolContext, reason: str) -> ToolOutput:
    """Ask for 10 more iterations when the task needs them."""
    turn = context.turn
    cap = turn.limits.max_iterations_cap
    if not reason.strip():
        raise ToolError("reason is empty; say what the iterations are needed for")
    if turn.max_iterations >= cap:
        raise ToolError(
            f"the limit of {cap} iterations is reached; no more can be had. Finish with what you have."
        )
    granted = min(turn.max_iterations + EXTRA_ITERATIONS, cap)
    left = granted - turn.iterations
    extended = BudgetExtended(context.call_id, reason.strip(), granted)
    return ToolOutput(
        f"granted: at most {granted} iterations in all, {left} of them left", events=(extended,)
    )


MAX_STEPS = 30
MAX_STEP_CHARS = 200


class TodoItem(BaseModel):
    """One step, as the model writes it."""

    model_config = ConfigDict(extra="ignore")

    text: str = Field(min_length=1)
    state: Literal["open", "doing", "done"] = "open"


@tool(effect=Effect.READ, idempotent=True, volatile=True)
async def todo(context: ToolContext, items: list[TodoItem]) -> ToolOutput:
    """Write down your plan, all steps each time: {text, state: open|doing|done}."""
    if len(items) > MAX_STEPS:
        raise ToolError(f"a plan has at most {MAX_STEPS} steps; put small ones together")
    kept = tuple(Todo(" ".join(item.text.split())[:MAX_STEP_CHARS], item.state) for item in items)
    left = sum(item.state != "done" for item in kept)
    written = TodosSet(context.call_id, kept)
    return ToolOutput(f"written down: {len(kept)} steps, {left} left", events=(written,))


MAX_HITS = 8


class RecalledFact(Protocol):
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


class Memory(Protocol):
    """A memory, as these tools need it."""

    async def remember(
        self, text: str, *, at: datetime, source: str, label: str = "trusted", owned: bool = True
    ) -> str:
        """Keep it; gives its id."""
        ...

    async def recall(self, query: str, limit: int) -> Sequence[RecalledFact]:
        """What fits the query, the best first."""
        ...


@tool(effect=Effect.WRITE, idempotent=True, critical=())
async def remember(memories: Memory, context: ToolContext, fact: str) -> str:
    """Keep a fact for later conversations."""
    if not fact.strip():
        raise ToolError("fact is empty; say what to remember")
    label = Label.UNTRUSTED if context.untrusted_source else Label.TRUSTED
    source = f"{context.session_id} {context.turn.id}"
    await memories.remember(
        fact.strip(),
        at=context.clock.now(),
        source=source,
        label=label.value,
        owned=is_owner_turn(context.turn),
    )
    return "remembered"


@tool(effect=Effect.READ, parallel=True, idempotent=True)
async def recall(memories: Memory, query: str) -> ToolOutput:
    """Search what was remembered."""
    if not query.strip():
        raise ToolError("query is empty; say what to look for")
    hits = await memories.recall(query, MAX_HITS)
    lines = [f"- {hit.text} ({hit.at:%Y-%m-%d})" for hit in hits]
    text = "\n".join(lines) or "nothing in memory fits that"
    return ToolOutput(
        text,
        label=join_all(Label(hit.label) for hit in hits),
        from_owner=all(hit.owned for hit in hits),
    )


@tool(effect=Effect.READ, parallel=True, idempotent=True)
async def find_tools(catalogue: ToolRegistry, query: str) -> ToolOutput:
    """Find more tools by keywords (files, web, schedule...)."""
    if not query.strip():
        raise ToolError("query is empty; say in a few words what the tool should do")
    found = catalogue.search(query)
    if not found:
        names = catalogue.names()
        return ToolOutput(
            f"no tool fits {query!r}; all there are: {', '.join(names)}",
            label=_label_of_tools(catalogue, names),
        )
    lines = [f"{spec.name}: {spec.description}" for spec in found]
    text = "You can call these from now on:\n" + "\n".join(lines)
    offers = tuple(spec.name for spec in found)
    return ToolOutput(text, label=_label_of_tools(catalogue, offers), offers=offers)


def _label_of_tools(catalogue: ToolRegistry, names: tuple[str, ...]) -> Label:
    """What a server says of its own tools is a stranger's text (A22)."""
    others = any(tool.meta.source for name in names if (tool := catalogue.get(name)))
    return Label.UNTRUSTED if others else Label.TRUSTED
