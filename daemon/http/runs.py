"""/v1/runs: what became of each message, and stopping it."""

from dataclasses import dataclass

from aiohttp import web

from daemon.door.base import Door, RunView
from daemon.http.wire import answer, not_found, number

MOST_RUNS = 1000


async def known_run(door: Door, request: web.Request) -> RunView:
    """The run the address names. Raises Problem 404."""
    turn = request.match_info["turn"]
    view = await door.run(turn)
    if view is None:
        raise not_found(f"run {turn!r}")
    return view


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs as a list, one by one, and as they stand in the journal."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/runs", self.listed),
            web.get("/v1/runs/{turn}", self.show),
            web.get("/v1/runs/{turn}/transcript", self.transcript),
            web.post("/v1/runs/{turn}/cancel", self.cancel),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """Newest first, `?session=` and `?limit=`."""
        limit = number(request, "limit", 50, least=1, most=MOST_RUNS)
        return answer(await self.door.runs(request.query.get("session"), limit))

    async def show(self, request: web.Request) -> web.Response:
        """One run as it is now."""
        return answer(await known_run(self.door, request))

    async def transcript(self, request: web.Request) -> web.Response:
        """Its events as they are in the journal."""
        view = await known_run(self.door, request)
        return answer(await self.door.transcript(view.turn))

    async def cancel(self, request: web.Request) -> web.Response:
        """Stop it; `cancelled` is false when it had ended."""
        view = await known_run(self.door, request)
        return answer({"turn": view.turn, "cancelled": await self.door.cancel(view.turn)})
