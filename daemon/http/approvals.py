"""Questions to a person, and the answers."""

from dataclasses import dataclass
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, StringConstraints

from daemon.core.events import Answer
from daemon.core.label import Effect, Label
from daemon.core.roles import may_answer
from daemon.door.base import Door, RunView
from daemon.http.rights import WHO, forbidden, is_own
from daemon.http.runs import known_run
from daemon.http.wire import Problem, answer, body, invalid, not_found

STATES = ("pending", "answered", "consumed", "expired", "void")


class Answered(BaseModel):
    """The body of an answer; `scope` counts for the approval of a call only."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    call_id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    scope: Literal["once", "session", "always"] = "once"
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


@dataclass(frozen=True, slots=True)
class Approvals:
    """Each question is answered once; each call on its own (B8)."""

    door: Door

    def routes(self) -> list[web.RouteDef]:
        """What is served here."""
        return [
            web.get("/v1/approvals", self.listed),
            web.post("/v1/runs/{turn}/approve", self.approve),
            web.post("/v1/runs/{turn}/reject", self.reject),
        ]

    async def listed(self, request: web.Request) -> web.Response:
        """`?state=pending` (the default) and `?session=`."""
        state = request.query.get("state", "pending")
        if state not in STATES:
            raise invalid(f"state: found {state!r}, expected one of {', '.join(STATES)}")
        return answer(await self.door.approvals(state, request.query.get("session")))

    async def approve(self, request: web.Request) -> web.Response:
        """Yes, for this once, this session or always."""
        said = await body(request, Answered)
        return await self._settle(request, said, Answer(said.scope))

    async def reject(self, request: web.Request) -> web.Response:
        """No; the model is told the reason, which is feedback where an answer was to be reviewed."""
        return await self._settle(request, await body(request, Answered), Answer.DENY)

    async def _settle(self, request: web.Request, said: Answered, answered: Answer) -> web.Response:
        turn, person = request.match_info["turn"], request[WHO]
        await self._check(request, said.call_id, answered)
        if await self.door.answer(turn, said.call_id, answered, person.name, said.reason):
            return answer({"turn": turn, "call_id": said.call_id, "answer": answered})
        view = await known_run(self.door, request)
        if not await self._was_asked(view, said.call_id):
            raise not_found(f"call {said.call_id!r} in run {turn!r}")
        raise Problem(409, "not_pending", f"call {said.call_id} does not wait for an answer: answered already, expired or over")

    async def _check(self, request: web.Request, call_id: str, answered: Answer) -> None:
        """Raises Problem where the person's role does not cover this question; what waits for no answer is found out later."""
        turn, person = request.match_info["turn"], request[WHO]
        for one in await self.door.approvals():
            if (one.turn, one.call_id) != (turn, call_id):
                continue
            own = is_own(person, one.session)
            if not may_answer(person.role, Effect(one.effect), Label(one.label), answered, own=own):
                raise forbidden(f"only the owner may answer this ({one.tool}: {one.effect}); it still waits for an answer")

    async def _was_asked(self, view: RunView, call_id: str) -> bool:
        """A call of the run; or a question of the house itself, which is no call: "budget.1", "review.7"."""
        if any(call.call_id == call_id for call in view.calls):
            return True
        asked = [one for state in STATES for one in await self.door.approvals(state, view.session)]
        return any((one.turn, one.call_id) == (view.turn, call_id) for one in asked)
