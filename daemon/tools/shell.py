"""The shell tool: any command, fenced in, after a yes."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from daemon.core.label import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.decorate import Definition, tool
from daemon.tools.process import Ran, run_process
from daemon.tools.safe import harmless, is_harmless, words_of
from daemon.tools.sandbox import Sandbox

LONGEST_S = 3660
ROOM = 100


@dataclass(frozen=True, slots=True)
class Shell:
    """What running a command needs."""

    sandbox: Sandbox
    config: ShellConfig

    def line(self, command: str, argv: Sequence[str]) -> list[str]:
        """The words to run: what the gate took for harmless never goes through a shell. Raises ToolError."""
        if bool(command.strip()) == bool(argv):
            raise ToolError("give either command (a line for the shell) or argv (a list of words), not both")
        if "\0" in command or any("\0" in word for word in argv):
            raise ToolError("a command cannot hold a NUL character")
        words = words_of({"command": command, "argv": list(argv)})
        if argv or (words and is_harmless(words, self.config.allowed)):
            return list(words or argv)
        return [shutil.which("bash", path=self.sandbox.env["PATH"]) or "/bin/sh", "-c", command]

    def refuse(self, untrusted: bool) -> None:
        """No sandbox, no command: for text from outside always, for anybody when the config says so. Raises ToolError."""
        if self.sandbox.kind == "none" and untrusted:
            raise ToolError("there is no sandbox on this machine, so no command runs for text from outside")
        if self.sandbox.kind != "bubblewrap" and self.config.sandbox == "bubblewrap":
            raise ToolError("bubblewrap does not work on this machine, and tools.shell.sandbox asks for it; see aidaemon doctor")


@tool(effect=Effect.DESTRUCTIVE, timeout_s=LONGEST_S, critical=None)
async def shell(
    terminal: Shell, context: ToolContext, _untrusted_source: bool, command: str = "", argv: list[str] | None = None
) -> ToolOutput:
    """Run a command in the workspace."""
    terminal.refuse(_untrusted_source)
    line, sandbox, config = terminal.line(command, argv or ()), terminal.sandbox, terminal.config
    try:
        ran = await run_process(
            sandbox.argv(line), cwd=sandbox.workspace, env=sandbox.env, timeout_s=config.timeout_s,
            max_chars=max(config.max_output_chars - ROOM, ROOM), on_output=context.on_output,
        )  # fmt: skip
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or error}") from error
    return ToolOutput(_told(ran, config.timeout_s), is_error=ran.exit_code != 0, exit_code=ran.exit_code)


def shell_tool(terminal: Shell) -> Definition:
    """The shell as this machine has it: its warning where there is no sandbox, its harmless commands where there is one."""
    sandbox = terminal.sandbox
    meta = replace(shell.meta, warning=sandbox.warning)
    return replace(shell, meta=meta, is_safe=harmless(terminal.config.allowed, sandbox.kind == "bubblewrap"))


def _told(ran: Ran, timeout_s: float) -> str:
    late = f" (timed out after {timeout_s:g} s; it was killed)" if ran.timed_out else ""
    return f"exit_code: {ran.exit_code}{late}\n{ran.output}".rstrip()
