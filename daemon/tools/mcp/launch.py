"""How a server is started: inside the sandbox, with an environment of its own and the places that the config names."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from daemon.core.errors import AidaemonError
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.session import Address, Launch

PASSED_ON = ("PATH", "HOME", "LANG", "TZ")
PATH = "/usr/local/bin:/usr/bin:/bin"


class NoFence(AidaemonError):
    """This machine has no sandbox."""


class Fence(Protocol):
    """What keeps a server from the rest of the machine."""

    @property
    def kind(self) -> str:
        """What there is; "none" when nothing is."""
        ...

    def argv_for(
        self,
        inner: Sequence[str],
        *,
        network: bool,
        writable: Sequence[Path],
        readable: Sequence[Path],
        env: Mapping[str, str],
        cwd: Path,
    ) -> list[str]:
        """The command line that runs `inner` behind it."""
        ...


def place_of(name: str, config: McpConfig, fence: Fence, folder: Path) -> Launch | Address:
    """Where the server is, or how to start it; `folder` is made for it, its home and the one place that it can always write to.

    Raises NoFence when it must be fenced in and cannot be.
    """
    if config.url:
        return Address(config.url, config.headers)
    inner = (_program(config.command), *config.args)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config.sandbox == "off":
        return Launch(inner, {**_own(), **config.env}, str(folder))
    if fence.kind == "none":
        raise NoFence(
            f"the MCP server {name} is not started: this machine has no sandbox. Install bubblewrap, "
            f'or set sandbox = "off" in [mcp.{name}] if it may do all that you may do'
        )
    env = {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8", **config.env}
    writable = [folder, *(Path(path).expanduser() for path in config.paths)]
    argv = fence.argv_for(
        inner, network=config.network, writable=writable, readable=readable_for(inner), env=env, cwd=folder
    )
    return Launch(tuple(argv), env, str(folder))


def readable_for(argv: Sequence[str]) -> list[Path]:
    """The program itself, the Python environment that it belongs to, and the files that the command line names."""
    program = Path(argv[0])
    named = [Path(word) for word in argv[1:] if word.startswith("/") and Path(word).is_file()]
    return [place for place in (program, *_environment(program), *named) if place.exists()]


def _environment(program: Path) -> list[Path]:
    """A venv is of no use without its packages, and these not without the interpreter that it was made from."""
    venv = program.parent.parent
    settings = venv / "pyvenv.cfg"
    if not settings.is_file():
        return []
    made_from = re.search(r"^home\s*=\s*(\S.*?)\s*$", settings.read_text(), re.MULTILINE)
    return [venv, Path(made_from[1]), Path(made_from[1]).parent / "lib"] if made_from else [venv]


def _program(command: str) -> str:
    found = shutil.which(Path(command).expanduser())
    return str(Path(found).absolute()) if found else command


def _own() -> dict[str, str]:
    return {"PATH": PATH} | {name: os.environ[name] for name in PASSED_ON if name in os.environ}
