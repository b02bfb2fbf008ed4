"""What a terminal that is a client of this daemon needs beside the rest: what it has not shown yet."""

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from daemon.door.base import Door
from daemon.http.wire import answer, body


class Shown(BaseModel):
    """The body that says which delivery was shown."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    part: Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Terminal:
    """Deliveries to a session, and the runs that will bring more."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/sessions/{id}/undelivered", self.undelivered),
            web.get("/v1/sessions/{id}/unfinished", self.unfinished),
            web.post("/v1/runs/{turn}/delivered", self.delivered),
        ]

    async def undelivered(self, request: web.Request) -> web.Response:
        """What was said and not marked as shown, in order."""
        return answer(await self.door.undelivered(request.match_info["id"]))

    async def unfinished(self, request: web.Request) -> web.Response:
        """Runs that are queued, running or suspended, oldest first."""
        return answer(await self.door.unfinished(request.match_info["id"]))

    async def delivered(self, request: web.Request) -> web.Response:
        """It has been shown; telling it again changes nothing."""
        shown = await body(request, Shown)
        await self.door.delivered(request.match_info["turn"], shown.part)
        return answer({"turn": request.match_info["turn"], "part": shown.part})
