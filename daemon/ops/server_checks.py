"""Whether MCP servers can be started, and what one says that cannot (G2)."""

import asyncio
import importlib.util
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from daemon.core.errors import AidaemonError
from daemon.ops.model_checks import Finding
from daemon.tools.mcp.address import pin_command
from daemon.tools.mcp.config import McpConfig
from daemon.tools.mcp.pins import PINS, compare_program
from daemon.tools.mcp.server_files import reaches
from daemon.tools.shell.sandbox import DESCRIPTIONS, Sandbox, find_shut

AT_ONCE = 4
READS_ONLY = "Without bubblewrap it only reads"


async def check_servers(
    servers: Mapping[str, McpConfig],
    home: Path,
    workspace: Path,
    sandbox: str,
    redact: Callable[[str], str],
) -> list[Finding]:
    """Each is started and ended again, but one that runs without a sandbox. `sandbox`: what was
    found of it.
    """
    if not servers:
        return []
    if importlib.util.find_spec("mcp") is None:
        found = "its package is not installed"
        return [Finding("mcp", "fail", found, "pip install 'aidaemon[mcp]'")]
    known = {name: _check_config(name, config, sandbox) for name, config in servers.items()}
    places = workspace, home / "quarantine", home / "layers"
    journal = home / "journal.db"
    for name, config in servers.items():
        if not known[name] and (why := await asyncio.to_thread(find_change, name, config, journal)):
            known[name] = Finding(f"mcp {name}", "fail", why, f"/mcp {name} shows the change")
    fence = None if all(known.values()) else await Sandbox.open(*places)
    few = asyncio.Semaphore(AT_ONCE)

    async def check(name: str, config: McpConfig) -> Finding:
        if (found := known[name]) or fence is None:
            assert found
            return found
        async with few:
            return await _try(name, config, fence, home / "mcp" / name, redact)

    return await asyncio.gather(*(check(name, config) for name, config in servers.items()))


def find_change(name: str, config: McpConfig, journal: Path) -> str:
    """Why it is not to be started: its program is not the one that was approved; or ""."""
    try:
        with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT pins FROM mcp_pins WHERE server = ?", (name,)).fetchall()
    except sqlite3.Error:
        return ""  # none was met yet, or the journal is looked at elsewhere
    known = PINS.validate_json(rows[0][0]) if rows and config.command else None
    if known is None or compare_program(known, pin_command(config), "") is None:
        return ""
    return "its program has changed since it was approved, so it is not started"


def _check_config(name: str, config: McpConfig, sandbox: str) -> Finding | None:
    """What can be told without starting it."""
    what, command = f"mcp {name}", config.command
    if config.url:
        return Finding(what, "ok", f"at {urlsplit(config.url).hostname}")
    if shutil.which(Path(command).expanduser()) is None:
        advice = f"install it, or write its whole path in [mcp.{name}] command"
        return Finding(what, "fail", f"there is no program {command}", advice)
    if config.sandbox == "off":
        advice = 'sandbox = "auto" fences it in; paths and network say what it may reach'
        return Finding(what, "warn", f"{command} runs without a sandbox", advice)
    if sandbox == DESCRIPTIONS["none"]:
        found = "it is not started: this machine has no sandbox"
        return Finding(what, "fail", found, "see sandbox above")
    if config.domains and not sandbox.startswith(DESCRIPTIONS["bubblewrap"]):
        return Finding(
            what, "fail", "it is not started: domains need bubblewrap", "see sandbox above"
        )
    return None


async def _try(
    name: str, config: McpConfig, sandbox: Sandbox, folder: Path, redact: Callable[[str], str]
) -> Finding:
    from daemon.ops.server_trial import try_server  # lazy: with it
    from daemon.tools.mcp.servers import load_client  # lazy: the package mcp, 0.8 s

    network = "with the network" if config.network else "without the network"
    if config.domains:
        network = f"with the network to {', '.join(config.domains)} only"
    try:
        trial = await try_server(name, config, sandbox, folder, load_client(), redact)
    except AidaemonError as error:
        return Finding(f"mcp {name}", "fail", str(error), f"see [mcp.{name}]")
    if trial.problem:
        advice = f"see [mcp.{name}]; `aidaemon mcp test {name}` tries again"
        return Finding(f"mcp {name}", "fail", trial.problem, advice)
    found = f"{config.command}, in the sandbox, {network}: {len(trial.tools)} tools"
    if read := await asyncio.to_thread(_find_read_only, config, sandbox):
        found = f"{found}. {READS_ONLY} {', '.join(read)}"
        return Finding(f"mcp {name}", "warn", found, "see sandbox above")
    return Finding(f"mcp {name}", "ok", found)


def _find_read_only(config: McpConfig, sandbox: Sandbox) -> list[str]:
    """Places that the config lets it write, and landlock does not."""
    if sandbox.kind == "bubblewrap":
        return []
    paths = [Path(path).expanduser() for path in config.paths]
    outside = [one for one in paths if not one.resolve().is_relative_to(sandbox.workspace)]
    is_whole = config.write == "workspace" and reaches(config, sandbox.workspace)
    return [*["the workspace, but for out/NAME"] * is_whole, *map(str, find_shut(outside))]
