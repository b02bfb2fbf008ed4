"""A loop as its clients see it, and what they can do with it (C1)."""

from collections.abc import Sequence
from dataclasses import asdict, field
from enum import StrEnum

from daemon.core import value


@value
class AttemptView:
    """One attempt of a loop: its run, and its full reply. `output` is None while it runs."""

    iteration: int
    turn: str
    state: str
    stop_reason: str | None = None
    output: str | None = None


@value
class CriteriaView:
    """When the loop is done."""

    type: str
    value: str


@value
class LoopView:
    """A loop. status: running, paused, completed, failed; `review` is the question that waits for a
    person.
    """

    loop_id: str
    agent: str
    iteration: int
    max_iterations: int
    criteria: CriteriaView
    status: str
    session: str
    message: str
    progress_log: list[str] = field(default_factory=list)
    attempts: list[AttemptView] = field(default_factory=list)
    final_output: str | None = None
    error: str | None = None
    review: str | None = None
    started: str = ""
    ended: str | None = None


class LoopAction(StrEnum):
    """What a person can do with an active loop."""

    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"


def loop_to_json(view: LoopView) -> dict[str, object]:
    """LoopState, in the names that its HTTP clients know."""
    return asdict(view, dict_factory=_to_camel_case)


def _to_camel_case(items: list[tuple[str, object]]) -> dict[str, object]:
    return {name[0] + name.title().replace("_", "")[1:]: inner for name, inner in items}


def find_loop(loops: Sequence[LoopView], name: str, *, open_only: bool) -> LoopView | None:
    """The loop of this id, or the latest of this agent, or for "" the latest. `open_only`: one that
    has not ended.
    """
    found = (v for v in loops if name in ("", v.loop_id, v.agent) and not (open_only and v.ended))
    return next(found, None)
