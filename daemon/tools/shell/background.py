"""Commands in the background: a conversation checks and stops its own; they end with the daemon."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from secrets import token_hex

from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.tools.base import Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.shell.process import HeadTail, stream_process
from daemon.tools.shell.run import CommandRun
from daemon.tools.signature import bind, tool

MAX_FINISHED = 20
MAX_WAIT_S = 30.0
STOP_S = 10.0
STATE_CHARS = 200
RUNNING = "; what it writes comes into the workspace when it ends"


@dataclass(slots=True)
class BackgroundJob:
    """One command. `label` is that of its output; `context` that of the call that started it."""

    id: str
    context: ToolContext
    label: Label
    stream: RedactedStream
    unread: HeadTail
    started_at: float
    task: asyncio.Task[None] = field(init=False)
    ending: str = "it ended for an unknown reason"
    exit_code: int | None = None
    command: CommandRun | None = None  # while it runs
    holds: tuple[str, ...] = ()

    async def run(self, opening: AbstractAsyncContextManager[CommandRun], timeout_s: float) -> None:
        """To its end, which is noted in `ending`."""
        notes: tuple[str, ...] = ()
        try:
            async with opening as command:
                self.command, self.holds = command, command.holds
                try:
                    result = await stream_process(
                        lambda data: self.unread.feed(data),
                        command.argv, command.cwd, command.env, timeout_s, command.start,
                    )  # fmt: skip
                finally:
                    label, said = await command.finish()
                    self.label = self.label.join_with(label)
                    notes = (said, command.proxy.report())
            self.exit_code = result.exit_code
            late = ": it timed out and was killed" if result.timed_out else ""
            self.ending = f"exit_code: {result.exit_code}, ended after {self.seconds:.0f} s{late}"
        except OSError as error:
            self.ending = f"it could not be started: {error.strerror or error}"
        except ToolError as error:
            self.ending = str(error)
        except asyncio.CancelledError:
            self.ending = f"stopped after {self.seconds:.0f} s"
            raise
        finally:
            self.command = None
            self.ending = "\n".join(filter(None, (self.ending, *notes)))

    @property
    def seconds(self) -> float:
        """Since it started."""
        return self.context.clock.monotonic() - self.started_at

    async def report(self, max_chars: int) -> ToolOutput:
        """Its state, and what it printed since the last report."""
        if command := self.command:
            self.label = self.label.join_with(await command.judge())
        done = self.task.done()
        state = self.ending if done else f"running for {self.seconds:.0f} s{RUNNING}"
        unread, self.unread = self.unread, HeadTail(self.unread.limit)
        news = unread.text(max_chars - STATE_CHARS, self.stream, ended=done)
        text = f"{self.id}: {state}\n{news or '(nothing new)'}".rstrip()
        return ToolOutput(text, exit_code=self.exit_code, label=self.label, holds=self.holds)


@dataclass(slots=True)
class BackgroundCommands:
    """All of this daemon; `id_prefix` tells its ids from those of an earlier daemon."""

    max_running: int = 4
    lifetime_s: float = 3600
    max_chars: int = 4000
    id_prefix: str = field(default_factory=lambda: token_hex(2))
    _jobs: dict[str, BackgroundJob] = field(default_factory=dict)
    _count: int = 0

    def start(
        self,
        opening: AbstractAsyncContextManager[CommandRun],
        context: ToolContext,
        label: Label,
        redactor: Redactor,
    ) -> BackgroundJob:
        """Raises ToolError when there are too many already."""
        running = self.find_running()
        if len(running) >= self.max_running:
            raise ToolError(
                f"{len(running)} commands run in the background already ({', '.join(running)});"
                " stop one of them first, or run this one without background"
            )
        for done in [id for id in self._jobs if id not in running][:-MAX_FINISHED]:
            del self._jobs[done]
        self._count += 1
        job = BackgroundJob(
            f"{self.id_prefix}-{self._count}", context, label.join_with(context.turn.label),
            RedactedStream(redactor), HeadTail(4 * self.max_chars), context.clock.monotonic(),
        )  # fmt: skip
        running_job = job.run(opening, self.lifetime_s)
        job.task = asyncio.create_task(running_job, name=f"background command {job.id}")
        self._jobs[job.id] = job
        return job

    def find_running(self) -> dict[str, BackgroundJob]:
        """By their ids."""
        return {id: job for id, job in self._jobs.items() if not job.task.done()}

    def find(self, job_id: str, session: str) -> BackgroundJob:
        """The command, for the session that started it. Raises ToolError."""
        job = self._jobs.get(job_id)
        if job and job.context.session_id == session:
            return job
        if job is None and not job_id.startswith(f"{self.id_prefix}-"):
            raise ToolError(
                f"{job_id}: it ended with the daemon that ran it, or never existed;"
                " start it again if it is still needed"
            )
        mine = [one.id for one in self._jobs.values() if one.context.session_id == session]
        raise ToolError(
            f"{job_id}: no such background command in this conversation;"
            f" there are: {', '.join(mine) or 'none'}"
        )

    async def aclose(self) -> None:
        """The daemon stops: all of them do."""
        tasks = [job.task for job in self._jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@tool(effect=Effect.READ, volatile=True, timeout_s=MAX_WAIT_S + STOP_S)
async def check_command(
    jobs: BackgroundCommands, context: ToolContext, id: str, wait_s: float = 0
) -> ToolOutput:
    """Look at a background command: its state, its exit code, what it printed since the last
    look; wait_s waits for its end.
    """
    job = jobs.find(id, context.session_id)
    if wait_s > 0:
        await asyncio.wait([job.task], timeout=min(wait_s, MAX_WAIT_S))
    return await job.report(jobs.max_chars)


@tool(effect=Effect.WRITE, critical=("id",), timeout_s=2 * STOP_S)
async def stop_command(jobs: BackgroundCommands, context: ToolContext, id: str) -> ToolOutput:
    """Stop a background command of this conversation, with all that it started."""
    job = jobs.find(id, context.session_id)
    job.task.cancel()
    await asyncio.wait([job.task], timeout=STOP_S)
    return await job.report(jobs.max_chars)


def stop_tool(jobs: BackgroundCommands) -> Tool:
    """It ends what the same turn has started, or what has ended; all else has to be ordered, by its
    id, or by the word alone where one command runs.
    """
    bound = bind([stop_command], {BackgroundCommands: jobs})[0]
    free = replace(bound, meta=replace(bound.meta, critical=()))

    def narrow(arguments: Mapping[str, object], turn: Turn) -> Tool:
        theirs = {id: job.context for id, job in jobs.find_running().items()}
        ids = [id for id, context in theirs.items() if context.session_id == turn.session]
        named = str(arguments.get("id"))
        if named not in ids or theirs[named].turn.id == turn.id:
            return free
        choices = {"type": "object", "properties": {"id": {"enum": ids}}}
        return replace(bound, spec=replace(bound.spec, parameters=choices))

    return replace(bound, narrow=narrow)
