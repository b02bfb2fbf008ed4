"""/v1/sessions: the conversations, their runs, and a stop for each."""

from dataclasses import dataclass

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from daemon.door.base import SESSION_NAME, Door
from daemon.http.rights import WHO, check_own
from daemon.http.runs import MOST_RUNS
from daemon.http.wire import answer, body, not_found, number

OURS = ("web", "terminal")


class Chosen(BaseModel):
    """The body that says which agent answers."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    agent: str


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions by their full id, such as web:default."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/sessions", self.listed),
            web.get("/v1/sessions/{id}/turns", self.turns),
            web.post("/v1/sessions/{id}/stop", self.stop),
            web.post("/v1/sessions/{id}/agent", self.choose),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """All sessions, newest first."""
        return answer(await self.door.sessions())

    async def turns(self, request: web.Request) -> web.Response:
        """The session's runs, newest first."""
        session = request.match_info["id"]
        lines = await self.door.runs(session, number(request, "limit", 50, least=1, most=MOST_RUNS))
        if not lines:
            await self._check_known(session)
        return answer(lines)

    async def stop(self, request: web.Request) -> web.Response:
        """Stop what runs in it; `stopped` names the runs."""
        session = request.match_info["id"]
        stopped = await self.door.stop(session)
        if not stopped:
            await self._check_known(session)
        return answer({"session": session, "stopped": stopped})

    async def choose(self, request: web.Request) -> web.Response:
        """Which agent answers in it from now on; a web or terminal session need not be there yet."""
        session = request.match_info["id"]
        check_own(request[WHO], session)
        chosen = await body(request, Chosen)
        channel, _, name = session.partition(":")
        if channel not in OURS or not SESSION_NAME.fullmatch(name):
            await self._check_known(session)
        await self.door.choose(session, chosen.agent)
        return answer({"session": session, "agent": chosen.agent})

    async def _check_known(self, session: str) -> None:
        if all(view.id != session for view in await self.door.sessions()):
            raise not_found(f"session {session!r}")
