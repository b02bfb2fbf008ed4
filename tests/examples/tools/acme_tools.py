"""A tool as an add-on."""

from daemon.core.trust import Effect
from daemon.tools.signature import tool


@tool(effect=Effect.READ)
async def double(number: int) -> str:
    """Twice the number."""
    return str(2 * number)


TOOLS = [double]
