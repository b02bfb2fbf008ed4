"""`aidaemon run`: the daemon, until it is told to stop."""

import asyncio
import json
import logging
import os
import resource
import secrets as chance
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import cast

from daemon import addons as plugins
from daemon.app.config import list_accounts
from daemon.app.connect import load_or_last_good
from daemon.app.daemon import ChannelDeps, Daemon, Overrides, open_daemon
from daemon.http.app import HttpServer, build_app
from daemon.http.config import HttpConfig
from daemon.http.resources import EventEndpoint
from daemon.settings.paths import Paths, write_private_file
from daemon.settings.secret_values import disable_core_dumps, make_redactor, redact_logs
from daemon.settings.secrets import SecretStore
from daemon.store.lock import HomeLock

log = logging.getLogger(__name__)
TOKEN = "http_token"
MAX_OPEN_FILES = 65_536
SERVERS_TIMEOUT_S = 5.0

RunChannels = Callable[[ChannelDeps], AbstractAsyncContextManager[None]]


async def serve(paths: Paths, tell: Callable[[str], None], parts: Overrides | None = None) -> int:
    """Serve until SIGTERM or SIGINT; a second one leaves at once. Tells `ready URL`, and what ails the config. The exit code."""
    raise_file_limit()
    disable_core_dumps()
    choice = load_or_last_good(paths)
    known = make_redactor(paths, choice.loaded.config)
    redact_logs(known)
    if choice.notice:
        tell(known.redact_text(choice.notice))
    with HomeLock(paths.home):
        async with open_daemon(paths, choice.loaded, parts) as house:
            await _run_until_signal(paths, house, tell)
    return 0


async def _run_until_signal(paths: Paths, house: Daemon, tell: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop)
    config = house.config.http
    token = get_http_token(config, SecretStore(paths.secrets))
    senders = house.config.events
    events = EventEndpoint(house.events, senders.tokens) if senders.enabled else None
    server = HttpServer(config, build_app(house.door, token, users=config.users, events=events))
    url = await server.start()
    house.warm_up.start()
    try:
        write_private_file(
            paths.daemon, json.dumps({"pid": os.getpid(), "url": url, "token": token})
        )
        await house.wait_for_servers(SERVERS_TIMEOUT_S)
        async with _open_channels(house):
            await house.sessions.recover()
            await house.loops.recover()
            tell(f"ready {url}")
            await stop.wait()
            log.info("stopping: running turns get %g s to finish", house.config.agent.drain_seconds)
            await house.loops.aclose()
            await house.sessions.aclose(house.config.agent.drain_seconds)
    finally:
        with suppress(FileNotFoundError):
            paths.daemon.unlink()
        await server.aclose()


def _open_channels(house: Daemon) -> AbstractAsyncContextManager[None]:
    """The channels at work; without any, nothing of them is imported."""
    if not list_accounts(house.config):
        return nullcontext()
    return cast(RunChannels, plugins.load_addon("house", "channels"))(house.channel_deps)


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(130)
    stop.set()


def get_http_token(config: HttpConfig, secrets: SecretStore) -> str:
    """The configured token, else one that is made once and kept among the secrets."""
    if config.token:
        return config.token
    known = secrets.read_values().get(TOKEN)
    if known:
        return known
    token = chance.token_urlsafe(32)
    secrets.put(TOKEN, token)
    return token


def raise_file_limit() -> None:
    """A thousand conversations need more open files than a login shell gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
