"""Where files are under HOME; private files, replaced whole."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_private_file(path: Path, text: str | bytes) -> None:
    """Replace the file's content in one step, mode 0600: a crash leaves the old file or the new
    one, never half of one.
    """
    import tempfile  # lazy: clients read paths only

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    flush_to_disk(path.parent)


def flush_to_disk(path: Path) -> None:
    """What is in the file, or which names are in the folder, outlives a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """One writer at a time, whatever process it is in. Creates the folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class Paths:
    """HOME and the config file; every other place follows from them."""

    def __init__(self, home: Path, config: Path) -> None:
        self.home, self.config = home, config
        self.lastgood = home / "config.toml.lastgood"  # the text of the config that last worked
        self.secrets = home / "secrets.toml"  # readable by the owner alone
        self.journal = home / "journal.db"
        self.memory = home / "memory.db"
        self.daemon = home / "daemon.json"  # pid and address of a running daemon
        self.agents = home / "agents"  # a TOML file each
        self.undo = home / "undo"  # former content of workspace files that tools changed (F8)
        self.inbox = home / "files" / "inbox"  # files that came with messages
        self.outbox = home / "files" / "outbox"  # copies of files on their way to a conversation
        self.packages = home / "mcp-packages"  # MCP servers that were installed
        self.logs = home / "logs"
        self.backups = home / "backups"  # snapshots, copies before migrations, what was replaced

    def make_home(self) -> None:
        """Create HOME, for the owner alone; one that is there is left as it is."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)


def resolve_paths(home: str | None, config: str | None) -> Paths:
    """`--home`, else AIDAEMON_HOME, else ~/.aidaemon; `--config`, else HOME/config.toml."""
    chosen = Path(home or os.environ.get("AIDAEMON_HOME") or "~/.aidaemon").expanduser().absolute()
    return Paths(chosen, Path(config).expanduser().absolute() if config else chosen / "config.toml")
