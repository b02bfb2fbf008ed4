"""/undo: files get back what they held before a turn, unless they were changed since (F8).

What a command did to very many files is taken back as one: what stands there by now is kept first,
then it is written down, then it is done. After a kill the next try goes on: what is as it was
before already stays so.
"""

import asyncio
import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from secrets import token_hex

from daemon.core import value
from daemon.core.clock import run_to_completion
from daemon.core.rows import FileLabel, FileVersion
from daemon.core.trust import Label
from daemon.tools.base import ToolError
from daemon.tools.workspace.bulk import (
    FOLDER,
    LINK,
    MAX_BULK_BYTES,
    OTHER,
    Archive,
    AtPath,
    Entry,
    count_words,
    is_bulk,
    load_head,
    load_pieces,
    name_bulk,
    read_archive,
    write_archive,
)
from daemon.tools.workspace.command_history import find_former_label
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.foreign import TINY, HeldContent
from daemon.tools.workspace.fs import CREATE_FLAGS, DIRECTORY_FLAGS, IDENTITY, open_beneath
from daemon.tools.workspace.labels import NO_FILE, hash_content

CHANGED_SINCE = "changed since, so it was left as it is"
MAX_LEFT, MAX_FOREIGN = 20, 5_000
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE)
NOT_KEPT = "; what they held was too much to be kept, so this cannot be reverted"


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
    """Restore every file that the turn changed, the last first, unless it was changed since."""
    versions = [one for one in files.versions.values() if one.turn == turn]
    bulk, chains = [one for one in versions if is_bulk(one)], dict[str, Chain]()
    many = list[UndoResult]()
    try:
        chains = await asyncio.to_thread(list_chains, files, versions) if bulk else {}
    except ToolError as error:
        many = [UndoResult(bulk[0].path, done=False, words=str(error))]
    alone = [one for one in versions if not is_bulk(one) and one.path not in chains]
    changes = group_by_path(alone, turn)
    found = [await _undo_file(files, path, changes[path], author) for path in reversed(changes)]
    if chains:  # last: what is kept of it may be so much that older versions are pruned
        many = await run_to_completion(_undo_many(files, versions, chains, author))
    return many + found[::-1]


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
    if path.startswith(".git/"):
        return UndoResult(path, done=True, words="the branch is where it was before")
    if first.old == NO_FILE:
        return UndoResult(path, done=True, words="removed; it did not exist before")
    outside = " (text from outside)" if first.label is Label.UNTRUSTED else ""
    return UndoResult(path, done=True, words=f"as it was before{outside}")


@value
class Chain:
    """A path that one turn changed, perhaps several times: what stood there first, and what came
    there.
    """

    first: Entry
    own: frozenset[str]

    def has_left(self, what: str) -> bool:
        """The turn left this there; or an undo, between a file and a folder, that was cut off."""
        changes_kind = any((one == FOLDER) != (self.first.old == FOLDER) for one in self.own)
        return what in self.own or (what == NO_FILE and changes_kind and NO_FILE not in self.own)


def list_chains(files: FileStore, versions: Iterable[FileVersion]) -> dict[str, Chain]:
    """Of every path that a record of many files names. In a thread. Raises ToolError."""
    found, many = dict[str, Chain](), set[str]()
    for version in versions:
        for entry in read_archive(files.folder, version):
            known = found.get(entry.path)
            own = known.own if known else frozenset[str]()
            first = known.first if known else entry
            found[entry.path] = Chain(first, own | {entry.new})
            if is_bulk(version):
                many.add(entry.path)
    return {path: found[path] for path in sorted(many)}


async def _undo_many(
    files: FileStore,
    versions: Sequence[FileVersion],
    chains: Mapping[str, Chain],
    author: ChangeAuthor,
) -> list[UndoResult]:
    """What became of the paths of these chains. What failed in part may be tried again."""
    undo = BulkUndo(files, chains, author, name_bulk(chains))
    try:
        async with files.lock:
            await undo.run()
            done = [one for one in versions if is_bulk(one) or one.path in chains]
            if undo.done and not undo.failed:
                await files.set_undone(done, undone=True)
                if undoes := versions[0].undoes:
                    redone = [one for one in files.versions.values() if one.turn == undoes]
                    await files.set_undone(redone, undone=False)
            await files.prune_if_due()
    except ToolError as error:
        return [UndoResult(undo.name, done=False, words=str(error))]
    return undo.describe()


@dataclass(slots=True)
class BulkUndo:
    """Of one turn. `found`: what stood at the paths that are to be changed; `done`: those that are
    as they were before; `left`: why others are not; `failed`: something hindered it, such as a full
    disk.
    """

    files: FileStore
    chains: Mapping[str, Chain]
    author: ChangeAuthor
    name: str
    found: dict[str, AtPath] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    left: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    is_kept: bool = True
    _disguised: dict[str, bool] = field(default_factory=dict)

    async def run(self) -> None:
        """The caller holds the lock of the files. Raises ToolError, with nothing changed."""
        files, labels, turn = self.files, self.files.labels, self.author.turn
        version = await asyncio.to_thread(self._keep)
        changing = [self.chains[path].first for path in self.found]
        bad = [one for one in changing if one.label is Label.UNTRUSTED]
        added, held = await asyncio.to_thread(self._label_bad, bad)
        foreign = labels.find_new_foreign(held, turn)
        await labels.save(added, foreign, version)
        files.add_versions(version)
        await asyncio.to_thread(self._carry_out)
        gone, good = await asyncio.to_thread(self._label_good)
        await labels.remove(gone)
        await labels.save(good)

    def _keep(self) -> list[FileVersion]:
        """What stands there now is on disk when this returns, with the record of it."""
        files, author = self.files, self.author
        try:
            name, size, entries = write_archive(
                files.workspace.root, files.folder, self._look, MAX_BULK_BYTES
            )
        except OSError as error:
            why = error.strerror or error
            raise ToolError(
                f"what is there now could not be kept in {files.folder}: {why}; nothing was changed"
            ) from error
        self.is_kept = bool(name)
        if not (name and entries):
            return []
        number = int(max(files.versions, default=0)) + 1
        return [
            FileVersion(
                f"{number:012}", author.session, author.turn, author.call_id, self.name,
                files.now(), name, count_words(entries), 0, size, Label.TRUSTED, author.undoes,
            )
        ]  # fmt: skip

    def _look(self, archive: Archive) -> Iterator[Entry]:
        """Which are to be changed, each as it is now."""
        labels = self.files.labels.snapshot()
        for path, chain in self.chains.items():
            first, now = chain.first, archive.add(path)
            if now.what == first.old:
                self.done.add(path)
                archive.forget(now)
            elif now.what == OTHER or not chain.has_left(now.what):
                self.left[path] = CHANGED_SINCE
                archive.forget(now)
            elif self._is_disguised(path):
                self.left[path] = "a protected file or folder that was renamed"
                archive.forget(now)
            else:
                self.found[path] = now
                label = find_former_label(labels, path, now)
                yield Entry(path, now.what, first.old, now.mode, label, now.at, now.size)

    def _is_disguised(self, path: str) -> bool:
        """It, or a folder above it, is protected by another name."""
        if path not in self._disguised:
            workspace, above = self.files.workspace, path.rpartition("/")[0]
            info = workspace.stat(path)
            own = info is not None and workspace.is_disguised(path, info)
            self._disguised[path] = own or (bool(above) and self._is_disguised(above))
        return self._disguised[path]

    def _label_bad(self, bad: Sequence[Entry]) -> tuple[list[FileLabel], list[HeldContent]]:
        """Labels for what is restored and is a stranger's, and what such files hold."""
        labels, turn, folder = self.files.labels, self.author.turn, self.files.folder
        names, added, held = set[str](), list[FileLabel](), list[HeldContent]()
        for one in bad:
            if one.old == FOLDER:
                names.add(one.path)
                continue
            names |= {one.path[:at] for at, sign in enumerate(one.path) if sign == "/"}
            digest, holds = one.old.removeprefix(LINK), labels.list_held([one.path])
            added.append(FileLabel(one.path, Label.UNTRUSTED, turn, digest=digest, holds=holds))
            if len(held) < MAX_FOREIGN:
                held.append(HeldContent(one.path, digest, one.size, load_head(folder, one, TINY)))
        made = sorted(one for one in names if one in self.found)
        return [*labels.label_new_names(made, turn), *added], held

    def _carry_out(self) -> None:
        """First what is there goes, what is in a folder before the folder; then the rest comes."""
        restored = list[Entry]()
        for path in sorted(self.found, reverse=True):
            first, now = self.chains[path].first, self.found[path]
            changes_kind = (now.what == FOLDER) != (first.old == FOLDER)
            with self._noting(path):
                if now.what != NO_FILE and (first.old == NO_FILE or changes_kind):
                    self._remove(path, now, must=first.old != NO_FILE)
        for path in sorted(self.found.keys() - self.left.keys()):
            first = self.chains[path].first
            with self._noting(path):
                if first.old == FOLDER:
                    self._make_folder(path)
                    restored.append(first)
                elif first.old != NO_FILE:
                    self._restore(first, self.found[path])
                self.done.add(path)
        for one in reversed(restored):
            with self._noting(one.path):
                folder = self._open(one.path.split("/"))
                os.fchmod(folder, one.mode)
                os.close(folder)

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        """Whatever fails is said of this path alone."""
        try:
            yield
        except ToolError as error:
            self.left[path] = str(error)
        except OSError as error:
            self.left[path] = error.strerror or str(error)
            self.failed = self.failed or error.errno in PASSING

    def _open(self, steps: Sequence[str]) -> int:
        return open_beneath(self.files.workspace.root, steps, DIRECTORY_FLAGS)

    def _remove(self, path: str, now: AtPath, *, must: bool) -> None:
        """A folder stays if the owner has put something into it."""
        *above, name = path.split("/")
        folder = self._open(above)
        try:
            if now.what == FOLDER:
                try:
                    os.rmdir(name, dir_fd=folder)
                except OSError as error:
                    if must or error.errno != errno.ENOTEMPTY:
                        raise
            else:
                _check(folder, name, now)
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)

    def _make_folder(self, path: str) -> None:
        steps = path.split("/")
        os.close(open_beneath(self.files.workspace.root, steps, DIRECTORY_FLAGS, []))

    def _restore(self, entry: Entry, now: AtPath) -> None:
        """Complete under another name first, which is none of the workspace's where that can be."""
        *above, name = entry.path.split("/")
        root = self.files.workspace.root
        folder = open_beneath(root, above, DIRECTORY_FLAGS, [])
        try:
            was_removed = now.what == FOLDER
            target, fresh = -1, f".{token_hex(8)}.tmp"
            for place in (self.files.folder, None):
                target = os.dup(folder) if place is None else os.open(place, DIRECTORY_FLAGS)
                try:
                    self._write(entry, fresh, target)
                    _check(folder, name, AtPath() if was_removed else now)
                    os.rename(fresh, name, src_dir_fd=target, dst_dir_fd=folder)
                    return
                except OSError as error:
                    if error.errno != errno.EXDEV or place is None:
                        raise
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(fresh, dir_fd=target)
                    os.close(target)
        finally:
            os.close(folder)

    def _write(self, entry: Entry, fresh: str, folder: int) -> None:
        pieces = load_pieces(self.files.folder, entry)
        if entry.old.startswith(LINK):
            os.symlink(b"".join(pieces), os.fsencode(fresh), dir_fd=folder)
            return
        with os.fdopen(os.open(fresh, CREATE_FLAGS, 0o600, dir_fd=folder), "wb") as file:
            file.writelines(pieces)
            os.fchmod(file.fileno(), entry.mode)

    def _label_good(self) -> tuple[list[str], list[FileLabel]]:
        """Paths that need no label any more, and labels of what is the owner's again."""
        labels, turn = self.files.labels.snapshot(), self.author.turn
        gone, good = list[str](), list[FileLabel]()
        for path in self.done:
            one = self.chains[path].first
            if one.old == NO_FILE or one.old == FOLDER:
                is_free = one.old == NO_FILE and not self.files.workspace.stat(path)
                gone += [path] * is_free
            elif one.label is Label.TRUSTED:
                digest = one.old.removeprefix(LINK)
                if labels.needs_row(path, digest):
                    good.append(FileLabel(path, Label.TRUSTED, turn, digest=digest))
                else:
                    gone.append(path)
        return gone, good

    def describe(self) -> list[UndoResult]:
        """Of all at once; of what was left, path by path."""
        firsts = [self.chains[path].first for path in sorted(self.done)]
        files = [
            one for one in firsts if one.old != FOLDER and self.chains[one.path].own != {FOLDER}
        ]
        removed = sum(one.old == NO_FILE for one in files)
        counts = (
            (removed, "removed that did not exist before"),
            (len(files) - removed, "as before"),
        )
        words = ", ".join(f"{count} files {what}" for count, what in counts if count)
        strange = any(one.label is Label.UNTRUSTED for one in files)
        words += " (some with text from outside)" * strange + NOT_KEPT * (not self.is_kept)
        results = [UndoResult(self.name, done=True, words=words or "as before")] * bool(firsts)
        left = [UndoResult(path, done=False, words=why) for path, why in sorted(self.left.items())]
        results += left[:MAX_LEFT]
        if (more := len(left) - MAX_LEFT) > 0:
            results.append(UndoResult(self.name, done=False, words=f"{more} more like these"))
        return results


def _check(folder: int, name: str, now: AtPath) -> None:
    """It is what was looked at. Raises ToolError."""
    info = None
    with suppress(FileNotFoundError):
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (info and IDENTITY(info)) != (now.info and IDENTITY(now.info)):
        raise ToolError(CHANGED_SINCE)
