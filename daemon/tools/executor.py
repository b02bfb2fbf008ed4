"""Executes the tool calls of one model reply: validate, authorize, record the start, run, record
the result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex

from daemon.core.clock import Clock
from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import EventBus, ToolOutputChunk
from daemon.core.events import (
    ApprovalAsked,
    CallJudged,
    Event,
    Outcome,
    ToolFinished,
    ToolRetried,
    ToolStarted,
)
from daemon.core.messages import MessageRole, Picture, score_importance
from daemon.core.provenance import TrustContext
from daemon.core.trust import AnswerTimes, Decision, Effect, Label
from daemon.core.turn import CallState, Turn
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.tools.base import (
    BoundContent,
    RetryableToolError,
    ServiceUnavailable,
    TimedOut,
    ToolContext,
    ToolError,
    ToolOutput,
)
from daemon.tools.calls import (
    CHANGED_NOTE,
    MAX_CHARS,
    MAX_PARALLEL,
    SHOWN_CHARS,
    AdmittedCall,
    args_hash,
    canonical_json,
    find_repeat,
    make_cut_result,
    make_denial,
    make_not_run,
    make_rejection,
    make_result,
    make_unknown,
    may_repeat,
    parse_arguments,
    retry_delay,
    split_into_batches,
    to_printable,
    truncate_middle,
)
from daemon.tools.documents.pictures import PictureKeeper
from daemon.tools.policy.asked_back import QuestionsBack
from daemon.tools.policy.gate import PolicyGate, explain_question, make_grant_request
from daemon.tools.policy.grants import covers, grantable_paths
from daemon.tools.registry import ToolRegistry, is_allowed

COMMIT_DELAY_S, MAX_QUESTIONS = 0.05, 3
FROM_OUTSIDE = (Effect.FETCH, Effect.EGRESS)
ARGUMENTS_CHANGED = "the call is not the one that was allowed; ask again"
CONTENT_CHANGED = "a file that it runs has changed since this was allowed; ask again"


@dataclass(slots=True, kw_only=True)
class ToolExecutor:
    """Gives every pending call of a turn its one result, unless the call waits for a person."""

    registry: ToolRegistry
    gate: PolicyGate
    live: EventBus
    clock: Clock
    times: AnswerTimes = field(default_factory=AnswerTimes)
    max_output_chars: int = MAX_CHARS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    redactor: Redactor = field(default_factory=Redactor)
    pictures: PictureKeeper | None = None
    asked_back: QuestionsBack = field(default_factory=QuestionsBack)

    async def run_pending(self, turn: Turn, setting: TrustContext) -> None:
        """On return every call has a result, waits for a person, or comes after one that waits.
        A read or an approved call passes a waiting one (B8); another effect does not, because it
        may build on the waiting call. Raises StoreUnavailable and Fenced.
        """
        untrusted = turn.label.join_with(setting.session_label) is Label.UNTRUSTED
        run = _TurnRun(self, turn, setting, untrusted)
        try:
            pending, single = turn.pending, len(turn.calls) == 1
            for states in [pending] if single else self._split_before_bound(pending):
                admitted = [await self._admit(turn, state, setting) for state in states]
                ready = [call for call in admitted if call and (single or may_pass(turn, call))]
                if len(ready) < len(admitted):
                    await run.commit()  # questions and refusals are shown before anything else runs
                for batch in [ready] * len(ready) if single else split_into_batches(ready):
                    await run.run_batch(batch)
        finally:
            await run.end_late_commit()
        late = run.late
        if late and not late.cancelled() and (error := late.exception()):
            raise error

    def _split_before_bound(self, states: Sequence[CallState]) -> list[list[CallState]]:
        """What a call will run is looked at when the effects before it have been done."""
        groups: list[list[CallState]] = [[]]
        for state in states:
            tool = self.registry.get(state.call.name)
            if tool and tool.binds and groups[-1]:
                groups.append([])
            groups[-1].append(state)
        return groups

    def settle_cut(self, turn: Turn, why: str) -> None:
        """Record a result for every pending call of a turn that is cut: not run, or unknown."""
        for state in turn.pending:
            self.asked_back.abandon(turn, state, self.registry.get(state.call.name))
            turn.record(make_cut_result(turn, state, why), self.clock.now())

    async def _admit(
        self, turn: Turn, state: CallState, setting: TrustContext
    ) -> AdmittedCall | None:
        """The call if it may run now; else a result or a question is recorded in its place."""
        back = self.asked_back
        if state.is_waiting or (back.held and back.must_wait(turn, state)):
            return None
        name, allowed = state.call.name, turn.spec.tools
        tool = None if allowed and not is_allowed(name, allowed) else self.registry.get(name)
        event: Event | None
        if state.starts and tool and (state.asked_back or back.holds(turn, state)):
            assert state.judged
            arguments = parse_arguments(state.call.arguments)
            call = AdmittedCall(state, tool, arguments, state.judged.effect)
            event = back.make_event(turn, self.make_question(call, setting))
            if not event:
                return call
        elif state.starts and not may_repeat(tool, state):
            event = make_unknown(state)
        elif tool is None:
            event = self._reject_unknown(turn, state, setting)
        else:
            try:
                arguments = parse_arguments(state.call.arguments)
                tool = tool.narrow(arguments, turn) if tool.narrow else tool
                classify = tool.meta.classify
                effect = classify(arguments) if classify else tool.meta.effect
                call = AdmittedCall(state, tool, arguments, effect)
                if tool.check:
                    tool.check(arguments)
                if tool.binds:
                    call = replace(call, content=await self.look(call))
            except ToolError as error:
                event = make_result(
                    state, Outcome.ERROR, str(error), "BadArguments", tool.meta.effect
                )
            else:
                event = await self._authorize(turn, call, setting)
                meta = tool.meta
                if meta.asks and not (event or state.answered):
                    if any(one.is_waiting for one in turn.pending):
                        return None  # one question after the other
                    event = await self._ask_person(turn, call, setting)
                elif meta.effect is Effect.READ and not (event or meta.volatile or state.starts):
                    event = find_repeat(turn, call)
                if not event:
                    return call
        turn.record(self.redactor.redact_value(event), self.clock.now())
        return None

    async def _authorize(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext
    ) -> Event | None:
        """None if the call may run, else what is recorded in its place.

        The verdict holds over a wait or a restart, unless the owner becomes stricter (F5).
        """
        state, now, name = call.state, self.clock.now(), call.state.call.name
        judged, former, key = state.judged, None, call.content.key
        if verdict := await self.gate.decide(turn, call, setting):
            decision, reason, owners = verdict
            parts = decision, reason, key, owners, call.tool.meta.source and call.tool.identity
            judged = CallJudged(state.call_id, name, call.effect, *parts)
            turn.record(judged, now)
        assert judged
        if judged.decision is Decision.DENY:
            return make_rejection(state, judged.reason)
        if state.answered and state.approved:
            asked = state.asked  # the yes is to exactly these arguments (A6)
            if not asked or asked.args_hash != args_hash(name, call.arguments):
                return make_rejection(state, ARGUMENTS_CHANGED)
            if covers(asked.binds, key, shown=True):  # and to what was shown with them
                return None
            former = asked.binds
        elif judged.decision is Decision.ALLOW or call.tool.meta.asks:
            if covers(judged.binds, key):
                return None
            former = judged.binds
        elif answered := state.answered:
            return make_denial(state, answered)
        if not setting.can_ask:
            return make_rejection(state, CONTENT_CHANGED)
        if crowd := await self._explain_crowd(turn, setting):
            return make_rejection(state, crowd)
        content = await self._describe_content(turn, call, setting, former)
        return replace(
            self.make_question(call, setting),
            preview=explain_question(turn, call, content, judged.reason),
            paths=grantable_paths(call.tool.meta, call.arguments),
            binds=key,
            owners=judged.owners,
        )

    def make_question(self, call: AdmittedCall, setting: TrustContext) -> ApprovalAsked:
        """May this call run?"""
        now, name, arguments = self.clock.now(), call.tool.name, call.arguments
        return ApprovalAsked(
            call.state.call_id,
            name,
            canonical_json(arguments),
            args_hash(name, arguments),
            call.effect,
            token_hex(32),  # only who is shown the question knows it
            self.times.find_expiry(now, setting.session_label, by_itself=setting.by_itself),
        )

    async def _explain_crowd(self, turn: Turn, setting: TrustContext) -> str:
        """Why one more question of what nobody began, or a stranger did, has no place; or ""."""
        crowds = setting.by_itself or setting.session_label is Label.UNTRUSTED
        return await self.gate.grants.explain_crowd(turn) if crowds else ""

    async def _ask_person(self, turn: Turn, call: AdmittedCall, setting: TrustContext) -> Event:
        """The question of a tool that asks; a refusal where nobody of ours is there to answer."""
        if not setting.can_ask or setting.session_label is Label.UNTRUSTED:
            return make_rejection(call.state, "nobody can be asked here")
        if call.tool.meta.clean_only and turn.label is Label.UNTRUSTED:
            return make_rejection(call.state, "not asked after text from outside was read")
        asking = [one for one in turn.calls if one.call.name == call.tool.name]
        if asking.index(call.state) >= MAX_QUESTIONS:
            return make_rejection(call.state, f"ask {MAX_QUESTIONS} questions at once at most")
        if crowd := await self._explain_crowd(turn, setting):
            return make_rejection(call.state, crowd)
        return self.make_question(call, setting)

    async def look(self, call: AdmittedCall) -> BoundContent:
        """The state in which a yes to the call holds."""
        if not (binds := call.tool.binds):
            return call.content
        return await binds.look(call.arguments, self.clock.now())

    async def _describe_content(
        self, turn: Turn, call: AdmittedCall, setting: TrustContext, former: str | None
    ) -> list[str]:
        """What the call may run, and how that differs from what was allowed before."""
        binds, content = call.tool.binds, call.content
        if not binds:
            return []
        if former is None and content.key:
            wanted = make_grant_request(turn, call, setting)
            former = await self.gate.grants.find_former(turn.session, wanted)
        if former is None or former == content.key:
            return [content.description]
        change = await binds.explain_change(former, content.key)
        return [content.description, *((CHANGED_NOTE, change) if change else ())]

    def _reject_unknown(self, turn: Turn, state: CallState, setting: TrustContext) -> ToolFinished:
        """A trusted conversation gets the nearest name. One that has read text from outside is told
        that a server is out; others are only refused.
        """
        name, reason = state.call.name, "there is no tool of that name"
        if not state.judged:
            judged = CallJudged(state.call_id, name, Effect.DESTRUCTIVE, Decision.DENY, reason)
            turn.record(judged, self.clock.now())
        told = ""
        if turn.label.join_with(setting.session_label) is not Label.UNTRUSTED:
            told = self.registry.explain_missing(name)
        elif setting.session_label is not Label.UNTRUSTED:
            told = self.registry.explain_outage(name)
        if not told:
            return make_rejection(state, reason, "UnknownTool")
        return make_result(state, Outcome.ERROR, told, "UnknownTool")


def may_pass(turn: Turn, call: AdmittedCall) -> bool:
    """No earlier call waits for a person, or this one cannot build on it."""
    earlier = turn.pending[: turn.pending.index(call.state)]
    free = call.effect is Effect.READ or call.state.approved
    return free or not any(state.is_waiting for state in earlier)


@dataclass(slots=True)
class _TurnRun:
    """Runs batches of calls of one turn, and commits once for tools that finish together.

    What an effect follows from is committed before the effect. A read is simply repeated after a
    crash, so its start and result wait up to 50 ms for another commit. All output is redacted.
    """

    executor: ToolExecutor
    turn: Turn
    setting: TrustContext
    untrusted: bool
    late: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _pool: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_PARALLEL))

    async def commit(self) -> None:
        async with self._lock:
            await self.turn.commit()

    def _commit_soon(self) -> None:
        """Most calls are done before the time has come: the next commit takes their results."""
        late = self.late
        if self._timer is None and (late is None or (late.done() and not late.exception())):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(COMMIT_DELAY_S, self._start_late_commit)

    def _start_late_commit(self) -> None:
        self._timer = None
        self.late = asyncio.create_task(self.commit(), name="commit results")

    async def end_late_commit(self) -> None:
        """No commit goes on behind the caller's back."""
        if self._timer:
            self._timer.cancel()
        if self.late:
            self.late.cancel()
            await asyncio.wait((self.late,))

    async def run_batch(self, batch: Sequence[AdmittedCall]) -> None:
        """Run all of them at once; results are recorded as they come."""
        clock, turn = self.executor.clock, self.turn
        now = clock.now()
        for call in batch:
            name, starts = call.state.call.name, call.state.starts
            turn.record(ToolStarted(call.state.call_id, name, call.effect, starts + 1), now)
        try:
            if all(call.effect is Effect.READ for call in batch):
                self._commit_soon()
            else:
                await self.commit()
        except (asyncio.CancelledError, StoreUnavailable) as error:
            stopped = isinstance(error, asyncio.CancelledError)
            why = "it was stopped before it began" if stopped else str(error)
            for call in batch:  # nothing has happened yet, so the outcome is not unknown
                turn.record(make_not_run(call.state, why), clock.now())
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
        executor, meta = self.executor, call.tool.meta
        async with self._pool:
            began = executor.clock.monotonic()
            try:
                output = await self._run_with_retries(call)
            except (Fenced, StoreUnavailable):
                raise
            except (asyncio.CancelledError, Exception) as error:
                task, text = asyncio.current_task(), f"{type(error).__name__}: {error}"
                if isinstance(error, ToolError):
                    text = str(error)
                elif isinstance(error, asyncio.CancelledError):
                    if task and task.cancelling():  # otherwise the tool's own fault, not a stop
                        raise
                    text = "the tool gave up by itself (cancelled)"
                outside = meta.returns_outside_text or call.effect in FROM_OUTSIDE
                label = Label.UNTRUSTED if outside else Label.TRUSTED
                output = ToolOutput(text, True, label=label, error_class=type(error).__name__)
            seconds = executor.clock.monotonic() - began
        if output.is_error and not output.error_class:
            exit_code = output.exit_code
            exited = "ToolError" if exit_code is None else f"exit_{exit_code}"
            output = replace(output, error_class=exited)
        kept: tuple[Picture, ...] = ()
        if output.images and executor.pictures:
            call_id, day = call.state.call_id, executor.clock.now().date()
            output, kept = await executor.pictures.keep_images(output, call_id, day, self.turn.id)
        if output.question:
            asked = executor.make_question(call, self.setting)
            if event := executor.asked_back.make_event(self.turn, asked, output.question):
                await self._record_event(event)
            return
        took = seconds if output.seconds is None else output.seconds
        self._record_result(call, output, took, kept)
        if call.effect is Effect.READ:
            self._commit_soon()
        else:
            await self.commit()

    def _record_result(
        self,
        call: AdmittedCall,
        output: ToolOutput,
        seconds: float,
        pictures: tuple[Picture, ...],
    ) -> None:
        executor, public = self.executor, output.public
        # Cut last: a cut could split a secret, and control characters could hide one.
        redact, most = executor.redactor.redact_text, call.tool.meta.max_chars
        text, most = redact(to_printable(output.text)), most or executor.max_output_chars
        text = text if len(text) <= most else truncate_middle(text, most)
        result = ToolFinished(
            call.state.call_id,
            call.state.call.name,
            Outcome.ERROR if output.is_error else Outcome.OK,
            text,
            call.effect,
            score_importance(MessageRole.TOOL, text),
            label=output.label,
            exit_code=output.exit_code,
            error_class=output.error_class if output.is_error else "",
            offers=output.offers,
            seconds=seconds,
            owned=output.from_owner,
            public=call.tool.is_public(call.arguments) if public is None else public,
            records=redact(output.records),
            holds=output.holds,
            shows=call.tool.name_source(call.arguments),
            pictures=pictures,
        )
        now = executor.clock.now()
        for event in (*(executor.redactor.redact_value(one) for one in output.events), result):
            self.turn.record(event, now)

    async def _run_with_retries(self, call: AdmittedCall) -> ToolOutput:
        executor, turn, call_id, meta = self.executor, self.turn, call.state.call_id, call.tool.meta
        printed, attempt = RedactedStream(executor.redactor), 0

        def on_output(text: str) -> None:
            if clean := printed.feed(text):
                executor.live.publish(turn.id, ToolOutputChunk(call_id, clean))

        async def check_content() -> None:
            if (await executor.look(call)).key != call.content.key:
                raise ToolError(f"Not run: {CONTENT_CHANGED}.")

        async def check_address(url: str) -> None:
            await executor.gate.check_address(turn, call, setting, url)

        rules, setting = executor.gate.rules, self.setting
        has_read = self.untrusted or turn.private
        context = ToolContext(
            turn.session,
            turn,
            call_id,
            self.untrusted,
            executor.clock,
            on_output,
            self._record_event,
            check_address,
            check_content,
            executor.gate.list_carried(turn, call, setting) if has_read else (),
            rules.list_unreadable(turn.session, setting.root) if rules.known else (),
            setting.can_ask_back,
        )
        while True:
            attempt, scope = attempt + 1, asyncio.timeout(meta.timeout_s)
            try:
                async with scope:
                    output = await call.tool.run(call.arguments, context)
                is_down = output.error_class == ServiceUnavailable.__name__
                if not (is_down and (wait := retry_delay(meta, call.arguments, attempt))):
                    return output
                text = output.text.partition("\n")[0]
            except TimeoutError as error:
                if scope.expired():
                    raise TimedOut(f"timed out after {meta.timeout_s:g} s") from error
                raise
            except RetryableToolError as error:
                if not (wait := retry_delay(meta, call.arguments, attempt)):
                    raise
                text = str(error)
            finally:
                if rest := printed.flush():
                    executor.live.publish(turn.id, ToolOutputChunk(call_id, rest))
            text = truncate_middle(executor.redactor.redact_text(to_printable(text)), SHOWN_CHARS)
            await self._record_event(ToolRetried(call_id, attempt, text, wait))
            await executor.sleep(wait)

    async def _record_event(self, event: Event) -> None:
        """A tool's own event, on disk before the tool goes on."""
        self.turn.record(self.executor.redactor.redact_value(event), self.executor.clock.now())
        await self.commit()
