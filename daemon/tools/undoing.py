"""Taking changes of files back (F8): which turn, which files, and only where nobody has changed them since."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daemon.core.label import Label
from daemon.tools.base import ToolError
from daemon.tools.changes import Author, Files
from daemon.tools.versions import NOTHING, Version, hash_of


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one file."""

    path: str
    done: bool
    words: str


def latest(versions: Sequence[Version], sessions: Collection[str]) -> str:
    """The latest turn of these sessions that changed files and has not been taken back; "" when there is none."""
    own = (one for one in reversed(versions) if one.session in sessions and not one.undone and not one.undoes)
    return next((one.turn for one in own), "")


def by_path(versions: Sequence[Version], turn: str) -> dict[str, list[Version]]:
    """What a turn changed, oldest first, in order of its first change of each file."""
    found: dict[str, list[Version]] = {}
    for version in versions:
        if version.turn == turn:
            found.setdefault(version.path, []).append(version)
    return found


async def take_back(files: Files, turn: str, author: Author) -> list[Taken]:
    """Every file that the turn changed holds what it held before it. Raises StoreUnavailable.

    Each file for itself: one that has been changed since is left alone, and told.
    """
    return [await _take_back(files, path, changes, author) for path, changes in by_path(files.versions.all, turn).items()]


async def _take_back(files: Files, path: str, changes: Sequence[Version], author: Author) -> Taken:
    first, own = changes[0], {one.new for one in changes}  # of several, the last may have been cut off before it was done

    def former(now: bytes | None) -> bytes | None:
        if hash_of(now) == first.old:
            return now
        if hash_of(now) not in own:
            raise ToolError("changed since, so it was left as it is")
        return files.versions.content(first.old)

    as_before = Author(author.session, author.turn, author.call_id, first.label, author.undoes)
    try:
        await files.write(path, former, as_before, mode=first.mode)
    except ToolError as error:
        return Taken(path, done=False, words=str(error).removeprefix(f"{path}: "))
    await files.versions.mark_undone(changes, undone=True)
    await _put_back(files, first.undoes)
    return Taken(path, done=True, words=_words(first))


async def _put_back(files: Files, turn: str) -> None:
    """An undo was taken back: what it had taken back stands again."""
    if turn:
        await files.versions.mark_undone([one for one in files.versions.all if one.turn == turn], undone=False)


def _words(first: Version) -> str:
    if first.old == NOTHING:
        return "removed; it did not exist before"
    return "as it was before" + (" (text from outside)" if first.label is Label.UNTRUSTED else "")
