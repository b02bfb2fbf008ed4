"""Commands that go on while the conversation does: who started one looks at it and stops it. They end with the daemon."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import token_hex

from daemon.core.errors import AidaemonError
from daemon.core.label import Effect, Label
from daemon.core.redaction import Redactor, Stream
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.decorate import tool
from daemon.tools.output import Unread
from daemon.tools.process import Ended, Sink
from daemon.tools.results import head_and_tail
from daemon.tools.shells.watching import Watching

RING_BYTES = 64_000
MOST_OVER = 20
LONGEST_WAIT_S = 30.0
STOP_S = 10.0
ROOM = 100
Start = Callable[[Sink], Awaitable[Ended]]


@dataclass(slots=True, kw_only=True)
class Job:
    """One command. `label` is what its output may be trusted for at best; `context` is that of the call that started it."""

    id: str
    context: ToolContext
    label: Label
    watching: Watching
    before: object
    stream: Stream
    began: float
    unread: Unread = field(default_factory=lambda: Unread(RING_BYTES))
    task: "asyncio.Task[None] | None" = None
    ended: Ended | None = None
    seconds: float = 0
    trouble: str = ""
    stopped: bool = False

    async def run(self, start: Start) -> None:
        """To its end, which is kept here."""
        try:
            self.ended = await start(self.unread)
        except OSError as error:
            self.trouble = f"it could not be started: {error.strerror or error}"
        finally:
            self.seconds = self.context.clock.monotonic() - self.began
            await self.look(over=True)

    async def look(self, over: bool) -> None:
        """See what it did to the files; if that cannot be found out, its output is not trusted."""
        try:
            seen = await self.watching.ended(self.before, self.context, label=self.label, over=over)
            self.label = self.label.joined(seen)
        except AidaemonError:
            self.label = Label.UNTRUSTED

    @property
    def over(self) -> bool:
        """It has come to an end."""
        return self.task is not None and self.task.done()

    @property
    def state(self) -> str:
        """In words."""
        if not self.over:
            return f"running for {self.context.clock.monotonic() - self.began:.0f} s"
        if self.trouble or self.stopped:
            return self.trouble or f"stopped after {self.seconds:.0f} s"
        if self.ended is None:
            return "it ended for an unknown reason"
        late = ": its time was up, it was killed" if self.ended.timed_out else ""
        return f"exit_code: {self.ended.exit_code}, ended after {self.seconds:.0f} s{late}"

    def news(self) -> str:
        """What it printed since the last look, without secrets."""
        text = self.stream.feed(self.unread.take(self.over))
        return text + (self.stream.flush() if self.over else "")


@dataclass(slots=True)
class Background:
    """All such commands of this daemon; `most` at a time, each for `lifetime_s` at most.

    `mark` tells its ids from those of a daemon before it.
    """

    most: int = 4
    lifetime_s: float = 3600
    max_chars: int = 4000
    mark: str = field(default_factory=lambda: token_hex(2))
    _jobs: dict[str, Job] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def of(cls, config: ShellConfig) -> "Background":
        """As the config says."""
        return cls(config.background, config.background_minutes * 60, config.max_output_chars)

    async def start(
        self, start: Start, *, context: ToolContext, label: Label, watching: Watching, redactor: Redactor
    ) -> Job:
        """Begin. Raises ToolError when there are too many already."""
        self._make_room()
        self._count += 1
        job = Job(
            id=f"{self.mark}-{self._count}", context=context, label=label.joined(context.turn.label), watching=watching,
            before=await watching.began(context), stream=redactor.stream(), began=context.clock.monotonic(),
        )  # fmt: skip
        job.task = asyncio.create_task(job.run(start), name=f"background command {job.id}")
        self._jobs[job.id] = job
        return job

    def find(self, job_id: str, session: str) -> Job:
        """The command, for the session that started it. Raises ToolError."""
        job = self._jobs.get(job_id)
        if job and job.context.session_id == session:
            return job
        if job is None and not job_id.startswith(f"{self.mark}-"):
            raise ToolError(f"{job_id}: it ended with the daemon that ran it, or never was; start it again if it is still needed")
        mine = ", ".join(one.id for one in self._jobs.values() if one.context.session_id == session)
        raise ToolError(f"{job_id}: no such background command in this conversation; there are: {mine or 'none'}")

    async def stop(self, job: Job) -> None:
        """Kill it with all that it started."""
        if job.task and not job.over:
            job.stopped = True
            job.task.cancel()
            await asyncio.wait([job.task], timeout=STOP_S)

    async def aclose(self) -> None:
        """The daemon stops: all of them do."""
        tasks = [job.task for job in self._jobs.values() if job.task and not job.over]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _make_room(self) -> None:
        running = [job.id for job in self._jobs.values() if not job.over]
        if len(running) >= self.most:
            several = f"{len(running)} commands run in the background already ({', '.join(running)})"
            raise ToolError(f"{several}; stop one of them first, or run this one without background")
        for job in [job for job in self._jobs.values() if job.over][:-MOST_OVER]:
            del self._jobs[job.id]


@tool(effect=Effect.READ, volatile=True, timeout_s=LONGEST_WAIT_S + STOP_S)
async def check_command(jobs: Background, context: ToolContext, id: str, wait_s: float = 0) -> ToolOutput:
    """Look at a background command: its state, its exit code, what it printed since the last look; wait_s waits for its end."""
    job = jobs.find(id, context.session_id)
    if job.task and wait_s > 0:
        await asyncio.wait([job.task], timeout=min(wait_s, LONGEST_WAIT_S))
    return await _told(job, jobs.max_chars)


@tool(effect=Effect.WRITE, critical=(), timeout_s=2 * STOP_S)
async def stop_command(jobs: Background, context: ToolContext, id: str) -> ToolOutput:
    """Stop a background command of this conversation, with all that it started."""
    job = jobs.find(id, context.session_id)
    await jobs.stop(job)
    return await _told(job, jobs.max_chars)


async def _told(job: Job, max_chars: int) -> ToolOutput:
    if not job.over:
        await job.look(over=False)
    text = f"{job.id}: {job.state}\n{head_and_tail(job.news(), max_chars - ROOM) or '(nothing new)'}"
    return ToolOutput(text.rstrip(), exit_code=job.ended.exit_code if job.over and job.ended else None, label=job.label)
