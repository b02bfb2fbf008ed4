"""web_search: finding pages of the web."""

import html
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from daemon.core.label import Effect, Label
from daemon.tools.base import ToolError, ToolOutput
from daemon.tools.decorate import tool
from daemon.tools.websearch.base import Hit, SearchEngine

LONGEST_QUERY, LONGEST_SNIPPET, LONGEST_TITLE = 400, 400, 200
MOST = 20
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,100}>")
NOBODY = "no search engine is set up: set [tools.web] engine in config.toml, or run: pip install 'aidaemon[web]'"


@dataclass(frozen=True, slots=True)
class Searching:
    """Who searches, if anybody, and how many results are given when no number is named."""

    engine: SearchEngine | None
    results: int = 5


@tool(effect=Effect.FETCH, parallel=True, idempotent=True, retries=2, timeout_s=60, critical=(), max_chars=30_000, outside=True)
async def web_search(
    searching: Searching, query: str, count: Annotated[int, Field(ge=1, le=MOST)] | None = None
) -> ToolOutput:
    """Search the web: title, URL and a few words of each result."""
    wanted = " ".join(query.split())
    if not wanted:
        raise ToolError("query is empty; say what to look for")
    if searching.engine is None:
        raise ToolError(NOBODY)
    hits = await searching.engine.search(wanted[:LONGEST_QUERY], count or searching.results)
    text = "\n\n".join(_shown(number, hit) for number, hit in enumerate(hits, 1))
    return ToolOutput(text or "nothing was found; try other words", label=Label.UNTRUSTED)


def _shown(number: int, hit: Hit) -> str:
    lines = (f"{number}. {_plain(hit.title, LONGEST_TITLE)}", hit.url, _plain(hit.snippet, LONGEST_SNIPPET))
    return "\n".join(line for line in lines if line)


def _plain(text: str, most: int) -> str:
    """Without markup, on one line."""
    return " ".join(html.unescape(TAG.sub("", text)).split())[:most]
