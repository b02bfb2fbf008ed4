"""What a doctor looks at: each check says what was found and, where something is wrong, what to do about it."""

import importlib.util
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from daemon.agent.specs.registry import Specs
from daemon.core.errors import ConfigError, ProviderError
from daemon.ops.backup import integrity
from daemon.ops.checked import Check
from daemon.ops.doctor_channels import Line, check_channels, check_muted
from daemon.ops.doctor_network import Reached, ask_daemon, ask_provider
from daemon.ops.models import DEFAULT_MODEL, find_model
from daemon.providers.config import FallbackConfig, ProviderConfig
from daemon.providers.credentials import credentials
from daemon.providers.local_engine import check_memory, check_runtime, free_memory
from daemon.tools.mcp.config import McpConfig
from daemon.tools.sandbox import LEVELS, probe

OLDEST = (3, 11)
LITTLE, TOO_LITTLE = 1 << 30, 100 << 20


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined. `provider` is None where the config does not load; `config_fault` says why then.

    `daemon_json` is the text of that file; empty where no daemon says that it runs.
    """

    home: Path
    config: Path
    config_fault: str
    provider: ProviderConfig | None
    workspace: Path
    models: Path
    daemon_json: str
    agents: Specs
    servers: Mapping[str, McpConfig] = field(default_factory=dict)
    channels: Sequence[Line] = ()
    muted: Sequence[str] = ()


async def examine(patient: Patient) -> list[Check]:
    """All checks, in the order a person would go through them."""
    checks = [check_python(), check_config(patient), check_agents(patient.agents)]
    checks += [check_home(patient.home), check_disk(patient.home)]
    checks += check_databases(patient.home)
    checks.append(await check_sandbox(patient.workspace))
    checks += check_servers(patient.servers, fenced=checks[-1].found != LEVELS["none"])
    if patient.provider is not None:
        checks += await check_provider(patient.provider, patient.models)
    checks += [*check_muted(patient.muted), *await check_channels(patient.channels)]
    checks.append(await check_daemon(patient.daemon_json))
    return checks


def check_python() -> Check:
    """The interpreter is new enough."""
    found = platform.python_version()
    if sys.version_info[:2] >= OLDEST:
        return Check("python", "ok", found)
    return Check("python", "fail", found, "install Python 3.11 or newer and make a new venv with it")


def check_config(patient: Patient) -> Check:
    """The config file loads."""
    if patient.config_fault:
        return Check("config", "fail", patient.config_fault, f"mend {patient.config}; `aidaemon config check` looks again")
    return Check("config", "ok", str(patient.config) if patient.config.exists() else "no file: the defaults hold")


def check_agents(agents: Specs) -> Check:
    """Every file of an agent can be used."""
    if faults := agents.faults():
        return Check("agents", "fail", "\n".join(faults), "mend that; `aidaemon config check` looks again")
    if warnings := agents.warnings():
        return Check("agents", "warn", "\n".join(warnings), "mend that, or leave it so if it is meant")
    return Check("agents", "ok", ", ".join(agents.names()))


def check_home(home: Path) -> Check:
    """Nobody else can read what is said here."""
    if not home.exists():
        return Check("home", "ok", f"{home} is made at the first start")
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        return Check("home", "fail", f"{home} is open to others (mode {mode:o})", f"chmod 700 {home}")
    return Check("home", "ok", f"{home}, for you alone")


def check_disk(home: Path) -> Check:
    """There is room to write things down."""
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free >= LITTLE:
        return Check("disk", "ok", found)
    return Check("disk", "fail" if free < TOO_LITTLE else "warn", found, "make room; a full disk stops the daemon from working")


def check_databases(home: Path) -> Iterator[Check]:
    """The journal and the memory open, and SQLite finds no fault in them."""
    for name in ("journal", "memory"):
        path = home / f"{name}.db"
        said = integrity(path, quick=True) if path.exists() else "none yet"
        if said in ("ok", "none yet"):
            yield Check(name, "ok", f"{path}: {said}")
        else:
            yield Check(name, "fail", f"{path}: {said}", "stop the daemon, keep a copy of the file, put a backup in its place")


async def check_sandbox(workspace: Path) -> Check:
    """Commands run fenced in."""
    with tempfile.TemporaryDirectory(prefix="aidaemon-doctor-") as spare:
        kind = await probe(_existing(workspace, Path(spare)))
    if kind == "bubblewrap":
        return Check("sandbox", "ok", LEVELS[kind])
    advice = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap) and allow user namespaces"
    return Check("sandbox", "warn", LEVELS[kind], advice)


def check_servers(servers: Mapping[str, McpConfig], *, fenced: bool) -> Iterator[Check]:
    """Servers of others can be started, as far as one sees without starting them."""
    if servers and importlib.util.find_spec("mcp") is None:
        yield Check("mcp", "fail", "its package is not installed", "pip install 'aidaemon[mcp]'")
    for name, config in servers.items():
        what = f"mcp {name}"
        if config.url:
            yield Check(what, "ok", f"at {urlsplit(config.url).hostname}")
        elif shutil.which(Path(config.command).expanduser()) is None:
            advice = f"install it, or write its whole path in [mcp.{name}] command"
            yield Check(what, "fail", f"there is no program {config.command}", advice)
        elif config.sandbox == "off":
            advice = 'sandbox = "auto" fences it in; paths and network say what it may reach'
            yield Check(what, "warn", f"{config.command} runs without a sandbox", advice)
        elif not fenced:
            yield Check(what, "fail", "it is not started: this machine has no sandbox", "see sandbox above")
        else:
            yield Check(what, "ok", f"{config.command}, in the sandbox, {'with' if config.network else 'without'} the network")


async def check_provider(provider: ProviderConfig, models: Path) -> list[Check]:
    """The model answers, or would: the first one, and what it falls back on."""
    checks = await _check_one("model", provider, provider.model(), models)
    for index, fallback in enumerate(provider.fallbacks):
        checks += await _check_one(f"fallback {index}", fallback, fallback.name(), models)
    return checks


async def _check_one(name: str, provider: ProviderConfig | FallbackConfig, model: str, models: Path) -> list[Check]:
    if provider.kind == "local":
        return [check_extra(), check_weights(name, model or DEFAULT_MODEL, models)]
    headers = provider.extra_headers if isinstance(provider, ProviderConfig) else {}
    reached = await ask_provider(provider.base_url, {**credentials(provider.kind, provider.api_key), **headers})
    return [_told(name, model, provider.base_url, reached)]


def check_extra() -> Check:
    """The runtime of embedded models is installed."""
    try:
        check_runtime()
    except ConfigError as error:
        return Check("extras", "fail", str(error), "pip install 'aidaemon[local]'")
    return Check("extras", "ok", "local: the runtime of embedded models is installed")


def check_weights(name: str, model: str, models: Path) -> Check:
    """The embedded model's file is here, and there is memory to run it."""
    try:
        wanted = find_model(model)
        check_memory(free_memory())
    except ConfigError as error:
        return Check(name, "fail", str(error), "aidaemon model list")
    except ProviderError as error:
        return Check(name, "warn", str(error), 'end other programs, or set kind = "openai" and base_url in [provider]')
    if not wanted.present(models):
        return Check(name, "warn", f"{model} is not in {models}", f"aidaemon model pull {model}, or let `aidaemon chat` fetch it")
    return Check(name, "ok", f"{model} in {models}")


def _told(name: str, model: str, address: str, reached: Reached) -> Check:
    section = "provider" if name == "model" else f"provider.{name.replace('fallback ', 'fallbacks.')}"
    if reached.status in (401, 403):
        refused = f"{address} refuses the key (HTTP {reached.status})"
        return Check(name, "fail", refused, f"set {section}.api_key to a key that is good there")
    if not reached.status or reached.status >= 500:
        trouble = reached.trouble or f"HTTP {reached.status}"
        return Check(name, "fail", f"{address}: {trouble}", f"look at {section}.base_url, the network and the server")
    if reached.models and model not in reached.models:
        some = ", ".join(sorted(reached.models)[:5])
        advice = f"it lists {some}; see {section}.{'models.primary' if name == 'model' else 'model'}"
        return Check(name, "warn", f"{address} answers, but does not list {model}", advice)
    return Check(name, "ok", f"{address} answers; model {model}")


async def check_daemon(daemon_json: str) -> Check:
    """The daemon, if one runs here, is healthy."""
    if not daemon_json:
        return Check("daemon", "ok", "none runs on this home directory")
    health = await ask_daemon(daemon_json)
    if health.status == 200:
        return Check("daemon", "ok", f"runs at {health.url} and is healthy")
    if health.status:
        unwell = f"runs at {health.url} and is not well: {health.trouble}"
        return Check("daemon", "fail", unwell, "mend that; the daemon recovers by itself, or start it again")
    return Check("daemon", "warn", f"is said to run, but does not answer: {health.trouble}", "start it: aidaemon run")


def _existing(folder: Path, spare: Path) -> Path:
    return folder if folder.is_dir() else spare
