"""spawn_agent: another agent at work for this one (A17)."""

import json

from daemon.agent.subagents.manager import SubagentManager, TooManySubagents, has_succeeded
from daemon.core.errors import ConfigError
from daemon.core.events import Steered, UserSaid
from daemon.core.rows import REPORT_SUFFIX
from daemon.core.trust import Effect
from daemon.core.turn import Turn
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.signature import tool

NO_LIMIT_S = 86_400.0
MOST_CHARS = 1_000_000  # the child's own limit holds
DEFAULT = "default"


@tool(
    effect=Effect.READ, parallel=True, idempotent=True, timeout_s=NO_LIMIT_S, max_chars=MOST_CHARS
)
async def spawn_agent(
    context: ToolContext,
    children: SubagentManager,
    task: str,
    agent: str = DEFAULT,
    background: bool = False,
) -> ToolOutput:
    """Give a task of its own to a sub-agent, which knows nothing of this conversation but the
    task. Returns its answer; in the background, returns at once and the answer comes as a
    message later.
    """
    turn = context.turn
    known = turn.children.get(context.call_id)
    if known is None:
        _check(children, turn, task, background)
        try:
            event = children.spawn_event(
                turn, context.call_id, task.strip(), agent=agent, background=background
            )
            await children.start(turn, event, context.record_event)
        except (ConfigError, TooManySubagents) as error:
            raise ToolError(str(error)) from error
    else:
        event = known.spawned
    if event.background:
        return ToolOutput(
            f"started as turn {event.child}; its result will come as a message when it is done"
        )
    before = children.active_seconds_of(turn)
    returned = await children.wait_for_result(turn, event)
    seconds = children.active_seconds_of(turn) - before
    head = json.dumps({"turn": returned.child, "stop_reason": returned.stop})
    return ToolOutput(
        f"{head}\n{returned.text}",
        is_error=not has_succeeded(returned),
        label=returned.label,
        seconds=seconds,
    )


def _check(children: SubagentManager, turn: Turn, task: str, background: bool) -> None:
    if not task.strip():
        raise ToolError(
            "task is empty; say what the sub-agent is to do, with everything it needs to know"
        )
    most, depth = children.config.max_depth, turn.spec.depth
    if depth >= most:
        raise ToolError(
            f"sub-agents may be nested {most} deep, and this one is: do the task yourself"
        )
    if background and (depth or turn.session.startswith("loop:")):
        raise ToolError(
            "nobody would hear of it: only the agent that the user talks to can work in the"
            " background"
        )
    if background and _follows_report(turn):
        raise ToolError(
            "this turn was begun by a report, and the user has not spoken since: do it without"
            " background"
        )


def _follows_report(turn: Turn) -> bool:
    """Each report begins a turn with a budget of its own: one must not lead to the next for ever
    (F2).
    """
    said = turn.events[0].event
    spoken = any(isinstance(entry.event, Steered) for entry in turn.events)
    return isinstance(said, UserSaid) and said.input_id.endswith(REPORT_SUFFIX) and not spoken
