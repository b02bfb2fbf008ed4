"""Who sends events from outside, by the daemon's own HTTP door, again and again until somebody is there to take them (A16)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import ClientSession

from daemon.app.daemon import Daemon
from daemon.http.app import HttpServer, build_app
from daemon.http.resources import KEY_HEADER, EventEndpoint

NAME, TOKEN, OWNERS = "bell", "bell-token-1", "owner-token-0123456789"
Json = dict[str, str]
Post = Callable[[str, str], Awaitable[Json]]


def listening(notify: str) -> dict[str, object]:
    """A config whose daemon takes events, and asks and tells the people of this conversation."""
    return {
        "http": {"port": 0},
        "events": {"enabled": True, "notify": notify, "tokens": {NAME: TOKEN}},
    }


@asynccontextmanager
async def street(house: Daemon) -> AsyncIterator[Post]:
    """The daemon listens meanwhile: (key, text) is sent, and what was answered comes back."""
    events = EventEndpoint(house.triggers, house.config.events.tokens)
    server = HttpServer(house.config.http, build_app(house.client, OWNERS, events=events))
    url = await server.start()
    try:
        async with ClientSession(url, headers={"Authorization": f"Bearer {TOKEN}"}) as http:

            async def post(key: str, text: str) -> Json:
                async with http.post(
                    f"/v1/events/{NAME}", json={"text": text}, headers={KEY_HEADER: key}
                ) as response:
                    assert response.status == HTTPStatus.ACCEPTED, await response.text()
                    return await response.json()

            yield post
    finally:
        await server.aclose()
