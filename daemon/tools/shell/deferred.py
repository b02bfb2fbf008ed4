"""What lies in a workspace and runs later, outside the sandbox, when its owner only uses git, a
shell, an editor or an environment there: hooks, settings, start-up files, launchers. It is closed
to commands. What they leave of it is set aside when they end, or at the daemon's next start.
"""

import logging
import math
import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from threading import Lock
from urllib.parse import quote, unquote

from pydantic import TypeAdapter

from daemon.core import value
from daemon.tools.base import ToolError
from daemon.tools.layers.held import Held, copy_held, hold, move_held
from daemon.tools.layers.runs_later import (
    Kind,
    clean_settings,
    clean_steps,
    judge_folder,
    judge_links,
    only_paths,
)

MAX_CLOSED, MAX_NAME = 2000, 200
OPEN = frozenset(("launchers", "steps", "compiled"))  # commands write them; looked at afterwards
TOO_MANY = (
    "Not run: {} places in the workspace could run programs later (repositories, settings), and no"
    " more than {} can be closed to a command. Most are in {}: the owner removes it, or moves it"
    " out of the workspace."
)
LENT, KEPT, NOTE = "lent", "kept", ".running.json"
SERVER, TOUCHED_S = "server-", 30.0
log = logging.getLogger(__name__)


@value
class Deferred:
    """`stamp` changes when it does; `identity` when another one stands in its place."""

    path: str
    kind: Kind
    identity: tuple[int, int]
    stamp: str
    is_linked: bool
    by: str = ""  # what names it, if it has no name of its own


def find_deferred(root: Path, since: float = math.inf) -> dict[str, Deferred]:
    """All that runs later, by its path, and what Python compiled `since` then. No link is followed;
    in a thread.
    """
    found: dict[str, Deferred] = {}
    folders = [""]
    while folders:
        place = folders.pop()
        with suppress(OSError), os.scandir(root / place) as entries:
            inside, links = dict[str, bool](), set[str]()
            judged: list[tuple[str, Kind, str]] = []
            for entry in entries:
                inside[entry.name] = entry.is_dir(follow_symlinks=False)
                path = f"{place}/{entry.name}".lstrip("/")
                if entry.is_symlink():
                    links.add(entry.name)
                    continue
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISSOCK(info.st_mode):
                    judged.append((path, "socket", ""))
                elif entry.name.endswith(".pyc") and info.st_ctime_ns >= since:
                    judged.append((path, "compiled", ""))
            judged += (*judge_folder(root, place, inside), *judge_links(place, links))
            for path, kind, by in judged:
                with suppress(OSError):
                    if by and path in found:
                        continue
                    if kind != "launchers" or not _is_empty(root / path):
                        found[path] = _stamp(root, path, kind, by)
            # Nobody works in a folder there; elsewhere `objects` is a name like any other.
            skipped = "objects" if ".git" in place.split("/") else ""
            for name, is_folder in inside.items():
                if is_folder and name != skipped:
                    folders.append(f"{place}/{name}".lstrip("/"))
    return found


def _is_empty(place: Path) -> bool:
    return place.is_dir() and not any(place.iterdir())


def _stamp(root: Path, path: str, kind: Kind, by: str = "") -> Deferred:
    place = root / path
    info = place.lstat()
    is_folder = stat.S_ISDIR(info.st_mode)
    within = sorted(place.rglob("*")) if is_folder and kind != "repository" else []
    stamps = [
        (str(one.relative_to(place)), one.lstat().st_ino, one.lstat().st_ctime_ns) for one in within
    ]
    own = "" if is_folder else f"{info.st_mtime_ns} {info.st_size} {info.st_ctime_ns}"
    digest = sha256(repr((own, stamps)).encode()).hexdigest()
    linked = not is_folder and info.st_nlink > 1
    return Deferred(path, kind, (info.st_dev, info.st_ino), digest, linked, by)


def close_deferred(root: Path, found: Iterable[Deferred]) -> Iterator[str]:
    """Words for bubblewrap: a repository cannot be renamed, all else not be changed.

    Launchers can: installing writes them. They are put back as they were. Raises ToolError.
    """
    closed = [one for one in found if one.kind not in OPEN]
    if len(closed) > MAX_CLOSED:
        many = Counter(one.path.partition("/")[0] for one in closed).most_common(1)[0][0]
        raise ToolError(TOO_MANY.format(len(closed), MAX_CLOSED, many))
    for one in sorted(closed, key=lambda one: one.path):
        place, flag = (
            (root / one.path).resolve(),
            "--bind" if one.kind == "repository" else "--ro-bind",
        )
        if place.is_relative_to(root) and place != root and place.exists():
            yield from (flag, "/dev/null" if one.kind == "socket" else str(place), str(place))


@value
class CommandWatch:
    """What runs later and was there before a command; `name` is that of its folder."""

    name: str
    before: Mapping[str, Deferred]


@value
class Quarantine:
    """`folder` is outside the workspace; `closed`: commands cannot change what was there."""

    root: Path
    folder: Path
    closed: bool
    lock: Lock = field(default_factory=Lock, compare=False, repr=False)

    def begin(self, name: str) -> CommandWatch:
        """Before a command."""
        with self.lock:
            return self._begin(name)

    def begin_server(self) -> CommandWatch:
        """Before a server that may write in the workspace as long as it lives."""
        return replace(self, closed=False).begin(f"{SERVER}{token_hex(4)}")

    def check_server(self, watch: CommandWatch, first: CommandWatch) -> tuple[str, CommandWatch]:
        """While it lives, and when it has ended: what was set aside, in words, and what to compare
        with from now on. What was there at `first` is closed to it. While a command is at work
        nothing is done, for that is looked at when the command has ended.
        """
        with self.lock:
            if any(not note.name.startswith(SERVER) for note in self.folder.glob(f"*{NOTE}")):
                return "", watch
            if self._find_now(watch) == watch.before:
                (self.folder / f"{watch.name}{NOTE}").touch()  # see `recover`
                return "", watch
            own = replace(self, closed=False)
            said = own.end(watch, first.before if self.closed else {})
            return said, own._begin(f"{SERVER}{token_hex(4)}")

    def _begin(self, name: str) -> CommandWatch:
        watch = CommandWatch(name, find_deferred(self.root))
        for one in watch.before.values():
            if one.kind in OPEN or (not self.closed and one.kind not in ("repository", "socket")):
                with suppress(OSError):
                    target = self.folder / name / KEPT / one.path
                    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    with hold(self.root, one.path) as at, hold(self.folder, target) as to:
                        copy_held(at, to)
        note = self.folder / f"{name}{NOTE}"
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        note.write_bytes(WATCH.dump_json(watch))
        return watch

    def lend(self) -> None:
        """At its last moment, launchers that commands made come back to their place for it."""
        for path, lent in self.list_lent().items():
            with suppress(OSError), hold(self.root, path) as to:
                with suppress(FileNotFoundError):
                    os.rmdir(to.name, dir_fd=to.folder)
                with hold(self.folder, lent) as at:
                    move_held(at, to)

    def list_lent(self) -> dict[str, Path]:
        """What was set aside and is there for commands, by its place in the workspace."""
        return {unquote(one.name): one for one in sorted((self.folder / LENT).glob("*"))}

    def end(self, watch: CommandWatch, first: Mapping[str, Deferred] | None = None) -> str:
        """Set aside what came meanwhile and put back what was changed; in words. `first`: what was
        closed to a server.
        """
        if not watch.name:
            return ""
        folder = self.folder / watch.name
        taken: list[str] = []
        now, known = self._find_now(watch), {*map(_identify, watch.before.values())}
        for path in sorted(now.keys() | watch.before.keys(), reverse=True):
            one, then = now.get(path), watch.before.get(path)
            kept = folder / KEPT / path
            was_kept = kept.exists() or kept.is_symlink()
            with suppress(OSError):
                if one and one.by and not then and one.by not in watch.before:
                    continue  # what names it is new itself
                if first is not None:
                    then = first.get(path)
                closed = self._is_closed(one, then, first is not None) if one else False
                if one and _identify(one) not in known and not closed:
                    with hold(self.root, path) as at:
                        taken += self._take(one, folder, at, kept if was_kept else None)
                        if was_kept and one.kind != "steps" and not at.exists():
                            with hold(self.folder, kept) as safe:
                                move_held(safe, at)
        shutil.rmtree(folder / KEPT, ignore_errors=True)
        (self.folder / f"{watch.name}{NOTE}").unlink(missing_ok=True)
        return describe_taken(taken)

    def _find_now(self, watch: CommandWatch) -> dict[str, Deferred]:
        """What is there now, and what was there under a name that is not said any more."""
        note = self.folder / f"{watch.name}{NOTE}"
        now = find_deferred(self.root, note.stat().st_ctime_ns if note.exists() else math.inf)
        for path, one in watch.before.items():
            if path not in now and one.by:
                with suppress(OSError):
                    now[path] = _stamp(self.root, path, one.kind, one.by)
        return now

    def forget(self, watch: CommandWatch) -> None:
        """A server has ended, and what it left was looked at."""
        shutil.rmtree(self.folder / watch.name / KEPT, ignore_errors=True)
        (self.folder / f"{watch.name}{NOTE}").unlink(missing_ok=True)

    def recover(self) -> None:
        """Do what an earlier daemon could not, which was killed while commands or servers ran.

        What came after that daemon had died is nobody's but the owner's: the note of a server is
        touched as long as it lives.
        """
        for note in sorted(self.folder.glob(f"*{NOTE}")):
            watch, died = WATCH.validate_json(note.read_bytes()), note.stat().st_mtime + TOUCHED_S
            if note.name.startswith(SERVER):
                later = {
                    path: one
                    for path, one in self._find_now(watch).items()
                    if _changed_at(self.root / path) > died
                }
                watch = replace(watch, before={**watch.before, **later})
            if said := self.end(watch):
                log.warning("after a crash: %s", said)

    def _is_closed(self, one: Deferred, then: Deferred | None, to_server: bool) -> bool:
        """Its owner changed it, because a command could not."""
        same = then is not None and then.identity == one.identity
        return same and (self.closed or to_server) and one.kind not in OPEN and not one.is_linked

    def _take(self, one: Deferred, folder: Path, at: Held, kept: Path | None) -> Iterator[str]:
        """A line for what was moved, and where it lies."""
        place, target, more = self.root / one.path, folder / one.path, ""
        if one.kind in ("repository", "socket"):
            return
        if one.kind == "compiled" and place.parent.name == "__pycache__":
            os.unlink(at.name, dir_fd=at.folder)  # Python makes it again, of its source
            return
        cleaned = None
        if one.kind in ("settings", "steps"):
            text = "" if at.is_link() else at.read()
            if one.kind == "steps":
                known = kept.read_text("utf-8", "replace") if kept else ""
                cleaned = clean_steps(place.name, text, known)
            else:
                cleaned = "" if at.is_link() else clean_settings(text)
            if cleaned is None:
                return
        if one.kind == "hooks" and _is_harmless(place):
            return
        if place.name in ("commondir", "gitdir", ".git") and _leads_inside(at, place, self.root):
            return
        is_path_file = place.suffix == ".pth" and one.kind == "launchers"
        if is_path_file and not at.is_link() and only_paths(at.read()):
            return
        lent = quote(one.path, safe="")
        if one.kind == "launchers" and kept is None and len(lent) <= MAX_NAME and not at.is_link():
            target, more = self.folder / LENT / lent, " (later commands still have it)"
        moved = _move(at, self.folder, target)
        if cleaned is not None and (kept is None or one.kind == "steps"):
            with open(at.name, "x", opener=at.open) as file:
                file.write(cleaned)
            more = " (what cannot run a program stays)"
        yield f"{one.path} -> {moved}{more}"


WATCH = TypeAdapter(CommandWatch)


def _changed_at(place: Path) -> float:
    """When anything in it was last changed."""
    return max(one.lstat().st_ctime for one in (place, *place.rglob("*")))


def _is_harmless(hooks: Path) -> bool:
    """Git's own examples."""
    is_folder = hooks.is_dir() and not hooks.is_symlink()
    return is_folder and all(each.name.endswith(".sample") for each in hooks.iterdir())


def _leads_inside(held: Held, place: Path, root: Path) -> bool:
    """A pointer of a work tree or a submodule; what it leads to is looked at where it is."""
    with suppress(OSError):
        to = held.read().removeprefix("gitdir:").strip()
        return (place.parent / to).resolve().is_relative_to(root)
    return False


def _identify(one: Deferred) -> tuple[object, ...]:
    return one.kind, one.identity, one.stamp


def _move(place: Held, root: Path, target: Path) -> Path:
    """Never over something: of two of the same name the later gets a number."""
    number, free = 1, target
    while free.exists() or free.is_symlink():
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    free.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold(root, free) as to:
        move_held(place, to)
    return free


def describe_taken(taken: Iterable[str]) -> str:
    """For the model and the owner: what is where, and how it comes back."""
    if not (lines := [f"- {one}" for one in taken]):
        return ""
    head = "Set aside, because it could run outside the sandbox later; nothing is lost:"
    tail = "To have it back, the owner looks at it and moves it to its place."
    return "\n".join((head, *lines, tail))
