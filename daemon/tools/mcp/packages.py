"""Servers as their READMEs start them (`npx`, `uvx`, `python -m`): installed once, with the
network, into a folder of their own that the server only reads (G2).
"""

import asyncio
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex

from pydantic import BaseModel, ValidationError

from daemon.core import value
from daemon.core.errors import AidaemonError, UsageError
from daemon.tools.mcp.tools import sanitize
from daemon.tools.shell.process import run_process
from daemon.tools.shell.sandbox import Sandbox, ServerPlaces

INSTALL_S, SAID_CHARS = 600.0, 2000
FOLDER = "mcp-packages"
NPM_PACKAGE = re.compile(r"(@\w[\w.~-]*/)?\w[\w.~-]*(@[\w.^~<>=*-]+)?")
PYTHON_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?((@|[=<>~!]=?)[\w.*+!,<>=~-]+)?")
# What says where packages, servers and certificates are found; no other variable is passed on.
NETWORK_VARIABLES = re.compile(
    r"(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE"
    r"|CURL_CA_BUNDLE",
    re.IGNORECASE,
)
INDEX_VARIABLES = re.compile(
    r"PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|CERT)|UV_(?:INDEX|DEFAULT_INDEX)"
    r"|npm_config_(?:registry|cafile)",
    re.IGNORECASE,
)
SETTINGS = ("~/.npmrc", "~/.config/pip", "~/.config/uv", "/etc/pip.conf", "/etc/npmrc")


class InstallFailed(AidaemonError):
    """The package could not be installed; nothing was kept."""


@value
class ServerCommand:
    """How a README says that a server is started. `package` is what to install first, "" for a
    program that is there; `runner` what installs it.
    """

    runner: str
    package: str
    program: str
    args: tuple[str, ...]


def parse_command(words: Sequence[str]) -> ServerCommand:
    """Raises UsageError for what does not name a package or a program."""
    if not words:
        raise UsageError("the command is missing: aidaemon mcp add NAME -- npx -y PACKAGE")
    runner, rest = Path(words[0]).name, list(words[1:])
    if (runner, rest[:2]) == ("uv", ["tool", "run"]):
        runner, rest = "uvx", rest[2:]
    if runner == "npx":
        return _parse_runner("npm", rest, ("-p", "--package"), ("-y", "--yes"), NPM_PACKAGE)
    if runner == "uvx":
        return _parse_runner("python", rest, ("--from",), (), PYTHON_PACKAGE)
    module = rest[1] if rest[:1] == ["-m"] and rest[1:] else ""
    if runner.startswith("python") and module and not _is_here(module):
        return ServerCommand("python", module.replace("_", "-"), f"-m {module}", tuple(rest[2:]))
    if shutil.which(Path(words[0]).expanduser()) is None:
        raise UsageError(f"there is no program {words[0]!r}; expected npx, uvx, or one that is")
    return ServerCommand("", "", words[0], tuple(rest))


def _is_here(module: str) -> bool:
    """Our own Python has it; what is above it is not imported."""
    with suppress(ValueError):
        return find_spec(module.partition(".")[0]) is not None
    return False


def _parse_runner(
    runner: str,
    words: list[str],
    named: Sequence[str],
    flags: Sequence[str],
    form: re.Pattern[str],
) -> ServerCommand:
    package = ""
    while words and words[0].startswith("-"):
        flag, _, given = words.pop(0).partition("=")
        if flag in named and (given or words):
            package = given or words.pop(0)
        elif flag not in flags:
            raise UsageError(f"{flag} is not known here; expected {' or '.join((*flags, *named))}")
    if not words:
        raise UsageError("the package is missing")
    program = words.pop(0)
    package = package or program
    if not form.fullmatch(package):
        raise UsageError(f"{package!r} is no package's name; an address or a path is not installed")
    return ServerCommand(runner, package, program if program != package else "", tuple(words))


def list_variables(*, indexes: bool = False) -> dict[str, str]:
    """Of our own environment: proxies and certificates; with `indexes` where packages are, too."""
    return {
        name: text
        for name, text in os.environ.items()
        if NETWORK_VARIABLES.fullmatch(name) or (indexes and INDEX_VARIABLES.fullmatch(name))
    }


async def install(command: ServerCommand, place: Path, sandbox: Sandbox) -> tuple[str, ...]:
    """Install it in a fresh folder of `place`, and the words that start it from there: what was
    installed before stays until `remove_others`. No code of the package runs meanwhile, and what
    installs it writes nowhere else. Raises InstallFailed.
    """
    if not command.package:
        return (command.program, *command.args)
    folder = place / token_hex(4)
    folder.mkdir(mode=0o700, parents=True)
    try:
        if command.runner == "npm":
            await _install_npm(command, folder, sandbox)
            found = find_npm_program(command, folder)
        else:
            await _install_python(command, folder, sandbox)
            found = find_python_program(command, folder)
    except BaseException:
        await asyncio.to_thread(_remove, folder)
        raise
    return (*found, *command.args)


def _remove(folder: Path) -> None:
    """With the place, where nothing else is installed there."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def find_folder(words: Sequence[str], place: Path) -> Path | None:
    """The folder of `place` that a server is started from; None for a program of elsewhere."""
    inside = [Path(word).relative_to(place) for word in words if Path(word).is_relative_to(place)]
    return place / inside[0].parts[0] if inside and inside[0].parts else None


def remove_others(words: Sequence[str], place: Path) -> None:
    """Remove what was installed for this server, but what these words start; in a thread."""
    keep = find_folder(words, place)
    for one in place.glob("*"):
        if one != keep:
            shutil.rmtree(one, ignore_errors=True)
    if keep is None and place.is_dir():
        place.rmdir()


async def _install_npm(command: ServerCommand, folder: Path, sandbox: Sandbox) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallFailed("npm is not installed, which brings npx: install Node.js first")
    options = ("--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", "--loglevel=error")
    words = (npm, "install", "--prefix", str(folder), *options, command.package)
    await _run(words, folder, sandbox, [_find_prefix(npm)])


def _find_prefix(program: str) -> Path:
    """Where it stands with what it is made of: npm is a script beside its modules."""
    return Path(program).resolve().parent.parent


async def _install_python(command: ServerCommand, folder: Path, sandbox: Sandbox) -> None:
    python, uv = str(folder / "bin" / "python"), shutil.which("uv")
    name = command.package.replace("@", "==").removesuffix("==latest")
    options = ("--quiet", "--only-binary", ":all:", name)
    words = (
        (uv, "pip", "install", "--python", python, *options)
        if uv
        else (sys.executable, "-I", "-m", "pip", "--python", python, "install", *options)
    )
    make = (sys.executable, "-I", "-m", "venv", "--without-pip", str(folder))
    script = f"{shlex.join(make)} && exec {shlex.join(words)}"
    places = [Path(sys.prefix), Path(sys.base_prefix), *([Path(uv)] if uv else [])]
    await _run(("/bin/sh", "-c", script), folder, sandbox, places)


async def _run(
    words: Sequence[str], folder: Path, sandbox: Sandbox, places: Sequence[Path]
) -> None:
    home, settings = folder / ".home", _list_settings()
    env = {
        **list_variables(indexes=True),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "npm_config_userconfig": str(settings[0]),
        "npm_config_cache": str(home / "npm"),
        "XDG_CONFIG_HOME": str(settings[1].parent),
    }
    argv = sandbox.wrap_server(
        words,
        network=True,
        places=ServerPlaces([folder], [*places, *settings]),
        env=env,
        cwd=folder,
    )
    ran = await run_process(argv, folder, env, INSTALL_S, max_chars=SAID_CHARS)
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
    if ran.exit_code:
        said = sanitize(ran.output.strip(), SAID_CHARS)
        raise InstallFailed(f"it could not be installed; nothing was kept:\n{said}")


def _list_settings() -> list[Path]:
    """Where npm, pip and uv are told which index to ask; a name or password may be in them."""
    return [Path(name).expanduser() for name in SETTINGS]


class NpmPackage(BaseModel):
    """The part of a package.json that says what it starts."""

    name: str = ""
    bin: str | dict[str, str] = {}


def find_npm_program(command: ServerCommand, folder: Path) -> tuple[str, ...]:
    """The script that npx would run: that of the program's name, else the only one."""
    name = re.sub(r"(?<=.)@.*", "", command.package)
    place = folder / "node_modules" / name
    try:
        found = NpmPackage.model_validate_json((place / "package.json").read_bytes())
    except (OSError, ValidationError) as error:
        raise InstallFailed(f"{name} was installed, and has no package.json") from error
    programs: Mapping[str, str] = {"": found.bin} if isinstance(found.bin, str) else found.bin
    wanted = command.program or name.rpartition("/")[2]
    script = programs.get(wanted) or (next(iter(programs.values())) if len(programs) == 1 else "")
    if not script:
        names = ", ".join(programs) or "none"
        raise InstallFailed(f"{name} has no program {wanted!r}; its programs: {names}")
    if not (place / script).resolve().is_relative_to(place.resolve()):
        raise InstallFailed(f"{name} starts something that is not its own")
    return ("node", str(place / script))


def find_python_program(command: ServerCommand, folder: Path) -> tuple[str, ...]:
    """The script that uvx would run, or the module."""
    if command.program.startswith("-m "):
        return (str(folder / "bin" / "python"), *command.program.split())
    name = command.program or re.split(r"[\[@=<>~!]", command.package)[0]
    if (folder / "bin" / name).is_file():
        return (str(folder / "bin" / name),)
    own = [one.name for one in (folder / "bin").iterdir()]
    programs = ", ".join(sorted(one for one in own if not one.startswith(("python", "activate"))))
    raise InstallFailed(f"{name} has no program {name!r}; its programs: {programs or 'none'}")
