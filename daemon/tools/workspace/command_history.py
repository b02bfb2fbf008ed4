"""What a command's changes replace is kept for /undo, as that of file tools is (F8)."""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from daemon.core import value
from daemon.core.rows import FileVersion
from daemon.core.trust import Label, join_all
from daemon.tools.workspace.bulk import (
    FOLDER,
    LINK,
    MAX_BULK_BYTES,
    OTHER,
    Archive,
    AtPath,
    Entry,
    count_words,
    name_bulk,
    write_archive,
)
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.fs import READ_FLAGS
from daemon.tools.workspace.index import lstat
from daemon.tools.workspace.labels import NO_FILE, FileLabels, casefold_path

# Above these, all that a command changed is kept as one.
MAX_KEPT_CHANGES, MAX_KEPT_BYTES = 500, 20_000_000
MAX_COUNTED = 1_000_000
NOT_KEPT = "What it changed cannot be taken back by /undo: {}."
TOO_LARGE = f"what stood there is more than {MAX_BULK_BYTES // 1_000_000} MB"


@value
class Former:
    """`versions` for the journal; `why` there are none."""

    versions: Sequence[FileVersion] = ()
    why: str = ""


@value
class Replaced:
    """A path that a command changes, and the digest of what stands there then; or a folder that it
    makes there.
    """

    path: str
    new: str
    place: Path | None = None
    folder: bool = False


def keep_former(
    files: FileStore, replaced: Sequence[Replaced], session: str, turn: str, call_id: str
) -> Former:
    """Contents are on disk when this returns; nothing is changed yet. Too much is not kept. In a
    thread.
    """
    keeper = _Keeper(files, replaced, session, turn, call_id)
    return keeper.keep_each() or keeper.keep_as_one()


class _Keeper:
    """Of what one command changes."""

    def __init__(
        self, files: FileStore, replaced: Sequence[Replaced], session: str, turn: str, call_id: str
    ) -> None:
        self.files, self.labels = files, files.labels.snapshot()
        self.whose = session, turn, call_id
        self.wanted = [one for one in replaced if "/.git/" not in f"/{one.path}/"]
        self.number = int(max(files.versions, default=0))

    def keep_each(self) -> Former | None:
        """Each file by itself; None where that is too much."""
        files, wanted = self.files, [one for one in self.wanted if not one.folder]
        root, labels, space = files.workspace.root, self.labels, MAX_KEPT_BYTES
        found: list[FileVersion] = []
        if len(wanted) > MAX_KEPT_CHANGES:
            return None
        for one in wanted:
            info = files.workspace.stat(one.path)  # never what stands behind a link
            if info and stat.S_ISDIR(info.st_mode) and one.new:
                info = None  # a file in its place: what was in it goes by itself
            if (info and not stat.S_ISREG(info.st_mode)) or (one.place and one.place.is_symlink()):
                continue  # a link: /undo is for what files held
            old = labels.hash_file(one.path) if info else NO_FILE
            if old == one.new:
                continue
            size, mode = (info.st_size, stat.S_IMODE(info.st_mode)) if info else (0, 0o600)
            space -= size
            if space < 0:
                return None
            if info and not _copy(root / one.path, files.folder / old):
                return Former(why=NOT_KEPT.format(f"{files.folder} cannot be written"))
            self.number += 1
            lines = _count_lines(one.place) - (_count_lines(root / one.path) if info else 0)
            found.append(
                FileVersion(
                    f"{self.number:012}", *self.whose, one.path, files.now(), old, one.new, mode,
                    size, labels.find_label(one.path), lines=lines,
                )
            )  # fmt: skip
        return Former(found)

    def keep_as_one(self) -> Former:
        """All in one file, with folders and links."""
        files = self.files
        try:
            name, size, entries = write_archive(
                files.workspace.root, files.folder, self._list_entries, MAX_BULK_BYTES
            )
        except OSError as error:
            why = f"it cannot be kept in {files.folder}: {error.strerror or error}"
            return Former(why=NOT_KEPT.format(why))
        if not name:
            return Former(why=NOT_KEPT.format(TOO_LARGE))
        if not entries:
            return Former()
        path = name_bulk(one.path for one in entries)
        version = FileVersion(
            f"{self.number + 1:012}", *self.whose, path, files.now(), name, count_words(entries),
            0, size, Label.TRUSTED,
        )  # fmt: skip
        return Former([version])

    def _list_entries(self, archive: Archive) -> Iterator[Entry]:
        for path, new in {one.path: _judge_new(one) for one in self.wanted}.items():
            found = archive.add(path)
            if archive.full:
                return
            if found.what == new:
                archive.forget(found)
            elif found.what != OTHER:
                label = find_former_label(self.labels, path, found)
                yield Entry(path, found.what, new, found.mode, label, found.at, found.size)


def _judge_new(one: Replaced) -> str:
    """What will stand there, as an Entry has it."""
    is_link = one.place is not None and one.place.is_symlink()
    return FOLDER if one.folder else LINK + one.new if is_link else one.new


def find_former_label(labels: FileLabels, path: str, found: AtPath) -> Label:
    """Of what stands there now; of a folder, of its name alone."""
    if found.what == NO_FILE:
        return Label.TRUSTED
    if found.what == FOLDER:
        return join_all(one.label for one in labels.by_folded.get(casefold_path(path), {}).values())
    return labels.find_label(path, found.what.removeprefix(LINK))


def _copy(source: Path, target: Path) -> bool:
    """The target is whole or not there."""
    if target.exists():
        return True
    fresh = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        with os.fdopen(os.open(source, READ_FLAGS), "rb") as old, fresh.open("xb") as new:
            os.fchmod(new.fileno(), 0o600)
            shutil.copyfileobj(old, new)
        fresh.rename(target)
    except OSError:
        fresh.unlink(missing_ok=True)
        return False
    return True


def _count_lines(place: Path | None) -> int:
    with suppress(OSError):
        if place and (info := lstat(place)) and info.st_size <= MAX_COUNTED:
            with os.fdopen(os.open(place, READ_FLAGS), "rb") as file:
                data = file.read()
            return 0 if b"\0" in data else data.count(b"\n") + bool(data and data[-1:] != b"\n")
    return 0
