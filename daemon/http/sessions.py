"""/v1/sessions: the conversations, their runs, and a stop for each."""

from dataclasses import dataclass

from aiohttp import web

from daemon.door.base import Door
from daemon.http.runs import MOST_RUNS
from daemon.http.wire import answer, not_found, number


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

    async def _check_known(self, session: str) -> None:
        if all(view.id != session for view in await self.door.sessions()):
            raise not_found(f"session {session!r}")
