"""Background commands: a conversation checks and stops its own; they end with the daemon."""

import asyncio
from dataclasses import dataclass, field
from secrets import token_hex

from daemon.core.errors import AidaemonError
from daemon.core.redaction import RedactedStream, Redactor
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.shell.process import HeadTail, stream_process
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.signature import tool
from daemon.tools.workspace.command_effects import CommandEffects, CommandStart

MAX_FINISHED = 20
MAX_WAIT_S = 30.0
STOP_S = 10.0
STATE_CHARS = 100


@dataclass(slots=True, kw_only=True)
class BackgroundJob:
    """One command. `label` is that of its output; `context` that of the call that started it."""

    id: str
    context: ToolContext
    label: Label
    stream: RedactedStream
    effects: CommandEffects | None
    before: CommandStart | None
    started_at: float
    unread: HeadTail
    task: asyncio.Task[None] = field(init=False)
    ending: str = "it ended for an unknown reason"
    exit_code: int | None = None

    async def run(self, argv: list[str], sandbox: Sandbox, timeout_s: float) -> None:
        """To its end, which is noted in `ending`."""
        try:
            result = await stream_process(
                lambda data: self.unread.feed(data),
                argv, sandbox.workspace, sandbox.env, timeout_s,
            )  # fmt: skip
            self.exit_code = result.exit_code
            late = ": it timed out and was killed" if result.timed_out else ""
            self.ending = f"exit_code: {result.exit_code}, ended after {self.seconds:.0f} s{late}"
        except OSError as error:
            self.ending = f"it could not be started: {error.strerror or error}"
        except asyncio.CancelledError:
            self.ending = f"stopped after {self.seconds:.0f} s"
            raise
        finally:
            await self.check_effects(final=True)

    async def check_effects(self, final: bool) -> None:
        """Label what it changed. If that fails, its output is not trusted."""
        if self.effects is None or self.before is None:
            return
        try:
            self.label = await self.effects.finish(
                self.before, self.context, label=self.label, final=final
            )
        except AidaemonError:
            self.label = Label.UNTRUSTED

    @property
    def seconds(self) -> float:
        """Since it started."""
        return self.context.clock.monotonic() - self.started_at

    async def report(self, max_chars: int) -> ToolOutput:
        """Its state, and what it printed since the last report."""
        done = self.task.done()
        if not done:
            await self.check_effects(final=False)
        state = self.ending if done else f"running for {self.seconds:.0f} s"
        unread, self.unread = self.unread, HeadTail(self.unread.limit)
        news = unread.text(max_chars - STATE_CHARS, self.stream.feed)
        news += self.stream.flush() if done else ""
        text = f"{self.id}: {state}\n{news or '(nothing new)'}".rstrip()
        return ToolOutput(text, exit_code=self.exit_code, label=self.label)


@dataclass(slots=True)
class BackgroundCommands:
    """All of this daemon; `id_prefix` tells its ids from those of an earlier daemon."""

    max_running: int = 4
    lifetime_s: float = 3600
    max_chars: int = 4000
    id_prefix: str = field(default_factory=lambda: token_hex(2))
    _jobs: dict[str, BackgroundJob] = field(default_factory=dict)
    _count: int = 0

    async def start(
        self,
        argv: list[str],
        sandbox: Sandbox,
        context: ToolContext,
        label: Label,
        redactor: Redactor,
        effects: CommandEffects | None,
    ) -> BackgroundJob:
        """Raises ToolError when there are too many already."""
        running = [job.id for job in self._jobs.values() if not job.task.done()]
        if len(running) >= self.max_running:
            raise ToolError(
                f"{len(running)} commands run in the background already ({', '.join(running)});"
                " stop one of them first, or run this one without background"
            )
        for done in [id for id in self._jobs if id not in running][:-MAX_FINISHED]:
            del self._jobs[done]
        self._count += 1
        job = BackgroundJob(
            id=f"{self.id_prefix}-{self._count}",
            context=context,
            label=label.join_with(context.turn.label),
            stream=RedactedStream(redactor),
            effects=effects,
            before=await effects.start(context) if effects else None,
            started_at=context.clock.monotonic(),
            unread=HeadTail(4 * self.max_chars),
        )
        running_job = job.run(argv, sandbox, self.lifetime_s)
        job.task = asyncio.create_task(running_job, name=f"background command {job.id}")
        self._jobs[job.id] = job
        return job

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


@tool(effect=Effect.WRITE, critical=(), timeout_s=2 * STOP_S)
async def stop_command(jobs: BackgroundCommands, context: ToolContext, id: str) -> ToolOutput:
    """Stop a background command of this conversation, with all that it started."""
    job = jobs.find(id, context.session_id)
    job.task.cancel()
    await asyncio.wait([job.task], timeout=STOP_S)
    return await job.report(jobs.max_chars)
