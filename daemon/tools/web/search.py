"""What every search engine does, and what is said when one does not.

Brave Search.

SearXNG: the owner's own search engine.

Tavily.

Search without a key: the package ddgs reads the pages of public search engines, in a child process of its own.

The engine that the owner chose.

web_search: finding pages of the web.
"""

import html
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Protocol, cast

from pydantic import Field
from yarl import URL

from daemon import addons as plugins
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.trust import Effect, Label
from daemon.tools.base import ServiceUnavailable, ToolError, ToolOutput
from daemon.tools.signature import tool
from daemon.tools.web.client import WebClient, WebRequest, WebResponse
from daemon.tools.web.config import WebConfig
from daemon.tools.web.fetch import ask_child

TOO_MANY_REQUESTS = 429
REFUSED_STATUSES = (401, 403)


@value
class SearchHit:
    """One result."""

    title: str
    url: str
    snippet: str


class SearchEngine(Protocol):
    """Somebody who searches the web."""

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """At most so many results, the best first. Raises Unavailable when it may work later, ToolError when it will not."""
        ...


async def query_engine(
    client: WebClient, name: str, ask: WebRequest, *, refused: str
) -> Mapping[str, object]:
    """The engine's answer, read as JSON. `refused` says what to do when it lets nobody in."""
    answer = await client.send(ask)
    _check_status(name, answer, refused)
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"{name} answered something that is no JSON; is its base_url right?"
        ) from error
    if not isinstance(told, dict):
        raise ToolError(f"{name} answered JSON of another shape; is its base_url right?")
    return told


def parse_hits(found: object, count: int, *, snippet: str) -> list[SearchHit]:
    """The results in a list of objects with title, url and a snippet under that name; what is none is left out."""
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    whole = [
        SearchHit(_get_text(row, "title"), _get_text(row, "url"), _get_text(row, snippet))
        for row in rows
    ]
    return [hit for hit in whole if hit.url.startswith(("http://", "https://"))][:count]


def _get_text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _check_status(name: str, answer: WebResponse, refused: str) -> None:
    if answer.status in REFUSED_STATUSES:
        raise ToolError(f"{name} refused the search (HTTP {answer.status}): {refused}")
    if answer.status == TOO_MANY_REQUESTS:
        raise ServiceUnavailable(
            f"{name} takes no more searches at the moment (HTTP 429): too many, or the plan is used up"
        )
    if answer.status >= 500:
        raise ServiceUnavailable(f"{name} is in trouble (HTTP {answer.status}); try again later")
    if answer.status != 200:
        raise ToolError(
            f"{name} did not take the search (HTTP {answer.status}); is its base_url right?"
        )


BRAVE_URL = "https://api.search.brave.com/res/v1"
BRAVE_REFUSED = "look at [tools.web] api_key"


@value
class Brave:
    """Its web search, paid by key."""

    client: WebClient
    api_key: str = field(repr=False)
    base_url: str = BRAVE_URL

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """As SearchEngine says."""
        url = URL(self.base_url.rstrip("/") + "/web/search").with_query(q=query, count=count)
        headers = {"Accept": "application/json", "X-Subscription-Token": self.api_key}
        ask = WebRequest(self.client.guard.check(str(url)), headers=headers)
        web = (await query_engine(self.client, "Brave", ask, refused=BRAVE_REFUSED)).get("web")
        return parse_hits(
            web.get("results") if isinstance(web, dict) else None, count, snippet="description"
        )


SEARXNG_REFUSED = "it must give out JSON; add json to search.formats in its settings.yml"


@value
class Searxng:
    """The instance at `base_url`."""

    client: WebClient
    base_url: str

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """As SearchEngine says."""
        url = URL(self.base_url.rstrip("/") + "/search").with_query(q=query, format="json")
        told = await query_engine(
            self.client,
            "SearXNG",
            WebRequest(self.client.guard.check(str(url))),
            refused=SEARXNG_REFUSED,
        )
        return parse_hits(told.get("results"), count, snippet="content")


TAVILY_URL = "https://api.tavily.com"
TAVILY_REFUSED = "look at [tools.web] api_key"


@value
class Tavily:
    """Its search, paid by key."""

    client: WebClient
    api_key: str = field(repr=False)
    base_url: str = TAVILY_URL

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """As SearchEngine says."""
        target = self.client.guard.check(self.base_url.rstrip("/") + "/search")
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        body = json.dumps({"query": query, "max_results": count}).encode()
        told = await query_engine(
            self.client, "Tavily", WebRequest(target, "POST", headers, body), refused=TAVILY_REFUSED
        )
        return parse_hits(told.get("results"), count, snippet="content")


KEYLESS_COMMAND = (sys.executable, "-I", str(Path(__file__).with_name("keyless_child.py")))
SEARCH_S = 30.0


def has_ddgs() -> bool:
    """Whether the package is there."""
    return find_spec("ddgs") is not None


@value
class KeylessSearch:
    """The public engines. `command` reads a query and a number as JSON and prints rows, or what went wrong."""

    command: Sequence[str] = KEYLESS_COMMAND
    timeout_s: float = SEARCH_S

    async def search(self, query: str, count: int) -> list[SearchHit]:
        """As SearchEngine says."""
        asked = json.dumps({"query": query, "count": count}).encode()
        printed = await ask_child(self.command, asked, self.timeout_s)
        if printed is None:
            raise ServiceUnavailable(
                "the keyless search did not answer; try again later, or set [tools.web] engine to another one"
            )
        told = json.loads(printed)
        if told["trouble"] == "missing":
            raise ToolError(
                "the keyless search needs the package ddgs: pip install 'aidaemon[web]'"
            )
        if told["trouble"]:
            raise ServiceUnavailable(
                "the public search engines let no search through just now; try later, or set [tools.web] engine"
            )
        return parse_hits(told["rows"], count, snippet="body")


MakeEngine = Callable[..., SearchEngine]


def make_engine(config: WebConfig, client: WebClient) -> SearchEngine | None:
    """Who searches; None if nobody was chosen and none is installed. Raises ConfigError for a choice that lacks something."""
    match config.engine:
        case "searxng":
            return _make(
                config,
                client,
                _require(config.base_url, config.engine, "base_url", "http://localhost:8888"),
            )
        case "brave" | "tavily":
            return _make(
                config,
                client,
                _require_key(config),
                *([config.base_url] if config.base_url else []),
            )
        case "ddgs" if not has_ddgs():
            raise ConfigError(
                "[tools.web] engine = \"ddgs\" needs a package that is not installed: pip install 'aidaemon[web]'"
            )
        case _:
            return KeylessSearch() if has_ddgs() else None


def _make(config: WebConfig, *parts: object) -> SearchEngine:
    return cast(MakeEngine, plugins.load_addon("websearch", config.engine))(*parts)


def _require_key(config: WebConfig) -> str:
    return _require(config.api_key, config.engine, "api_key", "secret:NAME")


def _require(value: str, engine: str, key: str, example: str) -> str:
    if not value:
        raise ConfigError(f'[tools.web] engine = "{engine}" needs {key}, as in {key} = "{example}"')
    return value


MAX_QUERY, MAX_SNIPPET, MAX_TITLE = 400, 400, 200
MAX_RESULTS = 20
TAG = re.compile(r"</?[a-zA-Z][^<>]{0,100}>")
NO_ENGINE = "no search engine is set up: set [tools.web] engine in config.toml, or run: pip install 'aidaemon[web]'"


@value
class WebSearch:
    """Who searches, if anybody, and how many results are given when no number is named."""

    engine: SearchEngine | None
    results: int = 5


@tool(
    effect=Effect.FETCH,
    parallel=True,
    idempotent=True,
    retries=2,
    timeout_s=60,
    critical=(),
    max_chars=30_000,
    outside=True,
)
async def web_search(
    searching: WebSearch,
    query: str,
    count: Annotated[int, Field(ge=1, le=MAX_RESULTS)] | None = None,
) -> ToolOutput:
    """Search the web: title, URL and a few words of each result."""
    wanted = " ".join(query.split())
    if not wanted:
        raise ToolError("query is empty; say what to look for")
    if searching.engine is None:
        raise ToolError(NO_ENGINE)
    hits = await searching.engine.search(wanted[:MAX_QUERY], count or searching.results)
    text = "\n\n".join(_format_hit(number, hit) for number, hit in enumerate(hits, 1))
    return ToolOutput(text or "nothing was found; try other words", label=Label.UNTRUSTED)


def _format_hit(number: int, hit: SearchHit) -> str:
    lines = (
        f"{number}. {_strip_markup(hit.title, MAX_TITLE)}",
        hit.url,
        _strip_markup(hit.snippet, MAX_SNIPPET),
    )
    return "\n".join(line for line in lines if line)


def _strip_markup(text: str, most: int) -> str:
    """Without markup, on one line."""
    return " ".join(html.unescape(TAG.sub("", text)).split())[:most]
