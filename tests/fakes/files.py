"""The file tools over a workspace and a journal on disk."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from daemon.core.rows import FileLabel, LabelScope
from daemon.core.trust import Label
from daemon.store.journal import Store
from daemon.store.sqlite import SqliteStore
from daemon.tools.documents.reader import DocumentReader
from daemon.tools.shell.sandbox import Sandbox
from daemon.tools.workspace.edits import delete_line, edit_file, write_file
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.files import FileReader, SearchScope, list_dir, read_file, search_files
from daemon.tools.workspace.fs import Workspace
from tests.fakes.tools import Bench, SteadyClock


def write_bytes(files: Workspace, path: str, data: bytes) -> None:
    """The file holds this."""
    with files.prepare_write(path) as pending:
        pending.stage(data, files.root.parent)
        pending.commit()


OPENED: list[SqliteStore] = []


async def open_store(path: Path) -> SqliteStore:
    """A journal that ends with the test."""
    store = await SqliteStore.open(path)
    OPENED.append(store)
    return store


def close_stores() -> None:
    """Those that `open_store` opened; the end of each test does it."""
    for store in OPENED:
        for connection in (store._read_thread, store._write_thread):
            connection.stop()
            connection._thread.join()
    OPENED.clear()


TOOLS = (read_file, write_file, edit_file, delete_line, list_dir, search_files)


@dataclass
class Desk:
    """A workspace, its versions and labels; `again` is a restart of the daemon."""

    files: FileStore
    store: Store
    clock: SteadyClock = field(default_factory=SteadyClock)

    @classmethod
    async def at(cls, home: Path, store: Store | None = None, trusted: bool = True) -> Self:
        """In home/workspace, which is made."""
        root = home.resolve() / "workspace"
        root.mkdir(exist_ok=True)
        store = store or await open_store(home / "journal.db")
        clock = SteadyClock()
        files = await FileStore.open(Workspace(root), home / "undo", store, clock.now)
        if trusted:  # as an owner does who has a folder of their own
            await files.labels.save([FileLabel("", Label.TRUSTED, "", LabelScope.TREE)])
        return cls(files, store, clock)

    @property
    def root(self) -> Path:
        return self.files.workspace.root

    async def again(self) -> "Desk":
        return await Desk.at(self.root.parent, self.store)

    def bench(self, label: Label = Label.TRUSTED, protected: tuple[str, ...] = ()) -> Bench:
        """A turn with this label and the file tools; writing is allowed to it."""
        parts: dict[type, object] = {
            FileStore: self.files,
            FileReader: FileReader(self.files, DocumentReader(Sandbox(self.root, "bubblewrap"))),
            SearchScope: SearchScope(self.files, protected, regex_s=0.5),
        }
        granted = ("write_file", "edit_file") if label is Label.UNTRUSTED else ()
        return Bench(TOOLS, parts, label=label, granted=granted, protected=protected)

    async def write(
        self, path: str, text: str | None, turn: str = "t1", label: Label = Label.TRUSTED
    ) -> None:
        """As a turn of the session "chat" would."""
        data = None if text is None else text.encode()
        await self.files.write(path, lambda old: data, ChangeAuthor("chat", turn, "call", label))
