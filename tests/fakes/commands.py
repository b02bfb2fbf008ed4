"""Commands in a workspace, each on its layer and merged, as the shell tool runs them."""

from pathlib import Path

from daemon.core.trust import Label
from daemon.tools.base import ToolContext
from daemon.tools.layers.layer import Layers
from daemon.tools.shell.process import ProcessResult, run_process
from daemon.tools.shell.run import Given, open_run
from daemon.tools.shell.sandbox import Sandbox, SandboxKind
from daemon.tools.workspace.command_effects import CommandEffects, HeldFiles

DEADLINE = 60


class Commands:
    """`obstacle`: why there is no overlay, for a copy. What is not merged lies beside the workspace."""

    def __init__(
        self,
        root: Path,
        kind: SandboxKind = "bubblewrap",
        effects: CommandEffects | None = None,
        obstacle: str = "",
        quarantine: Path | None = None,
    ) -> None:
        self.root, self.quarantine = root, quarantine or root.parent / "quarantine"
        self.layers = Layers(root, root.parent / "layers", self.quarantine / "held", obstacle)
        self.sandbox = Sandbox(root, kind, layers=self.layers)
        self.effects = effects
        if effects:
            effects.held = HeldFiles(self.quarantine)

    async def run(
        self, line: str, context: ToolContext, label: Label = Label.TRUSTED, maker: str = ""
    ) -> tuple[ProcessResult, Label, str]:
        """What it printed, the label of that, and what did not come over."""
        given = Given(["/bin/bash", "-c", line])
        async with open_run(self.sandbox, given, context, label, self.effects, maker) as run:
            try:
                ran = await run_process(run.argv, run.cwd, run.env, DEADLINE, 4000, start=run.start)
            finally:
                found, note = await run.finish()
        return ran, found, note
