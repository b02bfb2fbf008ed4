"""Which files of the workspace run when their owner only uses git there, or enters it: what the
owner's settings of git (with what they include), hooks and start-up files spell.

A text spells a file by its path, from a folder where it may run or that it spells; a module's path
may go without its ending. What it starts by another name (a build, the tests) is the project's.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal

from daemon.tools.workspace.fs import NOTE_KINDS, mode_of

MAX_NAMED, MAX_LEVELS, MAX_TEXT = 300, 3, 200_000
MAX_PIECES, MAX_PLACES = 5000, 20
SETTINGS = ("config", "config.worktree")
SECTION = re.compile(r"\s*\[\s*([\w.-]+)[^\]]*\]")
SETTING = re.compile(r"\s*([a-zA-Z][\w-]*)\s*=\s*(.*)")
# They name no program.
INERT_SETTING = re.compile(r".*file|template|.*url|fetch|merge|remote|name|email|worktree")
# What lies in a closed folder and starts programs by itself.
STARTS = re.compile(r"(tasks|settings(\.local)?|mcp|devcontainer|hooks)\.json|languages\.toml")
HOOK_FOLDERS = frozenset((".husky", ".githooks", "hooks"))
VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
QUOTED = re.compile(r"\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'")
PIECE = re.compile(r"(?:\\.|[^\s\"'`;|&()<>=,:{}\[\]!#\\])+")
ESCAPED = re.compile(r"\\(.)")
IMPORT = re.compile(r"(?m)^\s*(?:from\s+([.\w]+)\s+import\s+([\w, *()]+)|import\s+([\w., ]+))")
UPWARD = (".", "..", "~")
FOR_A_FOLDER = ("__init__", "__main__", "index", "package")

Named = tuple[str, Literal["settings", "hooks", "plain"], str]  # path, kind, what names it


class OwnersPrograms:
    """Of the workspace at `root`, where what lies below `over`, and a file at the path `new`, will
    be. Folders are read once.
    """

    def __init__(self, root: Path, over: Path | None = None, new: str = "") -> None:
        self.root, self.over = root, over or root
        self.new_folder, _, self.new = new.rpartition("/")
        self._list = cache(self._read_folder)

    def find_of_outside(self, place: str) -> Iterator[Named]:
        """What the repositories name that this folder belongs to and that lie elsewhere: a work
        tree's, and around the workspace.
        """
        here = self.root / place
        for folder in (here, *here.parents) if not place else (here,):
            git = folder / ".git"
            pointed = _read(git).removeprefix("gitdir:").strip()
            own = _join(folder, pointed) if pointed else git
            common = _join(own, _read(own / "commondir").strip())
            for one in {own, common} if pointed or folder != here else ():
                yield from self.find_of_repository(str(one), [folder])

    def find_of_repository(self, place: str, tops: Sequence[Path] = ()) -> Iterator[Named]:
        """What a repository's settings and hooks name; `tops`: more folders where they run."""
        here, home = self.root / place, Path.home()
        tops = [*tops, *_list_tops(here)]
        waiting = [here / name for name in SETTINGS]
        waiting += [home / ".gitconfig", home / ".config/git/config"]
        hooks, seen = [here / "hooks"], set[Path]()
        while waiting and len(seen) < MAX_NAMED:
            file = waiting.pop(0)
            if file in seen:
                continue
            seen.add(file)
            by = self._name(file)
            if target := self._find_target(file):
                yield target, "settings", by
            for section, key, value in _read_settings(file):
                if section.startswith("include") and key == "path":
                    target = _join(file.parent, value)
                    waiting.append(target)
                    if self._name(target):
                        yield self._name(target), "settings", by
                elif key == "hookspath":
                    for folder in (_join(top, value) for top in tops):
                        hooks.append(folder)
                        if self._name(folder):
                            yield self._name(folder), "hooks", by
                elif not INERT_SETTING.fullmatch(key):
                    for path in self._list_spelled(tops, value):
                        yield path, "plain", by
        for folder in dict.fromkeys(hooks):
            yield from self._find_of_hooks(tops, folder)

    def find_of_start(self, path: str) -> Iterator[Named]:
        """What a start-up file, or a folder of them, names."""
        place = self.root / path
        if target := self._find_target(place):
            yield target, "plain", path
        if place.name in HOOK_FOLDERS:
            yield from self._find_of_hooks([place.parent], place)
            return
        files = [place]
        if S_ISDIR(mode_of(place)):
            files = [one for one in place.iterdir() if STARTS.fullmatch(one.name)]
        for file in files:
            yield from self._find_of_program([place.parent], file, path)

    def _find_of_hooks(self, tops: Sequence[Path], folder: Path) -> Iterator[Named]:
        with suppress(OSError):
            if target := self._find_target(folder):
                yield target, "hooks", self._name(folder)
            for file in folder.iterdir():
                if not file.name.endswith(".sample"):
                    yield from self._find_of_program([*tops, folder], file, self._name(folder))

    def _find_of_program(self, tops: Sequence[Path], file: Path, by: str) -> Iterator[Named]:
        if target := self._find_target(file):
            yield target, "plain", by
        for path in self._list_spelled(tops, _read(file)):
            yield path, "plain", by

    def _list_spelled(self, tops: Sequence[Path], text: str) -> Iterator[str]:
        """The files that a text spells, and those that these spell."""
        found = dict[str, None]()
        level = [(text, list(tops))]
        for _ in range(MAX_LEVELS):
            further: list[tuple[str, list[Path]]] = []
            for each, places in level:
                for path in self._find_spelled(each, places):
                    if path and path not in found and len(found) < MAX_NAMED:
                        found[path] = None
                        file = self._find(path)
                        further.append((_read(file), [*tops, (self.root / path).parent]))
                        if target := self._find_target(file):
                            found[target] = None
            level = further
        yield from found

    def _find_spelled(self, text: str, tops: Sequence[Path]) -> Iterator[str]:
        plain = VARIABLE.sub(" ", text)
        quoted = (one or other for one, other in QUOTED.findall(plain))
        words = (ESCAPED.sub(r"\1", one) for one in PIECE.findall(plain))
        pieces = [*dict.fromkeys((*quoted, *words))][:MAX_PIECES]
        places = list(dict.fromkeys(tops))
        folders = (
            _join(place, piece.strip("/"))
            for place in tops
            for piece in self._filter(place, pieces)
        )
        places += [one for one in dict.fromkeys(folders) if self._is_folder(one)][:MAX_PLACES]
        modules = [*_list_modules(plain)]
        for place in dict.fromkeys(places):
            for piece in self._filter(place, pieces):
                name = piece.strip("/")
                whole = (_join(place, one) for one in (piece, name))
                if exact := next(filter(self._is_file, whole), None):
                    yield self._name(exact)
                elif self._is_file(main := _join(place, name) / "__main__.py"):
                    yield self._name(main)
                elif "/" in name:
                    yield from self._find_module(_join(place, name))
                elif "." in name.strip("."):
                    yield from self._find_module(_join(place, name.replace(".", "/")))
            for module in modules:
                yield from self._find_module(_join(place, module))

    def _filter(self, place: Path, pieces: Sequence[str]) -> Iterator[str]:
        """Those that may lead anywhere from here."""
        names, root = self._list(place).keys(), f"{self.root}/"
        known = {*UPWARD, *names, *(name.partition(".")[0] for name in names)}
        for piece in pieces:
            first = piece.strip("/").partition("/")[0]
            if first in known or first.partition(".")[0] in known or piece.startswith(root):
                yield piece

    def _find_module(self, path: Path) -> Iterator[str]:
        """The files that this may mean without an ending, or that stand for this folder."""
        for place, stems in ((path.parent, (path.name,)), (path, FOR_A_FOLDER)):
            for name, is_file in self._list(place).items():
                if is_file and name.partition(".")[0] in stems:
                    yield self._name(place / name)

    def _is_file(self, path: Path) -> bool:
        return not path.name.endswith(NOTE_KINDS) and self._list(path.parent).get(path.name, False)

    def _is_folder(self, path: Path) -> bool:
        return not self._list(path.parent).get(path.name, True)

    def _find_target(self, place: Path) -> str:
        """Where this is really, if a link leads to it; "" else."""
        real = place.resolve()
        return self._name(real) if real != place else ""

    def _find(self, path: str) -> Path:
        return self.root / path if mode_of(self.root / path) else self.over / path

    def _read_folder(self, place: Path) -> Mapping[str, bool]:
        """The names in this folder, and whether each is a file."""
        found = {self.new: True} if self.new and place == self.root / self.new_folder else {}
        inside = place.is_relative_to(self.root)
        folders = (self.over / place.relative_to(self.root), place) if inside else (place,)
        for folder in dict.fromkeys(folders):
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                found |= {one.name: one.is_file() for one in entries}
        return found

    def _name(self, place: Path) -> str:
        """The path in the workspace; "" of what is not below it."""
        root, path = f"{self.root}/", str(place)
        return path.removeprefix(root) if path.startswith(root) else ""


def _list_tops(here: Path) -> Iterator[Path]:
    """Where git runs hooks and programs: the tops of its work trees."""
    yield from (here.parent, here)
    for _, key, value in _read_settings(here / "config"):
        if key == "worktree":
            yield _join(here, value)
    with suppress(OSError):
        for pointer in here.glob("worktrees/*/gitdir"):
            yield Path(_read(pointer).strip()).parent


def _read_settings(file: Path) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in _read(file).replace("\\\n", "").split("\n"):
        if head := SECTION.match(line):
            section = head[1].lower()
        if found := SETTING.match(line, head.end() if head else 0):
            yield section, found[1].lower(), found[2].strip().strip('"')


def _list_modules(text: str) -> Iterator[str]:
    """What Python imports, as paths without their endings."""
    for start, names, plain in IMPORT.findall(text):
        base = start.strip(".").replace(".", "/")
        yield from ([base] if base else [])
        for module in (names or plain).split(","):
            name = module.split(" as ")[0].strip(" ()").replace(".", "/")
            yield f"{base}/{name}".strip("/")


def _join(place: Path, word: str) -> Path:
    word = str(Path.home()) + word[1:] if word.startswith("~/") else word
    return Path(os.path.normpath(place / word))


def _read(file: Path) -> str:
    with suppress(OSError, ValueError):
        if S_ISREG(mode_of(file)):
            with file.open("rb") as opened:
                return opened.read(MAX_TEXT).decode("utf-8", "replace")
    return ""
