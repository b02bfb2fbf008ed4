"""The shell tool: any command, fenced in, after a yes; at once or in the background, with the network if that was shown."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from daemon.core.label import Effect, Label
from daemon.core.redaction import Redactor
from daemon.tools.background import Background
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.decorate import Definition, tool
from daemon.tools.process import Ended, Ran, Sink, run_into, run_process
from daemon.tools.safe import Harmless
from daemon.tools.sandbox import Sandbox
from daemon.tools.shells.parsing import read_line
from daemon.tools.shells.watching import Unwatched, Watching
from daemon.tools.shells.wrappers import remarks

LONGEST_S = 3660
ROOM = 100
NETWORK = "with the network: it can send out what it reads in the workspace, and reach the services of this machine"
LATER = "in the background: it goes on after this answer, for {minutes:g} minutes at most"
TIED = "a background command needs bubblewrap, or it could outlive the daemon; run it without background"


@dataclass(frozen=True, slots=True)
class Shell:
    """What running a command needs. `protected_paths` are those that no command touches without a question."""

    sandbox: Sandbox
    config: ShellConfig
    protected_paths: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    watching: Watching = field(default_factory=Unwatched)
    background: Background = field(default_factory=Background)

    @property
    def harmless(self) -> Harmless:
        """Which commands need no approval."""
        return Harmless(tuple(self.config.allowed), self.sandbox.kind, self.protected_paths)

    def line(self, arguments: Mapping[str, object]) -> list[str]:
        """The words to run: what the gate took for harmless never goes through a shell. Raises ToolError."""
        command, argv = str(arguments.get("command") or ""), _words(arguments)
        if bool(command.strip()) == bool(argv):
            raise ToolError("give either command (a line for the shell) or argv (a list of words), not both")
        if "\0" in command or any("\0" in word for word in argv):
            raise ToolError("a command cannot hold a NUL character")
        if harmless := self.harmless.words(arguments):
            return harmless
        return argv or [shutil.which("bash", path=self.sandbox.env["PATH"]) or "/bin/sh", "-c", command]

    def refuse(self, untrusted: bool, background: bool) -> None:
        """No sandbox, no command: for text from outside always, for anybody when the config says so. Raises ToolError."""
        if self.sandbox.kind == "none" and untrusted:
            raise ToolError("there is no sandbox on this machine, so no command runs for text from outside")
        if self.sandbox.kind != "bubblewrap" and self.config.sandbox == "bubblewrap":
            raise ToolError("bubblewrap does not work on this machine, and tools.shell.sandbox asks for it; see aidaemon doctor")
        if self.sandbox.kind != "bubblewrap" and background:
            raise ToolError(TIED)

    def label(self, network: bool) -> Label:
        """What the output may be trusted for: what came over the network is a stranger's."""
        return Label.UNTRUSTED if network or self.sandbox.kind == "none" else Label.TRUSTED

    def preview(self, arguments: Mapping[str, object]) -> str:
        """What a person is told of a command beside its words: what it runs, and where it reaches."""
        argv = _words(arguments)
        command = str(arguments.get("command") or "")
        said = [f"{shlex.join(argv)}: {one}" for one in remarks(argv)] if argv else [str(read_line(command))]
        network = [NETWORK] if arguments.get("network") else []
        later = [LATER.format(minutes=self.background.lifetime_s / 60)] if arguments.get("background") else []
        return "\n".join(line for line in (*network, *later, *said) if line)


@tool(effect=Effect.DESTRUCTIVE, timeout_s=LONGEST_S, critical=None)
async def shell(
    terminal: Shell,
    context: ToolContext,
    _untrusted_source: bool,
    argv: list[str] | None = None,
    command: str = "",
    network: bool = False,
    background: bool = False,
) -> ToolOutput:
    """Run a command in the workspace: argv (a list of words) or command (a line). background: it goes on; see check_command."""
    terminal.refuse(_untrusted_source, background)
    line = terminal.line({"argv": argv or [], "command": command, "network": network, "background": background})
    if background:
        return await _begun(terminal, context, line, network)
    before = await terminal.watching.began(context)
    try:
        ran = await _ran(terminal, context, line, network)
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or error}") from error
    finally:
        label = await terminal.watching.ended(before, context, label=terminal.label(network))
    text = _told(ran, terminal.config.timeout_s)
    return ToolOutput(text, is_error=ran.exit_code != 0, exit_code=ran.exit_code, label=label)


def shell_tool(terminal: Shell) -> Definition:
    """The shell as this machine has it: its warning where there is no sandbox, its harmless commands where there is one."""
    meta = replace(shell.meta, warning=terminal.sandbox.warning)
    return replace(shell, meta=meta, is_safe=terminal.harmless, preview=terminal.preview)


async def _ran(terminal: Shell, context: ToolContext, line: Sequence[str], network: bool) -> Ran:
    sandbox, config, stream = terminal.sandbox, terminal.config, terminal.redactor.stream()

    def show(text: str) -> None:
        if clean := stream.feed(text):
            context.on_output(clean)

    try:
        return await run_process(
            sandbox.argv(line, network=network), cwd=sandbox.workspace, env=sandbox.env, timeout_s=config.timeout_s,
            max_chars=max(config.max_output_chars - ROOM, ROOM), on_output=show, clean=terminal.redactor.text,
        )  # fmt: skip
    finally:
        if rest := stream.flush():
            context.on_output(rest)


async def _begun(terminal: Shell, context: ToolContext, line: Sequence[str], network: bool) -> ToolOutput:
    sandbox, jobs = terminal.sandbox, terminal.background

    async def start(sink: Sink) -> Ended:
        argv = sandbox.argv(line, network=network)
        return await run_into(sink, argv, cwd=sandbox.workspace, env=sandbox.env, timeout_s=jobs.lifetime_s)

    label = terminal.label(network)
    job = await jobs.start(start, context=context, label=label, watching=terminal.watching, redactor=terminal.redactor)
    return ToolOutput(f"{job.id}: started; check_command tells how it goes on, stop_command ends it")


def _words(arguments: Mapping[str, object]) -> list[str]:
    argv = arguments.get("argv")
    return [str(word) for word in argv] if isinstance(argv, list) else []


def _told(ran: Ran, timeout_s: float) -> str:
    late = f" (timed out after {timeout_s:g} s; it was killed)" if ran.timed_out else ""
    return f"exit_code: {ran.exit_code}{late}\n{ran.output}".rstrip()
