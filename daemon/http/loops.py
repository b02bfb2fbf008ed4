"""/api/agents/{id}/loop: start, stop, pause, resume, look at, and review a loop of an agent (C8)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from daemon.core.errors import ConfigError
from daemon.core.loops import Order
from daemon.core.roles import Person, Right, Role, may
from daemon.door.base import SESSION_NAME, Door
from daemon.door.loops import LoopView, named, to_wire
from daemon.http.messages import Text
from daemon.http.rights import WHO, check_own, forbidden
from daemon.http.wire import Problem, answer, body, invalid, not_found
from daemon.loops.orders import LoopNotEnabled, LoopRefused, NoSuchAgent

CHANNELS = ("web", "terminal")


class Started(BaseModel):
    """The body of a start; what is left out is as the agent's settings say."""

    model_config = ConfigDict(extra="forbid", defer_build=True, alias_generator=to_camel, populate_by_name=True)

    message: Text
    session: str | None = None
    criterion: Literal["max_iterations", "regex", "test_pass", "manual"] | None = None
    value: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    max_iterations: int | None = None


class Reviewed(BaseModel):
    """The body of a review."""

    model_config = ConfigDict(extra="forbid", defer_build=True, alias_generator=to_camel, populate_by_name=True)

    loop_id: str
    approved: bool
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


@dataclass(frozen=True, slots=True)
class Loops:
    """One loop per agent at a time, so the agent names it."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        here = "/api/agents/{agent}/loop"
        return [
            web.get("/api/loops", self.listed),
            web.get(f"{here}/status", self.status),
            web.post(f"{here}/start", self.start),
            web.post(f"{here}/stop", self.stop),
            web.post(f"{here}/pause", self.pause),
            web.post(f"{here}/resume", self.resume),
            web.post(f"{here}/approve", self.approve),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """Loops, newest first, `?agent=`."""
        return answer([to_wire(view) for view in await self.door.loops().all(request.query.get("agent"))])

    async def status(self, request: web.Request) -> web.Response:
        """The agent's latest loop, and whether it is active; only that it is not, when it never had one."""
        view = named(await self._all(request), "", open_only=False)
        return answer({"active": bool(view and not view.ended), **(to_wire(view) if view else {"agent": _agent(request)})})

    async def start(self, request: web.Request) -> web.Response:
        """202 with the loop, once it is on disk."""
        said, person = await body(request, Started), request[WHO]
        session = _session(said.session or _home(person))
        check_own(person, session)
        _check_command(person, said)
        who, role = person.name, person.role.value
        order = Order(_agent(request), said.message, session, who, said.criterion, said.value, said.max_iterations, role)
        try:
            return answer(to_wire(await self.door.loops().start(order)), 202)
        except NoSuchAgent as error:
            raise Problem(404, "no_agent", str(error)) from error
        except LoopNotEnabled as error:
            raise Problem(409, "not_enabled", str(error)) from error
        except LoopRefused as error:
            raise Problem(409, "refused", str(error)) from error
        except ConfigError as error:
            raise invalid(str(error)) from error

    async def stop(self, request: web.Request) -> web.Response:
        """End it now."""
        return await self._do(request, self.door.loops().stop, "is over already")

    async def pause(self, request: web.Request) -> web.Response:
        """Not another attempt."""
        return await self._do(request, self.door.loops().pause, "is not running")

    async def resume(self, request: web.Request) -> web.Response:
        """Go on."""
        return await self._do(request, self.door.loops().resume, "is not paused")

    async def approve(self, request: web.Request) -> web.Response:
        """A person's yes completes the loop, a no ends it."""
        said = await body(request, Reviewed)
        view = next((view for view in await self._all(request) if view.loop_id == said.loop_id), None)
        if view is None:
            raise not_found(f"loop {said.loop_id!r} of agent {_agent(request)!r}")
        done = await self.door.loops().review(view, approved=said.approved, by=request[WHO].name, reason=said.reason)
        return _done(done, f"loop {said.loop_id} waits for no review")

    async def _do(
        self, request: web.Request, act: Callable[[LoopView], Awaitable[LoopView | None]], refusal: str
    ) -> web.Response:
        view = named(await self._all(request), "", open_only=True)
        if view is None:
            raise Problem(409, "no_loop", f"no loop of agent {_agent(request)!r} is active")
        return _done(await act(view), f"loop {view.loop_id} {refusal}")

    async def _all(self, request: web.Request) -> list[LoopView]:
        return await self.door.loops().all(_agent(request))


def _check_command(person: Person, said: Started) -> None:
    """A command of test_pass runs again and again, and nobody is asked: only who could say yes to it may bring one along."""
    if said.value is not None and said.criterion in (None, "test_pass") and not may(person.role, Right.DANGER):
        raise forbidden(
            "the value of test_pass is a command that runs unasked, so it is the owner's to give: start the loop with the agent's"
            " own criterion, or with regex or manual; nothing was started"
        )


def _agent(request: web.Request) -> str:
    return request.match_info["agent"]


def _home(person: Person) -> str:
    return "web:default" if person.role is Role.OWNER else f"web:{person.name}"


def _session(name: str) -> str:
    channel, colon, chat = name.partition(":")
    if not colon:
        channel, chat = "web", name
    if channel in CHANNELS and SESSION_NAME.fullmatch(chat):
        return f"{channel}:{chat}"
    raise invalid("session: expected web:NAME or terminal:NAME, the conversation that is asked and told")


def _done(view: LoopView | None, refusal: str) -> web.Response:
    if view is None:
        raise Problem(409, "not_now", refusal)
    return answer(to_wire(view))
