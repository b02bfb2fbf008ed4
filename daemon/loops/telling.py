"""What is told when a loop has moved: to its conversation, and to who watches (C4)."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from daemon.core.events import ApprovalAsked
from daemon.core.label import Effect
from daemon.core.loops import REVIEW, LoopRow, LoopStage
from daemon.loops.events import AgentStatus, Completed, Failed, Iterated, Learned, LoopEvent, ReviewRequired
from daemon.loops.settling import Tried
from daemon.tools.approvals import token_hash
from daemon.tools.arguments import args_hash, canonical

REVIEW_TOOL = "loop_review"
REVIEW_STANDS = timedelta(days=30)


def review_of(loop: LoopRow, output: str, token: str, now: datetime) -> ApprovalAsked:
    """The question whether the attempt will do, in the form in which all questions are put. `token`: what its buttons carry."""
    arguments = {"loopId": loop.id, "iteration": loop.attempt, "output": output}
    bound = args_hash(REVIEW_TOOL, arguments)
    return ApprovalAsked(REVIEW, REVIEW_TOOL, canonical(arguments), bound, Effect.READ, token_hash(token), now + REVIEW_STANDS)


def notices(before: LoopRow, after: LoopRow, warning: str = "") -> Iterator[str]:
    """Lines for the conversation that started it."""
    if len(after.learned) > len(before.learned):
        yield f"Attempt {before.attempt} of {after.max_iterations}: {after.learned[-1]}"
    if warning:
        yield f"The criterion {after.criterion} could not be looked at as meant: {warning}."
    if after.stage is before.stage:
        return
    match after.stage:
        case LoopStage.COMPLETED:
            yield f"Completed after {_times(after.attempt)}:\n{after.final_output}"
        case LoopStage.FAILED:
            yield f"Failed at attempt {after.attempt}: {after.error}"
        case LoopStage.REVIEWING:
            yield f"Attempt {after.attempt} needs your review: /approve completes the loop, /deny ends it."
        case LoopStage.RUNNING | LoopStage.PAUSED:
            return


def events(before: LoopRow, after: LoopRow, came: Tried | None = None) -> Iterator[LoopEvent]:
    """The same for who watches."""
    name = (after.id, after.agent)
    if came and not came.error:
        yield Iterated(*name, before.attempt, after.max_iterations, came.output)
        yield Learned(*name, before.attempt, after.learned[-1])
    if after.stage is before.stage:
        return
    match after.stage:
        case LoopStage.COMPLETED:
            yield Completed(*name, after.attempt, after.final_output)
            yield AgentStatus(*name, "idle")
        case LoopStage.FAILED:
            yield Failed(*name, after.attempt, after.error)
            yield AgentStatus(*name, "error")
        case LoopStage.REVIEWING:
            yield ReviewRequired(*name, after.attempt, came.output if came else "")
        case LoopStage.RUNNING | LoopStage.PAUSED:
            return


def _times(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"
