"""/loop: one agent at one task until it is done; asked and told in this chat (C1, C6)."""

from daemon.commands.base import Command, Desk, Spoken
from daemon.core.errors import ConfigError, UsageError
from daemon.core.loops import LoopRow, LoopStage, Order
from daemon.loops.orders import LoopRefused

USAGE = "Say /loop start MESSAGE, /loop stop, /loop pause, /loop resume, or /loop for how it stands."
STOPPED = "stopped by /loop stop"


async def loop(desk: Desk, spoken: Spoken) -> str:
    """What the first word says; without one, how this chat's latest loop stands."""
    verb, _, rest = spoken.argument.partition(" ")
    if verb == "start":
        return await _start(desk, spoken, rest.strip())
    latest = await _latest(desk, spoken)
    if latest is None:
        return f"There is no loop here. {USAGE}"
    match verb:
        case "" | "status":
            return _line(latest)
        case "stop":
            done = await desk.loops.stop(latest.id, STOPPED)
        case "pause":
            done = await desk.loops.pause(latest.id)
        case "resume":
            done = await desk.loops.resume(latest.id)
        case _:
            return USAGE
    return _line(done) if done else f"Nothing to {verb}. {_line(latest)}"


async def _start(desk: Desk, spoken: Spoken, message: str) -> str:
    """With the settings of the agent that answers in this chat, and no others: its owner wrote them."""
    if not message:
        return USAGE
    order = Order(spoken.session.agent, message, spoken.session.id, spoken.sender, role=spoken.role.value)
    try:
        begun = await desk.loops.start(order)
    except (ConfigError, UsageError, LoopRefused) as error:
        return str(error)
    return f"Loop {begun.id} has begun: at most {begun.max_iterations} attempts. I will tell you of each; /loop stop ends it."


async def _latest(desk: Desk, spoken: Spoken) -> LoopRow | None:
    """The chat's own: one that is at work rather than one that has ended."""
    rows = await desk.store.read(lambda tx: tx.loops())
    own = [row for row in rows if row.root == spoken.session.id]
    return next((row for row in own if not row.over), own[0] if own else None)


def _line(row: LoopRow) -> str:
    head = f"Loop {row.id} of {row.agent}: {row.stage.value}, attempt {row.attempt} of {row.max_iterations}."
    log = [f"{number}. {line}" for number, line in enumerate(row.learned, 1)]
    tail = {LoopStage.FAILED: row.error, LoopStage.REVIEWING: "Say /approve or /deny."}.get(row.stage, "")
    return "\n".join(part for part in (head, *log, tail) if part)


COMMANDS = (Command("loop", "one task again and again until it is done: /loop start MESSAGE, stop, pause, resume", loop),)
