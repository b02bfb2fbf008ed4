"""Where a command finds its daemon: the one that runs on this HOME, else the parts it needs in this process (DESIGN 3)."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from daemon.app.daemon import Overrides, open_daemon
from daemon.client.http import HttpClient
from daemon.client.journal_reader import JournalReader
from daemon.client.protocol import DaemonClient
from daemon.core import value
from daemon.settings.last_good import ConfigChoice, LastGood, choose_config
from daemon.settings.paths import Paths
from daemon.settings.secrets import SecretStore
from daemon.store.lock import LOCK_FILE, HomeLock, is_locked
from daemon.store.sqlite import SqliteStore


@value
class DaemonConnection:
    """A door, whether a daemon is behind it, and what the owner should know of the config first."""

    client: DaemonClient
    remote: bool
    model: str = ""
    notice: str = ""


def load_or_last_good(paths: Paths) -> ConfigChoice:
    """The config file, else the last good one with a notice (A8). Raises ConfigError."""
    secrets = SecretStore(paths.secrets).read_values()
    return choose_config(paths.config, LastGood(paths.lastgood), env=os.environ, secrets=secrets)


def find_running_daemon(paths: Paths) -> tuple[str, str] | None:
    """(url, token) of the daemon that holds HOME's lock, None when none does.

    A daemon that was killed leaves its address behind: that counts only while the lock is its own, for by now a chat may
    hold the lock, and a stranger may listen at the address.
    """
    if not is_locked(paths.home):
        return None
    try:
        told = json.loads(paths.daemon.read_text())
        owner = (paths.home / LOCK_FILE).read_text().strip()
        return (str(told["url"]), str(told["token"])) if str(told["pid"]) == owner else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@asynccontextmanager
async def connect(
    paths: Paths, *, session: str = "", warm: bool = False, parts: Overrides | None = None
) -> AsyncIterator[DaemonConnection]:
    """A door to talk through: a running daemon's, else one of this process, which then owns HOME and takes up `session`.

    `warm` gets an embedded model ready meanwhile, for a person who will think before the first word.

    Raises HomeInUse when another process owns HOME that cannot be talked to, ConfigError for a config that is not usable.
    """
    if found := find_running_daemon(paths):
        yield DaemonConnection(HttpClient(*found), remote=True)
        return
    choice = load_or_last_good(paths)
    with HomeLock(paths.home):
        async with open_daemon(paths, choice.loaded, parts) as house:
            if warm:
                house.warm_up.start()
            if session:
                await house.sessions.recover(session)
            model = house.config.provider.get_model()
            yield DaemonConnection(house.door, remote=False, model=model, notice=choice.notice)


@asynccontextmanager
async def open_reader(paths: Paths) -> AsyncIterator[JournalReader | HttpClient]:
    """A door to look through: the config may be broken, nothing is taken up, a process that owns HOME is not disturbed."""
    if found := find_running_daemon(paths):
        yield HttpClient(*found)
        return
    paths.make_home()
    async with aclosing(await SqliteStore.open(paths.journal)) as store:
        yield JournalReader(store)
