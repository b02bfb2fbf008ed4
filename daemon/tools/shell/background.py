"""Who looks at what a command did to the files of the workspace: their owner is told what it may have read and what it wrote.

Commands that go on while the conversation does: who started one looks at it and stops it. They end with the daemon.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Protocol

from daemon.core.errors import AidaemonError
from daemon.core.redaction import RedactedStream, Redactor
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.results import truncate_middle
from daemon.tools.shell.process import OutputSink, ProcessExit, UnreadOutput
from daemon.tools.signature import tool


class CommandWatcher(Protocol):
    """Looks before a command and after it. Both may raise StoreUnavailable."""

    async def start(self, context: ToolContext | None = None) -> object:
        """Before it starts: what is needed to know later what it changed."""
        ...

    async def finish(
        self,
        began: object,
        context: ToolContext,
        *,
        label: Label = Label.TRUSTED,
        over: bool = True,
    ) -> Label:
        """After it: mark what has changed, and say what its output may be trusted for.

        `label` is what it had from elsewhere, from the network; `over` is False while it goes on in the background.
        """
        ...


class NoWatcher:
    """For whoever keeps no labels of files."""

    async def start(self, context: ToolContext | None = None) -> object:
        """Nothing to keep."""
        return None

    async def finish(
        self,
        began: object,
        context: ToolContext,
        *,
        label: Label = Label.TRUSTED,
        over: bool = True,
    ) -> Label:
        """Nothing more is known against the output."""
        return label


RING_BYTES = 64_000
MAX_FINISHED = 20
MAX_WAIT_S = 30.0
STOP_S = 10.0
STATE_CHARS = 100
Start = Callable[[OutputSink], Awaitable[ProcessExit]]


@dataclass(slots=True, kw_only=True)
class BackgroundJob:
    """One command. `label` is what its output may be trusted for at best; `context` is that of the call that started it."""

    id: str
    context: ToolContext
    label: Label
    watcher: CommandWatcher
    before: object
    stream: RedactedStream
    started_at: float
    unread: UnreadOutput = field(default_factory=lambda: UnreadOutput(RING_BYTES))
    task: "asyncio.Task[None] | None" = None
    exit: ProcessExit | None = None
    seconds: float = 0
    error: str = ""
    is_stopped: bool = False

    async def run(self, start: Start) -> None:
        """To its end, which is kept here."""
        try:
            self.exit = await start(self.unread)
        except OSError as error:
            self.error = f"it could not be started: {error.strerror or error}"
        finally:
            self.seconds = self.context.clock.monotonic() - self.started_at
            await self.check_effects(over=True)

    async def check_effects(self, over: bool) -> None:
        """See what it did to the files; if that cannot be found out, its output is not trusted."""
        try:
            seen = await self.watcher.finish(self.before, self.context, label=self.label, over=over)
            self.label = self.label.join_with(seen)
        except AidaemonError:
            self.label = Label.UNTRUSTED

    @property
    def is_done(self) -> bool:
        """It has come to an end."""
        return self.task is not None and self.task.done()

    @property
    def state(self) -> str:
        """In words."""
        if not self.is_done:
            return f"running for {self.context.clock.monotonic() - self.started_at:.0f} s"
        if self.error or self.is_stopped:
            return self.error or f"stopped after {self.seconds:.0f} s"
        if self.exit is None:
            return "it ended for an unknown reason"
        late = ": its time was up, it was killed" if self.exit.timed_out else ""
        return f"exit_code: {self.exit.exit_code}, ended after {self.seconds:.0f} s{late}"

    def read_new_output(self) -> str:
        """What it printed since the last look, without secrets."""
        text = self.stream.feed(self.unread.take(self.is_done))
        return text + (self.stream.flush() if self.is_done else "")


@dataclass(slots=True)
class BackgroundCommands:
    """All such commands of this daemon; `most` at a time, each for `lifetime_s` at most.

    `mark` tells its ids from those of a daemon before it.
    """

    max_running: int = 4
    lifetime_s: float = 3600
    max_chars: int = 4000
    id_prefix: str = field(default_factory=lambda: token_hex(2))
    _jobs: dict[str, BackgroundJob] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def from_config(cls, config: ShellConfig) -> "BackgroundCommands":
        """As the config says."""
        return cls(config.background, config.background_minutes * 60, config.max_output_chars)

    async def start(
        self,
        start: Start,
        *,
        context: ToolContext,
        label: Label,
        watching: CommandWatcher,
        redactor: Redactor,
    ) -> BackgroundJob:
        """Begin. Raises ToolError when there are too many already."""
        self._make_room()
        self._count += 1
        job = BackgroundJob(
            id=f"{self.id_prefix}-{self._count}", context=context, label=label.join_with(context.turn.label), watcher=watching,
            before=await watching.start(context), stream=redactor.open_stream(), started_at=context.clock.monotonic(),
        )  # fmt: skip
        job.task = asyncio.create_task(job.run(start), name=f"background command {job.id}")
        self._jobs[job.id] = job
        return job

    def find(self, job_id: str, session: str) -> BackgroundJob:
        """The command, for the session that started it. Raises ToolError."""
        job = self._jobs.get(job_id)
        if job and job.context.session_id == session:
            return job
        if job is None and not job_id.startswith(f"{self.id_prefix}-"):
            raise ToolError(
                f"{job_id}: it ended with the daemon that ran it, or never was; start it again if it is still needed"
            )
        mine = ", ".join(one.id for one in self._jobs.values() if one.context.session_id == session)
        raise ToolError(
            f"{job_id}: no such background command in this conversation; there are: {mine or 'none'}"
        )

    async def stop(self, job: BackgroundJob) -> None:
        """Kill it with all that it started."""
        if job.task and not job.is_done:
            job.is_stopped = True
            job.task.cancel()
            await asyncio.wait([job.task], timeout=STOP_S)

    async def aclose(self) -> None:
        """The daemon stops: all of them do."""
        tasks = [job.task for job in self._jobs.values() if job.task and not job.is_done]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _make_room(self) -> None:
        running = [job.id for job in self._jobs.values() if not job.is_done]
        if len(running) >= self.max_running:
            several = (
                f"{len(running)} commands run in the background already ({', '.join(running)})"
            )
            raise ToolError(
                f"{several}; stop one of them first, or run this one without background"
            )
        for job in [job for job in self._jobs.values() if job.is_done][:-MAX_FINISHED]:
            del self._jobs[job.id]


@tool(effect=Effect.READ, volatile=True, timeout_s=MAX_WAIT_S + STOP_S)
async def check_command(
    jobs: BackgroundCommands, context: ToolContext, id: str, wait_s: float = 0
) -> ToolOutput:
    """Look at a background command: its state, its exit code, what it printed since the last look; wait_s waits for its end."""
    job = jobs.find(id, context.session_id)
    if job.task and wait_s > 0:
        await asyncio.wait([job.task], timeout=min(wait_s, MAX_WAIT_S))
    return await _report(job, jobs.max_chars)


@tool(effect=Effect.WRITE, critical=(), timeout_s=2 * STOP_S)
async def stop_command(jobs: BackgroundCommands, context: ToolContext, id: str) -> ToolOutput:
    """Stop a background command of this conversation, with all that it started."""
    job = jobs.find(id, context.session_id)
    await jobs.stop(job)
    return await _report(job, jobs.max_chars)


async def _report(job: BackgroundJob, max_chars: int) -> ToolOutput:
    if not job.is_done:
        await job.check_effects(over=False)
    text = f"{job.id}: {job.state}\n{truncate_middle(job.read_new_output(), max_chars - STATE_CHARS) or '(nothing new)'}"
    return ToolOutput(
        text.rstrip(),
        exit_code=job.exit.exit_code if job.is_done and job.exit else None,
        label=job.label,
    )
