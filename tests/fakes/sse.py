"""Server-sent events as a client sees them."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import ClientResponse


@dataclass(frozen=True, slots=True)
class Sent:
    """One event; `id` is empty for a draft."""

    id: str
    name: str
    data: dict[str, object]


async def events_of(response: ClientResponse) -> AsyncIterator[Sent]:
    """The events of this connection, to its end."""
    assert response.content_type == "text/event-stream"
    fields: dict[str, str] = {}
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "event" in fields:
            yield Sent(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}
