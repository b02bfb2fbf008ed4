"""What the model may do beside the house's own tools: each thing that it does is noted outside, by whoever did it."""

import asyncio

from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolContext, ToolOutput
from daemon.tools.signature import bind, tool
from tests.e2e.crash.moments import Moment, Outside

SLOW_S = 300.0
HISTORY = "a long line of what was there to see, "
NOTED = ("note", "send", "pay")


def hands(outside: Outside, moment: Moment, long_looks: int) -> list[Tool]:
    """Look (inside), hear (a stranger), wait (for ever), note (an effect), send and pay (effects that need a yes); to pay is the
    same each time.
    """

    def act(context: ToolContext, name: str, text: str) -> str:
        moment(f"before {name}")
        outside.effects.note(turn=context.turn.id, call=context.call_id, tool=name, text=text)
        moment(f"after {name}")
        return f"{name} done"

    @tool(effect=Effect.READ)
    async def look(context: ToolContext, text: str) -> str:
        """Look at something."""
        moment("before look")
        moment("after look")
        return f"saw {text} {HISTORY * long_looks}"

    @tool(effect=Effect.READ, returns_outside_text=True)
    async def hear(context: ToolContext, text: str) -> ToolOutput:
        """Hear what a stranger says."""
        return ToolOutput(f"heard {text}", label=Label.UNTRUSTED)

    @tool(effect=Effect.READ, timeout_s=SLOW_S)
    async def wait(context: ToolContext, text: str) -> str:
        """Wait for something that never comes."""
        moment("before wait")
        await asyncio.Event().wait()
        return text

    @tool(effect=Effect.WRITE)
    async def note(context: ToolContext, text: str) -> str:
        """Note something down."""
        return act(context, "note", text)

    @tool(effect=Effect.EGRESS)
    async def send(context: ToolContext, text: str) -> str:
        """Send something away."""
        return act(context, "send", text)

    @tool(effect=Effect.DESTRUCTIVE)
    async def pay(context: ToolContext, to: str) -> str:
        """Pay somebody."""
        return act(context, "pay", f"{context.turn.id}/{context.call_id}")

    return bind([look, hear, wait, note, send, pay], {})
