"""request_more_iterations (A6)."""

from daemon.core.events import BudgetExtended
from daemon.core.label import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.decorate import tool

MORE = 10


@tool(effect=Effect.READ, volatile=True)
async def request_more_iterations(context: ToolContext, reason: str) -> ToolOutput:
    """Ask for 10 more iterations when the task needs them."""
    turn = context.turn
    cap = turn.limits.max_iterations_cap
    if not reason.strip():
        raise ToolError("reason is empty; say what the iterations are needed for")
    if turn.max_iterations >= cap:
        raise ToolError(f"the limit of {cap} iterations is reached; no more can be had. Finish with what you have.")
    granted = min(turn.max_iterations + MORE, cap)
    left = granted - turn.iterations
    extended = BudgetExtended(context.call_id, reason.strip(), granted)
    return ToolOutput(f"granted: at most {granted} iterations in all, {left} of them left", also=(extended,))
