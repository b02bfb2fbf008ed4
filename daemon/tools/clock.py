"""current_time."""

from datetime import UTC

from daemon.core.label import Effect
from daemon.tools.base import ToolContext
from daemon.tools.decorate import tool


@tool(effect=Effect.READ, parallel=True, idempotent=True, volatile=True)
async def current_time(context: ToolContext) -> str:
    """The date and time now."""
    now = context.clock.now()
    local = now.astimezone()
    zone = local.tzname() or "local"
    return f"{local:%A, %Y-%m-%d %H:%M:%S} {zone} (UTC{local:%z}); UTC {now.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
