"""Where commands run: in bubblewrap, else under landlock, else unprotected (docs/trust.md).

Both sandboxes give a writable workspace, a read-only system, no network and a clean environment.
"""

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Literal

from daemon.core import value
from daemon.tools.base import ToolError
from daemon.tools.layers.layer import COPY_MB, MOUNT, Layer, Layers
from daemon.tools.layers.runs_later import list_closed
from daemon.tools.shell import landlock
from daemon.tools.shell.network import (
    NEEDS_BUBBLEWRAP,
    CheckAddress,
    NetworkProxy,
    allow_any,
    open_proxy,
    parse_domains,
)
from daemon.tools.shell.process import (
    WAIT_FOR_GO,
    ProcessResult,
    SandboxKind,
    Start,
    run_process,
)
from daemon.tools.web.guard import AddressGuard
from daemon.tools.workspace.command_effects import HeldFiles

SandboxChoice = Literal["auto", "bubblewrap"]

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_PROGRAMS = "/run/bin"
SYSTEM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store",
)  # fmt: skip
ETC_FILES = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group",
    "nsswitch.conf", "localtime", "timezone", "ssl/certs", "ssl/openssl.cnf", "pki/ca-trust",
    "pki/tls/certs", "pki/tls/cert.pem", "ca-certificates", "mime.types", "os-release", "profile",
    "bash.bashrc", "java", "python3", "fonts", "chromium.d",
)  # fmt: skip
ETC_NETWORK_FILES = ("resolv.conf", "hosts", "host.conf", "gai.conf", "services", "protocols")
# Core files, file size (512-byte blocks), memory (KiB), CPU seconds; servers get more memory.
LIMITS = "ulimit -c 0; ulimit -f 4194304; ulimit -v 16777216; ulimit -t 3600; "
SERVER_LIMITS = "ulimit -c 0; ulimit -f 4194304; ulimit -v 134217728; "
# When the machine runs out of memory, the kernel kills this before the daemon.
OOM_FIRST = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; "
# Only where the limit counts the processes in the sandbox alone, and the shell knows how.
PROCESS_LIMIT = "ulimit -u 1024 2>/dev/null || ulimit -p 1024 2>/dev/null; "
PROBE_S = 5.0
PROBE, PROBED = "probe-", ".aidaemon-probe"
PROBE_SCRIPT = f"mkdir {PROBED} && : >{PROBED}/a && rm {PROBED}/a && ls >/dev/null"
# The id in the sandbox of a daemon that runs as root: no capability, and nobody's name.
NOBODY = "65534"
HIDDEN_PROC = ("keys", "key-users", "kcore", "kallsyms")
AS_ROOT = (
    "the daemon runs as root, and bubblewrap does not work on this machine: a command would be"
    " root. Nothing was run. Run the daemon as an ordinary user, or install bubblewrap and allow"
    " user namespaces; see aidaemon doctor"
)
DESCRIPTIONS = {
    "bubblewrap": "bubblewrap: commands see the workspace only, and no network",
    "landlock": "landlock: commands read the workspace and the system, write in the workspace"
    " alone and have no network; they can see which other programs run, and change the modes of"
    " your other files",
    "none": "none: a command can reach all that you can, so each one is asked about, and none runs"
    " for text from outside",
}


@value
class ServerPlaces:
    """What a server may write and read; what of it lies in the workspace it sees by its `layer`."""

    writable: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    layer: Layer | None = None


@value
class Sandbox:
    """Builds command lines that run inside the sandbox; only `workspace` is writable there."""

    workspace: Path
    kind: SandboxKind
    refusal: str = ""  # why nothing runs here at all
    layers: Layers | None = None  # without, commands work in the workspace itself
    guard: AddressGuard = field(default_factory=AddressGuard, compare=False, repr=False)

    @classmethod
    async def open(
        cls,
        workspace: Path,
        quarantine: Path | None = None,
        layers: Path | None = None,
        guard: AddressGuard | None = None,
        copy_mb: float = COPY_MB,
    ) -> "Sandbox":
        """Find out once what this machine supports."""
        root = await asyncio.to_thread(workspace.resolve)
        kind = await probe(root)
        refusal = AS_ROOT if os.geteuid() == 0 and kind != "bubblewrap" else ""
        made = cls(root, kind, refusal, None, guard or AddressGuard())
        if quarantine and layers:
            found = Layers(root, layers, HeldFiles(quarantine).find(), "", copy_mb)
            return replace(made, layers=await made.probe_layers(found))
        return made

    async def probe_layers(self, layers: Layers) -> Layers:
        """Try an overlay: what is appended, added and deleted on it has to stand on it."""
        if self.kind != "bubblewrap":
            return replace(layers, obstacle="bubblewrap does not work here")
        if layers.folder.is_relative_to(self.workspace):
            return replace(layers, obstacle="its folder lies in the workspace")
        try:
            async with layers.open(f"{PROBE}{token_hex(4)}") as layer:
                argv = self.wrap(["/bin/sh", "-c", PROBE_SCRIPT], layer=layer)
                start = Start(fds=(layer.lock,))
                ran = await run_process(
                    argv, self.workspace, self.env, PROBE_S, max_chars=400, start=start
                )
                if ran.exit_code == 0 and (layer.upper / PROBED).is_dir():
                    return layers
                return replace(layers, obstacle=ran.output.strip() or "it did not work")
        except (OSError, ToolError) as error:
            return replace(layers, obstacle=str(error))

    def check_domains(self, domains: Iterable[str]) -> None:
        """Raises ToolError where a command cannot have the network by domain."""
        if parse_domains(domains) and self.kind != "bubblewrap":
            raise ToolError(f"{NEEDS_BUBBLEWRAP}.")

    def open_proxy(
        self,
        domains: Sequence[str],
        check: CheckAddress = allow_any,
        heard: Callable[[str], object] = str,
    ) -> AbstractAsyncContextManager[NetworkProxy]:
        """The network of one command, by domain. Raises ToolError."""
        self.check_domains(domains)
        return open_proxy(domains, self.guard, check, heard)

    @property
    def env(self) -> dict[str, str]:
        """The environment of what works in the workspace itself."""
        return self.find_env(None)

    def wrap(
        self,
        command: Sequence[str],
        network: bool = False,
        hidden: Sequence[Path] = (),
        layer: Layer | None = None,
        proxy: NetworkProxy | None = None,
        *,
        reads: bool = False,
    ) -> list[str]:
        """The command line that runs `command` in the sandbox, on this layer or in the workspace
        itself, which it only `reads`; bubblewrap hides places of it.
        """
        env = {**self.find_env(layer), **(proxy.env if proxy else {})}
        options = ["--clearenv", *(word for item in env.items() for word in ("--setenv", *item))]
        line, place = [WAIT_FOR_GO + LIMITS, *command], self.workspace
        if self.kind != "bubblewrap":
            cwd = self.find_cwd(layer)
            readable, writable = ([place], []) if reads else ([], [cwd])
            if layer:
                closed = layer.kind == "read-only"
                readable = [place] if closed else []
                writable = [layer.upper / layer.out if closed else cwd, layer.tmp]
            return self._wrap(line, network, readable, writable, cwd, options, proxy)
        is_closed = reads or (layer and layer.kind == "read-only")
        readable, writable = ([place], []) if is_closed else ([], [place])
        wrapped = self._wrap(line, network, readable, writable, place, options, proxy)
        end = wrapped.index("--")
        over = _list_over(place, layer)
        wrapped = [*wrapped[:end], *over, *_hide(hidden), *_name_python(), *wrapped[end:]]
        return _put_on(layer, wrapped) if layer and layer.kind == "overlay" else wrapped

    def find_cwd(self, layer: Layer | None) -> Path:
        """Where a command works, as the daemon sees it."""
        is_copy = self.kind != "bubblewrap" and layer is not None and layer.kind == "copy"
        return layer.upper if is_copy and layer else self.workspace

    def find_env(self, layer: Layer | None) -> dict[str, str]:
        """Its whole environment: nothing of the daemon's own."""
        home = str(self.find_cwd(layer))
        is_inside = self.kind == "bubblewrap"
        tmp = "/tmp" if is_inside else str(layer.tmp) if layer else home
        extra = self.find_out(layer)
        if self.kind == "landlock":
            extra["TMPDIR"] = tmp
        # What Python compiles is nobody's but this command's: no other program's part.
        extra["PYTHONPYCACHEPREFIX"] = f"{tmp}/pycache"
        extra["GIT_CONFIG_NOSYSTEM"] = "1"
        # HOME is the workspace: start-up files there were not what was asked about.
        extra |= {"PYTHONNOUSERSITE": "1", "GIT_CONFIG_GLOBAL": f"{home}/.gitconfig"}
        return {"PATH": SEARCH_PATH, "HOME": home, "LANG": "C.UTF-8", "TERM": "dumb", **extra}

    def find_out(self, layer: Layer | None) -> dict[str, str]:
        """The variable by which a program finds what it may write of a read-only workspace."""
        if not layer or layer.kind != "read-only":
            return {}
        root = self.workspace if self.kind == "bubblewrap" else layer.upper
        return {"OUT": str(root / layer.out)}

    def wrap_server(
        self,
        inner: Sequence[str],
        *,
        network: bool,
        places: ServerPlaces,
        env: Mapping[str, str],
        cwd: Path,
        proxy: NetworkProxy | None = None,
    ) -> list[str]:
        """The command line of a server beside the daemon, such as an MCP server. It reaches the
        system's programs and the given places; missing ones are skipped. What runs later is closed
        in them; landlock closes the whole place. Start it with exactly `env`: values never stand in
        the command line, where others could read them; other variables of the daemon are unset.
        """
        foreign = [name for name in os.environ if name not in env and name.isidentifier()]
        unset = f"unset {' '.join(foreign)}; " if foreign else ""
        line = [unset + SERVER_LIMITS, *inner]
        layer, writable = places.layer, places.writable
        is_closed = layer is not None and layer.kind == "read-only"
        above = self.kind == "bubblewrap"  # landlock takes nothing out of a folder
        shared = [one for one in writable if is_closed and self._is_shared(one, above=not above)]
        if not above:
            shared += find_shut([one for one in writable if one not in (cwd, *shared)])
        own = [one for one in writable if one not in shared]
        readable = [*places.readable, *shared]
        if self.kind != "bubblewrap":
            own += [layer.upper / layer.out] if layer and is_closed else []
            return self._wrap(line, network, readable, own, cwd, [], proxy)
        wrapped = self._wrap(line, network, readable, own, cwd, [], proxy)
        outside = [one.resolve() for one in own if one.is_dir() and not self._is_shared(one)]
        shut = _bind("--ro-bind", [self.workspace] if is_closed else [])
        closed = (_bind("--ro-bind", list_closed(place)) for place in outside)
        end = wrapped.index("--")
        over = _list_over(self.workspace, layer)
        wrapped = [*wrapped[:end], *chain.from_iterable(closed), *shut, *over, *wrapped[end:]]
        return _put_on(layer, wrapped) if layer and layer.kind == "overlay" else wrapped

    def _is_shared(self, place: Path, *, above: bool = False) -> bool:
        """It lies in the workspace, or with `above` the workspace in it."""
        found = place.resolve()
        is_above = above and self.workspace.is_relative_to(found)
        return is_above or found.is_relative_to(self.workspace)

    def wrap_own(self, inner: Sequence[str], script: Path, *more: Path) -> list[str]:
        """The command line of a program of ours that reads strangers' bytes: it reaches the system,
        Python and `more`, writes nowhere and has no network.
        """
        readable = [Path(sys.prefix), Path(sys.base_prefix), script, *more]
        return self.wrap_server(
            inner, network=False, places=ServerPlaces((), readable), env={}, cwd=script.parent
        )

    def _wrap(
        self,
        line: Sequence[str],
        network: bool,
        readable: Sequence[Path],
        writable: Sequence[Path],
        cwd: Path,
        options: Sequence[str],
        proxy: NetworkProxy | None,
    ) -> list[str]:
        """`line` is a script to run first, and the words of the command."""
        is_bubblewrap = self.kind == "bubblewrap"
        script = f'{line[0]}{OOM_FIRST}{PROCESS_LIMIT * is_bubblewrap}exec "$@"'
        limited = ["/bin/sh", "-c", script, "sh", *line[1:]]
        if self.kind == "none":
            return limited
        if is_bubblewrap:
            first, own = (proxy.words, proxy.places) if proxy else ((), ())
            places = [*_bind("--ro-bind", (*readable, *own)), *_bind("--bind", writable)]
            folder = ["--dir", str(cwd), "--chdir", str(cwd)]
            return [*bubblewrap_argv(network), *options, *places, *folder, "--", *first, *limited]
        etc = (f"/etc/{name}" for name in (*ETC_FILES, *(ETC_NETWORK_FILES * network)))
        words = [sys.executable, "-I", "-S", landlock.__file__, *(["--network"] * network)]
        for place in (*SYSTEM_FOLDERS, *etc, *readable, cwd):
            words += ["--read", str(place)]
        for place in writable:
            words += ["--write", str(place)]
        return [*words, "--", *limited]


def find_shut(places: Iterable[Path]) -> list[Path]:
    """Those in which, or around which, something runs later: landlock closes them whole, as it
    takes nothing out of a folder.
    """
    found = dict[Path, Sequence[Path]]()
    for place in places:
        root = place.resolve()
        try:
            found[place] = list_closed(root)
        except ToolError:  # too many
            found[place] = [root]
    closed = [*chain.from_iterable(found.values())]
    return [
        place
        for place, inside in found.items()
        if inside or any(map(place.resolve().is_relative_to, closed))
    ]


@cache
def _list_working(bwrap: str | None, path: str, user: int) -> list[SandboxKind]:
    """What was found to work on this machine for this user; `probe` adds it."""
    return []


async def probe(workspace: Path) -> SandboxKind:
    """The best sandbox that works: some systems forbid bubblewrap to ordinary users. One that was
    found to work is not tried again in this process.
    """
    working = _list_working(shutil.which("bwrap"), os.environ.get("PATH", ""), os.geteuid())
    if working:
        return working[0]
    kinds: tuple[SandboxKind, ...] = ("bubblewrap", "landlock")
    fits = shutil.which("bwrap") and shutil.which("bash")
    for kind in kinds if fits and platform.machine() in landlock.MACHINES else kinds[1:]:
        sandbox = Sandbox(workspace, kind)
        argv = sandbox.wrap(["/bin/sh", "-c", "echo works"])
        with suppress(OSError):
            ran = await run_process(argv, workspace, sandbox.env, PROBE_S, max_chars=100)
            if ran == ProcessResult(0, "works\n"):
                working.append(kind)
                return kind
    return "none"


def bubblewrap_argv(network: bool) -> list[str]:
    """Own namespaces, no capabilities, never root, a filter of system calls; dies with the daemon,
    cannot type into its terminal. With the network, no local sockets: some have no file to hide.
    """
    local = () if network else (landlock.UNIX,)
    calls = landlock.build_filter((*local, landlock.INET, landlock.INET6, landlock.NETLINK))
    written = "".join(f"\\{byte:03o}" for byte in calls)
    words = [
        # Only bash gives a program a file that is none.
        shutil.which("bash") or "bash", "-pc", f"exec \"$@\" 9< <(printf '{written}')", "bash",
        shutil.which("bwrap") or "bwrap", "--unshare-all", "--unshare-user", "--die-with-parent",
        "--new-session", "--cap-drop", "ALL", "--seccomp", "9", *(["--share-net"] * network),
    ]  # fmt: skip
    if os.geteuid() == 0:
        words += ["--uid", NOBODY, "--gid", NOBODY]
    for path in map(Path, (*SYSTEM_FOLDERS, *(f"/etc/{name}" for name in ETC_FILES))):
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        else:
            words += _bind("--ro-bind", [path])
    for path in (Path("/etc", name) for name in ETC_NETWORK_FILES if network):
        # The target in the link's place: it often lies in /run, which is empty in the sandbox.
        if path.exists():
            words += ["--ro-bind", str(path.resolve()), str(path)]
    folders = ("--tmpfs", "/tmp", "--dir", "/run", "--dir", "/var")
    # In a user namespace, too, the kernel lets root's own processes write there.
    closed = ["--ro-bind", "/proc/sys", "/proc/sys"]
    for path in (Path("/proc", name) for name in HIDDEN_PROC):
        closed += ["--ro-bind", "/dev/null", str(path)] * path.exists()
    return [*words, "--proc", "/proc", "--dev", "/dev", *closed, *folders]


def _list_over(place: Path, layer: Layer | None) -> list[str]:
    """What stands in the place of the workspace, or of its folder `out`."""
    if layer and layer.kind == "copy":
        return ["--bind", str(layer.upper), str(place)]
    if layer and layer.kind == "read-only":
        return ["--bind", str(layer.upper / layer.out), str(place / layer.out)]
    return []


def _put_on(layer: Layer, line: Sequence[str]) -> list[str]:
    """The line of bubblewrap in a user namespace in which the layer lies over the workspace."""
    shell, flag, script, name, *rest = line
    words = [
        shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount",
        shell, flag, MOUNT + script, name, *layer.mount_words,
    ]  # fmt: skip
    user = [] if "--uid" in rest else ["--uid", str(os.geteuid()), "--gid", str(os.getegid())]
    at = rest.index("--")
    return [*words, *rest[:at], *user, "--sync-fd", str(layer.lock), *rest[at:]]


def _name_python() -> list[str]:
    """`python` is python3 where the system has no program of that name."""
    found = shutil.which("python3", path=SEARCH_PATH)
    if not found or shutil.which("python", path=SEARCH_PATH):
        return []
    link = ["--dir", OWN_PROGRAMS, "--symlink", found, f"{OWN_PROGRAMS}/python"]
    return [*link, "--setenv", "PATH", f"{SEARCH_PATH}:{OWN_PROGRAMS}"]


def _hide(places: Iterable[Path]) -> list[str]:
    """In the place of a file there is nothing to read, in that of a folder an empty one."""
    words: list[str] = []
    for place in places:
        words += (
            ["--tmpfs", str(place)] if place.is_dir() else ["--ro-bind", "/dev/null", str(place)]
        )
    return words


def _bind(flag: str, places: Iterable[Path]) -> list[str]:
    return [word for one in places if one.exists() for word in (flag, str(one), str(one))]
