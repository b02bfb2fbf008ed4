"""Brings what a command changed from its layer into the workspace, or holds it for the owner.

Done again after a kill, it does the rest: what was moved is not in the layer any more.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import file_digest, sha256
from pathlib import Path

from daemon.core import value
from daemon.tools.base import ToolError
from daemon.tools.layers.changes import MEANWHILE, Change, ChangeReader, list_files
from daemon.tools.layers.held import FOLDER, Held, hold, make_readable
from daemon.tools.layers.layer import Layer, remove_tree
from daemon.tools.layers.plan import MergePlan
from daemon.tools.layers.step import Step
from daemon.tools.workspace.command_effects import ChangedFile
from daemon.tools.workspace.foreign import TINY
from daemon.tools.workspace.index import lstat, show_name

KEEPS_MODE, OWN_MODE, MAX_LINES, MAX_NAMED = 0o755, 0o600, 20, 3
FOLDER_MODE, PIECE = 0o755, 1_000_000
DELETED = "deleted"
TAIL = (
    "Who left it still sees it in its place. It is in {}; when the owner has looked at it, /trust"
    " PATH brings it there."
)


@value
class Merge:
    """Of one layer whose command has ended; or of one that goes on: then what it changed is copied
    first and judged as copied, and `own` has when it came over. `aside` takes what the owner
    changed meanwhile. All of it works in a thread.
    """

    layer: Layer
    steps: Sequence[Step]
    aside: Path
    own: dict[str, int] | None = None

    @classmethod
    def read(cls, layer: Layer, aside: Path, own: dict[str, int] | None = None) -> "Merge":
        """What it will do."""
        reader, goes_on = ChangeReader(layer, own or {}), own is not None
        changes = [*take(layer, reader.changes)] if goes_on else reader.changes
        return cls(layer, MergePlan(reader, changes, goes_on=goes_on).steps, aside, own)

    def list_files(self) -> Iterator[ChangedFile]:
        """What it leaves, and what it removes."""
        for step in self.steps:
            change = step.change
            if step.action not in ("merge", "hold"):
                continue
            if change.kind == "deleted":
                yield ChangedFile(change.path, gone=True, held=step.action == "hold")
            elif change.kind == "folder":
                yield ChangedFile(change.path, folder=True)
            else:
                if change.kind != "link":
                    make_readable(change.source)
                found = read_file(change.path, change.source, self.layer.place)
                yield replace(found, held=step.action == "hold", place=change.source)

    def apply(self) -> str:
        """In words, what did not come over. Raises ToolError where something is in the layer
        alone still, as with a full disk; then it can be done again.
        """
        held, other, failed = dict[str, str](), list[str](), list[str]()
        if self.own is None:
            merged = (one.change for one in self.steps if one.action == "merge")
            self.layer.note_moves(one.path for one in merged if one.kind != "deleted")
        for step in self.steps:
            try:
                line = self._do(step)
            except OSError as error:
                line = f"{show_name(step.change.path)}: {error.strerror or error}"
                if step.change.kind != "deleted" and not self._put_aside(step):
                    failed.append(line)
            if line:
                other.append(line)
            elif step.action == "hold" and step.change.kind not in ("folder", "deleted"):
                held[step.change.path] = step.reason
        if failed:
            raise ToolError("; ".join(failed[:MAX_NAMED]))
        return describe(held, other, self.layer.held)

    def _put_aside(self, step: Step) -> bool:
        """What cannot stand in its place, such as below a file of the owner's, is kept."""
        with suppress(OSError):
            self._move(step, self.aside)
            return True
        return False

    def _do(self, step: Step) -> str:
        change, path = step.change, step.change.path
        if step.action == "drop":
            return f"{show_name(path)} {step.reason}: not kept" if step.reason else ""
        if step.action in ("keep", "say"):
            return self._keep(step)
        if step.action == "remove":
            return self._put_away(path)
        if step.action == "hold":
            if change.kind == "deleted":
                return "" if self._remove_held(path) else f"{show_name(path)}: not deleted"
            if step.cleaned is not None and not lstat(self.layer.workspace / path):
                self._write(path, step.cleaned)
            self._move(step, self.layer.held)
            return ""
        if self._is_late(step):
            return self._keep(replace(step, action="keep", reason=MEANWHILE))
        if change.kind == "deleted":
            self._remove_held(path)
            self._remove(path)
        else:
            self._move(step, self.layer.workspace)
            if change.kind != "folder":
                self._remove_held(path)
        return ""

    def _is_late(self, step: Step) -> bool:
        """The owner changed the file since it was judged."""
        path = step.change.path
        with suppress(OSError), hold(self.layer.workspace, path) as at:
            info = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
            is_own = info.st_ctime_ns == (self.own or {}).get(path)
            is_folder = stat.S_ISDIR(info.st_mode)
            return not (is_own or is_folder) and self.layer.is_late(info)
        return False

    def _keep(self, step: Step) -> str:
        """Both are kept: the owner's in its place, the command's aside."""
        change, path = step.change, step.change.path
        if change.kind == "deleted":
            return f"{show_name(path)}: {step.reason}, so it was not deleted"
        if step.action == "keep":
            if change.kind == "folder" or not lstat(change.source):
                return ""
            self._move(step, self.aside)
        words = f"{show_name(path)}: {step.reason}; the command's own is {self.aside / path}"
        return words if step.reason else ""

    def _put_away(self, path: str) -> str:
        """A whole folder, which nothing has a history of."""
        self._remove_held(path)
        source, target = self.layer.workspace / path, self.aside / DELETED / path
        if not lstat(source):
            return ""  # an earlier daemon did it
        self.aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        while lstat(target):
            target = target.with_name(f"{target.name}~")
        make_folders(self.aside, str(target.parent.relative_to(self.aside)))
        shutil.move(source, target)
        return f"{show_name(path)} was deleted; the repository is kept in {target}"

    def _move(self, step: Step, root: Path) -> None:
        """By a rename where it is one file system; the folders above are no links."""
        change, source = step.change, step.change.source
        if change.kind == "folder":
            if not any(source.iterdir()):  # else it comes with what is in it, if that comes
                make_folders(root, change.path)
            return
        info = lstat(source)
        if not info:
            return  # an earlier daemon did it
        if not (root / change.path).parent.is_dir():
            make_folders(root, change.path.rpartition("/")[0])
        with hold(root, change.path) as at, hold(self.layer.place, source) as held:
            strip_marks(source)
            if not stat.S_ISLNK(info.st_mode):
                source.chmod((stat.S_IMODE(info.st_mode) & KEEPS_MODE) | OWN_MODE)
            is_moved = root == self.layer.workspace or info.st_nlink == 1
            try:  # what waits has no second name
                if is_moved:
                    os.replace(source, at.name, dst_dir_fd=at.folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                is_moved = False
            if not is_moved:
                copy_across(held, at)
                source.unlink()
            if self.own is not None:
                info = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
                self.own[change.path] = info.st_ctime_ns

    def _write(self, path: str, text: str) -> None:
        fresh = self.layer.place / "cleaned"
        fresh.write_text(text)
        make_folders(self.layer.workspace, path.rpartition("/")[0])
        with hold(self.layer.place, fresh) as held, hold(self.layer.workspace, path) as at:
            copy_across(held, at)

    def _remove(self, path: str) -> None:
        """A folder that the owner has put something into meanwhile stays."""
        with suppress(FileNotFoundError), hold(self.layer.workspace, path) as at:
            info = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
            remove = os.rmdir if stat.S_ISDIR(info.st_mode) else os.unlink
            remove(at.name, dir_fd=at.folder)

    def _remove_held(self, path: str) -> bool:
        if not lstat(self.layer.held / path):
            return False
        with suppress(OSError), hold(self.layer.held, path) as at:
            info = os.stat(at.name, dir_fd=at.folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                shutil.rmtree(at.name, ignore_errors=True, dir_fd=at.folder)
            else:
                os.unlink(at.name, dir_fd=at.folder)
            remove_empty(self.layer.held, path)
            return True
        return False


def take(layer: Layer, changes: Iterable[Change]) -> Iterator[Change]:
    """The changes of one that goes on, with copies that it cannot change any more."""
    remove_tree(layer.taken)
    layer.taken.mkdir()
    for change in changes:
        if change.kind not in ("file", "link", "mode"):
            yield change
            continue
        try:
            make_folders(layer.taken, change.path.rpartition("/")[0])
            with hold(layer.upper, change.path) as held, hold(layer.taken, change.path) as at:
                copy_across(held, at)
                kind = "link" if at.is_link() else "mode" if change.kind == "mode" else "file"
            yield replace(change, kind=kind, source=layer.taken / change.path)
        except FileNotFoundError:
            continue
        except OSError:
            yield replace(change, kind="special")


def bring_held(held: Path, root: Path, path: str) -> list[str]:
    """What waits at this path, or below it, comes to its place by the owner's word. In a thread.
    Raises OSError.
    """
    found = [one for one in list_files(held, "") if f"{one}/".startswith(f"{path}/")]
    for one in found:
        make_folders(root, one.rpartition("/")[0])
        with hold(held, one) as source, hold(root, one) as at:
            copy_across(source, at)
            os.unlink(source.name, dir_fd=source.folder)
        remove_empty(held, one)
    return found


def remove_empty(root: Path, path: str) -> None:
    """The folders above a file that has gone."""
    for folder in Path(path).parents:
        with suppress(OSError):
            if folder.parts:
                (root / folder).rmdir()


def make_folders(root: Path, path: str) -> None:
    """Each that is missing below the root; no link is followed. Raises OSError."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(root, FOLDER)
    try:
        for step in path.split("/") if path else []:
            with suppress(FileExistsError):
                os.mkdir(step, FOLDER_MODE, dir_fd=folder)
            above, folder = folder, os.open(step, FOLDER, dir_fd=folder)
            os.close(above)
    finally:
        os.close(folder)


def copy_across(held: Held, at: Held) -> None:
    """To another file system, or while the source is in use: complete under another name first."""
    name = sha256(os.fsencode(at.name)).hexdigest()
    fresh = Held(at.folder, f".{name}.aidaemon-new")
    with suppress(FileNotFoundError):
        os.unlink(fresh.name, dir_fd=at.folder)
    if held.is_link():
        target = os.readlink(held.name, dir_fd=held.folder)
        os.symlink(target, fresh.name, dir_fd=at.folder)
    else:
        with (
            open(held.name, "rb", opener=held.open) as old,
            open(fresh.name, "xb", opener=fresh.open) as new,
        ):
            info = os.fstat(old.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise OSError(errno.EINVAL, "is no plain file")
            left = info.st_size  # it may grow as long as it is read
            while left > 0 and (data := old.read(min(left, PIECE))):
                left -= new.write(data)
            os.fchmod(new.fileno(), (stat.S_IMODE(info.st_mode) & KEEPS_MODE) | OWN_MODE)
            os.utime(new.fileno(), ns=(info.st_atime_ns, info.st_mtime_ns))
    os.replace(fresh.name, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)


def strip_marks(place: Path) -> None:
    """The overlay's own attributes, and what else a command gave it."""
    with suppress(OSError):
        for name in os.listxattr(place, follow_symlinks=False):
            if name.startswith("user."):
                os.removexattr(place, name, follow_symlinks=False)


def read_file(path: str, source: Path, layer: Path) -> ChangedFile:
    """A file or a link of this layer, as it will be at this path."""
    with suppress(OSError), hold(layer, source) as held:
        if held.is_link():
            target = os.fsencode(os.readlink(held.name, dir_fd=held.folder))
            return ChangedFile(path, sha256(target).hexdigest(), len(target), target[:TINY])
        info = os.stat(held.name, dir_fd=held.folder, follow_symlinks=False)
        with open(held.name, "rb", opener=held.open) as file:
            head = file.read(TINY)
            file.seek(0)
            return ChangedFile(path, file_digest(file, "sha256").hexdigest(), info.st_size, head)
    return ChangedFile(path)


def describe(held: Mapping[str, str], other: Iterable[str], place: Path) -> str:
    """For the model and the owner: what is where, by folder, and how it comes back. `held`: why, by
    path.
    """
    lines = [*other]
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"and {len(lines) - MAX_LINES} more that did not come over"]
    for reason in dict.fromkeys(held.values()):
        paths = [path for path, why in held.items() if why == reason]
        lines.append(f"Set aside, because {reason}; nothing is lost:")
        shown = group_by_folder(paths)
        lines += [f"- {one}" for one in shown[:MAX_LINES]]
        lines += [f"- and {len(shown) - MAX_LINES} more"] * (len(shown) > MAX_LINES)
    return "\n".join((*lines, TAIL.format(place)) if held else lines)


def group_by_folder(paths: Iterable[str]) -> list[str]:
    """The names; of many in one folder, the folder with their count."""
    groups = dict[str, list[str]]()
    for path in paths:
        groups.setdefault(path.rpartition("/")[0], []).append(path)
    shown = list[str]()
    for folder, group in groups.items():
        few = len(group) <= MAX_NAMED
        shown += (
            map(show_name, group) if few else [f"{show_name(folder or '.')}: {len(group)} files"]
        )
    return shown
