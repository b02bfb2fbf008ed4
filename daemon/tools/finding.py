"""find_tools: most tools are not shown to the model until it looks for them (DESIGN 7)."""

from daemon.core.label import Effect
from daemon.tools.base import ToolError, ToolOutput
from daemon.tools.decorate import tool
from daemon.tools.toolbox import Tools


@tool(effect=Effect.READ, parallel=True, idempotent=True)
async def find_tools(catalogue: Tools, query: str) -> ToolOutput:
    """Find more tools by keywords (files, web, schedule...)."""
    if not query.strip():
        raise ToolError("query is empty; say in a few words what the tool should do")
    found = catalogue.search(query)
    if not found:
        return ToolOutput(f"no tool fits {query!r}; all there are: {', '.join(catalogue.names())}")
    lines = [f"{spec.name}: {spec.description}" for spec in found]
    text = "You can call these from now on:\n" + "\n".join(lines)
    return ToolOutput(text, offers=tuple(spec.name for spec in found))
