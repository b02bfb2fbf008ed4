"""Lines for a terminal: which of them run without a question (`data/terminal_dev.json`, and our own)."""

import json
from collections.abc import Sequence
from pathlib import Path

from daemon.core.events import CallJudged
from daemon.core.trust import Decision, Label
from daemon.tools.config import ShellConfig
from daemon.tools.shell.safe_commands import PROGRAMS, SafeCommands
from daemon.tools.shell.sandbox import Sandbox, SandboxKind
from daemon.tools.shell.tool import Shell, shell_tool
from tests.fakes.tools import Bench
from tests.unit.safe_cases import BAD, BAD_AS_A_LINE, GOOD

CASES = Path(__file__).parents[3] / "shared" / "data" / "terminal_dev.json"
PROTECTED = (".env*", ".git/hooks")
LEAST = 90
Lines = Sequence[str]
OUR_BAD, OUR_GOOD = (*BAD, *BAD_AS_A_LINE), tuple(GOOD)


def given() -> tuple[list[str], list[str]]:
    """Bad and good lines of the data set; none where it is not at hand."""
    cases = json.loads(CASES.read_text()) if CASES.exists() else {"bad": [], "good": []}
    return [line for line, _ in cases["bad"]], cases["good"]


def terminal(
    workspace: Path,
    kind: SandboxKind = "bubblewrap",
    granted: tuple[str, ...] = (),
    label: Label = Label.TRUSTED,
) -> Bench:
    """A shell with every known program allowed."""
    made = Shell(Sandbox(workspace, kind), ShellConfig(allowed=list(PROGRAMS)), PROTECTED)
    return Bench([shell_tool(made)], {Shell: made}, granted=granted, label=label)


async def judged(bench: Bench, line: str) -> Decision:
    await bench.run(("shell", json.dumps({"command": line})))
    event = bench.recorded(CallJudged)[-1]
    assert isinstance(event, CallJudged)
    return event.decision


async def unasked(workspace: Path, lines: Lines, label: Label = Label.TRUSTED) -> list[str]:
    """Those of these lines that run with nobody having said yes."""
    bench = terminal(workspace, label=label)
    return [line for line in lines if await judged(bench, line) is not Decision.ASK]


def asked_about(lines: Lines) -> list[str]:
    """Those of these lines that somebody is asked about, by the rule alone."""
    rule = SafeCommands(tuple(PROGRAMS), "bubblewrap", PROTECTED)
    return [line for line in lines if not rule({"command": line})]
