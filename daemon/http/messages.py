"""POST /v1/messages: a person says something in a web session; and the same for terminal sessions."""

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from daemon.core.roles import Role
from daemon.door.base import SESSION_NAME, Accepted, Door
from daemon.http.rights import WHO, check_own
from daemon.http.waiting import settled
from daemon.http.wire import answer, body, flag, invalid


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
ClientId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Said(BaseModel):
    """The body of a message to a terminal session. `agent` is set for the session, from this message on."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    text: Text
    client_id: ClientId | None = None
    agent: str | None = None


class SaidOnTheWeb(Said):
    """The body of a message to a web session; without one it goes to the owner's web:default, or to the user's own."""

    session: str | None = None


@dataclass(frozen=True, slots=True)
class Messages:
    """Takes messages in. Without `?wait=1` the answer comes once the message is on disk."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.post("/v1/messages", self.on_the_web),
            web.post("/v1/terminal/{name}/messages", self.in_a_terminal),
        ]

    async def on_the_web(self, request: web.Request) -> web.Response:
        """A message to `web:NAME`, and to no session of another channel."""
        said = await body(request, SaidOnTheWeb)
        person = request[WHO]
        own = "default" if person.role is Role.OWNER else person.name
        name = own if said.session is None else said.session.removeprefix("web:")
        return await self._take(request, f"web:{_name(name, 'web:')}", said)

    async def in_a_terminal(self, request: web.Request) -> web.Response:
        """A message to `terminal:NAME`; terminals are the owner's."""
        said = await body(request, Said)
        return await self._take(request, f"terminal:{_name(request.match_info['name'], 'terminal:')}", said)

    async def _take(self, request: web.Request, session: str, said: Said) -> web.Response:
        person = request[WHO]
        check_own(person, session)
        wait, draft = flag(request, "wait", default=False), flag(request, "stream", default=True)
        if said.agent is not None:
            await self.door.choose(session, said.agent)
        accepted = await self.door.send(session, said.text, said.client_id, stream=draft and not wait, by=person)
        if accepted.command:
            return answer({"command": accepted.command, "reply": accepted.reply})
        if wait:
            return answer(await settled(self.door, request, accepted.turn or accepted.steered))
        return answer(_whereabouts(accepted), 202)


def _whereabouts(accepted: Accepted) -> dict[str, str]:
    return {"steered": accepted.steered} if accepted.steered else {"turn": accepted.turn}


def _name(name: str, prefix: str) -> str:
    if SESSION_NAME.fullmatch(name):
        return name
    raise invalid(
        f"session: expected NAME or {prefix}NAME, with no ':' or '/' in it and at most 100 characters;"
        " sessions of other channels cannot be written to from here"
    )
