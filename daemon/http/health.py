"""GET /health: whether the daemon serves, for those who watch over it. No token."""

from dataclasses import dataclass

from aiohttp import web

from daemon.door.base import Door
from daemon.http.wire import answer


@dataclass(frozen=True, slots=True)
class Health:
    """200, or 503 with what ails it."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/health", self.show)]

    async def show(self, request: web.Request) -> web.Response:
        """How the daemon is."""
        health = await self.door.health()
        return answer(health, 200 if health.ok else 503)
