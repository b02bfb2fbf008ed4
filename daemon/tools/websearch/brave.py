"""Brave Search."""

from dataclasses import dataclass, field

from yarl import URL

from daemon.tools.net.client import Ask, WebClient
from daemon.tools.websearch.base import Hit, ask_engine, hits_of

BASE_URL = "https://api.search.brave.com/res/v1"
REFUSED = "look at [tools.web] api_key"


@dataclass(frozen=True, slots=True)
class Brave:
    """Its web search, paid by key."""

    client: WebClient
    api_key: str = field(repr=False)
    base_url: str = BASE_URL

    async def search(self, query: str, count: int) -> list[Hit]:
        """As SearchEngine says."""
        url = URL(self.base_url.rstrip("/") + "/web/search").with_query(q=query, count=count)
        headers = {"Accept": "application/json", "X-Subscription-Token": self.api_key}
        ask = Ask(self.client.guard.check(str(url)), headers=headers)
        web = (await ask_engine(self.client, "Brave", ask, refused=REFUSED)).get("web")
        return hits_of(web.get("results") if isinstance(web, dict) else None, count, snippet="description")
