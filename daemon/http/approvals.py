"""Questions to a person, and the answers."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from daemon.core.asking import LONGEST, MOST_USES, Bounds, MayNotAnswer
from daemon.core.events import Answer
from daemon.door.base import Door, RunView
from daemon.http.rights import WHO, forbidden
from daemon.http.runs import known_run
from daemon.http.wire import Problem, answer, body, invalid, not_found

STATES = ("pending", "answered", "consumed", "expired", "void")


class Answered(BaseModel):
    """The body of an answer; `scope` counts for the approval of a call only, and so do the bounds of a longer one."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    call_id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    scope: Literal["once", "session", "always"] = "once"
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""
    times: Annotated[int, Field(ge=1, le=MOST_USES)] | None = None
    minutes: Annotated[float, Field(gt=0, le=LONGEST.total_seconds() / 60, allow_inf_nan=False)] | None = None
    paths: Annotated[str, StringConstraints(max_length=1000)] = ""

    def bounds(self) -> Bounds:
        """How far a yes for the session or always goes."""
        return Bounds(self.times, None if self.minutes is None else timedelta(minutes=self.minutes), self.paths)


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
        try:
            done = await self.door.answer(turn, said.call_id, answered, person, said.reason, said.bounds())
        except MayNotAnswer as error:
            raise forbidden(str(error)) from error
        if done:
            return answer({"turn": turn, "call_id": said.call_id, "answer": answered})
        view = await known_run(self.door, request)
        if not await self._was_asked(view, said.call_id):
            raise not_found(f"call {said.call_id!r} in run {turn!r}")
        raise Problem(409, "not_pending", f"call {said.call_id} does not wait for an answer: answered already, expired or over")

    async def _was_asked(self, view: RunView, call_id: str) -> bool:
        """A call of the run; or a question of the house itself, which is no call: "budget.1", "review.7"."""
        if any(call.call_id == call_id for call in view.calls):
            return True
        asked = [one for state in STATES for one in await self.door.approvals(state, view.session)]
        return any((one.turn, one.call_id) == (view.turn, call_id) for one in asked)
