"""What lies in a workspace and runs later, outside the sandbox, when its owner only uses git, a
shell, an editor or an environment there: hooks, settings, start-up files, launchers.

What is there when a command starts is closed to it. What it leaves is set aside when it has ended,
or at the daemon's next start; nothing is lost.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from pydantic import TypeAdapter

from daemon.core import value

Kind = Literal["repository", "settings", "hooks", "launchers", "plain", "socket"]
NAMES = frozenset(
    (".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
     ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".inputrc", ".gitconfig",
     ".envrc", ".direnv", ".vscode", ".idea", ".husky", ".devcontainer", ".mcp.json", ".claude",
     ".cursor", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".gdbinit", ".lldbinit", ".yarnrc",
     ".yarnrc.yml", ".npmrc", ".pnpmfile.cjs", "bunfig.toml", ".pre-commit-config.yaml",
     "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".huskyrc", ".cargo",
     ".mise.toml", "mise.toml", ".dir-locals.el")
)  # fmt: skip
ENVIRONMENTS = frozenset((".venv", "venv", ".env", "env"))
SETTINGS = ("config", "config.worktree")
POINTERS = ("commondir", "gitdir")
MAX_ENTRIES, MAX_CLOSED, MAX_NAME = 1_000_000, 2000, 200
LENT, KEPT, NOTE = "lent", "kept", ".running.json"
SECTION = re.compile(r"\[([a-zA-Z]+)(?: \"([^\"\\\n]*)\")?\]\s*")
SETTING = re.compile(r"\s*([a-zA-Z]+) ?= ?([^\"\\#;\n]*)")
NAMED_PATH = re.compile(r"^\s*(hookspath|path)\s*=\s*(\S.*)$", re.IGNORECASE | re.MULTILINE)
PLAIN_SETTINGS: Mapping[str, str] = {
    "core": "repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    "|symlinks|autocrlf|eol|sharedrepository",
    "remote": "url|fetch|push|mirror|tagopt|prune",
    "branch": "remote|merge|rebase",
    "user": "name|email",
    "submodule": "url|active|branch",
    "extensions": "objectformat|refstorage",
    "init": "defaultbranch",
    "pull": "rebase|ff",
    "push": "default|autosetupremote",
}


@value
class Deferred:
    """`stamp` changes when it does; `identity` when another one stands in its place."""

    path: str
    kind: Kind
    identity: tuple[int, int]
    stamp: str
    is_linked: bool


def find_deferred(root: Path, max_entries: int = MAX_ENTRIES) -> dict[str, Deferred]:
    """All that runs later, by its path. No link is followed; in a thread."""
    found: dict[str, Deferred] = {}
    folders, seen = [""], 0
    while folders and seen < max_entries:
        place = folders.pop()
        with suppress(OSError), os.scandir(root / place) as entries:
            inside, links, sockets = dict[str, bool](), set[str](), set[str]()
            for entry in entries:
                inside[entry.name] = entry.is_dir(follow_symlinks=False)
                if entry.is_symlink():
                    links.add(entry.name)
                elif stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    sockets.add(entry.name)
            seen += len(inside)
            for path, kind in (*_judge(root, place, inside), *_judge_links(place, links, sockets)):
                with suppress(OSError):
                    if kind != "launchers" or any((root / path).iterdir()):
                        found[path] = _stamp(root, path, kind)
            skipped = ("objects",) if _is_repository(inside) else ()
            for name, is_folder in inside.items():
                if is_folder and name not in skipped:
                    folders.append(f"{place}/{name}".lstrip("/"))
    return found


def _is_repository(inside: Mapping[str, bool]) -> bool:
    return {"objects", "refs"} <= inside.keys() or {"HEAD", "commondir"} <= inside.keys()


def _judge_links(place: str, links: set[str], sockets: set[str]) -> Iterator[tuple[str, Kind]]:
    """An environment that lies elsewhere, under a name that says nothing; programs that listen."""
    for name in sockets:
        yield f"{place}/{name}".lstrip("/"), "socket"
    for name in links & (ENVIRONMENTS | {"node_modules"}):
        yield f"{place}/{name}".lstrip("/"), "plain"


def _find_named(root: Path, place: str) -> Iterator[tuple[str, Kind]]:
    """Where the owner's settings say that hooks and more settings are, if in the workspace."""
    here = root / place
    with suppress(OSError, UnicodeDecodeError):
        for found in NAMED_PATH.finditer((here / "config").read_text("utf-8")):
            is_hooks = found[1].lower() == "hookspath"
            above = here.parent if is_hooks else here
            named = Path(os.path.normpath(above / found[2].strip().strip('"')))
            if named.is_relative_to(root) and named != root and named.exists():
                yield str(named.relative_to(root)), "hooks" if is_hooks else "settings"


def _judge(root: Path, place: str, inside: Mapping[str, bool]) -> Iterator[tuple[str, Kind]]:
    above, prefix = Path(place), f"{place}/" if place else ""
    if above.name == ".git" or (place and _is_repository(inside)):
        yield place, "repository"
        for name in inside.keys() & {*SETTINGS, *POINTERS}:
            yield prefix + name, "settings" if name in SETTINGS else "plain"
        if "hooks" in inside:
            yield f"{prefix}hooks", "hooks"
        yield from _find_named(root, place)
    for name in inside.keys() & NAMES:
        yield prefix + name, "plain"
    if ".git" in inside and not inside[".git"]:
        yield f"{prefix}.git", "plain"
    if "pyvenv.cfg" in inside or above.name in ENVIRONMENTS:
        for name in inside.keys() & {"bin", "Scripts"}:
            yield prefix + name, "launchers"
    if above.name == "node_modules" and above.parts.count("node_modules") == 1 and ".bin" in inside:
        yield f"{prefix}.bin", "launchers"


def _stamp(root: Path, path: str, kind: Kind) -> Deferred:
    place = root / path
    info = place.lstat()
    is_folder = stat.S_ISDIR(info.st_mode)
    within = sorted(place.rglob("*"))[:MAX_CLOSED] if is_folder and kind != "repository" else []
    stamps = [
        (str(one.relative_to(place)), one.lstat().st_ino, one.lstat().st_ctime_ns) for one in within
    ]
    own = "" if is_folder else f"{info.st_mtime_ns} {info.st_size} {info.st_ctime_ns}"
    digest = sha256(repr((own, stamps)).encode()).hexdigest()
    linked = not is_folder and info.st_nlink > 1
    return Deferred(path, kind, (info.st_dev, info.st_ino), digest, linked)


def close_deferred(root: Path, found: Iterable[Deferred]) -> Iterator[str]:
    """Words for bubblewrap: a repository cannot be renamed, all else not be changed.

    Launchers can: installing writes them. They are put back as they were.
    """
    for one in sorted(found, key=lambda one: one.path)[:MAX_CLOSED]:
        place, flag = (
            (root / one.path).resolve(),
            "--bind" if one.kind == "repository" else "--ro-bind",
        )
        inside = place.is_relative_to(root) and place != root and place.exists()
        if inside and one.kind != "launchers":
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

    def begin(self, name: str) -> CommandWatch:
        """Before a command."""
        watch = CommandWatch(name, find_deferred(self.root))
        for one in watch.before.values():
            place = self.root / one.path
            if one.kind == "launchers" or (
                not self.closed and one.kind not in ("repository", "socket")
            ):
                with suppress(OSError):
                    _copy(place, self.folder / name / KEPT / one.path)
        note = self.folder / f"{name}{NOTE}"
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        note.write_bytes(WATCH.dump_json(watch))
        return watch

    def lend(self) -> None:
        """At its last moment, launchers that commands made come back to their place for it."""
        for lent in sorted((self.folder / LENT).glob("*")):
            place = self.root / unquote(lent.name)
            with suppress(OSError):
                if place.parent.resolve(strict=True) == place.parent:
                    if place.exists() or place.is_symlink():
                        place.rmdir()
                    shutil.move(lent, place)

    def end(self, watch: CommandWatch) -> str:
        """Set aside what came meanwhile and put back what was changed; in words."""
        if not watch.name:
            return ""
        folder = self.folder / watch.name
        taken: list[str] = []
        now, known = find_deferred(self.root), {*map(_identify, watch.before.values())}
        for path in sorted(now.keys() | watch.before.keys(), reverse=True):
            one, then = now.get(path), watch.before.get(path)
            kept, place = folder / KEPT / path, self.root / path
            was_kept = kept.exists() or kept.is_symlink()
            with suppress(OSError):
                if one and _identify(one) not in known and not self._is_closed(one, then):
                    taken += self._take(one, folder, was_kept=was_kept)
                    if was_kept and not place.exists():
                        shutil.move(kept, place)
        shutil.rmtree(folder / KEPT, ignore_errors=True)
        (self.folder / f"{watch.name}{NOTE}").unlink(missing_ok=True)
        return describe_taken(taken)

    def recover(self) -> None:
        """Do what an earlier daemon could not, which was killed while commands ran."""
        for note in sorted(self.folder.glob(f"*{NOTE}")):
            self.end(WATCH.validate_json(note.read_bytes()))

    def _is_closed(self, one: Deferred, then: Deferred | None) -> bool:
        """Its owner changed it, because a command could not."""
        same = then is not None and then.identity == one.identity
        return same and self.closed and one.kind != "launchers" and not one.is_linked

    def _take(self, one: Deferred, folder: Path, *, was_kept: bool) -> Iterator[str]:
        """A line for what was moved, and where it lies."""
        place, target, more = self.root / one.path, folder / one.path, ""
        if place.parent.resolve() != place.parent or one.kind in ("repository", "socket"):
            return
        cleaned = clean_settings(place) if one.kind == "settings" else None
        if one.kind == "settings" and cleaned is None:
            return
        if one.kind == "hooks" and _is_harmless(place):
            return
        if place.name in ("commondir", "gitdir", ".git") and _leads_inside(place, self.root):
            return
        lent = quote(one.path, safe="")
        if (
            one.kind == "launchers"
            and not was_kept
            and len(lent) <= MAX_NAME
            and not place.is_symlink()
        ):
            target, more = self.folder / LENT / lent, " (later commands still have it)"
        moved = _move(place, target)
        if cleaned is not None and not was_kept:
            place.write_text(cleaned)
            more = " (what cannot run a program stays)"
        yield f"{one.path} -> {moved}{more}"


WATCH = TypeAdapter(CommandWatch)


def clean_settings(place: Path) -> str | None:
    """Git's settings without those that could name a program; None when there are none of them."""
    if place.is_symlink():
        return ""
    kept: list[str] = []
    dropped, section = False, ""
    for line in place.read_bytes().decode("utf-8", "replace").split("\n"):
        if found := SECTION.fullmatch(line):
            section = found[1].lower()
        elif found := SETTING.fullmatch(line):
            allowed = re.fullmatch(PLAIN_SETTINGS.get(section, "-"), found[1].lower())
            if not allowed or "::" in found[2]:
                dropped = True
                continue
        elif line.strip() and line.lstrip()[0] not in "#;":
            dropped = True
            continue
        kept.append(line)
    return "\n".join(kept) if dropped else None


def _is_harmless(hooks: Path) -> bool:
    """Git's own examples."""
    is_folder = hooks.is_dir() and not hooks.is_symlink()
    return is_folder and all(each.name.endswith(".sample") for each in hooks.iterdir())


def _leads_inside(place: Path, root: Path) -> bool:
    """A pointer of a work tree or a submodule; what it leads to is looked at where it is."""
    with suppress(OSError):
        to = place.read_text("utf-8", "replace").removeprefix("gitdir:").strip()
        return not place.is_symlink() and (place.parent / to).resolve().is_relative_to(root)
    return False


def _identify(one: Deferred) -> tuple[object, ...]:
    return one.kind, one.identity, one.stamp


def _move(place: Path, target: Path) -> Path:
    """Never over something: of two of the same name the later gets a number."""
    number, free = 1, target
    while free.exists() or free.is_symlink():
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    free.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Path(shutil.move(place, free))


def _copy(place: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if place.is_dir() and not place.is_symlink():
        shutil.copytree(place, target, symlinks=True)
    else:
        shutil.copy2(place, target, follow_symlinks=False)


def describe_taken(taken: Iterable[str]) -> str:
    """For the model and the owner: what is where, and how it comes back."""
    if not (lines := [f"- {one}" for one in taken]):
        return ""
    head = "Set aside, because it could run outside the sandbox later; nothing is lost:"
    tail = "To have it back, the owner looks at it and moves it to its place."
    return "\n".join((head, *lines, tail))
