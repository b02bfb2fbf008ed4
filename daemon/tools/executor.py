"""Executes the tool calls of one model reply: validate, authorize, record the start, run, record
the result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import EventBus, ToolOutputChunk
from daemon.core.events import CallJudged, Event, Outcome, ToolFinished, ToolRetried, ToolStarted
from daemon.core.messages import MessageRole, score_importance
from daemon.core.provenance import TrustContext
from daemon.core.redaction import Redactor
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn import CallState, Turn
from daemon.tools.arguments import args_hash, parse_arguments
from daemon.tools.base import RetryableToolError, ToolContext, ToolError, ToolOutput
from daemon.tools.calls import (
    MAX_PARALLEL,
    AdmittedCall,
    find_repeat,
    is_repeatable,
    retry_delay,
    split_into_batches,
)
from daemon.tools.policy.approvals import make_question, refusal_reason
from daemon.tools.policy.gate import PolicyGate
from daemon.tools.registry import ToolRegistry, is_allowed
from daemon.tools.results import (
    MAX_CHARS,
    failure_output,
    make_rejection,
    make_result,
    make_unknown,
    to_printable,
    truncate_middle,
)

COMMIT_DELAY_S = 0.05
ARGUMENTS_CHANGED = "the call is not the one that was allowed; ask again"

Sleep = Callable[[float], Awaitable[None]]


class TimedOut(ToolError):
    """The tool did not return in time."""


@dataclass(slots=True, kw_only=True)
class ToolExecutor:
    """Gives every pending call of a turn its one result, unless the call waits for a person."""

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

    async def run_pending(self, turn: Turn, setting: TrustContext) -> None:
        """On return every call has a result, waits for a person, or comes after one that waits.

        A read or an approved call passes a waiting one (B8); another effect does not, because it
        may build on the waiting call. Raises StoreUnavailable and Fenced.
        """
        states = turn.pending
        admitted = [await self._admit(turn, state, setting) for state in states]
        first = next((at for at, state in enumerate(states) if state.is_waiting), len(states))
        ready = [
            call
            for at, call in enumerate(admitted)
            if call and (at < first or call.is_read or call.state.approved)
        ]
        untrusted = turn.label.join_with(setting.session_label) is Label.UNTRUSTED
        run = _TurnRun(self, turn, untrusted)
        try:
            if len(ready) < len(admitted):
                await run.commit()  # questions and refusals are shown before anything else runs
            for batch in split_into_batches(ready):
                await run.run_batch(batch)
        except BaseException:
            await run.finish_commits()
            raise
        if error := await run.finish_commits():
            raise error

    def settle_cut(self, turn: Turn, why: str) -> None:
        """Record a result for every pending call of a turn that is cut: not run, or unknown."""
        for state in turn.pending:
            effect = state.judged.effect if state.judged else Effect.DESTRUCTIVE
            if state.call_id in turn.children or (state.starts and effect is not Effect.READ):
                result = make_unknown(state)
            else:
                text = f"Not run: {why}."
                result = make_result(state, Outcome.NOT_RUN, text, error_class="NotRun")
            turn.record(result, self.clock.now())

    async def _admit(
        self, turn: Turn, state: CallState, setting: TrustContext
    ) -> AdmittedCall | None:
        """The call if it may run now; else the event recorded in its place is a result or a
        question.
        """
        if state.is_waiting:
            return None
        name = state.call.name
        tool = self.registry.get(name) if is_allowed(name, turn.spec.tools) else None
        event: Event | None
        if state.starts and not (tool and is_repeatable(tool.meta)):
            event = make_unknown(state)
        elif tool is None:
            event = self._reject_unknown(turn, state, setting)
        else:
            try:
                arguments = parse_arguments(state.call.arguments)
                tool.check(arguments)
            except ToolError as error:
                event = make_result(
                    state,
                    Outcome.ERROR,
                    str(error),
                    effect=tool.meta.effect,
                    error_class="BadArguments",
                )
            else:
                call = AdmittedCall(state, tool, arguments)
                event = await self._authorize(turn, call, setting) or find_repeat(turn, call)
                if event is None:
                    return call
        turn.record(self.redactor.redact_value(event), self.clock.now())
        return None

    async def _authorize(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext
    ) -> Event | None:
        """None if the call may run, else what is recorded in its place.

        The verdict holds over a wait or a restart, unless the owner becomes stricter (F5).
        """
        state, now = call.state, self.clock.now()
        judged = state.judged
        if verdict := await self.gate.decide(turn, call, setting):
            judged = CallJudged(state.call_id, call.tool.name, call.tool.meta.effect, *verdict)
            turn.record(judged, now)
        assert judged
        if judged.decision is Decision.DENY:
            return make_rejection(state, judged.reason)
        if state.approved:
            asked = state.asked  # the yes is to exactly these arguments (A6)
            if asked is None or asked.args_hash != args_hash(state.call.name, call.arguments):
                return make_rejection(state, ARGUMENTS_CHANGED)
            return None
        if judged.decision is Decision.ALLOW:
            return None
        if state.answered:
            return make_rejection(state, refusal_reason(state))
        trusted = setting.session_label is Label.TRUSTED
        minutes = self.approval_minutes if trusted else self.untrusted_approval_hours * 60
        return make_question(call, judged, token=self.new_token(), now=now, minutes=minutes)

    def _reject_unknown(self, turn: Turn, state: CallState, setting: TrustContext) -> ToolFinished:
        """A trusted conversation gets the nearest name; text from outside is only refused."""
        decision, reason = self.gate.decide_unknown(turn, setting)
        name = state.call.name
        if not state.judged:
            judged = CallJudged(state.call_id, name, Effect.DESTRUCTIVE, decision, reason)
            turn.record(judged, self.clock.now())
        if turn.label.join_with(setting.session_label) is Label.UNTRUSTED:
            return make_rejection(state, reason, error_class="UnknownTool")
        near = self.registry.nearest(name)
        hint = f"; nearest: {near}" if near else ""
        text = f"no tool named {name}{hint}. find_tools lists others."
        return make_result(state, Outcome.ERROR, text, error_class="UnknownTool")


@dataclass(slots=True)
class _TurnRun:
    """Runs batches of calls of one turn, and commits once for tools that finish together.

    What an effect follows from is committed before the effect. A read is simply repeated after a
    crash, so its start and result wait up to 50 ms for another commit. All output is redacted.
    """

    executor: ToolExecutor
    turn: Turn
    untrusted: bool
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _pool: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_PARALLEL))
    _timer: asyncio.TimerHandle | None = None
    _committing: asyncio.Task[None] | None = None

    async def commit(self) -> None:
        async with self._lock:
            await self.turn.commit()

    async def finish_commits(self) -> BaseException | None:
        """No commit goes on behind the caller's back; the error of the last one."""
        if self._timer:
            self._timer.cancel()
        if self._committing is None:
            return None
        await asyncio.wait((self._committing,))
        return self._committing.exception()

    def _commit_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(COMMIT_DELAY_S, self._start_commit)

    def _start_commit(self) -> None:
        self._timer = None
        last = self._committing
        if last is None or (last.done() and not last.exception()):
            self._committing = asyncio.create_task(self.commit(), name="commit tool results")

    async def run_batch(self, batch: Sequence[AdmittedCall]) -> None:
        """Run all of them at once; results are recorded as they come."""
        now = self.executor.clock.now()
        for call in batch:
            state, meta = call.state, call.tool.meta
            started = ToolStarted(state.call_id, call.tool.name, meta.effect, state.starts + 1)
            self.turn.record(started, now)
        try:
            if all(call.is_read for call in batch):
                self._commit_soon()
            else:
                await self.commit()
        except (asyncio.CancelledError, StoreUnavailable) as error:
            stopped = isinstance(error, asyncio.CancelledError)
            why = "it was stopped before it began" if stopped else error
            for call in batch:  # nothing has happened yet, so the outcome is not unknown
                text = f"Not run: {why}"
                result = make_result(call.state, Outcome.NOT_RUN, text, error_class="NotRun")
                self.turn.record(result, self.executor.clock.now())
            raise
        if len(batch) == 1:
            await self._run_call(batch[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for call in batch:
                    group.create_task(self._run_call(call))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _run_call(self, call: AdmittedCall) -> None:
        executor, meta, error_class = self.executor, call.tool.meta, ""
        async with self._pool:
            began = executor.clock.monotonic()
            try:
                output = await self._run_with_retries(call)
            except (Fenced, StoreUnavailable):
                raise
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task and task.cancelling():  # otherwise the tool's own fault, not a stop
                    raise
                stopped = ToolError("the tool gave up by itself (cancelled)")
                output, error_class = failure_output(stopped, meta), type(error).__name__
            except Exception as error:  # noqa: BLE001 - the border of a tool run (B7)
                output, error_class = failure_output(error, meta), type(error).__name__
            seconds = executor.clock.monotonic() - began
        if output.is_error and not error_class:
            exit_code = output.exit_code
            error_class = "ToolError" if exit_code is None else f"exit_{exit_code}"
        text = truncate_middle(
            self._clean(output.text), meta.max_chars or executor.max_output_chars
        )
        result = ToolFinished(
            call.state.call_id,
            call.tool.name,
            Outcome.ERROR if output.is_error else Outcome.OK,
            text,
            meta.effect,
            score_importance(MessageRole.TOOL, text),
            label=output.label,
            exit_code=output.exit_code,
            error_class=error_class,
            offers=output.offers,
            seconds=seconds if output.seconds is None else output.seconds,
            owned=output.from_owner,
        )
        now = executor.clock.now()
        for event in output.events:
            self.turn.record(executor.redactor.redact_value(event), now)
        self.turn.record(result, now)
        if call.is_read:
            self._commit_soon()
        else:
            await self.commit()

    def _clean(self, text: str) -> str:
        """Before it is cut: a cut could split a secret, and control characters could hide one."""
        return self.executor.redactor.redact_text(to_printable(text))

    async def _run_with_retries(self, call: AdmittedCall) -> ToolOutput:
        attempt = 1
        while wait := retry_delay(call.tool.meta, attempt):
            try:
                return await self._run_once(call)
            except RetryableToolError as error:
                retried = ToolRetried(call.state.call_id, attempt, self._clean(str(error)), wait)
            self.turn.record(retried, self.executor.clock.now())
            await self.commit()
            await self.executor.sleep(wait)
            attempt += 1
        return await self._run_once(call)

    async def _run_once(self, call: AdmittedCall) -> ToolOutput:
        executor, turn, call_id = self.executor, self.turn, call.state.call_id
        limit = call.tool.meta.timeout_s
        scope, printed = asyncio.timeout(limit), executor.redactor.open_stream()

        def on_output(text: str) -> None:
            self._publish(call_id, printed.feed(text))

        context = ToolContext(
            turn.session,
            turn,
            call_id,
            self.untrusted,
            executor.clock,
            on_output,
            self._record_event,
        )
        try:
            async with scope:
                return await call.tool.run(call.arguments, context)
        except TimeoutError as error:
            if scope.expired():
                raise TimedOut(f"timed out after {limit:g} s") from error
            raise
        finally:
            self._publish(call_id, printed.flush())

    def _publish(self, call_id: str, text: str) -> None:
        if text and self.executor.live.is_watched(self.turn.id):
            self.executor.live.publish(self.turn.id, ToolOutputChunk(call_id, text))

    async def _record_event(self, event: Event) -> None:
        """A tool's own event, on disk before the tool goes on."""
        self.turn.record(self.executor.redactor.redact_value(event), self.executor.clock.now())
        await self.commit()
