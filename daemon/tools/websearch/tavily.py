"""Tavily."""

import json
from dataclasses import dataclass, field

from daemon.tools.net.client import Ask, WebClient
from daemon.tools.websearch.base import Hit, ask_engine, hits_of

BASE_URL = "https://api.tavily.com"
REFUSED = "look at [tools.web] api_key"


@dataclass(frozen=True, slots=True)
class Tavily:
    """Its search, paid by key."""

    client: WebClient
    api_key: str = field(repr=False)
    base_url: str = BASE_URL

    async def search(self, query: str, count: int) -> list[Hit]:
        """As SearchEngine says."""
        target = self.client.guard.check(self.base_url.rstrip("/") + "/search")
        headers = {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"}
        body = json.dumps({"query": query, "max_results": count}).encode()
        told = await ask_engine(self.client, "Tavily", Ask(target, "POST", headers, body), refused=REFUSED)
        return hits_of(told.get("results"), count, snippet="content")
