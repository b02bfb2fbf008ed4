"""web_search: finds pages of the web, through the search engine that the owner chose."""

import html
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field
from yarl import URL

from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.trust import Effect, Label
from daemon.tools.base import ServiceUnavailable, ToolError, ToolOutput
from daemon.tools.shell.process import exchange
from daemon.tools.signature import tool
from daemon.tools.web.client import WebClient, WebRequest
from daemon.tools.web.config import WebConfig

BRAVE_URL = "https://api.search.brave.com/res/v1"
TAVILY_URL = "https://api.tavily.com"
SEARXNG_REFUSED = "it must allow JSON; add json to search.formats in its settings.yml"
KEYLESS_COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("search_child.py")))
SEARCH_S = 30.0
INSTALL = "pip install 'aidaemon[web]'"
NO_ENGINE = f"no search engine is set up: set [tools.web] engine in config.toml, or run: {INSTALL}"
MAX_QUERY, MAX_SNIPPET, MAX_TITLE, MAX_RESULTS = 400, 400, 200, 20
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,100}>")


@value
class ApiSearch:
    """An engine with an HTTP API. `refused` says what to do when it denies access; `rows` names
    where the results are, `snippet` their text.
    """

    client: WebClient
    name: str
    url: str
    rows: tuple[str, ...]
    snippet: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    refused: str = "look at [tools.web] api_key"

    async def search(self, query: str, count: int) -> object:
        """Its rows. Raises ServiceUnavailable when it may work later, else ToolError."""
        guard = self.client.guard
        if self.name == "Tavily":
            body = json.dumps({"query": query, "max_results": count}).encode()
            request = WebRequest(guard.check(self.url), "POST", self.headers, body)
        else:
            how_many = {"format": "json"} if self.name == "SearXNG" else {"count": count}
            url = str(URL(self.url).with_query(q=query, **how_many))
            request = WebRequest(guard.check(url), headers=self.headers)
        response = await self.client.send(request)
        status = response.status
        if status in (401, 403):
            raise ToolError(f"{self.name} refused the search (HTTP {status}): {self.refused}")
        if status == 429:
            raise ServiceUnavailable(
                f"{self.name} takes no more searches at the moment (HTTP 429): too many,"
                " or the plan is used up"
            )
        if status >= 500:
            raise ServiceUnavailable(f"{self.name} is in trouble (HTTP {status}); try again later")
        if status != 200:
            raise ToolError(
                f"{self.name} rejected the search (HTTP {status}); is its base_url right?"
            )
        try:
            found = json.loads(response.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ToolError(
                f"{self.name} did not answer with a JSON object; is its base_url right?"
            )
        for key in self.rows:
            found = found.get(key) if isinstance(found, dict) else None
        return found


@value
class KeylessSearch:
    """The package ddgs reads the pages of public search engines, in a child process."""

    command: Sequence[str] = KEYLESS_COMMAND
    timeout_s: float = SEARCH_S
    snippet: str = "body"

    async def search(self, query: str, count: int) -> object:
        """Its rows. Raises ServiceUnavailable when it may work later, else ToolError."""
        question = json.dumps({"query": query, "count": count}).encode()
        output = await exchange(self.command, question, self.timeout_s)
        if output is None:
            raise ServiceUnavailable(
                "the keyless search did not answer; try again later,"
                " or set [tools.web] engine to another one"
            )
        found = json.loads(output)
        if found["trouble"] == "missing":
            raise ToolError(f"the keyless search needs the package ddgs: {INSTALL}")
        if found["trouble"]:
            raise ServiceUnavailable(
                "the public search engines let no search through just now;"
                " try later, or set [tools.web] engine"
            )
        return found["rows"]


SearchEngine = ApiSearch | KeylessSearch


def make_engine(config: WebConfig, client: WebClient) -> SearchEngine | None:
    """None if none was chosen and none is installed. Raises ConfigError for a missing setting."""
    engine, key, has_ddgs = config.engine, config.api_key, find_spec("ddgs") is not None
    needs = {"searxng": 'base_url = "http://localhost:8888"'}.get(engine, 'api_key = "secret:NAME"')
    base = config.base_url.rstrip("/")
    if not (base if engine == "searxng" else key) and engine not in ("auto", "ddgs"):
        name = needs.partition(" ")[0]
        raise ConfigError(f'[tools.web] engine = "{engine}" needs {name}, as in {needs}')
    match engine:
        case "searxng":
            url, advice = f"{base}/search", SEARXNG_REFUSED
            return ApiSearch(client, "SearXNG", url, ("results",), "content", refused=advice)
        case "brave":
            headers = {"Accept": "application/json", "X-Subscription-Token": key}
            url = f"{base or BRAVE_URL}/web/search"
            return ApiSearch(client, "Brave", url, ("web", "results"), "description", headers)
        case "tavily":
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            url = f"{base or TAVILY_URL}/search"
            return ApiSearch(client, "Tavily", url, ("results",), "content", headers)
        case "ddgs" if not has_ddgs:
            raise ConfigError(
                f'[tools.web] engine = "ddgs" needs a package that is not installed: {INSTALL}'
            )
    return KeylessSearch() if has_ddgs else None


@value
class WebSearch:
    """`results`: how many when the model names no number."""

    engine: SearchEngine | None
    results: int = 5


@tool(
    effect=Effect.FETCH, parallel=True, idempotent=True, retries=2, timeout_s=60, critical=(),
    max_chars=30_000, returns_outside_text=True, public=True, query="query",
)  # fmt: skip
async def web_search(
    search: WebSearch, query: str, count: Annotated[int, Field(ge=1, le=MAX_RESULTS)] | None = None
) -> ToolOutput:
    """Search the web: title, URL and a few words of each result."""
    wanted = " ".join(query.split())
    if not wanted:
        raise ToolError("query is empty; say what to look for")
    if search.engine is None:
        raise ToolError(NO_ENGINE)
    most = count or search.results
    rows = await search.engine.search(wanted[:MAX_QUERY], most)
    blocks = []
    for row in rows if isinstance(rows, list) else []:
        url = str(row.get("url")) if isinstance(row, dict) else ""
        if len(blocks) < most and url.startswith(("http://", "https://")):
            title = _strip_markup(row.get("title"))[:MAX_TITLE]
            snippet = _strip_markup(row.get(search.engine.snippet))[:MAX_SNIPPET]
            head = f"{len(blocks) + 1}. {title}"
            blocks.append("\n".join(filter(None, (head, url, snippet))))
    text = "\n\n".join(blocks) or "nothing was found; try other words"
    return ToolOutput(text, label=Label.UNTRUSTED)


def _strip_markup(text: object) -> str:
    """On one line; empty for what is no text."""
    return " ".join(html.unescape(TAG.sub("", text)).split()) if isinstance(text, str) else ""
