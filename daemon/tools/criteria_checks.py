"""Criteria that the owner set: a pattern in a text, a command that succeeds in the workspace (C3, E10)."""

import asyncio
import json
import re
import sys

from daemon.core import value
from daemon.tools.shell.process import run_process
from daemon.tools.shell.sandbox import Sandbox

COMMAND_S, PATTERN_S = 60.0, 10.0
OUTPUT_CHARS = 1000
NOT_RUNNABLE = (126, 127)
MATCH = "import json, re, sys; p, t = json.load(sys.stdin); sys.exit(0 if re.search(p, t, re.IGNORECASE) else 1)"
NO_SANDBOX = (
    "test_pass runs what the model wrote without asking, so it needs a sandbox, and this machine has none:"
    " install bubblewrap, or choose another criterion"
)


@value
class CheckResult:
    """Whether it is met, and what the command printed. `warning` is what a person should know of how it was looked at.

    `unmade`: it could not be looked at, through no fault of whoever did the work; `warning` says why.
    """

    met: bool
    output: str = ""
    warning: str = ""
    not_checked: bool = False


@value
class CriteriaChecker:
    """Looks. The command is the owner's, so nobody is asked; what it runs may be the model's, so it runs fenced in."""

    sandbox: Sandbox
    command_s: float = COMMAND_S
    pattern_s: float = PATTERN_S

    @property
    def obstacle(self) -> str:
        """Why commands cannot be looked at on this machine; empty when they can."""
        return NO_SANDBOX if self.sandbox.kind == "none" else ""

    async def run_command(self, command: str) -> CheckResult:
        """Split on white space, never a shell; 60 seconds."""
        if self.obstacle:
            return CheckResult(False, warning=self.obstacle, not_checked=True)
        try:
            ran = await run_process(
                self.sandbox.wrap(command.split()), cwd=self.sandbox.workspace, env=self.sandbox.env,
                timeout_s=self.command_s, max_chars=OUTPUT_CHARS, on_output=lambda text: None,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # the second: it holds a NUL
            return CheckResult(
                False,
                warning=f"the command could not be started: {_describe_error(error)}",
                not_checked=True,
            )
        if ran.timed_out:
            return CheckResult(
                False,
                ran.output,
                f"the command took longer than {self.command_s:g} s and was killed",
            )
        warning = (
            f"the command could not be run: {ran.output.strip()}"
            if ran.exit_code in NOT_RUNNABLE
            else ""
        )
        return CheckResult(ran.exit_code == 0, ran.output, warning)

    async def match_pattern(self, pattern: str, text: str) -> CheckResult:
        """Case does not matter. In a process of its own: a pattern can take for ever, and would stop the whole daemon."""
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return CheckResult(
                False, warning=f"{pattern!r} is no regular expression ({error})", not_checked=True
            )
        try:
            return await _search_in_process(pattern, text, self.pattern_s)
        except OSError as error:
            return CheckResult(
                False,
                warning=f"it could not be looked for: {_describe_error(error)}",
                not_checked=True,
            )


def _describe_error(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


async def _search_in_process(pattern: str, text: str, seconds: float) -> CheckResult:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", MATCH,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            await process.communicate(json.dumps([pattern, text]).encode())
    except TimeoutError:
        return CheckResult(
            False,
            warning=f"the pattern took longer than {seconds:g} s to look for",
            not_checked=True,
        )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return CheckResult(process.returncode == 0)
