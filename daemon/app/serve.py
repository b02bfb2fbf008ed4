"""`aidaemon run`: the daemon, until it is told to stop."""

import asyncio
import json
import logging
import os
import resource
import secrets as chance
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

from aiohttp import web

from daemon.app.config import list_accounts, load_or_last_good, make_redactor
from daemon.app.daemon import Daemon, Overrides, open_daemon
from daemon.http.app import HttpServer, build_app
from daemon.http.config import HttpConfig
from daemon.http.live import LiveEndpoint
from daemon.http.resources import EventEndpoint
from daemon.loops.teardown import LoopTeardown
from daemon.ops.snapshots import keep_snapshots
from daemon.services.metrics import Metrics
from daemon.services.tracing import trace_turns
from daemon.settings.paths import Paths, write_private_file
from daemon.settings.secrets import SecretStore, disable_core_dumps, redact_logs
from daemon.store.journal import Tx
from daemon.store.lock import lock_home

log = logging.getLogger(__name__)
TOKEN, PAGE_SECRET = "http_token", "page_secret"
MAX_OPEN_FILES = 65_536
SERVERS_TIMEOUT_S = 15.0
FIRST_CONFIG = """\
# config.toml.example shows every key.
[budget]
daily_usd = 5.0     # USD per day; 0: no limit
"""
NO_LIMIT = "daily_usd"
NO_LIMIT_NOTICE = (
    "Your config sets no limit in money for a day, so there is none. New homes begin with 5 USD:"
    " `aidaemon config set budget.daily_usd 5.0` does the same here; 0 keeps it as it is."
)


async def serve(
    paths: Paths, tell: Callable[[str], None], overrides: Overrides | None = None
) -> int:
    """Serve until SIGTERM or SIGINT; a second one exits at once. Tells `ready URL`, and a fallback
    of the config. Gives the exit code.
    """
    raise_file_limit()
    disable_core_dumps()
    write_first_config(paths)
    loaded = load_or_last_good(paths)
    redactor = make_redactor(paths, loaded.config)
    redact_logs(redactor)
    if loaded.notice:
        tell(redactor.redact_text(loaded.notice))
    with lock_home(paths.home):
        make_secrets(paths, loaded.config.http)
        redactor.redact_text("the secrets are read, once")
        async with open_daemon(paths, loaded, overrides) as daemon:
            await _run_until_signal(paths, daemon, tell)
    return 0


async def _run_until_signal(paths: Paths, daemon: Daemon, tell: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop)
    config = daemon.config.http
    kept = SecretStore(paths.secrets)
    token, teardown = get_http_token(config, kept), LoopTeardown(daemon.loops, daemon.config.loops)
    server = HttpServer(config, make_app(daemon, kept, token, teardown))
    url = await server.start()
    try:
        write_private_file(
            paths.daemon, json.dumps({"pid": os.getpid(), "url": url, "token": token})
        )
        daemon.background.start(daemon.warm_up(), "warm-up")
        if not daemon.faults_of_home:  # else the owner decides first what becomes of what there was
            snapshots = keep_snapshots(
                paths, daemon.clock, lambda: daemon.config.store.snapshots, daemon.notifier
            )
            daemon.background.start(snapshots, "daily backup")
        await daemon.wait_for_servers(SERVERS_TIMEOUT_S)
        async with AsyncExitStack() as stack:
            if list_accounts(daemon.config):  # without any, nothing of them is imported
                from daemon.app.channels import run_channels  # lazy: only with channels, 60 ms

                await stack.enter_async_context(run_channels(daemon))
            spans = daemon.config.telemetry
            tracing = trace_turns(spans.endpoint, spans.headers, daemon.store, daemon.event_bus)
            await stack.enter_async_context(tracing)
            await daemon.sessions.recover()
            await daemon.loops.recover()
            await teardown.start()
            await daemon.schedules.start()
            if "daily_usd" not in daemon.config.budget.model_fields_set:
                await daemon.store.write(partial(tell_of_no_limit, daemon.notifier.post_notice))
            for fault in daemon.faults_of_home:
                tell(fault)
                daemon.background.start(daemon.notifier.insist(fault), "notice of HOME")
            tell(daemon.redactor.redact_text(f"ready {url}"))  # reads the secrets, once
            daemon.ready.set()
            if notice := daemon.runtime.loaded.notice:
                await daemon.notifier(notice)
            await stop.wait()
            log.info(
                "stopping: running turns get %g s to finish", daemon.config.agent.drain_seconds
            )
            await teardown.aclose()
            await daemon.loops.aclose()
            await daemon.sessions.aclose(daemon.config.agent.drain_seconds)
    finally:
        with suppress(FileNotFoundError):
            paths.daemon.unlink()
        await server.aclose()


def make_app(
    daemon: Daemon, kept: SecretStore, token: str, teardown: LoopTeardown
) -> web.Application:
    """The HTTP application of this daemon."""
    senders = daemon.config.events
    endpoint = EventEndpoint(daemon.triggers, senders.tokens, senders.signed)
    return build_app(
        daemon.client,
        token,
        users=daemon.config.http.users,
        events=endpoint if senders.enabled else None,
        metrics=make_metrics(daemon).render,
        live=LiveEndpoint(daemon.loops.hub, teardown),
        page_secret=get_secret(kept, PAGE_SECRET),
    )


def make_metrics(daemon: Daemon) -> Metrics:
    """Of what this daemon has."""
    overview = daemon.client.overview
    return Metrics(
        daemon.store,
        daemon.clock,
        daemon.usage.today,
        overview.list_channels,
        overview.list_servers,
        overview.problems,
    )


def write_first_config(paths: Paths) -> None:
    """A HOME that nobody has used or configured begins with a limit in money."""
    is_own = paths.config.parent == paths.home
    known = (paths.config, paths.journal, paths.lastgood, paths.backups)
    if is_own and not any(path.exists() for path in known):
        paths.make_home()
        write_private_file(paths.config, FIRST_CONFIG)


def tell_of_no_limit(post_notice: Callable[[Tx, str], bool], tx: Tx) -> None:
    """Once, to the owner of a HOME of before; later, as long as there is nobody to tell."""
    if tx.has_untold(NO_LIMIT) and post_notice(tx, NO_LIMIT_NOTICE):
        tx.remove_untold(NO_LIMIT)


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(130)
    stop.set()


def get_http_token(config: HttpConfig, secrets: SecretStore) -> str:
    """The configured token, else one that is made once and kept among the secrets."""
    return config.token or get_secret(secrets, TOKEN)


def make_secrets(paths: Paths, config: HttpConfig) -> None:
    """The daemon's own, before the secrets are read: what changes later is read anew in a turn."""
    kept = SecretStore(paths.secrets)
    get_http_token(config, kept)
    get_secret(kept, PAGE_SECRET)


def get_secret(secrets: SecretStore, name: str) -> str:
    """A secret of the daemon's own, made once."""
    if known := secrets.read_values().get(name):
        return known
    made = chance.token_urlsafe(32)
    secrets.put(name, made)
    return made


def raise_file_limit() -> None:
    """A thousand conversations need more open files than a login shell allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
