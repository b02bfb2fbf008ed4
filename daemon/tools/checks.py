"""Criteria that the owner set: a pattern in a text, a command that succeeds in the workspace (C3, E10)."""

import asyncio
import json
import re
import sys
from dataclasses import dataclass

from daemon.tools.process import run_process
from daemon.tools.sandbox import Sandbox

COMMAND_S, PATTERN_S = 60.0, 10.0
SHOWN = 1000
NOT_RUN = (126, 127)
MATCH = "import json, re, sys; p, t = json.load(sys.stdin); sys.exit(0 if re.search(p, t, re.IGNORECASE) else 1)"
FENCELESS = (
    "test_pass runs what the model wrote without asking, so it needs a sandbox, and this machine has none:"
    " install bubblewrap, or choose another criterion"
)


@dataclass(frozen=True, slots=True)
class Looked:
    """Whether it is met, and what the command printed. `warning` is what a person should know of how it was looked at.

    `unmade`: it could not be looked at, through no fault of whoever did the work; `warning` says why.
    """

    met: bool
    output: str = ""
    warning: str = ""
    unmade: bool = False


@dataclass(frozen=True, slots=True)
class Checks:
    """Looks. The command is the owner's, so nobody is asked; what it runs may be the model's, so it runs fenced in."""

    sandbox: Sandbox
    command_s: float = COMMAND_S
    pattern_s: float = PATTERN_S

    @property
    def obstacle(self) -> str:
        """Why commands cannot be looked at on this machine; empty when they can."""
        return FENCELESS if self.sandbox.kind == "none" else ""

    async def passes(self, command: str) -> Looked:
        """Split on white space, never a shell; 60 seconds."""
        if self.obstacle:
            return Looked(False, warning=self.obstacle, unmade=True)
        try:
            ran = await run_process(
                self.sandbox.argv(command.split()), cwd=self.sandbox.workspace, env=self.sandbox.env,
                timeout_s=self.command_s, max_chars=SHOWN, on_output=lambda text: None,
            )  # fmt: skip
        except (OSError, ValueError) as error:  # the second: it holds a NUL
            return Looked(False, warning=f"the command could not be started: {_why(error)}", unmade=True)
        if ran.timed_out:
            return Looked(False, ran.output, f"the command took longer than {self.command_s:g} s and was killed")
        warning = f"the command could not be run: {ran.output.strip()}" if ran.exit_code in NOT_RUN else ""
        return Looked(ran.exit_code == 0, ran.output, warning)

    async def matches(self, pattern: str, text: str) -> Looked:
        """Case does not matter. In a process of its own: a pattern can take for ever, and would stop the whole daemon."""
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return Looked(False, warning=f"{pattern!r} is no regular expression ({error})", unmade=True)
        try:
            return await _search(pattern, text, self.pattern_s)
        except OSError as error:
            return Looked(False, warning=f"it could not be looked for: {_why(error)}", unmade=True)


def _why(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


async def _search(pattern: str, text: str, seconds: float) -> Looked:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", MATCH,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            await process.communicate(json.dumps([pattern, text]).encode())
    except TimeoutError:
        return Looked(False, warning=f"the pattern took longer than {seconds:g} s to look for", unmade=True)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Looked(process.returncode == 0)
