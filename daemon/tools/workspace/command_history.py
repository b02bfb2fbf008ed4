"""What a command's changes replace is kept for /undo, as that of file tools is (F8)."""

import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from daemon.core import value
from daemon.core.rows import FileVersion
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.fs import READ_FLAGS
from daemon.tools.workspace.index import lstat
from daemon.tools.workspace.labels import NO_FILE

MAX_KEPT_CHANGES, MAX_KEPT_BYTES, MAX_COUNTED = 2000, 20_000_000, 1_000_000
NOT_KEPT = "What it changed cannot be taken back by /undo: {}."


@value
class Former:
    """`versions` for the journal; `why` there are none."""

    versions: Sequence[FileVersion] = ()
    why: str = ""


@value
class Replaced:
    """A path that a command changes, and the digest of what stands there then."""

    path: str
    new: str
    place: Path | None = None


def keep_former(
    files: FileStore, replaced: Sequence[Replaced], session: str, turn: str, call_id: str
) -> Former:
    """Contents are on disk when this returns; nothing is changed yet. Too much is not kept. In a
    thread.
    """
    root, labels = files.workspace.root, files.labels
    wanted = [one for one in replaced if "/.git/" not in f"/{one.path}"]
    if len(wanted) > MAX_KEPT_CHANGES:
        return Former(why=NOT_KEPT.format(f"it is more than {MAX_KEPT_CHANGES} files"))
    found: list[FileVersion] = []
    number, space = int(max(files.versions, default=0)), MAX_KEPT_BYTES
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
            return Former(why=NOT_KEPT.format("what stood there is too large"))
        if info and not _copy(root / one.path, files.folder / old):
            return Former(why=NOT_KEPT.format(f"{files.folder} cannot be written"))
        number += 1
        lines = _count_lines(one.place) - (_count_lines(root / one.path) if info else 0)
        found.append(
            FileVersion(
                f"{number:012}", session, turn, call_id, one.path, files.now(), old, one.new, mode,
                size, labels.find_label(one.path), lines=lines,
            )
        )  # fmt: skip
    return Former(found)


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
