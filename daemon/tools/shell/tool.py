"""The shell tool: any command, fenced in, after a yes; at once or in the background, with the network if that was shown."""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from daemon.core import value
from daemon.core.redaction import Redactor
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.shell.background import BackgroundCommands, CommandWatcher, NoWatcher
from daemon.tools.shell.parse import explain_wrappers, parse_line
from daemon.tools.shell.process import (
    OutputSink,
    ProcessExit,
    ProcessResult,
    run_process,
    stream_process,
)
from daemon.tools.shell.safe_commands import SafeCommands
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.signature import ToolDefinition, tool

MAX_TIMEOUT_S = 3660
STATUS_CHARS = 100
NETWORK_NOTE = "with the network: it can send out what it reads in the workspace, and reach the services of this machine"
BACKGROUND_NOTE = "in the background: it goes on after this answer, for {minutes:g} minutes at most"
NEEDS_BUBBLEWRAP = "a background command needs bubblewrap, or it could outlive the daemon; run it without background"


@value
class Shell:
    """What running a command needs. `protected_paths` are those that no command touches without a question."""

    sandbox: Sandbox
    config: ShellConfig
    protected_paths: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    watcher: CommandWatcher = field(default_factory=NoWatcher)
    background: BackgroundCommands = field(default_factory=BackgroundCommands)

    @property
    def safe_commands(self) -> SafeCommands:
        """Which commands need no approval."""
        return SafeCommands(tuple(self.config.allowed), self.sandbox.kind, self.protected_paths)

    def build_argv(self, arguments: Mapping[str, object]) -> list[str]:
        """The words to run: what the gate took for harmless never goes through a shell. Raises ToolError."""
        command, argv = str(arguments.get("command") or ""), _words(arguments)
        if bool(command.strip()) == bool(argv):
            raise ToolError(
                "give either command (a line for the shell) or argv (a list of words), not both"
            )
        if "\0" in command or any("\0" in word for word in argv):
            raise ToolError("a command cannot hold a NUL character")
        if harmless := self.safe_commands.rewrite(arguments):
            return harmless
        return argv or [
            shutil.which("bash", path=self.sandbox.env["PATH"]) or "/bin/sh",
            "-c",
            command,
        ]

    def check_allowed(self, untrusted: bool, background: bool) -> None:
        """No sandbox, no command: for text from outside always, for anybody when the config says so. Raises ToolError."""
        if self.sandbox.kind == "none" and untrusted:
            raise ToolError(
                "there is no sandbox on this machine, so no command runs for text from outside"
            )
        if self.sandbox.kind != "bubblewrap" and self.config.sandbox == "bubblewrap":
            raise ToolError(
                "bubblewrap does not work on this machine, and tools.shell.sandbox asks for it; see aidaemon doctor"
            )
        if self.sandbox.kind != "bubblewrap" and background:
            raise ToolError(NEEDS_BUBBLEWRAP)

    def label(self, network: bool) -> Label:
        """What the output may be trusted for: what came over the network is a stranger's."""
        return Label.UNTRUSTED if network or self.sandbox.kind == "none" else Label.TRUSTED

    def preview(self, arguments: Mapping[str, object]) -> str:
        """What a person is told of a command beside its words: what it runs, and where it reaches."""
        argv = _words(arguments)
        command = str(arguments.get("command") or "")
        said = (
            [f"{shlex.join(argv)}: {one}" for one in explain_wrappers(argv)]
            if argv
            else [str(parse_line(command))]
        )
        network = [NETWORK_NOTE] if arguments.get("network") else []
        later = (
            [BACKGROUND_NOTE.format(minutes=self.background.lifetime_s / 60)]
            if arguments.get("background")
            else []
        )
        return "\n".join(line for line in (*network, *later, *said) if line)


@tool(effect=Effect.DESTRUCTIVE, timeout_s=MAX_TIMEOUT_S, critical=None)
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
    terminal.check_allowed(_untrusted_source, background)
    line = terminal.build_argv(
        {"argv": argv or [], "command": command, "network": network, "background": background}
    )
    if background:
        return await _start_background(terminal, context, line, network)
    before = await terminal.watcher.start(context)
    try:
        ran = await _run(terminal, context, line, network)
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or error}") from error
    finally:
        label = await terminal.watcher.finish(before, context, label=terminal.label(network))
    text = _format(ran, terminal.config.timeout_s)
    return ToolOutput(text, is_error=ran.exit_code != 0, exit_code=ran.exit_code, label=label)


def shell_tool(terminal: Shell) -> ToolDefinition:
    """The shell as this machine has it: its warning where there is no sandbox, its harmless commands where there is one."""
    meta = replace(shell.meta, warning=terminal.sandbox.warning)
    return replace(shell, meta=meta, is_safe=terminal.safe_commands, preview=terminal.preview)


async def _run(
    terminal: Shell, context: ToolContext, line: Sequence[str], network: bool
) -> ProcessResult:
    sandbox, config, stream = terminal.sandbox, terminal.config, terminal.redactor.open_stream()

    def show(text: str) -> None:
        if clean := stream.feed(text):
            context.on_output(clean)

    try:
        return await run_process(
            sandbox.wrap(line, network=network), cwd=sandbox.workspace, env=sandbox.env, timeout_s=config.timeout_s,
            max_chars=max(config.max_output_chars - STATUS_CHARS, STATUS_CHARS), on_output=show, clean=terminal.redactor.redact_text,
        )  # fmt: skip
    finally:
        if rest := stream.flush():
            context.on_output(rest)


async def _start_background(
    terminal: Shell, context: ToolContext, line: Sequence[str], network: bool
) -> ToolOutput:
    sandbox, jobs = terminal.sandbox, terminal.background

    async def start(sink: OutputSink) -> ProcessExit:
        argv = sandbox.wrap(line, network=network)
        return await stream_process(
            sink, argv, cwd=sandbox.workspace, env=sandbox.env, timeout_s=jobs.lifetime_s
        )

    label = terminal.label(network)
    job = await jobs.start(
        start, context=context, label=label, watching=terminal.watcher, redactor=terminal.redactor
    )
    return ToolOutput(
        f"{job.id}: started; check_command tells how it goes on, stop_command ends it"
    )


def _words(arguments: Mapping[str, object]) -> list[str]:
    argv = arguments.get("argv")
    return [str(word) for word in argv] if isinstance(argv, list) else []


def _format(ran: ProcessResult, timeout_s: float) -> str:
    late = f" (timed out after {timeout_s:g} s; it was killed)" if ran.timed_out else ""
    return f"exit_code: {ran.exit_code}{late}\n{ran.output}".rstrip()
