"""Checks of `aidaemon doctor`: each says what it found and, where something is wrong, what to do
about it.

Network checks have five seconds each; no answer is a finding too.
"""

import asyncio
import importlib.util
import json
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from channels.base import Channel, ChannelError, Revoked
from daemon.agent.spec.registry import AgentRegistry
from daemon.core import value
from daemon.core.errors import ConfigError
from daemon.ops.extra_models import MEMORY_MODEL
from daemon.ops.memory_model import INSTALL, describe_missing
from daemon.ops.model_checks import Finding, ProbeResult, check_provider, probe_address
from daemon.ops.server_checks import check_servers
from daemon.ops.voice_model import describe_missing_voice
from daemon.providers.chain import ModelRoute
from daemon.providers.config import ProviderConfig
from daemon.store.migrate import find_damage
from daemon.tools.config import ShellConfig
from daemon.tools.layers.layer import list_mounts
from daemon.tools.mcp.config import McpConfig
from daemon.tools.shell.process_limit import MAX_PROCESSES
from daemon.tools.shell.sandbox import DESCRIPTIONS, Sandbox, probe

LAYERS_ADVICE = (
    "an overlay needs bubblewrap and user namespaces; in a container set [tools.shell] layers to a"
    " folder on a volume"
)
AS_ROOT_COUNTED = f"; as root, what has more than {MAX_PROCESSES} processes is ended"
AS_ROOT_FOUND = "no command runs: the daemon is root, and bubblewrap does not work here"


CHANNEL_TIMEOUT_S = 10.0
NETWORK = "look at the network; the daemon tries again by itself"
MUTED = "people are listed, but bot_token is empty: it is not started"
LOW_SPACE, NO_SPACE = 1 << 30, 100 << 20


@value
class ChannelAccount:
    """One account of the config. `section` is its place there; `allowed` and `owners` are how many
    people it lists. `senders`: of a mailbox, whether it has authserv_id, and how many it lists.
    """

    name: str
    section: str
    open: Callable[[], Channel]
    allowed: int
    owners: int
    senders: tuple[bool, int] | None = None


@value
class DoctorInput:
    """What is examined. `provider` is None where the config does not load; `config_error` says why
    then.

    `daemon_json` is the text of that file; empty where no daemon says that it runs.
    """

    home: Path
    config: Path
    config_error: str
    provider: ProviderConfig | None
    routes: Sequence[ModelRoute]
    workspace: Path
    models: Path
    daemon_json: str
    embedder: str
    transcriber: str
    agents: AgentRegistry
    shell: ShellConfig = field(default_factory=ShellConfig)
    servers: Mapping[str, McpConfig] = field(default_factory=dict)
    channels: Sequence[ChannelAccount] = ()
    muted: Sequence[str] = ()
    redact: Callable[[str], str] = str


async def run_checks(given: DoctorInput) -> list[Finding]:
    """Run all checks, in the order in which a person would look."""
    checks = [Finding("python", "ok", platform.python_version())]  # no older one starts this
    checks += [_check_config(given), _check_agents(given.agents)]
    checks += [_check_home(given.home), _check_disk(given.home)]
    checks += [_check_database(name, given.home / f"{name}.db") for name in ("journal", "memory")]
    checks.append(_check_recall(given.embedder, given.models))
    checks.append(_check_voice(given.transcriber))
    checks.append(await _check_sandbox(given.workspace))
    where = given.home, given.workspace, checks[-1].found
    checks += await check_servers(given.servers, *where, given.redact)
    checks.append(await _check_layers(given))
    if given.provider is not None:
        checks += await check_provider(given.provider, given.models, given.routes)
    for name in given.muted:
        look = f"`aidaemon config get {name}` shows what holds"
        advice = f"put the bot's token there, as secret:NAME; {look}"
        checks.append(Finding(name, "warn", MUTED, advice))
    for account, check in zip(
        given.channels, await asyncio.gather(*map(_check_token, given.channels)), strict=True
    ):
        checks += [check, *_check_people(account)]
    checks.append(await _check_daemon(given.daemon_json))
    return checks


def _check_config(given: DoctorInput) -> Finding:
    if given.config_error:
        advice = f"mend {given.config}; `aidaemon config check` looks again"
        return Finding("config", "fail", given.config_error, advice)
    found = str(given.config) if given.config.exists() else "no file: the defaults hold"
    return Finding("config", "ok", found)


def _check_agents(agents: AgentRegistry) -> Finding:
    if faults := agents.errors():
        advice = "mend that; `aidaemon config check` looks again"
        return Finding("agents", "fail", "\n".join(faults), advice)
    if warnings := agents.warnings():
        advice = "mend that, or leave it so if it is meant"
        return Finding("agents", "warn", "\n".join(warnings), advice)
    return Finding("agents", "ok", ", ".join(agents.names()))


def _check_home(home: Path) -> Finding:
    if not home.exists():
        return Finding("home", "ok", f"{home} is made at the first start")
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        found = f"{home} is open to others (mode {mode:o})"
        return Finding("home", "fail", found, f"chmod 700 {home}")
    return Finding("home", "ok", f"{home}, for you alone")


def _check_disk(home: Path) -> Finding:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    found = f"{free / (1 << 30):.1f} GiB free at {place}"
    if free >= LOW_SPACE:
        return Finding("disk", "ok", found)
    advice = "make room; a full disk stops the daemon from working"
    return Finding("disk", "fail" if free < NO_SPACE else "warn", found, advice)


def _check_database(name: str, path: Path) -> Finding:
    said = (find_damage(path, quick=True) or "ok") if path.exists() else "none yet"
    if said in ("ok", "none yet"):
        return Finding(name, "ok", f"{path}: {said}")
    advice = "stop the daemon, keep a copy of the file, then: aidaemon backup restore"
    return Finding(name, "fail", f"{path}: {said}", advice)


def _check_recall(embedder: str, models: Path) -> Finding:
    """How what was said is found."""
    if embedder == "none":
        return Finding("recall", "ok", 'by words ([memory] embedder = "none")')
    if embedder == "openai":
        told = (
            "by words, and by meaning with [memory.openai] once /memory embed HOST has allowed it"
        )
        missing = [] if importlib.util.find_spec("numpy") else [INSTALL]
        return Finding("recall", "warn" if missing else "ok", told, *missing)
    if steps := describe_missing(models):
        return Finding("recall", "ok", f"by words; to find by meaning, too: {steps}")
    return Finding("recall", "ok", f"by words and meaning, with {MEMORY_MODEL.path(models).name}")


def _check_voice(transcriber: str) -> Finding:
    """Who writes down voice messages."""
    if transcriber != "local":
        is_none = transcriber == "none"
        told = "not written down" if is_none else f"by the server of [voice.{transcriber}]"
        return Finding("voice", "ok", told)
    missing = describe_missing_voice()
    told = f"not written down; to have it: {missing}" if missing else "by a model on this machine"
    return Finding("voice", "ok", told)


async def _check_sandbox(workspace: Path) -> Finding:
    with tempfile.TemporaryDirectory(prefix="aidaemon-doctor-") as spare:
        kind = await probe(workspace if await asyncio.to_thread(workspace.is_dir) else Path(spare))
    if kind == "bubblewrap":
        counted = AS_ROOT_COUNTED if os.geteuid() == 0 else ""
        return Finding("sandbox", "ok", f"{DESCRIPTIONS[kind]}{counted}")
    advice = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap) and allow user namespaces"
    if os.geteuid() == 0:
        advice += ", or run the daemon as an ordinary user: `adduser NAME`, then `su - NAME`"
        return Finding("sandbox", "fail", AS_ROOT_FOUND, advice)
    return Finding("sandbox", "warn", DESCRIPTIONS[kind], advice)


async def _check_layers(given: DoctorInput) -> Finding:
    """How commands write in the workspace; tried out beside a daemon that runs, too."""
    place, shell = given.workspace, given.shell
    if not await asyncio.to_thread(place.is_dir):
        return Finding("layers", "ok", "no workspace yet")
    folder = given.home / (shell.layers or "layers")
    sandbox = await Sandbox.open(place, given.home / "quarantine", folder, copy_mb=shell.copy_mb)
    if not (layers := sandbox.layers):
        return Finding("layers", "ok", "no sandbox, no layers")
    found = await asyncio.to_thread(layers.describe)
    if not layers.obstacle:
        return Finding("layers", "ok", found)
    mounts = ", ".join(await asyncio.to_thread(list_mounts, sandbox.workspace))
    advice = f"nothing may be mounted in the workspace: {mounts}" if mounts else LAYERS_ADVICE
    return Finding("layers", "warn", found, advice)


async def _check_token(account: ChannelAccount) -> Finding:
    name = account.name
    try:
        channel = account.open()
    except ConfigError as error:
        return Finding(name, "fail", str(error), f"see [{account.section}]")
    try:
        async with asyncio.timeout(CHANNEL_TIMEOUT_S):
            return Finding(name, "ok", f"the sign-in works: {await channel.check()}")
    except Revoked as error:
        advice = f"mend that in [{account.section}], or at the platform"
        return Finding(name, "fail", str(error), advice)
    except TimeoutError:
        found = f"no answer within {CHANNEL_TIMEOUT_S:g} seconds"
        return Finding(name, "fail", found, NETWORK)
    except ChannelError as error:
        return Finding(name, "fail", str(error), NETWORK)
    finally:
        with suppress(ChannelError, TimeoutError, OSError):
            async with asyncio.timeout(CHANNEL_TIMEOUT_S):
                await channel.aclose()


def _check_people(account: ChannelAccount) -> Iterator[Finding]:
    """Warn about a channel that lists nobody, or nobody who may approve."""
    if account.senders:
        yield _check_senders(account, *account.senders)
        return
    if account.owners or account.allowed == 1:
        return
    found = "nobody is listed: only those who had a code (`aidaemon pair`) are let in"
    if account.allowed:
        found = f"{account.allowed} people may talk, and none of them may approve what cannot be"
        found += " undone"
    advice = f"put your own id into owner_ids of [{account.section}]"
    yield Finding(f"{account.name} people", "warn", found, advice)


def _check_senders(account: ChannelAccount, is_named: bool, listed: int) -> Finding:
    name, section = f"{account.name} senders", account.section
    if listed and not is_named:
        found = f"{listed} are listed, but none is ever proven: every mail is a stranger's"
        return Finding(
            name, "warn", found, f"set authserv_id in [{section}]; see config.toml.example"
        )
    found = f"{listed} are known once they are proven" if listed else "every mail is a stranger's"
    return Finding(name, "ok", found)


async def _check_daemon(daemon_json: str) -> Finding:
    if not daemon_json:
        return Finding("daemon", "ok", "none runs on this home directory")
    try:
        url = json.loads(daemon_json)["url"]
    except (ValueError, KeyError, TypeError):
        health, url = ProbeResult(error="daemon.json is not what a daemon writes"), ""
    else:
        health = await probe_address(f"{url.rstrip('/')}/health", {})
    if health.status == 200:
        return Finding("daemon", "ok", f"runs at {url} and is healthy")
    if health.status:
        try:
            problems = "; ".join(json.loads(health.body)["problems"])
        except (ValueError, KeyError, TypeError):
            problems = ""
        unwell = f"runs at {url} and is not well: {problems}"
        advice = "mend that; the daemon recovers by itself, or start it again"
        return Finding("daemon", "fail", unwell, advice)
    found = f"is said to run, but does not answer: {health.error}"
    return Finding("daemon", "warn", found, "start it: aidaemon run")
