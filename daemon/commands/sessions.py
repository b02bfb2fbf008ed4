"""/stop /cancel /pause /resume /clear /loop: what runs, what waits, what starts over (C1, C6, D5,
E7).
"""

from dataclasses import replace

from daemon.agent.final_messages import BY_STOP
from daemon.commands.registry import CommandCall, Handlers
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, UsageError
from daemon.core.rows import LoopOrder, LoopRow, LoopStage
from daemon.loops.config import LoopNotStarted
from daemon.loops.engine import LoopEngine
from daemon.services.sessions import SessionService
from daemon.store.journal import Store

LOOP_USAGE = (
    "Use /loop start MESSAGE, /loop stop, /loop pause, /loop resume, or /loop for its state."
)
LOOP_STOP_REASON = "stopped by /loop stop"


@value
class SessionCommands:
    """Each applies to the chat that it is given in."""

    store: Store
    clock: Clock
    sessions: SessionService
    loops: LoopEngine

    def handlers(self) -> Handlers:
        """By command."""
        return {
            "stop": self.stop,
            "cancel": self.cancel,
            "pause": self.set_paused,
            "resume": self.set_paused,
            "clear": self.clear,
            "loop": self.loop,
        }

    async def stop(self, call: CommandCall) -> str:
        """/stop interrupts a model call or a tool within a second."""
        turns = await self.sessions.stop_session(call.session, BY_STOP, call.sender)
        return (
            f"Stopping {len(turns)} {'task' if len(turns) == 1 else 'tasks'}."
            if turns
            else "Nothing is running here."
        )

    async def cancel(self, call: CommandCall) -> str:
        """/cancel [ID]; without an id it is /stop."""
        if not (turn := call.argument):
            return await self.stop(call)
        known = await self.store.read(
            lambda tx: {row.id for row in tx.list_unfinished_turns(call.session.id)}
        )
        if turn in known and await self.sessions.stop_turn(
            call.session, turn, "stopped by /cancel"
        ):
            return f"Stopping {turn}."
        return f"No task {turn} is running here. /tasks lists them."

    async def set_paused(self, call: CommandCall) -> str:
        """/pause holds before the next step, /resume continues."""
        paused = call.name == "pause"
        await self.sessions.set_paused(call.session, paused=paused)
        return (
            "Paused before the next step; new messages are kept. /resume continues."
            if paused
            else "Resumed."
        )

    async def clear(self, call: CommandCall) -> str:
        """The model starts with an empty conversation; the journal keeps everything."""
        now = self.clock.now()
        await self.sessions.edit(call.session, lambda row: replace(row, cleared_at=now))
        return "Cleared: the next message starts a new conversation. Memories and the journal stay."

    async def loop(self, call: CommandCall) -> str:
        """/loop [start MESSAGE|stop|pause|resume]; without a verb, the state of this chat's latest
        loop.
        """
        verb, _, rest = call.argument.partition(" ")
        if verb == "start":
            return await self._start_loop(call, rest.strip())
        latest = await self._find_loop(call.session.id)
        if latest is None:
            return f"There is no loop here. {LOOP_USAGE}"
        match verb:
            case "" | "status":
                return _describe_loop(latest)
            case "stop":
                done = await self.loops.stop(latest.id, LOOP_STOP_REASON)
            case "pause":
                done = await self.loops.pause(latest.id)
            case "resume":
                done = await self.loops.resume(latest.id)
            case _:
                return LOOP_USAGE
        return _describe_loop(done) if done else f"Nothing to {verb}. {_describe_loop(latest)}"

    async def _start_loop(self, call: CommandCall, message: str) -> str:
        """With the settings of the chat's agent only: its owner wrote them."""
        if not message:
            return LOOP_USAGE
        session = call.session
        try:
            loop = await self.loops.start(
                LoopOrder(session.agent, message, session.id, call.sender, role=call.role.value)
            )
        except (ConfigError, UsageError, LoopNotStarted) as error:
            return str(error)
        return (
            f"Loop {loop.id} has started: at most {loop.max_iterations} attempts, each is"
            " reported here. /loop stop ends it."
        )

    async def _find_loop(self, session: str) -> LoopRow | None:
        """The chat's own: a running one first, else the latest."""
        own = [
            row for row in await self.store.read(lambda tx: tx.list_loops()) if row.root == session
        ]
        return next((row for row in own if not row.is_over), own[0] if own else None)


def _describe_loop(row: LoopRow) -> str:
    head = (
        f"Loop {row.id} of {row.agent}: {row.stage.value}, attempt {row.attempt} of"
        f" {row.max_iterations}."
    )
    log = [f"{number}. {line}" for number, line in enumerate(row.learned, 1)]
    tail = {LoopStage.FAILED: row.error, LoopStage.REVIEWING: "Use /approve or /deny."}.get(
        row.stage, ""
    )
    return "\n".join(part for part in (head, *log, tail) if part)
