"""The shell tool: any command, sandboxed, after approval; in the foreground or the background.

A conversation checks and stops its own background commands; they end with the daemon.
"""

import asyncio
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex

from daemon.core import value
from daemon.core.errors import AidaemonError
from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn
from daemon.settings.redaction import RedactedStream, Redactor
from daemon.tools.base import Binder, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.shell.bound_files import CommandBinder, find_maker
from daemon.tools.shell.deferred import CommandWatch
from daemon.tools.shell.network import NetworkProxy
from daemon.tools.shell.parse import explain_wrappers, parse_line
from daemon.tools.shell.process import HeadTail, Start, run_process, stream_process
from daemon.tools.shell.safe_commands import SafeCommands
from daemon.tools.shell.sandbox import SEARCH_PATH, Alone, Sandbox
from daemon.tools.signature import bind, tool
from daemon.tools.workspace.command_effects import CommandEffects, CommandStart
from daemon.tools.workspace.labels import FileLabels
from daemon.tools.workspace.protected import ProtectedFiles

MAX_FINISHED = 20
MAX_WAIT_S = 30.0
STOP_S = 10.0
STATE_CHARS = 100
SILENT = "(it printed nothing)"


@value
class Launch:
    """A command that is about to start: its network, and its line in the sandbox."""

    opening: AbstractAsyncContextManager[NetworkProxy]
    make_line: Callable[[NetworkProxy], list[str]]
    alone: Alone


@dataclass(slots=True)
class BackgroundJob:
    """One command. `label` is that of its output; `context` that of the call that started it."""

    id: str
    context: ToolContext
    label: Label
    stream: RedactedStream
    effects: CommandEffects | None
    before: CommandStart | None
    watch: CommandWatch
    unread: HeadTail
    started_at: float
    alone: Alone = field(default_factory=Alone)
    task: asyncio.Task[None] = field(init=False)
    ending: str = "it ended for an unknown reason"
    exit_code: int | None = None

    async def run(self, launch: Launch, sandbox: Sandbox, timeout_s: float) -> None:
        """To its end, which is noted in `ending`."""
        proxy: NetworkProxy | None = None
        try:
            async with launch.opening as proxy:
                result = await stream_process(
                    lambda data: self.unread.feed(data),
                    launch.make_line(proxy), sandbox.workspace, sandbox.env, timeout_s,
                    Start(partial(sandbox.lend, self.watch, self.context.check_content), proxy.fds),
                )  # fmt: skip
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
            notes = (await sandbox.end(self.watch), proxy.report() if proxy else "")
            self.ending = "\n".join(filter(None, (self.ending, *notes)))
            await self.check_effects(final=True)

    async def check_effects(self, final: bool) -> None:
        """Label what it changed. If that fails, its output is not trusted."""
        if self.effects is None or self.before is None:
            return
        try:
            self.label = await self.effects.finish(
                self.before, self.context, label=self.label, final=final, alone=self.alone.span
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
        news = unread.text(max_chars - STATE_CHARS, self.stream, ended=done)
        text = f"{self.id}: {state}\n{news or '(nothing new)'}".rstrip()
        holds = self.before.holds if self.before else ()
        return ToolOutput(text, exit_code=self.exit_code, label=self.label, holds=holds)


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
        launch: Launch,
        terminal: "Shell",
        context: ToolContext,
        label: Label,
        watch: CommandWatch,
        maker: str,
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
        effects = terminal.effects
        job = BackgroundJob(
            f"{self.id_prefix}-{self._count}", context, label.join_with(context.turn.label),
            RedactedStream(terminal.redactor), effects,
            await effects.start(context, label, maker) if effects else None, watch,
            HeadTail(4 * self.max_chars), context.clock.monotonic(), launch.alone,
        )  # fmt: skip
        running_job = job.run(launch, terminal.sandbox, self.lifetime_s)
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


MAX_TIMEOUT_S = 3660
NO_SANDBOX = (
    "this machine has no sandbox: the command can reach everything that the daemon's user can,"
    " and the network"
)
RUNS = "runs a command in the sandbox, "  # as channels/markup/approval_prompt.py knows it
RUNS_BARE = (
    "runs a command without a sandbox: it can reach everything that the daemon's user can, and the"
    " network"
)
NETWORK_NOTE = (
    "with the network: it can send out what it reads in the workspace, and reach the services of"
    " this machine"
)
BY_DOMAIN_NOTE = (
    "with the network, but only to {}: it can send there what it reads in the workspace"
)
EITHER_NETWORK = "give either domains (what it may reach) or network (all of it), not both"
BACKGROUND_NOTE = "in the background: it continues after this answer, for at most {:g} minutes"
NEEDS_BUBBLEWRAP = (
    "a background command needs bubblewrap, or it could outlive the daemon; run it without"
    " background"
)


@value
class Shell:
    """What running a command needs. No command touches `protected_paths` without approval, nor what
    is `unreadable` by rules.
    """

    sandbox: Sandbox
    config: ShellConfig
    protected_paths: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    effects: CommandEffects | None = None
    background: BackgroundCommands = field(default_factory=BackgroundCommands)
    binds: Binder | None = None
    protected: ProtectedFiles | None = None
    labels: FileLabels | None = None
    unreadable: tuple[str, ...] = ()

    @property
    def safe_commands(self) -> SafeCommands:
        """Which commands need no approval."""
        patterns = (*self.protected_paths, *self.unreadable)
        return SafeCommands(
            tuple(self.config.allowed),
            self.sandbox.kind,
            patterns,
            replace(self.protected, patterns=patterns) if self.protected else None,
            self.labels,
        )

    def build_argv(self, arguments: Mapping[str, object], safe: list[str] | None) -> list[str]:
        """The words to run; a safe command never goes through a shell. Raises ToolError."""
        command, argv = str(arguments.get("command") or ""), _words(arguments)
        if bool(command.strip()) == bool(argv):
            raise ToolError(
                "give either command (a line for the shell) or argv (a list of words), not both"
            )
        if "\0" in "".join((command, *argv)):
            raise ToolError("a command cannot hold a NUL character")
        bash = shutil.which("bash", path=SEARCH_PATH) or "/bin/sh"
        return safe or argv or [bash, "-c", command]

    async def judge_words(
        self, arguments: Mapping[str, object]
    ) -> tuple[list[str] | None, list[Path]]:
        """The words of a command that only reads, and needs no approval, with the protected places
        that are hidden from it; None for all others. Raises ToolError.

        Protected places are noted for others, too, which may rename them.
        """
        found = await asyncio.to_thread(self.protected.find) if self.protected else []
        safe = self.safe_commands.rewrite(arguments)
        if safe is None:
            return None, []
        if self.protected and self.unreadable:  # these are no secret of a yes
            others = replace(self.protected, patterns=self.unreadable, known={})
            found += await asyncio.to_thread(others.find)
        return safe, found

    async def begin(self, *, reads: bool) -> CommandWatch:
        """Note what runs later, outside; a command that only reads leaves nothing of it. Raises
        ToolError while another could change what this one runs.
        """
        if reads:
            return CommandWatch("", {})
        self.check_idle()
        return await self.sandbox.begin(token_hex(4))

    def make_binder(self, folder: Path) -> Binder | None:
        """What a yes to a command holds for."""
        if self.effects is None:
            return None
        lent = self.sandbox.quarantine.list_lent if self.sandbox.quarantine else dict
        reads_only, redact = self.safe_commands, self.redactor.redact_text
        protected = self.protected
        return CommandBinder(self.effects, folder, shell.name, reads_only, lent, redact, protected)

    def check_idle(self) -> None:
        """Raises ToolError while a stranger's command could change what is about to be run."""
        at_work = self.labels.at_work if self.labels else {}
        running = self.background.find_running().values()
        strange = [job.id for job in running if job.before and job.before.name in at_work]
        if strange:
            raise ToolError(
                f"Not run: a command in the background ({', '.join(strange)}) works with what"
                " strangers wrote, and could change what this runs after it was looked at. Stop it"
                " with stop_command, or wait for its end, and run this again."
            )

    def check_allowed(self, untrusted: bool, background: bool) -> None:
        """Raises ToolError where the command must not run without a better sandbox."""
        kind = self.sandbox.kind
        if self.sandbox.refusal:
            raise ToolError(self.sandbox.refusal)
        if kind == "none" and untrusted:
            raise ToolError(
                "there is no sandbox on this machine, so no command runs for text from outside"
            )
        if kind != "bubblewrap" and self.config.sandbox == "bubblewrap":
            raise ToolError(
                "bubblewrap does not work on this machine, and tools.shell.sandbox requires it;"
                " see aidaemon doctor"
            )
        if kind != "bubblewrap" and background:
            raise ToolError(NEEDS_BUBBLEWRAP)

    def check_domains(self, arguments: Mapping[str, object]) -> None:
        """Raises ToolError for a network that cannot be had."""
        domains = _words(arguments, "domains")
        if domains and arguments.get("network"):
            raise ToolError(EITHER_NETWORK)
        self.sandbox.check_domains(domains)

    def preview(self, arguments: Mapping[str, object]) -> str:
        """Shown to the person who approves: what the command runs, and where it reaches."""
        argv, domains = _words(arguments), _words(arguments, "domains")
        reach = BY_DOMAIN_NOTE.format(", ".join(domains)) if domains else "no network"
        if arguments.get("network"):
            reach = NETWORK_NOTE
        lines = [RUNS + reach]
        if self.sandbox.kind == "none":
            lines = [RUNS_BARE] + [NETWORK_NOTE] * bool(arguments.get("network"))
        if arguments.get("background"):
            lines.append(BACKGROUND_NOTE.format(self.background.lifetime_s / 60))
        if argv:
            lines += [f"{shlex.join(argv)}: {remark}" for remark in explain_wrappers(argv)]
        else:
            lines.append(str(parse_line(str(arguments.get("command") or ""))))
        return "\n".join(filter(None, lines))


@tool(effect=Effect.DESTRUCTIVE, timeout_s=MAX_TIMEOUT_S, critical=None)
async def shell(
    terminal: Shell,
    context: ToolContext,
    _untrusted_source: bool,
    argv: list[str] | None = None,
    command: str = "",
    domains: list[str] | None = None,
    network: bool = False,
    background: bool = False,
) -> ToolOutput:
    """Run argv (words) or command (a line) in the workspace. domains: HTTP hosts it may reach;
    network: all, where domains cannot do. background: it goes on; see check_command.
    """
    terminal = replace(terminal, unreadable=context.unreadable)
    terminal.check_allowed(_untrusted_source, background)
    given = {
        "argv": argv, "command": command, "domains": domains, "network": network,
        "background": background,
    }  # fmt: skip
    terminal.check_domains(given)
    sandbox, config, effects = terminal.sandbox, terminal.config, terminal.effects
    safe, hidden = await terminal.judge_words(given)
    words, reads = terminal.build_argv(given, safe), safe is not None
    foreign = network or domains or sandbox.kind == "none"
    label = Label.UNTRUSTED if foreign else Label.TRUSTED
    watch, alone = await terminal.begin(reads=reads), Alone()
    opening = sandbox.open_for(domains or (), context.check_address, None if reads else alone)
    launch = Launch(opening, partial(sandbox.wrap, words, network, hidden, watch), alone)
    maker = find_maker(context, label)
    if background:
        job = await terminal.background.start(launch, terminal, context, label, watch, maker)
        return ToolOutput(f"{job.id}: started; check_command reports on it, stop_command ends it")
    beside = bool(terminal.labels and terminal.labels.at_work)
    before = await effects.start(context, label, maker) if effects and not reads else None
    note, holds = "", before.holds if before else ()
    try:
        async with launch.opening as proxy:
            ran = await run_process(
                launch.make_line(proxy),
                cwd=sandbox.workspace,
                env=sandbox.env,
                timeout_s=config.timeout_s,
                max_chars=max(config.max_output_chars - STATE_CHARS, STATE_CHARS),
                on_output=context.on_output,
                redactor=terminal.redactor,
                start=Start(partial(sandbox.lend, watch, context.check_content), proxy.fds),
            )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or error}") from error
    finally:
        note = await sandbox.end(watch)
        if effects and before:
            label = await effects.finish(before, context, label=label, alone=alone.span)
        elif effects:
            label, holds = await effects.judge_reading(context, label, beside=beside)
    late = f" (timed out after {config.timeout_s:g} s; it was killed)" if ran.timed_out else ""
    parts = (f"exit_code: {ran.exit_code}{late}", ran.output or SILENT, note, proxy.report())
    text = "\n".join(parts).rstrip()
    return ToolOutput(text, ran.exit_code != 0, ran.exit_code, label, holds=holds)


def shell_tool(terminal: Shell) -> Tool:
    """The shell as this machine supports it: its warning, its safe commands, its preview."""
    warning = NO_SANDBOX if terminal.sandbox.kind == "none" else ""
    meta = replace(shell.meta, warning=warning)
    bound = bind([shell], {Shell: terminal})[0]

    def check(arguments: Mapping[str, object]) -> None:
        if bound.check:
            bound.check(arguments)
        terminal.check_domains(arguments)

    def is_safe(arguments: Mapping[str, object], unreadable: Sequence[str]) -> bool:
        return replace(terminal, unreadable=tuple(unreadable)).safe_commands(arguments)

    return replace(
        bound,
        meta=meta,
        check=check,
        is_safe=is_safe,
        preview=terminal.preview,
        binds=terminal.binds,
    )


def _words(arguments: Mapping[str, object], name: str = "argv") -> list[str]:
    words = arguments.get(name)
    return [str(word) for word in words] if isinstance(words, list) else []
