"""Whether an attempt will do (C3): a pattern in what it said, or a command that succeeds in the workspace."""

import asyncio
import json
import re
import sys
from dataclasses import dataclass

from daemon.core.loops import LoopRow
from daemon.tools.process import run_process
from daemon.tools.sandbox import Sandbox

TEST_S, REGEX_S = 60.0, 10.0
NOT_RUN = (126, 127)
MATCH = "import json, re, sys; p, t = json.load(sys.stdin); sys.exit(0 if re.search(p, t, re.IGNORECASE) else 1)"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is met. `warning` is what a person should know of how it was looked at."""

    met: bool
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Looks. The command is the owner's, so nobody is asked; what it runs may be the model's, so it runs fenced in."""

    sandbox: Sandbox
    test_s: float = TEST_S
    regex_s: float = REGEX_S

    def obstacle(self, loop: LoopRow) -> str:
        """Why this criterion cannot be looked at on this machine; empty when it can."""
        if loop.criterion == "test_pass" and self.sandbox.kind == "none":
            return (
                "test_pass runs what the model wrote without asking, so it needs a sandbox, and this machine has none:"
                " install bubblewrap, or choose another criterion"
            )
        return ""

    async def met(self, loop: LoopRow, output: str) -> Verdict:
        """Max iterations and manual are never met by themselves."""
        match loop.criterion:
            case "regex":
                return await self._matches(loop.value, output)
            case "test_pass":
                return await self._passes(loop)
            case "max_iterations" | "manual":
                return Verdict(False)

    async def _passes(self, loop: LoopRow) -> Verdict:
        """Split on white space, never a shell; 60 seconds."""
        if obstacle := self.obstacle(loop):
            return Verdict(False, obstacle)
        try:
            ran = await run_process(
                self.sandbox.argv(loop.value.split()), cwd=self.sandbox.workspace, env=self.sandbox.env,
                timeout_s=self.test_s, max_chars=1000, on_output=lambda text: None,
            )  # fmt: skip
        except OSError as error:
            return Verdict(False, f"the command could not be started: {error.strerror or error}")
        if ran.timed_out:
            return Verdict(False, f"the command took longer than {self.test_s:g} s and was killed")
        if ran.exit_code in NOT_RUN:
            return Verdict(False, f"the command could not be run: {ran.output.strip()}")
        return Verdict(ran.exit_code == 0)

    async def _matches(self, pattern: str, output: str) -> Verdict:
        """In a process of its own: a pattern can take for ever, and would stop the whole daemon meanwhile."""
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return Verdict(False, f"{pattern!r} is no regular expression ({error}), so this goes on to the last attempt")
        return await _search(pattern, output, self.regex_s)


async def _search(pattern: str, output: str, seconds: float) -> Verdict:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", MATCH,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            await process.communicate(json.dumps([pattern, output]).encode())
    except TimeoutError:
        return Verdict(False, f"the pattern took longer than {seconds:g} s to look for")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Verdict(process.returncode == 0)
