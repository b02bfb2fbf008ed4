"""Where commands run: a bubblewrap, or landlock where that does not work, or nothing at all (DESIGN 6).

In both fences there is the workspace to write to, a read-only system, no network and a clean environment.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from daemon.core import value
from daemon.tools.shell import landlock
from daemon.tools.shell.process import WAIT_FOR_GO, run_process

SandboxKind = Literal["bubblewrap", "landlock", "none"]
SandboxChoice = Literal["auto", "bubblewrap"]

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
)
ETC_FILES = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "localtime", "timezone",
    "ssl/certs", "ssl/openssl.cnf", "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "ca-certificates", "mime.types",
    "os-release", "profile", "bash.bashrc", "java", "python3",
)  # fmt: skip
ETC_NETWORK_FILES = ("resolv.conf", "hosts", "host.conf", "gai.conf", "services", "protocols")
# Core files, file size (512-byte blocks), memory (KiB) and CPU seconds; a server may take more of the last two.
LIMITS = "ulimit -c 0; ulimit -f 4194304; ulimit -v 16777216; ulimit -t 3600; "
SERVER_LIMITS = "ulimit -c 0; ulimit -f 4194304; ulimit -v 134217728; "
# When the machine runs out of memory, the kernel ends this before the daemon.
OOM_FIRST = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; "
# Where the shell knows how, and only where it counts those in the sandbox alone.
PROCESS_LIMIT = "ulimit -u 1024 2>/dev/null || ulimit -p 1024 2>/dev/null; "
EXEC = 'exec "$@"'
PROBE_S = 5.0
NO_SANDBOX = "this machine has no sandbox: the command can reach everything that the daemon's user can, and the network"
WARNINGS: Mapping[SandboxKind, str] = {"bubblewrap": "", "landlock": "", "none": NO_SANDBOX}
DESCRIPTIONS: Mapping[SandboxKind, str] = {
    "bubblewrap": "bubblewrap: commands see the workspace only, and no network",
    "landlock": "landlock: commands read the workspace and the system, write in the workspace alone and have no network;"
    " they can see which other programs run, and a killed daemon may leave some of them running",
    "none": "none: a command can reach all that you can, so each one is asked about, and none runs for text from outside",
}


@value
class Sandbox:
    """How a command line becomes one that is fenced in. `workspace` is the only place a command can write to."""

    workspace: Path
    kind: SandboxKind

    @classmethod
    async def open(cls, workspace: Path) -> "Sandbox":
        """Try once what this machine can do."""
        root = await asyncio.to_thread(workspace.resolve)
        return cls(root, await probe(root))

    @property
    def warning(self) -> str:
        """What a person must know before saying yes to a command; empty when it is fenced in."""
        return WARNINGS[self.kind]

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of a command: nothing of the daemon's own."""
        place = {"TMPDIR": str(self.workspace)} if self.kind == "landlock" else {}
        return {
            "PATH": SEARCH_PATH,
            "HOME": str(self.workspace),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **place,
        }

    def wrap(self, inner: Sequence[str], network: bool = False) -> list[str]:
        """The command line that runs `inner` in here; `network`: it shares this machine's."""
        limited = self._limit(WAIT_FOR_GO + LIMITS, inner)
        if self.kind == "bubblewrap":
            variables = [
                word for name, value in self.env.items() for word in ("--setenv", name, value)
            ]
            places = [
                *_bind_writable([self.workspace]),
                *_protect_hooks(self.workspace),
                "--chdir",
                str(self.workspace),
            ]
            return [*bubblewrap_argv(network), "--clearenv", *variables, *places, "--", *limited]
        return self._wrap_landlock(limited, network=network, readable=(), writable=[self.workspace])

    def wrap_server(
        self,
        inner: Sequence[str],
        *,
        network: bool,
        writable: Sequence[Path],
        readable: Sequence[Path],
        env: Mapping[str, str],
        cwd: Path,
    ) -> list[str]:
        """The command line of a server that runs beside the daemon, such as an MCP server; it dies with the daemon.

        It reaches the system's programs and these places, and not the workspace unless that is one of them. `env` is all of
        its environment: start the line with exactly this (`env=`). Values never stand in the line, where other users of this
        machine could read them; variables of the daemon that come along all the same are unset. What does not exist is left out.
        """
        foreign = [name for name in os.environ if name not in env and name.isidentifier()]
        unset = f"unset {' '.join(foreign)}; " if foreign else ""
        limited = self._limit(unset + SERVER_LIMITS, inner)
        if self.kind == "bubblewrap":
            places = [
                *_bind_readable(readable),
                *_bind_writable(writable),
                *(word for one in writable for word in _protect_hooks(one)),
            ]
            return [
                *bubblewrap_argv(network),
                *places,
                "--dir",
                str(cwd),
                "--chdir",
                str(cwd),
                "--",
                *limited,
            ]
        return self._wrap_landlock(
            limited, network=network, readable=[*readable, cwd], writable=writable
        )

    def _limit(self, before: str, inner: Sequence[str]) -> list[str]:
        processes = PROCESS_LIMIT if self.kind == "bubblewrap" else ""
        return ["/bin/sh", "-c", before + OOM_FIRST + processes + EXEC, "sh", *inner]

    def _wrap_landlock(
        self,
        limited: Sequence[str],
        *,
        network: bool,
        readable: Iterable[Path],
        writable: Iterable[Path],
    ) -> list[str]:
        if self.kind == "none":
            return list(limited)
        settings = (
            Path("/etc") / name for name in (*ETC_FILES, *(ETC_NETWORK_FILES if network else ()))
        )
        system = [*(Path(place) for place in SYSTEM_FOLDERS), *settings, *readable]
        places = [word for place in system for word in ("--read", str(place))]
        places += [word for place in writable for word in ("--write", str(place))]
        wrapper = [sys.executable, "-I", "-S", str(Path(landlock.__file__))]
        return [*wrapper, *(["--network"] if network else []), *places, "--", *limited]


async def probe(workspace: Path) -> SandboxKind:
    """The best fence that works here: some systems have no bubblewrap, or forbid it to ordinary users."""
    if shutil.which("bwrap") and await _works(Sandbox(workspace, "bubblewrap")):
        return "bubblewrap"
    if landlock.is_supported() and await _works(Sandbox(workspace, "landlock")):
        return "landlock"
    return "none"


async def _works(sandbox: Sandbox) -> bool:
    argv = sandbox.wrap(["/bin/sh", "-c", "echo fenced"])
    try:
        ran = await run_process(
            argv,
            cwd=sandbox.workspace,
            env=sandbox.env,
            timeout_s=PROBE_S,
            max_chars=100,
            on_output=lambda text: None,
        )
    except OSError:
        return False
    return ran.exit_code == 0 and ran.output.strip() == "fenced"


def bubblewrap_argv(network: bool) -> list[str]:
    """The fence: own namespaces, no capabilities, it dies with the daemon and cannot type into its terminal; a bare system."""
    fence = [
        shutil.which("bwrap") or "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
    ]
    if network:
        fence.append("--share-net")
    settings = [word for name in ETC_FILES for word in _bind(Path("/etc") / name)]
    names = (
        [word for name in ETC_NETWORK_FILES for word in _bind_target(Path("/etc") / name)]
        if network
        else []
    )
    system = [word for place in SYSTEM_FOLDERS for word in _bind(Path(place))]
    own = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/run", "--dir", "/var"]
    return [*fence, *system, *settings, *names, *own]


def _bind(path: Path) -> list[str]:
    """As it is on this machine, read-only: a link stays a link, what does not exist is left out."""
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def _bind_target(path: Path) -> list[str]:
    """What a link leads to, in its place: names of hosts are often settled under /run, which is not there."""
    return ["--ro-bind", str(path.resolve()), str(path)] if path.exists() else []


def _bind_readable(places: Iterable[Path]) -> list[str]:
    return [
        word for place in places if place.exists() for word in ("--ro-bind", str(place), str(place))
    ]


def _bind_writable(places: Iterable[Path]) -> list[str]:
    return [
        word for place in places if place.exists() for word in ("--bind", str(place), str(place))
    ]


def _protect_hooks(place: Path) -> list[str]:
    """What a command finds in the workspace and may not change: programs that git would run for the owner, outside the fence."""
    hooks = place / ".git" / "hooks"
    real = hooks.is_dir() and not hooks.is_symlink() and not hooks.parent.is_symlink()
    return ["--ro-bind", str(hooks), str(hooks)] if real else []
