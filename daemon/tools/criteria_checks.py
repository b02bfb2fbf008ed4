"""Criteria set by the owner: a pattern in a text, a command that succeeds in the workspace (C3,
E10).
"""

import json
import sys
from contextlib import nullcontext
from secrets import token_hex

from daemon.core import value
from daemon.core.turn_spec import check_pattern
from daemon.tools.base import ToolError
from daemon.tools.shell.process import Start, exchange, run_process
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.workspace.command_effects import CommandEffects

COMMAND_S, PATTERN_S = 60.0, 10.0
OUTPUT_CHARS = 1000
SHOWN_CHARS = 200
NOT_RUNNABLE = (126, 127)
MATCH = "import json, re, sys; p, t = json.load(sys.stdin); print(bool(re.search(p, t, re.I)))"
NO_SANDBOX = (
    "test_pass runs what the model wrote without asking, so it needs a sandbox, and this machine"
    " has none: install bubblewrap, or choose another criterion"
)

TAINTED = (
    "the command was not run: this conversation has read text from outside, and may have put it"
    " into what the command runs. Nothing was lost: look at the files, and run it yourself"
)
FOREIGN = (
    "the command was not run: {0} in the workspace is not known to be yours, and the command might"
    " run it. Nothing was lost: /trust {0} if you know it (/status counts such files), or remove it"
)


@value
class CriterionResult:
    """`not_checked`: no check was possible, through no fault of the work; `warning` says why."""

    met: bool
    output: str = ""
    warning: str = ""
    not_checked: bool = False


@value
class CriteriaChecker:
    """The owner's command needs no approval; it may run the model's code, so in a sandbox."""

    sandbox: Sandbox
    effects: CommandEffects | None = None
    command_s: float = COMMAND_S
    pattern_s: float = PATTERN_S

    @property
    def obstacle(self) -> str:
        """Why commands cannot be checked on this machine; empty when they can."""
        return self.sandbox.refusal or (NO_SANDBOX if self.sandbox.kind == "none" else "")

    async def run_command(
        self, command: str, turn: str = "", *, tainted: bool = False
    ) -> CriterionResult:
        """The command is split at white space and runs without a shell. Where a stranger may have
        written what it runs, it does not run.
        """
        if self.obstacle:
            return _not_checked(self.obstacle)
        if tainted:
            return _not_checked(TAINTED)
        if self.effects is None:
            return await self._run(command)
        foreign = await self.effects.find_foreign()
        if foreign:
            return _not_checked(FOREIGN.format(foreign))
        return await self._run(command)

    async def _run(self, command: str) -> CriterionResult:
        """On a layer that is dropped: a check changes nothing."""
        sandbox = self.sandbox
        layers = sandbox.layers
        opened = layers.open(token_hex(6)) if layers else nullcontext()
        try:
            async with opened as layer:
                ran = await run_process(
                    sandbox.wrap(command.split(), layer=layer),
                    cwd=sandbox.find_cwd(layer),
                    env=sandbox.find_env(layer),
                    timeout_s=self.command_s,
                    max_chars=OUTPUT_CHARS,
                    on_output=lambda text: None,
                    start=Start(fds=(layer.lock,) if layer else ()),
                )
        except (OSError, ValueError) as error:  # ValueError: it contains a NUL
            why = getattr(error, "strerror", None) or error
            return _not_checked(f"the command could not be started: {why}")
        except ToolError as error:
            return _not_checked(str(error))
        warning = ""
        if ran.timed_out:
            warning = f"the command took longer than {self.command_s:g} s and was killed"
        elif ran.exit_code in NOT_RUNNABLE:
            warning = f"the command could not be run: {ran.output.strip()}"
        return CriterionResult(ran.exit_code == 0 and not ran.timed_out, ran.output, warning)

    async def match_pattern(self, pattern: str, text: str) -> CriterionResult:
        """Whether the pattern matches somewhere in the text."""
        return await match_pattern(pattern, text, self.pattern_s)


async def match_pattern(pattern: str, text: str, pattern_s: float = PATTERN_S) -> CriterionResult:
    """Ignores case. In a process of its own, because a pattern can run forever."""
    if fault := check_pattern(pattern):
        return _not_checked(f"{pattern[:SHOWN_CHARS]!r} is no regular expression ({fault})")
    try:
        data = json.dumps([pattern, text]).encode()
        argv = (sys.executable, "-I", "-S", "-c", MATCH)
        output = await exchange(argv, data, pattern_s)
    except OSError as error:
        return _not_checked(f"the pattern could not be searched: {error.strerror or error}")
    if output is None:
        return _not_checked(f"the pattern took longer than {pattern_s:g} s, or failed")
    return CriterionResult(output.strip() == b"True")


def _not_checked(why: str) -> CriterionResult:
    return CriterionResult(False, warning=why, not_checked=True)
