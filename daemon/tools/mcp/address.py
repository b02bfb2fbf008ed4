"""How a server of the config is reached, or started in its sandbox, and which files that runs."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from daemon.core.errors import ConfigError
from daemon.tools.layers.layer import Layer
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.packages import FOLDER, find_folder, list_variables
from daemon.tools.mcp.pins import ToolPin, pin_program
from daemon.tools.mcp.tools import ProcessAddress, UrlAddress
from daemon.tools.shell.network import NetworkProxy
from daemon.tools.shell.sandbox import SYSTEM_FOLDERS, Sandbox, ServerPlaces

PASSED_VARIABLES = ("PATH", "HOME", "LANG", "TZ")
PATH = "/usr/local/bin:/usr/bin:/bin"
SCRIPT = re.compile(r"\.(?:py|pyz|[cm]?[jt]s|sh|rb|pl|php|jar|lua)$")


def server_address(
    name: str,
    config: McpConfig,
    sandbox: Sandbox,
    folder: Path,
    proxy: NetworkProxy | None = None,
    layer: Layer | None = None,
) -> ProcessAddress | UrlAddress:
    """Where the server is, or how to start it; `folder` is its home and always writable.

    Raises ConfigError when it needs a sandbox and there is none.
    """
    if config.url:
        return UrlAddress(config.url, config.headers)
    program = shutil.which(Path(config.command).expanduser())
    command = str(Path(program).absolute()) if program else config.command
    inner = (command, *config.args)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config.sandbox == "off":
        passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
        return ProcessAddress(inner, {"PATH": PATH, **passed, **config.env}, str(folder))
    if sandbox.kind == "none":
        raise ConfigError(
            f"the MCP server {name} is not started: this machine has no sandbox. Install"
            f' bubblewrap, or set sandbox = "off" in [mcp.{name}] if it may do all that you may do'
        )
    if sandbox.refusal:
        raise ConfigError(f"the MCP server {name} is not started: {sandbox.refusal}")
    more, fds = (proxy.env, proxy.fds) if proxy else ({}, ())
    # What is compiled is not pinned, so it is compiled anew.
    own = {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8", "PYTHONPYCACHEPREFIX": "/tmp/pyc"}
    outside = list_variables() if config.network or config.domains else {}
    env = {**own, **sandbox.find_out(layer), **outside, **more, **config.env}
    installed = find_folder(inner, folder.parent.with_name(FOLDER) / name)
    # what a package says of itself opens no folder of its owner's
    program = _readable_paths(inner) if installed is None else [installed, *list_interpreter()]
    readable = [*program, *map(Path, outside.values())]
    writable = [folder, *(Path(path).expanduser() for path in config.paths)]
    argv = sandbox.wrap_server(
        inner,
        network=config.network,
        places=ServerPlaces(writable, readable, layer),
        env=env,
        cwd=folder,
        proxy=proxy,
    )
    lock = (layer.lock,) if layer else ()
    return ProcessAddress(tuple(argv), env, str(folder), (*fds, *lock), is_sandboxed=True)


def list_interpreter() -> list[Path]:
    """Of Python, and of node where that is no program of the system's."""
    node = shutil.which("node")
    return [Path(sys.base_prefix), *([Path(node)] if node else [])]


def pin_command(config: McpConfig) -> ToolPin:
    """What its command runs, as it is now; in a thread."""
    found = shutil.which(Path(config.command).expanduser())
    inner = (str(found or config.command), *config.args)
    return pin_program(inner, _list_program(inner))


def _list_program(inner: Sequence[str]) -> list[Path]:
    """What is plain: the program, scripts named in the command and the packages beside them, what
    its Python environment has installed. The system's own programs are the system's: an upgrade of
    it asks nothing.
    """
    program, words = Path(inner[0]), inner[1:]
    scripts = [Path(word).expanduser().absolute() for word in words if SCRIPT.search(word)]
    found = [place for place in (program, *scripts) if place.is_file()]
    found += [place.parent for place in scripts if (place.parent / "package.json").is_file()]
    for place in (one for one in scripts if FOLDER in one.parts):
        whole = [one for one in place.parents if (one / "package.json").is_file()]
        found += [*whole[:1], *(one / "package-lock.json" for one in whole[-1:])]
    above = program.parent.parent
    if (above / "pyvenv.cfg").is_file():
        for packages in above.glob("lib/python*/site-packages"):
            found += [*packages.glob("*.dist-info/RECORD"), *packages.glob("*.pth")]
            if "-m" in words[:-1]:
                found.append(packages / words[words.index("-m") + 1].partition(".")[0])
    return [place for place in found if not str(place.resolve()).startswith(SYSTEM_FOLDERS)]


def _readable_paths(argv: Sequence[str]) -> list[Path]:
    """The program, its Python environment with the interpreter, and files named in the command."""
    program = Path(argv[0])
    found = [program, *(Path(word) for word in argv[1:] if word.startswith("/"))]
    paths = [path for path in found if path.is_file()]
    settings = program.parent.parent / "pyvenv.cfg"
    if settings.is_file():
        paths.append(settings.parent)
        home = re.search(r"^home\s*=\s*(\S.*?)\s*$", settings.read_text(), re.MULTILINE)
        if home:
            paths += [Path(home[1]), Path(home[1]).parent / "lib"]
    return [path for path in paths if path.exists()]
