"""Undoes the file changes of a turn, where nobody has changed the files since (F8)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from daemon.core import value
from daemon.core.rows import FileVersion
from daemon.core.trust import Label
from daemon.tools.base import ToolError
from daemon.tools.workspace.file_store import NO_FILE, ChangeAuthor, FileStore, hash_content


@value
class UndoResult:
    """What became of one file."""

    path: str
    done: bool
    words: str


def find_latest_turn(versions: Sequence[FileVersion]) -> str:
    """The latest turn that changed files and is not undone; "" for none."""
    changes = (one for one in reversed(versions) if not one.undone and not one.undoes)
    return next((one.turn for one in changes), "")


def group_by_path(versions: Iterable[FileVersion], turn: str) -> dict[str, list[FileVersion]]:
    """The changes of a turn, oldest first, by file."""
    found: dict[str, list[FileVersion]] = {}
    for version in versions:
        if version.turn == turn:
            found.setdefault(version.path, []).append(version)
    return found


async def undo_turn(files: FileStore, turn: str, author: ChangeAuthor) -> list[UndoResult]:
    """Restore every file that the turn changed, unless it was changed since."""
    changes = group_by_path(files.versions.values(), turn)
    return [await _undo_file(files, path, changes[path], author) for path in changes]


async def _undo_file(
    files: FileStore, path: str, changes: Sequence[FileVersion], author: ChangeAuthor
) -> UndoResult:
    # Of several changes, the last may have been cut off before it was made.
    first, own = changes[0], {one.new for one in changes}

    def restore(now: bytes | None) -> bytes | None:
        if hash_content(now) == first.old:
            return now
        if hash_content(now) not in own:
            raise ToolError("changed since, so it was left as it is")
        return files.load_content(first.old)

    try:
        await files.write(path, restore, replace(author, label=first.label), mode=first.mode)
    except ToolError as error:
        return UndoResult(path, done=False, words=str(error).removeprefix(f"{path}: "))
    await files.set_undone(changes, undone=True)
    if first.undoes:  # an undo was undone: what it had undone stands again
        redone = [one for one in files.versions.values() if one.turn == first.undoes]
        await files.set_undone(redone, undone=False)
    if first.old == NO_FILE:
        return UndoResult(path, done=True, words="removed; it did not exist before")
    outside = " (text from outside)" if first.label is Label.UNTRUSTED else ""
    return UndoResult(path, done=True, words=f"as it was before{outside}")
