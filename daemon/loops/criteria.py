"""Whether an attempt will do (C3): a pattern in what it said, or a command that succeeds in the workspace."""

from dataclasses import dataclass

from daemon.core.loops import LoopRow
from daemon.tools.checks import Checks


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it is met. `warning` is what a person should know of how it was looked at."""

    met: bool
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Criteria:
    """Looks; what cannot be looked at is not met."""

    checks: Checks

    def obstacle(self, loop: LoopRow) -> str:
        """Why this criterion cannot be looked at on this machine; empty when it can."""
        return self.checks.obstacle if loop.criterion == "test_pass" else ""

    async def met(self, loop: LoopRow, output: str) -> Verdict:
        """Max iterations and manual are never met by themselves."""
        match loop.criterion:
            case "regex":
                looked = await self.checks.matches(loop.value, output)
            case "test_pass":
                looked = await self.checks.passes(loop.value)
            case "max_iterations" | "manual":
                return Verdict(False)
        return Verdict(looked.met, looked.warning)
