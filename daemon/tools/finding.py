"""find_tools: most tools are not shown to the model until it looks for them (DESIGN 7)."""

from daemon.core.label import Effect, Label
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
        names = catalogue.names()
        return ToolOutput(f"no tool fits {query!r}; all there are: {', '.join(names)}", label=_label(catalogue, names))
    lines = [f"{spec.name}: {spec.description}" for spec in found]
    text = "You can call these from now on:\n" + "\n".join(lines)
    offers = tuple(spec.name for spec in found)
    return ToolOutput(text, label=_label(catalogue, offers), offers=offers)


def _label(catalogue: Tools, names: tuple[str, ...]) -> Label:
    """What a server says of its own tools is a stranger's text (A22)."""
    others = any(tool.meta.source for name in names if (tool := catalogue.get(name)))
    return Label.UNTRUSTED if others else Label.TRUSTED
