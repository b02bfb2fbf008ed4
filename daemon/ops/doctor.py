"""Checks of `aidaemon doctor`: each says what it found and, where something is wrong, what to do
about it.

Network checks have five seconds each; no answer is a finding too.
"""

import asyncio
import importlib.util
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import aiohttp
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from channels.base import Channel, ChannelError, Revoked
from daemon.agent.spec.registry import AgentRegistry
from daemon.core import value
from daemon.core.errors import ConfigError, ProviderError
from daemon.ops.backup import check_integrity
from daemon.ops.models import DEFAULT_MODEL, find_model
from daemon.providers.config import FallbackConfig, ProviderConfig
from daemon.providers.http import make_auth_headers
from daemon.providers.local.engine import check_memory, check_runtime, get_free_memory
from daemon.tools.mcp.config import McpConfig
from daemon.tools.shell.sandbox import DESCRIPTIONS, probe

CheckState = Literal["ok", "warn", "fail"]


@value
class Finding:
    """Result of one check. `advice` is empty where all is well."""

    name: str
    state: CheckState
    found: str
    advice: str = ""


HTTP_TIMEOUT = aiohttp.ClientTimeout(total=5)


@value
class ProbeResult:
    """How an address answered: its HTTP status, 0 for not at all, and then why."""

    url: str
    status: int = 0
    error: str = ""
    models: frozenset[str] = frozenset()


class _Listed(BaseModel):
    id: str = ""
    name: str = ""

    def get_name(self) -> str:
        """Google calls it by a path."""
        return self.id or self.name.removeprefix("models/")


class _Models(BaseModel):
    data: list[_Listed] = Field(validation_alias=AliasChoices("data", "models"))
    has_more: bool = False
    next_page: str = Field("", validation_alias="nextPageToken")

    def list_names(self) -> frozenset[str]:
        """Empty where this is only the first page: other models may follow."""
        part = self.has_more or self.next_page
        return frozenset() if part else frozenset(listed.get_name() for listed in self.data)


class _DaemonFile(BaseModel):
    pid: int
    url: str


class _Health(BaseModel):
    problems: list[str] = []


async def probe_provider(base_url: str, headers: Mapping[str, str]) -> ProbeResult:
    """GET base_url/models: does the server answer, does it take the key, which models has it."""
    reached, body = await _get(f"{base_url}/models", headers)
    try:
        models = _Models.model_validate_json(body)
    except ValidationError:
        return reached
    return replace(reached, url=base_url, models=models.list_names())


async def probe_daemon(daemon_json: str) -> ProbeResult:
    """GET /health of the daemon named in daemon.json."""
    try:
        running = _DaemonFile.model_validate_json(daemon_json)
    except ValidationError:
        return ProbeResult("", error="daemon.json is not what a daemon writes")
    reached, body = await _get(f"{running.url.rstrip('/')}/health", {})
    try:
        problems = "; ".join(_Health.model_validate_json(body).problems)
    except ValidationError:
        problems = ""
    return ProbeResult(running.url, reached.status, reached.error or problems)


async def _get(url: str, headers: Mapping[str, str]) -> tuple[ProbeResult, bytes]:
    try:
        async with (
            aiohttp.ClientSession(timeout=HTTP_TIMEOUT, headers=headers, trust_env=True) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return ProbeResult(url, response.status), await response.read()
    except TimeoutError:
        return ProbeResult(url, error="no answer within 5 seconds"), b""
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return ProbeResult(url, error=str(error) or type(error).__name__), b""


CHANNEL_TIMEOUT_S = 10.0
NETWORK = "look at the network; the daemon tries again by itself"


@value
class ChannelAccount:
    """One account of the config. `section` is its place there; `allowed` and `owners` are how many
    people it lists.
    """

    name: str
    section: str
    open: Callable[[], Channel]
    allowed: int
    owners: int


def check_muted_sections(sections: Sequence[str]) -> list[Finding]:
    """Warn about channels that list people but have no token."""
    found, advice = (
        "people are listed, but bot_token is empty: it is not started",
        "put the bot's token there, as secret:NAME",
    )
    return [
        Finding(name, "warn", found, f"{advice}; `aidaemon config get {name}` shows what holds")
        for name in sections
    ]


async def check_channels(lines: Sequence[ChannelAccount]) -> list[Finding]:
    """All of them at once."""
    return [
        check for checks in await asyncio.gather(*map(_check_account, lines)) for check in checks
    ]


async def _check_account(line: ChannelAccount) -> list[Finding]:
    return [await _check_token(line), *_check_people(line)]


async def _check_token(line: ChannelAccount) -> Finding:
    try:
        channel = line.open()
    except ConfigError as error:
        return Finding(line.name, "fail", str(error), f"see [{line.section}]")
    try:
        async with asyncio.timeout(CHANNEL_TIMEOUT_S):
            return Finding(line.name, "ok", f"the token is good: {await channel.check()}")
    except Revoked as error:
        return Finding(
            line.name, "fail", str(error), f"mend that in [{line.section}], or at the platform"
        )
    except TimeoutError:
        return Finding(
            line.name, "fail", f"no answer within {CHANNEL_TIMEOUT_S:g} seconds", NETWORK
        )
    except ChannelError as error:
        return Finding(line.name, "fail", str(error), NETWORK)
    finally:
        await _close(channel)


async def _close(channel: Channel) -> None:
    try:
        async with asyncio.timeout(CHANNEL_TIMEOUT_S):
            await channel.aclose()
    except (ChannelError, TimeoutError, OSError):
        return


def _check_people(line: ChannelAccount) -> list[Finding]:
    """Warn about a channel that lists nobody, or nobody who may approve."""
    name = f"{line.name} people"
    if not line.allowed and not line.owners:
        nobody = "nobody is listed: only those who had a code (`aidaemon pair`) are let in"
        return [
            Finding(name, "warn", nobody, f"put your own id into owner_ids of [{line.section}]")
        ]
    if not line.owners and line.allowed > 1:
        headless = (
            f"{line.allowed} people may talk, and none of them may approve what cannot be undone"
        )
        return [
            Finding(name, "warn", headless, f"put your own id into owner_ids of [{line.section}]")
        ]
    return []


OLDEST = (3, 11)
LOW_SPACE, NO_SPACE = 1 << 30, 100 << 20


@value
class DoctorInput:
    """What is examined. `provider` is None where the config does not load; `config_fault` says why
    then.

    `daemon_json` is the text of that file; empty where no daemon says that it runs.
    """

    home: Path
    config: Path
    config_error: str
    provider: ProviderConfig | None
    workspace: Path
    models: Path
    daemon_json: str
    agents: AgentRegistry
    servers: Mapping[str, McpConfig] = field(default_factory=dict)
    channels: Sequence[ChannelAccount] = ()
    muted: Sequence[str] = ()


async def run_checks(given: DoctorInput) -> list[Finding]:
    """Run all checks, in the order in which a person would look."""
    checks = [check_python(), check_config(given), check_agents(given.agents)]
    checks += [check_home(given.home), check_disk(given.home)]
    checks += check_databases(given.home)
    checks.append(await check_sandbox(given.workspace))
    checks += check_servers(given.servers, sandboxed=checks[-1].found != DESCRIPTIONS["none"])
    if given.provider is not None:
        checks += await check_provider(given.provider, given.models)
    checks += [*check_muted_sections(given.muted), *await check_channels(given.channels)]
    checks.append(await check_daemon(given.daemon_json))
    return checks


def check_python() -> Finding:
    """The interpreter is new enough."""
    found = platform.python_version()
    if sys.version_info[:2] >= OLDEST:
        return Finding("python", "ok", found)
    return Finding(
        "python", "fail", found, "install Python 3.11 or newer and make a new venv with it"
    )


def check_config(given: DoctorInput) -> Finding:
    """The config file loads."""
    if given.config_error:
        return Finding(
            "config",
            "fail",
            given.config_error,
            f"mend {given.config}; `aidaemon config check` looks again",
        )
    return Finding(
        "config",
        "ok",
        str(given.config) if given.config.exists() else "no file: the defaults hold",
    )


def check_agents(agents: AgentRegistry) -> Finding:
    """Every file of an agent can be used."""
    if faults := agents.errors():
        return Finding(
            "agents", "fail", "\n".join(faults), "mend that; `aidaemon config check` looks again"
        )
    if warnings := agents.warnings():
        return Finding(
            "agents", "warn", "\n".join(warnings), "mend that, or leave it so if it is meant"
        )
    return Finding("agents", "ok", ", ".join(agents.names()))


def check_home(home: Path) -> Finding:
    """Nobody else can read what is said here."""
    if not home.exists():
        return Finding("home", "ok", f"{home} is made at the first start")
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        return Finding(
            "home", "fail", f"{home} is open to others (mode {mode:o})", f"chmod 700 {home}"
        )
    return Finding("home", "ok", f"{home}, for you alone")


def check_disk(home: Path) -> Finding:
    """There is room to write things down."""
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free >= LOW_SPACE:
        return Finding("disk", "ok", found)
    return Finding(
        "disk",
        "fail" if free < NO_SPACE else "warn",
        found,
        "make room; a full disk stops the daemon from working",
    )


def check_databases(home: Path) -> Iterator[Finding]:
    """The journal and the memory open, and SQLite finds no fault in them."""
    for name in ("journal", "memory"):
        path = home / f"{name}.db"
        said = check_integrity(path, quick=True) if path.exists() else "none yet"
        if said in ("ok", "none yet"):
            yield Finding(name, "ok", f"{path}: {said}")
        else:
            yield Finding(
                name,
                "fail",
                f"{path}: {said}",
                "stop the daemon, keep a copy of the file, put a backup in its place",
            )


async def check_sandbox(workspace: Path) -> Finding:
    """Commands run in a sandbox."""
    with tempfile.TemporaryDirectory(prefix="aidaemon-doctor-") as spare:
        kind = await probe(_existing_folder(workspace, Path(spare)))
    if kind == "bubblewrap":
        return Finding("sandbox", "ok", DESCRIPTIONS[kind])
    advice = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap) and allow user namespaces"
    return Finding("sandbox", "warn", DESCRIPTIONS[kind], advice)


def check_servers(servers: Mapping[str, McpConfig], *, sandboxed: bool) -> Iterator[Finding]:
    """MCP servers can be started, as far as can be seen without starting them."""
    if servers and importlib.util.find_spec("mcp") is None:
        yield Finding("mcp", "fail", "its package is not installed", "pip install 'aidaemon[mcp]'")
    for name, config in servers.items():
        what = f"mcp {name}"
        if config.url:
            yield Finding(what, "ok", f"at {urlsplit(config.url).hostname}")
        elif shutil.which(Path(config.command).expanduser()) is None:
            advice = f"install it, or write its whole path in [mcp.{name}] command"
            yield Finding(what, "fail", f"there is no program {config.command}", advice)
        elif config.sandbox == "off":
            advice = 'sandbox = "auto" fences it in; paths and network say what it may reach'
            yield Finding(what, "warn", f"{config.command} runs without a sandbox", advice)
        elif not sandboxed:
            yield Finding(
                what, "fail", "it is not started: this machine has no sandbox", "see sandbox above"
            )
        else:
            yield Finding(
                what,
                "ok",
                f"{config.command}, in the sandbox, {'with' if config.network else 'without'} "
                "the network",
            )


async def check_provider(provider: ProviderConfig, models: Path) -> list[Finding]:
    """The model answers, or would: the first one, and what it falls back on."""
    checks = await _check_route("model", provider, provider.get_model(), models)
    for index, fallback in enumerate(provider.fallbacks):
        checks += await _check_route(f"fallback {index}", fallback, fallback.get_model(), models)
    return checks


async def _check_route(
    name: str, provider: ProviderConfig | FallbackConfig, model: str, models: Path
) -> list[Finding]:
    if provider.kind == "local":
        return [check_extra(), check_weights(name, model or DEFAULT_MODEL, models)]
    headers = provider.extra_headers if isinstance(provider, ProviderConfig) else {}
    reached = await probe_provider(
        provider.base_url, {**make_auth_headers(provider.kind, provider.api_key), **headers}
    )
    return [_describe_probe(name, model, provider.base_url, reached)]


def check_extra() -> Finding:
    """The runtime of embedded models is installed."""
    try:
        check_runtime()
    except ConfigError as error:
        return Finding("extras", "fail", str(error), "pip install 'aidaemon[local]'")
    return Finding("extras", "ok", "local: the runtime of embedded models is installed")


def check_weights(name: str, model: str, models: Path) -> Finding:
    """The embedded model's file is here, and there is memory to run it."""
    try:
        wanted = find_model(model)
        check_memory(get_free_memory())
    except ConfigError as error:
        return Finding(name, "fail", str(error), "aidaemon model list")
    except ProviderError as error:
        return Finding(
            name,
            "warn",
            str(error),
            'end other programs, or set kind = "openai" and base_url in [provider]',
        )
    if not wanted.is_present(models):
        return Finding(
            name,
            "warn",
            f"{model} is not in {models}",
            f"aidaemon model pull {model}, or let `aidaemon chat` fetch it",
        )
    return Finding(name, "ok", f"{model} in {models}")


def _describe_probe(name: str, model: str, address: str, reached: ProbeResult) -> Finding:
    section = (
        "provider" if name == "model" else f"provider.{name.replace('fallback ', 'fallbacks.')}"
    )
    if reached.status in (401, 403):
        refused = f"{address} refuses the key (HTTP {reached.status})"
        return Finding(name, "fail", refused, f"set {section}.api_key to a key that is good there")
    if not reached.status or reached.status >= 500:
        trouble = reached.error or f"HTTP {reached.status}"
        return Finding(
            name,
            "fail",
            f"{address}: {trouble}",
            f"look at {section}.base_url, the network and the server",
        )
    if reached.models and model not in reached.models:
        some = ", ".join(sorted(reached.models)[:5])
        advice = (
            f"it lists {some}; see {section}.{'models.primary' if name == 'model' else 'model'}"
        )
        return Finding(name, "warn", f"{address} answers, but does not list {model}", advice)
    return Finding(name, "ok", f"{address} answers; model {model}")


async def check_daemon(daemon_json: str) -> Finding:
    """The daemon, if one runs here, is healthy."""
    if not daemon_json:
        return Finding("daemon", "ok", "none runs on this home directory")
    health = await probe_daemon(daemon_json)
    if health.status == 200:
        return Finding("daemon", "ok", f"runs at {health.url} and is healthy")
    if health.status:
        unwell = f"runs at {health.url} and is not well: {health.error}"
        return Finding(
            "daemon", "fail", unwell, "mend that; the daemon recovers by itself, or start it again"
        )
    return Finding(
        "daemon",
        "warn",
        f"is said to run, but does not answer: {health.error}",
        "start it: aidaemon run",
    )


def _existing_folder(folder: Path, spare: Path) -> Path:
    return folder if folder.is_dir() else spare
