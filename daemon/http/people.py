"""/v1/people: who has been let in by a code, and letting one more in (DESIGN 6 Roles)."""

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints

from daemon.core.roles import Role
from daemon.door.base import Door
from daemon.door.people import CODES, PEOPLE, REMOVE
from daemon.http.wire import answer, body


class Wanted(BaseModel):
    """The body that asks for a code."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    role: Role = Role.EDITOR
    channel: Annotated[str, StringConstraints(max_length=64)] = ""


class Named(BaseModel):
    """The body that says who is meant."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


@dataclass(frozen=True, slots=True)
class People:
    """The owner's alone."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [web.post(CODES, self.invite), web.get(PEOPLE, self.listed), web.post(REMOVE, self.remove)]

    async def invite(self, request: web.Request) -> web.Response:
        """The code, told this once."""
        wanted = await body(request, Wanted)
        return answer(await self.door.people().invite(wanted.role, wanted.channel))

    async def listed(self, request: web.Request) -> web.Response:
        """Those who had a code."""
        return answer(await self.door.people().known())

    async def remove(self, request: web.Request) -> web.Response:
        """`removed` is false when nobody is known by that name."""
        named = await body(request, Named)
        return answer({"removed": await self.door.people().remove(named.name)})
