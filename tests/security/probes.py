"""What a command may do in each kind of sandbox, started by root and by an ordinary user: the table of probes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from daemon.tools.shell import landlock
from daemon.tools.shell.sandbox import NOBODY, Sandbox, SandboxKind, ServerPlaces

INSIDE = Path(__file__).with_name("probe_inside.py")
PYTHON = "/usr/bin/python3"
Who = tuple[str, SandboxKind]
IS_ROOT = os.geteuid() == 0
USERS = ("root", "user") if IS_ROOT else ("user",)
WAYS: tuple[Who, ...] = tuple(
    (user, kind) for user in USERS for kind in ("bubblewrap", "landlock", "none")
)
# What landlock cannot keep from a command.
LEFT: Mapping[str, set[str]] = {
    "bubblewrap": set(),
    "landlock": {"change the mode of a file outside", "see other processes"},
}


@contextmanager
def grounds(user: str) -> Iterator[Path]:
    """A workspace of this user beside a secret, with a service that listens on three kinds of sockets."""
    with tempfile.TemporaryDirectory(prefix="aidaemon-probes-") as name:
        outside = Path(name).resolve()
        (outside / "workspace" / "made").mkdir(parents=True)
        (outside / "secret.txt").write_text("hush")
        shutil.copy(INSIDE, outside / "workspace")
        shutil.copy(landlock.__file__, outside)
        if user == "user" and IS_ROOT:
            for place in (outside, *outside.rglob("*")):
                os.chown(place, int(NOBODY), int(NOBODY))
        yield outside


def probe(
    user: str, kind: SandboxKind, network: bool = False, *, server: bool = False
) -> Mapping[str, bool]:
    """What a command or an MCP server may do, by name. Raises RuntimeError when the sandbox cannot be built."""
    with (
        grounds(user) as outside,
        socket.create_server(("127.0.0.1", 0)) as service,
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract_name = outside.name
        local.bind(str(outside / "service"))
        abstract.bind("\0" + abstract_name)
        for one in (local, abstract):
            one.listen()
        if user == "user" and IS_ROOT:
            os.chown(outside / "service", int(NOBODY), int(NOBODY))
        place = outside / "workspace"
        words = [
            PYTHON,
            "probe_inside.py",
            str(outside),
            str(os.getpid()),
            str(service.getsockname()[1]),
            abstract_name,
        ]
        sandbox = Sandbox(place, kind)
        line = sandbox.wrap(words, network=network)
        if server:
            line = sandbox.wrap_server(
                words, network=network, places=ServerPlaces([place]), env=sandbox.env, cwd=place
            )
        return run(user, sandbox, line)


def run(user: str, sandbox: Sandbox, argv: list[str]) -> Mapping[str, bool]:
    copied = str(sandbox.workspace.parent / Path(landlock.__file__).name)
    words = [{sys.executable: PYTHON, landlock.__file__: copied}.get(word, word) for word in argv]
    nobody = int(NOBODY) if user == "user" and IS_ROOT else None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"\n")
        done = subprocess.run(
            words, stdin=theirs.fileno(), capture_output=True, text=True, timeout=60, check=False, cwd=sandbox.workspace,
            env=dict(sandbox.env), start_new_session=True, user=nobody, group=nobody,
            extra_groups=() if nobody else None,
        )  # fmt: skip
    line = next((one for one in done.stdout.splitlines() if one.startswith("PROBED ")), None)
    if line is None:
        raise RuntimeError(f"{user}, {sandbox.kind}: {done.stdout}{done.stderr}")
    return json.loads(line.removeprefix("PROBED "))


def probe_table(may: Mapping[Who, Mapping[str, bool]]) -> list[str]:
    """A line for each probe, a column for each way to run a command."""
    ways = [f"{user}, {kind}" for user, kind in may]
    lines = [" " * 36 + "  ".join(f"{way:>16}" for way in ways)]
    for name in next(iter(may.values())):
        cells = ("MAY" if found[name] else "-" for found in may.values())
        lines.append(f"{name:<36}" + "  ".join(f"{cell:>16}" for cell in cells))
    return lines
