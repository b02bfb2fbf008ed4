"""The shell tool: any command, sandboxed, after approval; in the foreground or the background."""

import asyncio
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from daemon.core import value
from daemon.core.trust import Effect, Label
from daemon.settings.redaction import Redactor
from daemon.tools.base import Binder, Tool, ToolContext, ToolError, ToolOutput
from daemon.tools.config import ShellConfig
from daemon.tools.shell.background import STATE_CHARS, BackgroundCommands
from daemon.tools.shell.bound_files import CommandBinder, find_maker
from daemon.tools.shell.parse import explain_wrappers, parse_line
from daemon.tools.shell.process import run_process
from daemon.tools.shell.run import Given, open_run
from daemon.tools.shell.safe_commands import SafeCommands
from daemon.tools.shell.sandbox import SEARCH_PATH, Sandbox
from daemon.tools.signature import bind, tool
from daemon.tools.workspace.command_effects import CommandEffects
from daemon.tools.workspace.labels import FileLabels
from daemon.tools.workspace.protected import ProtectedFiles

SILENT = "(it printed nothing)"
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

    def make_binder(self, folder: Path) -> Binder | None:
        """What a yes to a command holds for."""
        if self.effects is None:
            return None
        reads_only, redact = self.safe_commands, self.redactor.redact_text
        protected = self.protected
        return CommandBinder(self.effects, folder, shell.name, reads_only, redact, protected)

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
    """Run argv (words) or command (a line) in the workspace. domains: hosts it may reach;
    network: all, where domains cannot do. background: it goes on.
    """
    terminal = replace(terminal, unreadable=context.unreadable)
    terminal.check_allowed(_untrusted_source, background)
    given = {
        "argv": argv, "command": command, "domains": domains, "network": network,
        "background": background,
    }  # fmt: skip
    terminal.check_domains(given)
    sandbox, config = terminal.sandbox, terminal.config
    safe, hidden = await terminal.judge_words(given)
    words, reads = terminal.build_argv(given, safe), safe is not None
    foreign = network or domains or sandbox.kind == "none"
    label = Label.UNTRUSTED if foreign else Label.TRUSTED
    plan = Given(words, network, domains or (), hidden, reads)
    opening = open_run(sandbox, plan, context, label, terminal.effects, find_maker(context, label))
    if background:
        job = terminal.background.start(opening, context, label, terminal.redactor)
        return ToolOutput(f"{job.id}: started; check_command reports on it, stop_command ends it")
    try:
        async with opening as run:
            try:
                ran = await run_process(
                    run.argv,
                    cwd=run.cwd,
                    env=run.env,
                    timeout_s=config.timeout_s,
                    max_chars=max(config.max_output_chars - STATE_CHARS, STATE_CHARS),
                    on_output=context.on_output,
                    redactor=terminal.redactor,
                    start=run.start,
                )
            finally:
                label, note = await run.finish()
    except OSError as error:
        raise ToolError(f"the command could not be started: {error.strerror or error}") from error
    late = f" (timed out after {config.timeout_s:g} s; it was killed)" if ran.timed_out else ""
    said = filter(None, (run.explain(ran), note, run.proxy.report()))
    text = "\n".join((f"exit_code: {ran.exit_code}{late}", ran.output or SILENT, *said)).rstrip()
    return ToolOutput(text, ran.exit_code != 0, ran.exit_code, label, holds=run.holds)


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
