"""What the fence around a command costs, in milliseconds beside the same command without one."""

import statistics
import tempfile
from pathlib import Path
from time import perf_counter

from daemon.tools.shell.process import run_process
from daemon.tools.shell.sandbox import Sandbox, SandboxKind

KINDS: tuple[SandboxKind, ...] = ("none", "landlock", "bubblewrap")
ROUNDS = 30


async def overhead(rounds: int = ROUNDS) -> dict[str, float]:
    """The median of /bin/true in each kind of sandbox, by its name; taken in turns, so that a busy moment hits all of them."""
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory(prefix="aidaemon-overhead-") as place:
        workspace = Path(place).resolve()
        for _ in range(rounds):
            for kind in KINDS:
                taken[kind].append(await _once(Sandbox(workspace, kind)))
    return {kind: statistics.median(times) for kind, times in taken.items()}


async def _once(sandbox: Sandbox) -> float:
    began = perf_counter()
    argv, quiet = sandbox.wrap(["/bin/true"]), lambda text: None
    ran = await run_process(
        argv, cwd=sandbox.workspace, env=sandbox.env, timeout_s=20, max_chars=100, on_output=quiet
    )
    if ran.exit_code:
        raise RuntimeError(f"{sandbox.kind}: {ran.output}")
    return (perf_counter() - began) * 1000
