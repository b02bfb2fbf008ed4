"""SearXNG: the owner's own search engine."""

from dataclasses import dataclass

from yarl import URL

from daemon.tools.net.client import Ask, WebClient
from daemon.tools.websearch.base import Hit, ask_engine, hits_of

REFUSED = "it must give out JSON; add json to search.formats in its settings.yml"


@dataclass(frozen=True, slots=True)
class Searxng:
    """The instance at `base_url`."""

    client: WebClient
    base_url: str

    async def search(self, query: str, count: int) -> list[Hit]:
        """As SearchEngine says."""
        url = URL(self.base_url.rstrip("/") + "/search").with_query(q=query, format="json")
        told = await ask_engine(self.client, "SearXNG", Ask(self.client.guard.check(str(url))), refused=REFUSED)
        return hits_of(told.get("results"), count, snippet="content")
