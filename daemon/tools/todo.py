"""todo: the model's own plan, shown to it before each step and to the user by /tasks (E3)."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from daemon.core.events import Todo, TodosSet
from daemon.core.label import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.decorate import tool

MOST = 30
LONGEST = 200


class Item(BaseModel):
    """One step, as the model writes it."""

    model_config = ConfigDict(extra="ignore")

    text: str = Field(min_length=1)
    state: Literal["open", "doing", "done"] = "open"


@tool(effect=Effect.READ, idempotent=True, volatile=True)
async def todo(context: ToolContext, items: list[Item]) -> ToolOutput:
    """Write down your plan, all steps each time: {text, state: open|doing|done}."""
    if len(items) > MOST:
        raise ToolError(f"a plan has at most {MOST} steps; put small ones together")
    kept = tuple(Todo(" ".join(item.text.split())[:LONGEST], item.state) for item in items)
    left = sum(item.state != "done" for item in kept)
    written = TodosSet(context.call_id, kept)
    return ToolOutput(f"written down: {len(kept)} steps, {left} left", also=(written,))
