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

from daemon import plugins
from daemon.app.accounts import configured
from daemon.app.discretion import discreet_logs, undumpable
from daemon.app.doors import config_of
from daemon.app.house import House, Parts, open_house
from daemon.app.works import Works
from daemon.config.hidden import redactor
from daemon.config.paths import Paths
from daemon.config.private import write_private
from daemon.config.secrets import Secrets
from daemon.http.api import build
from daemon.http.config import HttpConfig
from daemon.http.events import EventDoor
from daemon.http.server import HttpServer
from daemon.store.lock import HomeLock

log = logging.getLogger(__name__)
TOKEN = "http_token"
MOST_FILES = 65_536
READY_S = 5.0

Open = Callable[[Works], AbstractAsyncContextManager[None]]


async def serve(paths: Paths, tell: Callable[[str], None], parts: Parts | None = None) -> int:
    """Serve until SIGTERM or SIGINT; a second one leaves at once. Tells `ready URL`, and what ails the config. The exit code."""
    more_files()
    undumpable()
    choice = config_of(paths)
    known = redactor(paths, choice.loaded.config)
    discreet_logs(known)
    if choice.notice:
        tell(known.text(choice.notice))
    with HomeLock(paths.home):
        async with open_house(paths, choice.loaded, parts) as house:
            await _until_told(paths, house, tell)
    return 0


async def _until_told(paths: Paths, house: House, tell: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _told, stop)
    config = house.config.http
    token = token_of(config, Secrets(paths.secrets))
    senders = house.config.events
    events = EventDoor(house.events, senders.tokens) if senders.enabled else None
    server = HttpServer(config, build(house.door, token, users=config.users, events=events))
    url = await server.start()
    house.warm_up.start()
    try:
        write_private(paths.daemon, json.dumps({"pid": os.getpid(), "url": url, "token": token}))
        await house.ready(READY_S)
        async with _channels(house):
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


def _channels(house: House) -> AbstractAsyncContextManager[None]:
    """The channels at work; without any, nothing of them is imported."""
    if not configured(house.config):
        return nullcontext()
    return cast(Open, plugins.load("house", "channels"))(house.works)


def _told(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(130)
    stop.set()


def token_of(config: HttpConfig, secrets: Secrets) -> str:
    """The configured token, else one that is made once and kept among the secrets."""
    if config.token:
        return config.token
    known = secrets.read().get(TOKEN)
    if known:
        return known
    token = chance.token_urlsafe(32)
    secrets.put(TOKEN, token)
    return token


def more_files() -> None:
    """A thousand conversations need more open files than a login shell gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
