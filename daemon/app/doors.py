"""Where a command finds its daemon: the one that runs on this HOME, else the parts it needs in this process (DESIGN 3)."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from daemon.app.house import Parts, open_house
from daemon.config.lastgood import Choice, LastGood, choose
from daemon.config.paths import Paths
from daemon.config.secrets import Secrets
from daemon.door.base import Door
from daemon.door.reading import Reading
from daemon.door.remote import RemoteDoor
from daemon.store.lock import NAME, HomeLock, held
from daemon.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class Opened:
    """A door, whether a daemon is behind it, and what the owner should know of the config first."""

    door: Door
    remote: bool
    model: str = ""
    notice: str = ""


def config_of(paths: Paths) -> Choice:
    """The config file, else the last good one with a notice (A8). Raises ConfigError."""
    secrets = Secrets(paths.secrets).read()
    return choose(paths.config, LastGood(paths.lastgood), env=os.environ, secrets=secrets)


def running_daemon(paths: Paths) -> tuple[str, str] | None:
    """(url, token) of the daemon that holds HOME's lock, None when none does.

    A daemon that was killed leaves its address behind: that counts only while the lock is its own, for by now a chat may
    hold the lock, and a stranger may listen at the address.
    """
    if not held(paths.home):
        return None
    try:
        told = json.loads(paths.daemon.read_text())
        owner = (paths.home / NAME).read_text().strip()
        return (str(told["url"]), str(told["token"])) if str(told["pid"]) == owner else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@asynccontextmanager
async def open_door(
    paths: Paths, *, session: str = "", warm: bool = False, parts: Parts | None = None
) -> AsyncIterator[Opened]:
    """A door to talk through: a running daemon's, else one of this process, which then owns HOME and takes up `session`.

    `warm` gets an embedded model ready meanwhile, for a person who will think before the first word.

    Raises HomeInUse when another process owns HOME that cannot be talked to, ConfigError for a config that is not usable.
    """
    if found := running_daemon(paths):
        async with aclosing(RemoteDoor(*found)) as door:
            yield Opened(door, remote=True)
        return
    choice = config_of(paths)
    with HomeLock(paths.home):
        async with open_house(paths, choice.loaded, parts) as house:
            if warm:
                house.warm_up.start()
            if session:
                await house.sessions.recover(session)
            model = house.config.provider.model()
            yield Opened(house.door, remote=False, model=model, notice=choice.notice)


@asynccontextmanager
async def reading_door(paths: Paths) -> AsyncIterator[Reading | RemoteDoor]:
    """A door to look through: the config may be broken, nothing is taken up, a process that owns HOME is not disturbed."""
    if found := running_daemon(paths):
        async with aclosing(RemoteDoor(*found)) as door:
            yield door
        return
    paths.make_home()
    async with aclosing(await SqliteStore.open(paths.journal)) as store:
        yield Reading(store)
