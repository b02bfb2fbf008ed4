"""Where files are under HOME (http.md, "Files under HOME"); private files, replaced whole."""

import os
from pathlib import Path

from daemon.core import value


def write_private_file(path: Path, text: str) -> None:
    """Replace the file's content in one step, mode 0600: a crash leaves the old file or the new
    one, never half of one.
    """
    import tempfile  # lazy: clients read paths only

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _fsync_folder(path.parent)


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@value
class Paths:
    """HOME and the config file; every other place follows from them."""

    home: Path
    config: Path

    @property
    def lastgood(self) -> Path:
        """The text of the config that last worked (A8)."""
        return self.home / "config.toml.lastgood"

    @property
    def secrets(self) -> Path:
        """Names and values of secrets, readable by the owner alone."""
        return self.home / "secrets.toml"

    @property
    def journal(self) -> Path:
        """The journal."""
        return self.home / "journal.db"

    @property
    def memory(self) -> Path:
        """The memory's own database."""
        return self.home / "memory.db"

    @property
    def daemon(self) -> Path:
        """Where a running daemon says its pid and address."""
        return self.home / "daemon.json"

    @property
    def agents(self) -> Path:
        """Agents' specs, a TOML file each."""
        return self.home / "agents"

    @property
    def undo(self) -> Path:
        """Former content of workspace files that tools changed (F8)."""
        return self.home / "undo"

    @property
    def inbox(self) -> Path:
        """Files that came with messages."""
        return self.home / "files" / "inbox"

    @property
    def outbox(self) -> Path:
        """Copies of files on their way to a conversation."""
        return self.home / "files" / "outbox"

    @property
    def logs(self) -> Path:
        """Log files."""
        return self.home / "logs"

    def make_home(self) -> None:
        """Create HOME, for the owner alone; one that is there is left as it is."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)


def resolve_paths(home: str | None, config: str | None) -> Paths:
    """`--home`, else AIDAEMON_HOME, else ~/.aidaemon; `--config`, else HOME/config.toml."""
    chosen = Path(home or os.environ.get("AIDAEMON_HOME") or "~/.aidaemon").expanduser().absolute()
    return Paths(chosen, Path(config).expanduser().absolute() if config else chosen / "config.toml")
