"""The kinds of sandbox and of layer that a machine may have: the attacks run with each, whatever this one can do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from daemon.tools.layers.layer import Layers
from daemon.tools.shell import sandbox
from daemon.tools.shell.sandbox import Sandbox, SandboxKind

FENCES = ("overlay", "copy", "read-only", "landlock")
OBSTACLE = "it is left out"


@contextmanager
def fence(name: str) -> Iterator[None]:
    """Daemons in this process have no more than this."""

    async def landlock(workspace: Path) -> SandboxKind:
        return "landlock"

    async def no_overlay(self: Sandbox, layers: Layers) -> Layers:
        copy_mb = 0 if name == "read-only" else layers.copy_mb
        return replace(layers, obstacle=OBSTACLE, copy_mb=copy_mb)

    if name == "overlay":
        yield
    elif name == "landlock":
        with patch.object(sandbox, "probe", landlock):
            yield
    else:
        with patch.object(Sandbox, "probe_layers", no_overlay):
            yield
