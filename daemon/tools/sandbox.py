"""Where commands run: a bubblewrap with the workspace, a read-only system and no network, or nothing at all (DESIGN 6)."""

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from daemon.tools.process import GATE, run_process

Kind = Literal["bubblewrap", "none"]
Wanted = Literal["auto", "bubblewrap"]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store")
SETTINGS = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "localtime", "timezone",
    "ssl", "pki", "ca-certificates", "mime.types", "os-release", "profile", "bash.bashrc", "java", "python3",
)  # fmt: skip
# Core files, file size (512-byte blocks) and memory (KiB); processes where the shell knows how, which only a sandbox can count.
LIMITS = "ulimit -c 0; ulimit -f 4194304; ulimit -v 16777216; "
PROCESSES = "ulimit -u 1024 2>/dev/null || ulimit -p 1024 2>/dev/null; "
PROBE_S = 5.0
UNSANDBOXED = "this machine has no sandbox: the command can reach everything that the daemon's user can, and the network"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a command line becomes one that is fenced in. `workspace` is the only place it can write to."""

    workspace: Path
    kind: Kind

    @classmethod
    async def open(cls, workspace: Path) -> "Sandbox":
        """Try once what this machine can do."""
        root = await asyncio.to_thread(workspace.resolve)
        return cls(root, await probe(root))

    @property
    def warning(self) -> str:
        """What a person must know before saying yes to a command; empty when it is fenced in."""
        return "" if self.kind == "bubblewrap" else UNSANDBOXED

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of a command: nothing of the daemon's own."""
        return {"PATH": PATH, "HOME": str(self.workspace), "LANG": "C.UTF-8", "TERM": "dumb"}

    def argv(self, inner: Sequence[str]) -> list[str]:
        """The command line that runs `inner` in here."""
        if self.kind == "none":
            return ["/bin/sh", "-c", GATE + LIMITS + 'exec "$@"', "sh", *inner]
        limited = ["/bin/sh", "-c", GATE + LIMITS + PROCESSES + 'exec "$@"', "sh", *inner]
        return [*bubblewrap(self.workspace, self.env), "--", *limited]


async def probe(workspace: Path) -> Kind:
    """Whether bubblewrap is here and may do its work (some systems forbid it to ordinary users)."""
    if not shutil.which("bwrap"):
        return "none"
    sandbox = Sandbox(workspace, "bubblewrap")
    argv = sandbox.argv(["/bin/sh", "-c", "echo fenced"])
    try:
        ran = await run_process(
            argv, cwd=workspace, env=sandbox.env, timeout_s=PROBE_S, max_chars=100, on_output=lambda text: None
        )
    except OSError:
        return "none"
    return "bubblewrap" if ran.exit_code == 0 and ran.output.strip() == "fenced" else "none"


def bubblewrap(workspace: Path, env: dict[str, str]) -> list[str]:
    """The fence: own namespaces, no network, no capabilities, it dies with the daemon and cannot type into its terminal."""
    fence = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    variables = [word for name, value in env.items() for word in ("--setenv", name, value)]
    settings = [word for name in SETTINGS for word in _bound(Path("/etc") / name)]
    system = [word for place in SYSTEM for word in _bound(Path(place))]
    own = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/run", "--dir", "/var"]
    place = ["--bind", str(workspace), str(workspace), "--chdir", str(workspace)]
    return [*fence, "--clearenv", *variables, *system, *settings, *own, *place]


def _bound(path: Path) -> list[str]:
    """As it is on this machine, read-only: a link stays a link, what does not exist is left out."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []
