"""Halt conditions for a model that goes round and round: told so first, stopped when it goes on (A11, E9)."""

from collections.abc import Callable
from typing import Literal

from daemon.agent.halting import Halt, HaltCondition
from daemon.agent.halts.recent import fresh, just_coached
from daemon.agent.stall import FAILURES, MEMORY, WINDOW, Recent, coaching, failing_alike, pingpong, steps, stuck_on
from daemon.core.events import Stop
from daemon.core.turn import Turn

OnStall = Literal["coach", "stop"]
Notice = tuple[str, str]
ROUND = (
    "You have gone round {times} times between {tools}, with the same arguments and the same results each time. Going on like "
    "that will not change them. Say what you learned, then try another way, or tell the user what stands in the way."
)
FAILING = (
    "{tool} has now failed {times} times running in the same way, whatever arguments it was given. Other arguments will not "
    "help. Do it without this tool, or tell the user what stands in the way."
)


def coached_first(reason: Stop, on_stall: OnStall, look: Callable[[Turn], Notice | None]) -> HaltCondition:
    """A condition that holds where `look` finds (detail, coaching): a message the first time, unless told to stop at once.

    While the model has not answered a coaching of either kind, no other comes on top.
    """

    def check(turn: Turn) -> Halt | None:
        noticed = None if fresh(turn) or just_coached(turn) else look(turn)
        if noticed is None:
            return None
        detail, coach = noticed
        first_time = on_stall == "coach" and reason.value not in turn.coached
        return Halt(reason, detail, coach if first_time else "", coachable=True)

    return check


def circling(on_stall: OnStall) -> HaltCondition:
    """The same again, back and forth, or one tool failing in the same way whatever it is given (A11, E9)."""

    def look(turn: Turn) -> Notice | None:
        recent = steps(turn, MEMORY)
        return _stuck(turn, recent) or _round(turn, recent) or _failing(turn, recent)

    return coached_first(Stop.STALLED, on_stall, look)


def _stuck(turn: Turn, recent: Recent) -> Notice | None:
    tool = stuck_on(turn, recent=recent)
    return (f"{tool} was called {WINDOW} times running with the same outcome", coaching(tool)) if tool else None


def _round(turn: Turn, recent: Recent) -> Notice | None:
    tools = pingpong(turn, recent)
    if not tools:
        return None
    return f"it went back and forth between {tools} with the same outcomes", ROUND.format(times=WINDOW, tools=tools)


def _failing(turn: Turn, recent: Recent) -> Notice | None:
    tool = failing_alike(turn, recent=recent)
    if not tool:
        return None
    return f"{tool} failed {FAILURES} times running in the same way", FAILING.format(times=FAILURES, tool=tool)
