"""The calls of one reply: validated, judged, approved, written down, run (DESIGN 3)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from daemon.core.clock import Clock
from daemon.core.events import CallJudged, Outcome, ToolFinished
from daemon.core.label import Decision, Effect, Label
from daemon.core.live import Live
from daemon.core.redaction import Redactor
from daemon.core.sources import Setting
from daemon.core.state import CallState
from daemon.core.turn import Turn
from daemon.tools.approvals import CHANGED, Questions, is_bound_to, refusal
from daemon.tools.arguments import parsed
from daemon.tools.base import Tool, ToolError
from daemon.tools.batches import POOL, Ready, in_batches
from daemon.tools.gate import Gate
from daemon.tools.pen import Pen
from daemon.tools.policy import Verdict
from daemon.tools.repeats import repeated
from daemon.tools.results import MAX_CHARS, finished, rejected, settle_cut, unknown
from daemon.tools.retry import may_run_again
from daemon.tools.running import Runner, Sleep
from daemon.tools.toolbox import Tools, allowed


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    """Gives every pending call of a turn its one result, unless it waits for a person. `new_id` gives unguessable tokens."""

    toolbox: Tools
    gate: Gate
    live: Live
    clock: Clock
    new_id: Callable[[], str]
    approval_minutes: float = 5
    untrusted_approval_hours: float = 24
    max_output_chars: int = MAX_CHARS
    sleep: Sleep = asyncio.sleep
    redactor: Redactor = field(default_factory=Redactor)
    _questions: Questions = field(init=False)

    def __post_init__(self) -> None:
        self._questions = Questions(
            new_token=self.new_id, minutes=self.approval_minutes, untrusted_hours=self.untrusted_approval_hours
        )

    async def dispatch(self, turn: Turn, setting: Setting) -> None:
        """When it returns, every call without a result waits for a person, or stands behind one that does.

        What only reads goes past a call that waits, and so does what a person has said yes to (B8); another effect does not,
        for it may build on that call's. Raises StoreUnavailable and Fenced.
        """
        states = turn.pending
        admitted = [await self._admit(turn, state, setting) for state in states]
        first = next((at for at, state in enumerate(states) if state.waits), len(states))
        ready = [call for at, call in enumerate(admitted) if call and (at < first or call.only_reads or call.state.approved)]
        untrusted = self.gate.label(turn, setting) is Label.UNTRUSTED
        async with Pen(turn) as pen:
            if len(ready) < len(admitted):
                await pen.commit()  # questions and refusals are told before anything else runs
            runner = Runner(
                turn=turn, pen=pen, untrusted=untrusted, live=self.live, clock=self.clock, sleep=self.sleep,
                max_chars=self.max_output_chars, pool=asyncio.Semaphore(POOL), redactor=self.redactor,
            )  # fmt: skip
            for batch in in_batches(ready):
                await runner.run(batch)

    def settle_cut(self, turn: Turn, why: str) -> None:
        """Record a result for every pending call of a turn that is cut: not run, or outcome unknown."""
        settle_cut(turn, why, self.clock.now())

    async def _admit(self, turn: Turn, state: CallState, setting: Setting) -> Ready | None:
        """The call if it may run now; else what follows instead is recorded: a result, or a question."""
        if state.waits:
            return None
        tool = self.toolbox.get(state.call.name) if allowed(state.call.name, turn.terms.tools) else None
        if state.starts and not (tool and may_run_again(tool.meta)):
            return self._settle(turn, unknown(state))
        if tool is None:
            return self._settle(turn, self._no_such_tool(turn, state, setting))
        try:
            arguments = parsed(state.call.arguments)
            tool.check(arguments)
        except ToolError as error:
            return self._settle(turn, _misused(state, tool, error))
        admitted = await self._judged(turn, Ready(state, tool, arguments), setting)
        again = repeated(turn, admitted) if admitted else None
        return self._settle(turn, again) if again else admitted

    async def _judged(self, turn: Turn, call: Ready, setting: Setting) -> Ready | None:
        state = call.state
        judged = await self._judge(turn, call, setting)
        if judged.decision is Decision.DENY:
            return self._settle(turn, rejected(state, judged.reason))
        if state.approved and not is_bound_to(state, call.arguments):
            return self._settle(turn, rejected(state, CHANGED))
        if state.approved or judged.decision is Decision.ALLOW:
            return call
        if state.answered:
            return self._settle(turn, rejected(state, refusal(state)))
        now = self.clock.now()
        asked = self._questions.ask(state, call.tool, call.arguments, setting.session_label, now)
        turn.record(self.redactor.value(asked), now)
        return None

    async def _judge(self, turn: Turn, call: Ready, setting: Setting) -> CallJudged:
        """Once; over a wait or a restart that holds, unless its owner has become stricter meanwhile (F5)."""
        known = call.state.judged
        if known is None:
            return self._noted(turn, call, await self.gate.look(turn, call, setting))
        stricter = self.gate.since(turn, call, setting, known.decision)
        return self._noted(turn, call, stricter) if stricter else known

    def _noted(self, turn: Turn, call: Ready, verdict: Verdict) -> CallJudged:
        judged = CallJudged(call.state.call_id, call.tool.name, call.tool.meta.effect, *verdict)
        turn.record(judged, self.clock.now())
        return judged

    def _no_such_tool(self, turn: Turn, state: CallState, setting: Setting) -> ToolFinished:
        """Whoever is trusted is helped to the right name; text from outside is only refused."""
        decision, reason = self.gate.unknown(turn, setting)
        if not state.judged:
            judged = CallJudged(state.call_id, state.call.name, Effect.DESTRUCTIVE, decision, reason)
            turn.record(judged, self.clock.now())
        if turn.label.joined(setting.session_label) is Label.UNTRUSTED:
            return rejected(state, reason, error_class="UnknownTool")
        near = self.toolbox.nearest(state.call.name)
        hint = f"; nearest: {near}" if near else ""
        text = f"no tool named {state.call.name}{hint}. find_tools lists others."
        return finished(state, Outcome.ERROR, text, error_class="UnknownTool")

    def _settle(self, turn: Turn, result: ToolFinished) -> None:
        turn.record(result, self.clock.now())


def _misused(state: CallState, tool: Tool, error: ToolError) -> ToolFinished:
    return finished(state, Outcome.ERROR, str(error), effect=tool.meta.effect, error_class="BadArguments")
