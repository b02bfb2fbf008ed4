"""`aidaemon` as a real process, in an environment of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.fakes import born

KEPT = ("AIDAEMON_MODELS", "PATH", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR")
ROOT = Path(__file__).parents[2]


def aidaemon(
    *words: str,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    python: str = sys.executable,
    within: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run one command line to its end. HOME of the system, and everything else that leaks in, is left out. With a `python` or an
    environment that changes how it starts it is started from nothing, else by the nursery.
    """
    given = {name: os.environ[name] for name in KEPT if name in os.environ}
    given |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{given.get('PYTHONPATH', '')}", "COLUMNS": "200"}
    given |= {"AIDAEMON_HOME": str(home)} if home else {"HOME": "/nonexistent"}
    if born.may_bear(python, env or {}):
        return born.run(words, {**given, **(env or {})}, cwd or Path.cwd(), within=within)
    command = [python, "-m", "daemon", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
        cwd=cwd,
        env={**given, **(env or {})},
    )
