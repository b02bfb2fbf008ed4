"""What needs no question any more: to be seen, and to be taken back."""

from dataclasses import dataclass

from aiohttp import web

from daemon.door.base import Door
from daemon.http.wire import answer, not_found


@dataclass(frozen=True, slots=True)
class Grants:
    """Standing permissions are given with an answer, and bounded."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.get("/v1/grants", self.listed), web.delete("/v1/grants/{id}", self.revoke)]

    async def listed(self, request: web.Request) -> web.Response:
        """Those that stand, oldest first, with what is left of them."""
        return answer(await self.door.grants())

    async def revoke(self, request: web.Request) -> web.Response:
        """From now on it is asked again."""
        name = request.match_info["id"]
        if not await self.door.revoke(name):
            raise not_found(f"grant {name!r}")
        return answer({"id": name, "revoked": True})
