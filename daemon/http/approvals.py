"""Answers to questions (B8), and secrets that were asked for (H2)."""

from datetime import timedelta
from typing import Literal, get_args

from aiohttp import web
from pydantic import Field

from daemon.client.protocol import ApprovalState, DaemonClient
from daemon.core.rows import MAX_GRANT_TERM, MAX_GRANT_USES, GrantBounds
from daemon.core.trust import Answer
from daemon.http.responses import (
    PERSON,
    Body,
    HttpError,
    Reason,
    json_response,
    not_found,
    read_body,
    require,
)

STATES: tuple[ApprovalState, ...] = get_args(ApprovalState)


class ApprovalAnswerBody(Body):
    """An answer. `scope` and the bounds count for a yes to a call only; `question` is as shown."""

    call_id: str = Field(min_length=1, max_length=100, pattern="^[^/]+$")
    question: str = Field("", max_length=100)
    scope: Literal["once", "session", "always"] = "once"
    reason: Reason = ""
    option: str = Field("", max_length=100)
    times: int | None = Field(None, ge=1, le=MAX_GRANT_USES)
    minutes: float | None = Field(
        None, gt=0, le=MAX_GRANT_TERM.total_seconds() / 60, allow_inf_nan=False
    )
    paths: str = Field("", max_length=1000)


async def answer_approval(client: DaemonClient, request: web.Request) -> web.Response:
    """Yes: once, for this session, or always; or no: the model gets the reason."""
    body, turn = await read_body(request, ApprovalAnswerBody), request.match_info["turn"]
    call_id = body.call_id
    answer = Answer.DENY if request.path.endswith("/reject") else Answer(body.scope)
    answer = Answer.CHOICE if body.option and answer is not Answer.DENY else answer
    duration = None if body.minutes is None else timedelta(minutes=body.minutes)
    bounds = GrantBounds(body.times, duration, body.paths)
    person, meant = request[PERSON], f"{call_id}/{body.question}"
    if await client.answer_approval(
        turn, meant, answer, person, body.option or body.reason, bounds
    ):
        return json_response({"turn": turn, "call_id": call_id, "answer": answer})
    view = await require(client, "run", turn)
    if all(call.call_id != call_id for call in view.calls):
        # a question of the daemon itself is no call of the run: "budget.1", "review.7"
        approvals = [row for s in STATES for row in await client.list_approvals(s, view.session)]
        if all((row.turn, row.call_id) != (turn, call_id) for row in approvals):
            raise not_found(f"call {call_id!r} in run {turn!r}")
    waiting = await client.list_approvals(session=view.session)
    if any((row.turn, row.call_id) == (turn, call_id) for row in waiting):
        raise HttpError(
            409,
            "asked_anew",
            f"nothing was answered: call {call_id} was asked anew since, perhaps of other content;"
            " GET /v1/approvals shows it and the question to answer",
        )
    raise HttpError(
        409,
        "not_pending",
        f"call {call_id} does not wait for an answer: answered already, expired or over",
    )
