"""Connects a command to the daemon that runs on this HOME, else to one of this process."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import field

from daemon.app.config import load_or_last_good
from daemon.app.daemon import Overrides, open_daemon
from daemon.client.http import find_running_daemon
from daemon.client.protocol import DaemonClient, RunReader
from daemon.client.reader import JournalReader
from daemon.commands.registry import COMMANDS
from daemon.core import value
from daemon.core.rows import SCHEDULE_CHANNEL
from daemon.settings.paths import Paths
from daemon.store.lock import lock_home
from daemon.store.sqlite import SqliteStore
from daemon.triggers.schedules import IN_CHAT


def list_commands() -> dict[str, str]:
    """Chat commands with their help lines."""
    return {f"/{command.name}": command.help for command in COMMANDS.values()}


@value
class DaemonConnection:
    """A client, whether a daemon runs behind it, and a notice about the config. `loads`: this
    process loads an embedded model first.
    """

    client: DaemonClient
    remote: bool
    model: str = ""
    notice: str = ""
    loads: bool = False
    commands: Mapping[str, str] = field(default_factory=list_commands)


@asynccontextmanager
async def connect(
    paths: Paths,
    *,
    session: str = "",
    warm: bool = False,
    fires: bool = False,
    overrides: Overrides | None = None,
) -> AsyncIterator[DaemonConnection]:
    """A client of a running daemon, else of this process, which owns HOME and resumes `session`.

    `warm` loads an embedded model meanwhile, while the person types. With `fires` schedules are run
    by this process, as long as it is connected.

    Raises HomeInUse when another process owns HOME, ConfigError for a config that is invalid.
    """
    if client := find_running_daemon(paths):
        yield DaemonConnection(client, remote=True)
        return
    loaded = load_or_last_good(paths)
    with lock_home(paths.home):
        async with open_daemon(paths, loaded, overrides) as daemon:
            daemon.ready.set()
            if warm:
                daemon.background.start(daemon.warm_up(), "warm-up")
            if fires:
                await daemon.schedules.start(IN_CHAT)
            if session:
                also = f"{SCHEDULE_CHANNEL}_" if fires else ""
                await daemon.sessions.recover(session, also=also)
            model = daemon.config.provider.get_model()
            notice = "\n".join(filter(None, (loaded.notice, *daemon.faults_of_home)))
            loads = daemon.config.provider.kind == "local"
            yield DaemonConnection(daemon.client, False, model, notice, loads)


@asynccontextmanager
async def open_reader(paths: Paths) -> AsyncIterator[RunReader]:
    """A client that only reads: the config may be broken, and nothing is resumed."""
    if client := find_running_daemon(paths):
        yield client
        return
    paths.make_home()
    async with aclosing(await SqliteStore.open(paths.journal)) as store:
        yield JournalReader(store)
