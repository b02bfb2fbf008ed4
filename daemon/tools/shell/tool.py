"""The shell tool: any command, sandboxed, after approval; in the foreground or the background."""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import field, replace

from daemon.core import value
from daemon.core.redaction import Redactor
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.shell.background import BackgroundCommands
from daemon.tools.shell.parse import explain_wrappers, parse_line
from daemon.tools.shell.process import run_process
from daemon.tools.shell.safe_commands import SafeCommands
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.signature import bind, tool
from daemon.tools.workspace.command_effects import CommandEffects

MAX_TIMEOUT_S = 3660
STATUS_CHARS = 100
NETWORK_NOTE = (
    "with the network: it can send out what it reads in the workspace, and reach the services of"
    " this machine"
)
BACKGROUND_NOTE = "in the background: it continues after this answer, for at most {:g} minutes"
NEEDS_BUBBLEWRAP = (
    "a background command needs bubblewrap, or it could outlive the daemon; run it without"
    " background"
)


@value
class Shell:
    """What running a command needs. No command touches `protected_paths` without approval."""

    sandbox: Sandbox
    config: ShellConfig
    protected_paths: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor)
    effects: CommandEffects | None = None
    background: BackgroundCommands = field(default_factory=BackgroundCommands)

    @property
    def safe_commands(self) -> SafeCommands:
        """Which commands need no approval."""
        return SafeCommands(tuple(self.config.allowed), self.sandbox.kind, self.protected_paths)

    def build_argv(self, arguments: Mapping[str, object]) -> list[str]:
        """The words to run; a safe command never goes through a shell. Raises ToolError."""
        command, argv = str(arguments.get("command") or ""), _words(arguments)
        if bool(command.strip()) == bool(argv):
            raise ToolError(
                "give either command (a line for the shell) or argv (a list of words), not both"
            )
        if "\0" in "".join((command, *argv)):
            raise ToolError("a command cannot hold a NUL character")
        bash = shutil.which("bash", path=self.sandbox.env["PATH"]) or "/bin/sh"
        return self.safe_commands.rewrite(arguments) or argv or [bash, "-c", command]

    def check_allowed(self, untrusted: bool, background: bool) -> None:
        """Raises ToolError where the command must not run without a better sandbox."""
        kind = self.sandbox.kind
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

    def preview(self, arguments: Mapping[str, object]) -> str:
        """Shown to the person who approves: what the command runs, and where it reaches."""
        argv = _words(arguments)
        lines = [NETWORK_NOTE] if arguments.get("network") else []
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
    network: bool = False,
    background: bool = False,
) -> ToolOutput:
    """Run a command in the workspace: argv (a list of words) or command (a line).
    background: it goes on; see check_command.
    """
    terminal.check_allowed(_untrusted_source, background)
    given = {"argv": argv, "command": command, "network": network, "background": background}
    sandbox, config, effects = terminal.sandbox, terminal.config, terminal.effects
    line = sandbox.wrap(terminal.build_argv(given), network=network)
    label = Label.UNTRUSTED if network or sandbox.kind == "none" else Label.TRUSTED
    if background:
        job = await terminal.background.start(
            line, sandbox, context, label, terminal.redactor, effects
        )
        return ToolOutput(f"{job.id}: started; check_command reports on it, stop_command ends it")
    before = await effects.start(context) if effects else None
    try:
        ran = await run_process(
            line,
            cwd=sandbox.workspace,
            env=sandbox.env,
            timeout_s=config.timeout_s,
            max_chars=max(config.max_output_chars - STATUS_CHARS, STATUS_CHARS),
            on_output=context.on_output,
            clean=terminal.redactor.redact_text,
        )
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or error}") from error
    finally:
        if effects and before:
            label = await effects.finish(before, context, label=label)
    late = f" (timed out after {config.timeout_s:g} s; it was killed)" if ran.timed_out else ""
    text = f"exit_code: {ran.exit_code}{late}\n{ran.output}".rstrip()
    return ToolOutput(text, is_error=ran.exit_code != 0, exit_code=ran.exit_code, label=label)


def shell_tool(terminal: Shell) -> Tool:
    """The shell as this machine supports it: its warning, its safe commands, its preview."""
    meta = replace(shell.meta, warning=terminal.sandbox.warning)
    bound = bind([shell], {Shell: terminal})[0]
    return replace(bound, meta=meta, is_safe=terminal.safe_commands, preview=terminal.preview)


def _words(arguments: Mapping[str, object]) -> list[str]:
    argv = arguments.get("argv")
    return [str(word) for word in argv] if isinstance(argv, list) else []
