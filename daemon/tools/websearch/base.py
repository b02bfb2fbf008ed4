"""What every search engine does, and what is said when one does not."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from daemon.tools.base import ToolError, Unavailable
from daemon.tools.net.client import Answered, Ask, WebClient

BUSY = 429
KEY = (401, 403)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result."""

    title: str
    url: str
    snippet: str


class SearchEngine(Protocol):
    """Somebody who searches the web."""

    async def search(self, query: str, count: int) -> list[Hit]:
        """At most so many results, the best first. Raises Unavailable when it may work later, ToolError when it will not."""
        ...


async def ask_engine(client: WebClient, name: str, ask: Ask, *, refused: str) -> Mapping[str, object]:
    """The engine's answer, read as JSON. `refused` says what to do when it lets nobody in."""
    answer = await client.send(ask)
    _check(name, answer, refused)
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{name} answered something that is no JSON; is its base_url right?") from error
    if not isinstance(told, dict):
        raise ToolError(f"{name} answered JSON of another shape; is its base_url right?")
    return told


def hits_of(found: object, count: int, *, snippet: str) -> list[Hit]:
    """The results in a list of objects with title, url and a snippet under that name; what is none is left out."""
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    whole = [Hit(_text(row, "title"), _text(row, "url"), _text(row, snippet)) for row in rows]
    return [hit for hit in whole if hit.url.startswith(("http://", "https://"))][:count]


def _text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _check(name: str, answer: Answered, refused: str) -> None:
    if answer.status in KEY:
        raise ToolError(f"{name} refused the search (HTTP {answer.status}): {refused}")
    if answer.status == BUSY:
        raise Unavailable(f"{name} takes no more searches at the moment (HTTP 429): too many, or the plan is used up")
    if answer.status >= 500:
        raise Unavailable(f"{name} is in trouble (HTTP {answer.status}); try again later")
    if answer.status != 200:
        raise ToolError(f"{name} did not take the search (HTTP {answer.status}); is its base_url right?")
