"""[tools] and [tools.shell] in config.toml; [tools.http] and [tools.web] are in
tools/web/config.py.
"""

from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from daemon.tools.policy.tool_approvals import ConfigApprovals
from daemon.tools.shell.safe_commands import PROGRAMS, READ_ONLY
from daemon.tools.shell.sandbox import SandboxChoice
from daemon.tools.web.config import NetConfig, WebConfig

RESERVED_FOLDERS = (
    *("agents", "skills", "logs", "files", "undo", "backups", "layers"),
    "mcp-packages",
)


def _check_program(program: str) -> str:
    if program not in PROGRAMS:
        raise ValueError(
            f"{program!r} has no grammar of harmless arguments; known: {', '.join(PROGRAMS)}"
        )
    return program


def _check_workspace(workspace: str) -> str:
    """Links and whole paths are looked at when HOME is known (settings/paths.py)."""
    place = PurePosixPath(workspace)
    if not place.is_absolute() and (
        not place.parts or ".." in place.parts or place.parts[0] in RESERVED_FOLDERS
    ):
        raise ValueError(
            "expected a folder with nothing of the daemon's in it: one under HOME, or the whole"
            " path of another"
        )
    return workspace


class ShellConfig(BaseModel):
    """How commands are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    timeout_s: float = Field(
        30, gt=0, le=3600, description="a command is killed after so many seconds"
    )
    max_output_chars: int = Field(
        4000, ge=200, le=200_000, description="longer results keep their beginning and their end"
    )
    allowed: list[Annotated[str, AfterValidator(_check_program)]] = Field(
        [*READ_ONLY],
        description="programs that need no approval in the owner's own chat when all their"
        " arguments only read; []: every command asks",
    )
    sandbox: SandboxChoice = Field(
        "auto", description='"auto": the best there is; "bubblewrap": without it no command runs'
    )
    copy_mb: float = Field(
        50,
        ge=0,
        le=100_000,
        description="a command works on a copy of a workspace up to this"
        " size, where the machine has no overlays",
    )
    layers: Path | None = Field(
        None,
        description="a folder outside the workspace for what commands write until they end;"
        " by default in HOME. In a container: on a volume",
    )
    background: int = Field(
        4, ge=0, le=100, description="so many commands may run in the background at a time"
    )
    background_minutes: float = Field(
        60, gt=0, le=60 * 24 * 7, description="a command in the background is killed after so long"
    )


class ToolsConfig(BaseModel):
    """Which tools there are, and when a person is asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: list[str] = Field([], description="only these tools, by name or pattern; empty: all")
    disabled: list[str] = Field([], description="not these tools, by name or pattern")
    approvals: ConfigApprovals = Field(
        ConfigApprovals(),
        description='"risk": ask before risky calls; "always": before every effect; or a table',
    )
    approval_minutes: float = Field(
        5, gt=0, le=60 * 24 * 30, description="how long a question stands"
    )
    protected_paths: list[str] = Field(
        [".env*", ".git/hooks", ".git/config"],
        description="ask before a file tool touches these, as they stand under the workspace",
    )
    workspace: Annotated[str, AfterValidator(_check_workspace)] = Field(
        "workspace", description="where files and commands live; relative to HOME"
    )
    shell: ShellConfig = Field(default_factory=ShellConfig, description="commands")
    http: NetConfig = Field(
        default_factory=NetConfig, description="requests to other machines, of every tool"
    )
    web: WebConfig = Field(default_factory=WebConfig, description="reading pages, and searching")
