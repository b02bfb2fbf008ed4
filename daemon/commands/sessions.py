"""/stop /cancel /pause /resume /clear /loop: what runs, what waits, what starts over; /model
/models /auto /effort /agent: who answers this chat, and how hard it thinks (A2, B1, C1, C6, D5, E7,
E13).
"""

from daemon.agent.final_messages import BY_STOP
from daemon.agent.models import ModelRouting
from daemon.commands.registry import CommandCall
from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import ConfigError, UsageError
from daemon.core.rows import LoopOrder, LoopRow, LoopStage
from daemon.loops.config import LoopNotStarted
from daemon.services.sessions import SessionService

LOOP_USAGE = (
    "Use /loop start MESSAGE, /loop stop, /loop pause, /loop resume, or /loop for its state."
)
LOOP_STOP_REASON = "stopped by /loop stop"
EFFORTS = ("low", "medium", "high", "max")


@value
class SessionCommands:
    """Each applies to the chat that it is given in; settings from its next message on."""

    clock: Clock
    service: SessionService
    routing: ModelRouting

    async def stop(self, call: CommandCall) -> str:
        """/stop interrupts a model call or a tool within a second."""
        count = len(await self.service.stop_session(call.session, BY_STOP, call.sender))
        if not count:
            return "Nothing is running here."
        return f"Stopping {count} {'task' if count == 1 else 'tasks'}."

    async def cancel(self, call: CommandCall) -> str:
        """/cancel [ID]; without an id it is /stop."""
        session, turn = call.session, call.argument
        if not turn:
            return await self.stop(call)
        rows = await self.service.store.read(lambda tx: tx.list_unfinished_turns(session.id))
        is_known = turn in {row.id for row in rows}
        if is_known and await self.service.stop_turn(session, turn, "stopped by /cancel"):
            return f"Stopping {turn}."
        return f"No task {turn} is running here. /tasks lists them."

    async def pause(self, call: CommandCall) -> str:
        """Hold before the next step."""
        await self.service.edit(call.session, paused=True)
        return "Paused before the next step; new messages are kept. /resume continues."

    async def resume(self, call: CommandCall) -> str:
        """Continue after /pause."""
        await self.service.edit(call.session, paused=False)
        return "Resumed."

    async def clear(self, call: CommandCall) -> str:
        """The model starts with an empty conversation; the journal keeps everything."""
        await self.service.edit(call.session, cleared_at=self.clock.now())
        return "Cleared: the next message starts a new conversation. Memories and the journal stay."

    async def loop(self, call: CommandCall) -> str:
        """/loop [start MESSAGE|stop|pause|resume]; without a verb, the state of this chat's latest
        loop.
        """
        verb, _, rest = call.argument.partition(" ")
        if verb == "start":
            return await self._start_loop(call, rest.strip())
        loops = self.service.loops
        rows = await self.service.store.read(lambda tx: tx.list_loops())
        own = [row for row in rows if row.root == call.session.id]
        if not own:
            return f"There is no loop here. {LOOP_USAGE}"
        latest = next((row for row in own if not row.is_over), own[0])
        match verb:
            case "" | "status":
                return _describe_loop(latest)
            case "stop":
                done = await loops.stop(latest.id, LOOP_STOP_REASON)
            case "pause":
                done = await loops.pause(latest.id)
            case "resume":
                done = await loops.resume(latest.id)
            case _:
                return LOOP_USAGE
        return _describe_loop(done) if done else f"Nothing to {verb}. {_describe_loop(latest)}"

    async def _start_loop(self, call: CommandCall, message: str) -> str:
        """With the settings of the chat's agent only: its owner wrote them."""
        if not message:
            return LOOP_USAGE
        agent, session = call.session.agent, call.session.id
        order = LoopOrder(agent, message, session, call.sender, role=call.role.value)
        try:
            loop = await self.service.loops.start(order)
        except (ConfigError, LoopNotStarted) as error:
            raise UsageError(str(error)) from error
        return (
            f"Loop {loop.id} has started: at most {loop.max_iterations} attempts, each is"
            " reported here. /loop stop ends it."
        )

    async def model(self, call: CommandCall) -> str:
        """/model [NAME]"""
        name, pinned, names = call.argument, call.session.model, self.routing.list_models()
        if not name:
            return f"Model: {pinned} (pinned; /auto unpins)" if pinned else f"Model: {names[0]}"
        await self.service.edit(call.session, model=name)
        hint = " It is not in the config; the provider will be asked for it."
        return f"Model: {name}.{'' if name in names else hint}"

    async def models(self, call: CommandCall) -> str:
        """/models"""
        names = self.routing.list_models()
        chosen = call.session.model or names[0]
        listed = dict.fromkeys((*names, chosen))
        return "\n".join(f"{'*' if name == chosen else '-'} {name}" for name in listed)

    async def auto(self, call: CommandCall) -> str:
        """/auto"""
        await self.service.edit(call.session, model="")
        return f"Model: {self.routing.list_models()[0]}"

    async def effort(self, call: CommandCall) -> str:
        """/effort LEVEL"""
        if call.argument not in EFFORTS:
            levels, current = "|".join(EFFORTS), call.session.effort or "as configured"
            return f"Effort: {current}. /effort {levels} changes it."
        await self.service.edit(call.session, effort=call.argument)
        return f"Effort: {call.argument}"

    async def agent(self, call: CommandCall) -> str:
        """/agent [NAME]; the chosen one is listed even when its file is gone."""
        chosen = call.session.agent
        if not call.argument:
            names = dict.fromkeys((*self.service.specs.names(), chosen))
            marked = (f"{'*' if name == chosen else '-'} {self._describe(name)}" for name in names)
            return "\n".join(marked)
        try:
            warnings = await self.service.choose_agent(call.session, call.argument)
        except ConfigError as error:
            return f"Still agent {chosen}: {error}"
        return "\n".join((f"Agent: {call.argument}.", *warnings))

    def _describe(self, name: str) -> str:
        try:
            text = self.service.specs.get(name).identity.description
        except ConfigError as error:
            text = f"cannot be used: {error}"
        return f"{name}: {text}" if text else name


def _describe_loop(row: LoopRow) -> str:
    head = (
        f"Loop {row.id} of {row.agent}: {row.stage.value}, attempt {row.attempt} of"
        f" {row.max_iterations}."
    )
    log = [f"{number}. {line}" for number, line in enumerate(row.learned, 1)]
    tails = {LoopStage.FAILED: row.error, LoopStage.REVIEWING: "Use /approve or /deny."}
    return "\n".join(filter(None, (head, *log, tails.get(row.stage))))
