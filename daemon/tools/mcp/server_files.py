"""What one server may read and write of the workspace: it works on a layer, as a command does, and
what it has changed comes over at the end of each call.

By default the workspace is read-only for it, but for a folder of its own, `out/NAME`. Without
bubblewrap it is so always: nothing can stand at the workspace's own path in its place.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from daemon.core.clock import run_to_completion
from daemon.core.trust import Label
from daemon.tools.layers.changes import ChangeReader
from daemon.tools.layers.layer import OUT, Layer
from daemon.tools.mcp.config import McpConfig
from daemon.tools.shell.run import ORIGIN, merge
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.workspace.command_effects import CommandEffects


@dataclass(slots=True)
class ServerFiles:
    """`own`: when files came over, by their path."""

    layer: Layer
    sandbox: Sandbox
    effects: CommandEffects | None
    own: dict[str, int] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def collect(self) -> str:
        """At the end of a call: what it changed comes over; in words, what did not."""
        return await run_to_completion(self._collect(self.own))

    async def finish(self) -> str:
        """The same when it has ended."""
        said = await run_to_completion(self._collect(self.own))
        await asyncio.to_thread(self.layer.note.unlink, missing_ok=True)
        return said

    async def _collect(self, own: dict[str, int]) -> str:
        async with self.lock:
            origin = self.effects.judge_server() if self.effects else None
            _, said = await merge(
                self.layer, self.sandbox, self.effects, origin, Label.UNTRUSTED, own
            )
            return said

    async def is_stale(self) -> bool:
        """The owner changed something meanwhile that it sees as it was."""
        if self.layer.kind == "read-only":
            return False
        reader = ChangeReader(self.layer, self.own)
        return await asyncio.to_thread(lambda: any(reader.list_stale()))


@asynccontextmanager
async def open_files(
    name: str, config: McpConfig, sandbox: Sandbox, effects: CommandEffects | None
) -> AsyncIterator[ServerFiles | None]:
    """None for a server that does not reach the workspace. Raises ToolError."""
    if sandbox.layers is None or not reaches(config, sandbox.workspace):
        yield None
        return
    is_whole = config.write == "workspace" and sandbox.kind == "bubblewrap"
    out = "" if is_whole else f"{OUT}/{name}"
    held = effects.held.find(f"server {name}") if effects else None
    async with sandbox.layers.open(f"server-{name}-{token_hex(4)}", held, out=out) as layer:
        files = ServerFiles(layer, sandbox, effects)
        if effects:
            note = ORIGIN.dump_json(effects.judge_server())
            await asyncio.to_thread(layer.note.write_bytes, note)
        try:
            yield files
        finally:
            await files.finish()


def reaches(config: McpConfig, root: Path) -> bool:
    """Whether its paths and this folder have something in common."""
    if config.url or config.sandbox == "off":
        return False
    places = [Path(path).expanduser().resolve() for path in config.paths]
    return any(one.is_relative_to(root) or root.is_relative_to(one) for one in places)
