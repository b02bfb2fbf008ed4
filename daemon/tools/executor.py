"""Writing down what several tools did at once, and when it has to be on disk.

Running the calls that may run: start written down, tool run under its time limit, result written down.

The calls of one reply: validated, judged, approved, written down, run (DESIGN 3).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType

from daemon.core import value
from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import EventBus
from daemon.core.event_bus import ToolOutputChunk as Printed
from daemon.core.events import CallJudged, Event, Outcome, ToolFinished, ToolRetried, ToolStarted
from daemon.core.provenance import TrustContext
from daemon.core.redaction import RedactedStream, Redactor
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn import CallState, Turn
from daemon.tools.arguments import parse_arguments
from daemon.tools.base import RetryableToolError, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.calls import (
    MAX_PARALLEL,
    AdmittedCall,
    find_repeat,
    is_repeatable,
    retry_delay,
    split_into_batches,
)
from daemon.tools.policy.approvals import (
    ARGUMENTS_CHANGED,
    ApprovalQuestions,
    is_bound_to,
    refusal_reason,
)
from daemon.tools.policy.gate import PolicyGate
from daemon.tools.policy.table import Verdict
from daemon.tools.registry import ToolRegistry, is_allowed
from daemon.tools.results import (
    MAX_CHARS,
    failure_output,
    make_result,
    rejected_result,
    settle_cut,
    to_printable,
    unknown_result,
)

COMMIT_DELAY_S = 0.05


@dataclass(slots=True)
class CommitBatcher:
    """One commit of a turn at a time: tools that finish together share one, and none is written twice.

    What an effect follows from is committed before it. Reading has no consequence outside, and is simply done again after a
    crash: its start and its result may wait for the next commit. Where that takes longer than 50 ms they are written `soon`,
    so that whoever watches sees what runs.
    """

    turn: Turn
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _timer: asyncio.TimerHandle | None = None
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "CommitBatcher":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is written behind the back of whoever comes next."""
        if self._timer:
            self._timer.cancel()
        if self._task:
            await asyncio.wait((self._task,))
            if error is None:
                self._task.result()

    async def commit(self) -> None:
        """Durable when it returns. A stop in the middle waits for the disk: nobody could say what had been written."""
        async with self._lock:
            await self.turn.commit()

    def commit_soon(self) -> None:
        """Durable in a moment, unless something else commits before."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COMMIT_DELAY_S, self._start_commit)

    def _start_commit(self) -> None:
        self._timer = None
        if self._task is None or (self._task.done() and not self._task.exception()):
            self._task = asyncio.create_task(self.commit(), name="pen")


Sleep = Callable[[float], Awaitable[None]]


class ToolTimeout(ToolError):
    """The tool did not come back in time."""


@value(kw_only=True)
class BatchRunner:
    """Runs batches of calls of one turn. Nothing that a tool says gets past the redactor."""

    turn: Turn
    commits: CommitBatcher
    untrusted: bool
    live: EventBus
    clock: Clock
    sleep: Sleep
    max_chars: int
    pool: asyncio.Semaphore
    redactor: Redactor = field(default_factory=Redactor)

    async def run(self, batch: Sequence[AdmittedCall]) -> None:
        """All of them at once, as far as the pool goes; results are recorded as they come, the model sees them in order."""
        await self._record_starts(batch)
        if len(batch) == 1:
            await self._run_call(batch[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for call in batch:
                    group.create_task(self._run_call(call))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _record_starts(self, batch: Sequence[AdmittedCall]) -> None:
        now = self.clock.now()
        for call in batch:
            state, effect = call.state, call.tool.meta.effect
            self.turn.record(
                ToolStarted(state.call_id, call.tool.name, effect, state.starts + 1), now
            )
        if all(call.is_read for call in batch):
            self.commits.commit_soon()
            return
        try:
            await self.commits.commit()
        except (asyncio.CancelledError, StoreUnavailable) as error:
            self._record_not_run(batch, error)
            raise

    def _record_not_run(self, batch: Sequence[AdmittedCall], error: BaseException) -> None:
        """We know that nothing has happened yet: say so, before anybody has to call the outcome unknown."""
        why = (
            str(error) if isinstance(error, StoreUnavailable) else "it was stopped before it began"
        )
        for call in batch:
            result = make_result(
                call.state, Outcome.NOT_RUN, f"Not run: {why}", error_class="NotRun"
            )
            self.turn.record(result, self.clock.now())

    async def _run_call(self, call: AdmittedCall) -> None:
        async with self.pool:
            result, also = await self._run_to_result(call)
        now = self.clock.now()
        for event in also:
            self.turn.record(self.redactor.redact_value(event), now)
        self.turn.record(result, now)
        if call.is_read:
            self.commits.commit_soon()
        else:
            await self.commits.commit()

    async def _run_to_result(self, call: AdmittedCall) -> tuple[ToolFinished, tuple[Event, ...]]:
        meta, error_class, began = call.tool.meta, "", self.clock.monotonic()
        try:
            output = await self._run_with_retries(call)
        except (Fenced, StoreUnavailable):
            raise
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            output, error_class = (
                failure_output(ToolError("the tool gave up by itself (cancelled)"), meta),
                type(error).__name__,
            )
        except Exception as error:  # noqa: BLE001 - the border of a tool run: its failure is the model's to read (B7)
            output, error_class = failure_output(error, meta), type(error).__name__
        if output.is_error and not error_class:
            error_class = (
                f"exit_{output.exit_code}" if output.exit_code is not None else "ToolError"
            )
        outcome = Outcome.ERROR if output.is_error else Outcome.OK
        result = make_result(
            call.state,
            outcome,
            self._clean(output.text),
            effect=meta.effect,
            label=output.label,
            error_class=error_class,
            limit=meta.max_chars or self.max_chars,
        )
        seconds = self.clock.monotonic() - began if output.seconds is None else output.seconds
        shown = replace(
            result,
            exit_code=output.exit_code,
            offers=output.offers,
            seconds=seconds,
            owned=output.from_owner,
        )
        return shown, output.events

    def _clean(self, text: str) -> str:
        """Cleaned as a whole: what is cut later would cut a secret in two; what is unprintable would hide one."""
        return self.redactor.redact_text(to_printable(text))

    async def _run_with_retries(self, call: AdmittedCall) -> ToolOutput:
        attempt = 1
        while wait := retry_delay(call.tool.meta, attempt):
            try:
                return await self._run_once(call)
            except RetryableToolError as error:
                self.turn.record(
                    ToolRetried(call.state.call_id, attempt, self._clean(str(error)), wait),
                    self.clock.now(),
                )
            await self.commits.commit()
            await self.sleep(wait)
            attempt += 1
        return await self._run_once(call)

    async def _run_once(self, call: AdmittedCall) -> ToolOutput:
        limit = call.tool.meta.timeout_s
        scope, printed = asyncio.timeout(limit), self.redactor.open_stream()
        try:
            async with scope:
                return await call.tool.run(call.arguments, self._make_context(call, printed))
        except TimeoutError as error:
            if scope.expired():
                raise ToolTimeout(f"timed out after {limit:g} s") from error
            raise
        finally:
            self._publish(call, printed.flush())

    def _publish(self, call: AdmittedCall, text: str) -> None:
        if text and self.live.is_watched(self.turn.id):
            self.live.publish(self.turn.id, Printed(call.state.call_id, text))

    def _make_context(self, call: AdmittedCall, printed: RedactedStream) -> ToolContext:
        turn, call_id = self.turn, call.state.call_id

        def on_output(text: str) -> None:
            self._publish(call, printed.feed(text))

        return ToolContext(
            turn.session, turn, call_id, self.untrusted, self.clock, on_output, self._record_event
        )

    async def _record_event(self, event: Event) -> None:
        """A tool's own event, on disk before the tool goes on."""
        self.turn.record(self.redactor.redact_value(event), self.clock.now())
        await self.commits.commit()


def _is_cancelled() -> bool:
    """Somebody cancelled this task; without that, a cancellation is a tool's own fault and must not pass for a stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@dataclass(slots=True, kw_only=True)
class ToolExecutor:
    """Gives every pending call of a turn its one result, unless it waits for a person. `new_id` gives unguessable tokens."""

    registry: ToolRegistry
    gate: PolicyGate
    live: EventBus
    clock: Clock
    new_token: Callable[[], str]
    approval_minutes: float = 5
    untrusted_approval_hours: float = 24
    max_output_chars: int = MAX_CHARS
    sleep: Sleep = asyncio.sleep
    redactor: Redactor = field(default_factory=Redactor)
    _questions: ApprovalQuestions = field(init=False)

    def __post_init__(self) -> None:
        self._questions = ApprovalQuestions(
            new_token=self.new_token,
            minutes=self.approval_minutes,
            untrusted_hours=self.untrusted_approval_hours,
        )

    async def run_pending(self, turn: Turn, setting: TrustContext) -> None:
        """When it returns, every call without a result waits for a person, or stands behind one that does.

        What only reads goes past a call that waits, and so does what a person has said yes to (B8); another effect does not,
        for it may build on that call's. Raises StoreUnavailable and Fenced.
        """
        states = turn.pending
        admitted = [await self._admit(turn, state, setting) for state in states]
        first = next((at for at, state in enumerate(states) if state.is_waiting), len(states))
        ready = [
            call
            for at, call in enumerate(admitted)
            if call and (at < first or call.is_read or call.state.approved)
        ]
        untrusted = self.gate.turn_label(turn, setting) is Label.UNTRUSTED
        async with CommitBatcher(turn) as pen:
            if len(ready) < len(admitted):
                await pen.commit()  # questions and refusals are told before anything else runs
            runner = BatchRunner(
                turn=turn, commits=pen, untrusted=untrusted, live=self.live, clock=self.clock, sleep=self.sleep,
                max_chars=self.max_output_chars, pool=asyncio.Semaphore(MAX_PARALLEL), redactor=self.redactor,
            )  # fmt: skip
            for batch in split_into_batches(ready):
                await runner.run(batch)

    def settle_cut(self, turn: Turn, why: str) -> None:
        """Record a result for every pending call of a turn that is cut: not run, or outcome unknown."""
        settle_cut(turn, why, self.clock.now())

    async def _admit(
        self, turn: Turn, state: CallState, setting: TrustContext
    ) -> AdmittedCall | None:
        """The call if it may run now; else what follows instead is recorded: a result, or a question."""
        if state.is_waiting:
            return None
        tool = (
            self.registry.get(state.call.name)
            if is_allowed(state.call.name, turn.spec.tools)
            else None
        )
        if state.starts and not (tool and is_repeatable(tool.meta)):
            return self._record_result(turn, unknown_result(state))
        if tool is None:
            return self._record_result(turn, self._unknown_tool(turn, state, setting))
        try:
            arguments = parse_arguments(state.call.arguments)
            tool.check(arguments)
        except ToolError as error:
            return self._record_result(turn, _bad_arguments(state, tool, error))
        admitted = await self._authorize(turn, AdmittedCall(state, tool, arguments), setting)
        again = find_repeat(turn, admitted) if admitted else None
        return self._record_result(turn, again) if again else admitted

    async def _authorize(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext
    ) -> AdmittedCall | None:
        state = call.state
        judged = await self._judge(turn, call, setting)
        if judged.decision is Decision.DENY:
            return self._record_result(turn, rejected_result(state, judged.reason))
        if state.approved and not is_bound_to(state, call.arguments):
            return self._record_result(turn, rejected_result(state, ARGUMENTS_CHANGED))
        if state.approved or judged.decision is Decision.ALLOW:
            return call
        if state.answered:
            return self._record_result(turn, rejected_result(state, refusal_reason(state)))
        now = self.clock.now()
        asked = self._questions.ask(state, call.tool, call.arguments, setting.session_label, now)
        turn.record(self.redactor.redact_value(asked), now)
        return None

    async def _judge(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> CallJudged:
        """Once; over a wait or a restart that holds, unless its owner has become stricter meanwhile (F5)."""
        known = call.state.judged
        if known is None:
            return self._record_verdict(turn, call, await self.gate.decide(turn, call, setting))
        stricter = self.gate.recheck(turn, call, setting, known.decision)
        return self._record_verdict(turn, call, stricter) if stricter else known

    def _record_verdict(self, turn: Turn, call: AdmittedCall, verdict: Verdict) -> CallJudged:
        judged = CallJudged(call.state.call_id, call.tool.name, call.tool.meta.effect, *verdict)
        turn.record(judged, self.clock.now())
        return judged

    def _unknown_tool(self, turn: Turn, state: CallState, setting: TrustContext) -> ToolFinished:
        """Whoever is trusted is helped to the right name; text from outside is only refused."""
        decision, reason = self.gate.decide_unknown(turn, setting)
        if not state.judged:
            judged = CallJudged(
                state.call_id, state.call.name, Effect.DESTRUCTIVE, decision, reason
            )
            turn.record(judged, self.clock.now())
        if turn.label.join_with(setting.session_label) is Label.UNTRUSTED:
            return rejected_result(state, reason, error_class="UnknownTool")
        near = self.registry.nearest(state.call.name)
        hint = f"; nearest: {near}" if near else ""
        text = f"no tool named {state.call.name}{hint}. find_tools lists others."
        return make_result(state, Outcome.ERROR, text, error_class="UnknownTool")

    def _record_result(self, turn: Turn, result: ToolFinished) -> None:
        turn.record(result, self.clock.now())


def _bad_arguments(state: CallState, tool: Tool, error: ToolError) -> ToolFinished:
    return make_result(
        state, Outcome.ERROR, str(error), effect=tool.meta.effect, error_class="BadArguments"
    )
