"""/api/agents/{id}/loop: start, stop, pause, resume, look at, and review a loop of an agent (C8)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from daemon.client.protocol import SESSION_NAME, DaemonClient, LoopView, find_loop, loop_to_json
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.core.rows import LoopOrder
from daemon.core.trust import Person, Right, Role, has_right
from daemon.http.permissions import PERSON, forbidden, require_own_session
from daemon.http.resources import Text
from daemon.http.responses import HttpError, invalid, json_response, not_found, read_body
from daemon.loops.config import LoopNotEnabled, LoopNotStarted, UnknownAgent

CHANNELS = ("web", "terminal")


class LoopStartBody(BaseModel):
    """The body of a start; what is left out is as the agent's settings say."""

    model_config = ConfigDict(
        extra="forbid", defer_build=True, alias_generator=to_camel, populate_by_name=True
    )

    message: Text
    session: str | None = None
    criterion: Literal["max_iterations", "regex", "test_pass", "manual"] | None = None
    value: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    max_iterations: int | None = None


class LoopReviewBody(BaseModel):
    """The body of a review."""

    model_config = ConfigDict(
        extra="forbid", defer_build=True, alias_generator=to_camel, populate_by_name=True
    )

    loop_id: str
    approved: bool
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


@value
class LoopRoutes:
    """One loop per agent at a time, so the agent names it."""

    door: DaemonClient

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        here = "/api/agents/{agent}/loop"
        return [
            web.get("/api/loops", self.list_all),
            web.get(f"{here}/status", self.status),
            web.post(f"{here}/start", self.start),
            web.post(f"{here}/stop", self.stop),
            web.post(f"{here}/pause", self.pause),
            web.post(f"{here}/resume", self.resume),
            web.post(f"{here}/approve", self.approve),
        ]

    async def list_all(self, request: web.Request) -> web.Response:
        """Loops, newest first, `?agent=`."""
        return json_response(
            [
                loop_to_json(view)
                for view in await self.door.loops().list_loops(request.query.get("agent"))
            ]
        )

    async def status(self, request: web.Request) -> web.Response:
        """The agent's latest loop, and whether it is active; only that it is not, when it never had one."""
        view = find_loop(await self._list_agent_loops(request), "", open_only=False)
        return json_response(
            {
                "active": bool(view and not view.ended),
                **(loop_to_json(view) if view else {"agent": _agent(request)}),
            }
        )

    async def start(self, request: web.Request) -> web.Response:
        """202 with the loop, once it is on disk."""
        said, person = await read_body(request, LoopStartBody), request[PERSON]
        session = _session(said.session or _default_session(person))
        require_own_session(person, session)
        _check_command(person, said)
        who, role = person.name, person.role.value
        order = LoopOrder(
            _agent(request),
            said.message,
            session,
            who,
            said.criterion,
            said.value,
            said.max_iterations,
            role,
        )
        try:
            return json_response(loop_to_json(await self.door.loops().start(order)), 202)
        except UnknownAgent as error:
            raise HttpError(404, "no_agent", str(error)) from error
        except LoopNotEnabled as error:
            raise HttpError(409, "not_enabled", str(error)) from error
        except LoopNotStarted as error:
            raise HttpError(409, "refused", str(error)) from error
        except ConfigError as error:
            raise invalid(str(error)) from error

    async def stop(self, request: web.Request) -> web.Response:
        """End it now."""
        return await self._change(request, self.door.loops().stop, "is over already")

    async def pause(self, request: web.Request) -> web.Response:
        """Not another attempt."""
        return await self._change(request, self.door.loops().pause, "is not running")

    async def resume(self, request: web.Request) -> web.Response:
        """Go on."""
        return await self._change(request, self.door.loops().resume, "is not paused")

    async def approve(self, request: web.Request) -> web.Response:
        """A person's yes completes the loop, a no ends it."""
        said = await read_body(request, LoopReviewBody)
        view = next(
            (
                view
                for view in await self._list_agent_loops(request)
                if view.loop_id == said.loop_id
            ),
            None,
        )
        if view is None:
            raise not_found(f"loop {said.loop_id!r} of agent {_agent(request)!r}")
        done = await self.door.loops().review(
            view, approved=said.approved, by=request[PERSON].name, reason=said.reason
        )
        return _loop_response(done, f"loop {said.loop_id} waits for no review")

    async def _change(
        self,
        request: web.Request,
        act: Callable[[LoopView], Awaitable[LoopView | None]],
        refusal: str,
    ) -> web.Response:
        view = find_loop(await self._list_agent_loops(request), "", open_only=True)
        if view is None:
            raise HttpError(409, "no_loop", f"no loop of agent {_agent(request)!r} is active")
        return _loop_response(await act(view), f"loop {view.loop_id} {refusal}")

    async def _list_agent_loops(self, request: web.Request) -> list[LoopView]:
        return await self.door.loops().list_loops(_agent(request))


def _check_command(person: Person, said: LoopStartBody) -> None:
    """A command of test_pass runs again and again, and nobody is asked: only who could say yes to it may bring one along."""
    if (
        said.value is not None
        and said.criterion in (None, "test_pass")
        and not has_right(person.role, Right.DANGER)
    ):
        raise forbidden(
            "the value of test_pass is a command that runs unasked, so it is the owner's to give: start the loop with the agent's"
            " own criterion, or with regex or manual; nothing was started"
        )


def _agent(request: web.Request) -> str:
    return request.match_info["agent"]


def _default_session(person: Person) -> str:
    return "web:default" if person.role is Role.OWNER else f"web:{person.name}"


def _session(name: str) -> str:
    channel, colon, chat = name.partition(":")
    if not colon:
        channel, chat = "web", name
    if channel in CHANNELS and SESSION_NAME.fullmatch(chat):
        return f"{channel}:{chat}"
    raise invalid(
        "session: expected web:NAME or terminal:NAME, the conversation that is asked and told"
    )


def _loop_response(view: LoopView | None, refusal: str) -> web.Response:
    if view is None:
        raise HttpError(409, "not_now", refusal)
    return json_response(loop_to_json(view))
