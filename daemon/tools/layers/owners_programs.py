"""Which files of the workspace run when their owner only uses git there, or enters it: what the
owner's settings of git (with what they include), hooks and start-up files spell.

A text spells a file by its path, from a folder where it may run or that it spells; a module's path
may go without its ending. A path holds for what it leads to by links, as they are or will be. What
it starts by another name (a build, the tests) is the project's.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Literal

from daemon.tools.workspace.fs import NOTE_KINDS, READ_FLAGS, mode_of
from daemon.tools.workspace.index import lstat

MAX_NAMED, MAX_LEVELS, MAX_TEXT = 300, 3, 200_000
MAX_PIECES, MAX_PLACES, MAX_STEPS = 5000, 20, 300
SETTINGS = ("config", "config.worktree")
SECTION = re.compile(r"\s*\[\s*([\w.-]+)[^\]]*\]")
SETTING = re.compile(r"\s*([a-zA-Z][\w-]*)\s*=\s*(.*)")
VALUE = re.compile(r'\\.?|["#;]|[^\\"#;]+')
# They name no program, but where a key is a name that the owner made up.
INERT_SETTING = re.compile(r".*file|template|.*url|fetch|merge|remote|name|email|worktree")
# What lies in a closed folder and starts programs by itself.
STARTS = re.compile(r"(tasks|settings(\.local)?|mcp|devcontainer|hooks)\.json|languages\.toml")
HOOK_FOLDERS = frozenset((".husky", ".githooks", "hooks"))
HOME = re.compile(r"\$HOME\b|\$\{HOME\}")
VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
QUOTED = re.compile(r"\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'")
PIECE = re.compile(r"(?:\\.|[^\s\"'`;|&()<>=,:{}\[\]!#\\])+")
ESCAPED = re.compile(r"\\(.)")
IMPORT = re.compile(
    r"(?m)^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+([\w, *()]+)|import[ \t]+([\w., ]+))"
)
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
        self._stems = cache(self._sort_by_stem)
        self._follow = cache(self._follow_links)

    def follow(self, path: str) -> Iterator[str]:
        """Where else this lies, by links of the workspace as they stand, or as they will."""
        found = {self._follow(path, one) for one in dict.fromkeys((self.over, self.root))}
        yield from sorted(found - {path, ""})

    def find_of_outside(self, place: str) -> Iterator[Named]:
        """What the repositories name that this folder belongs to and that lie elsewhere: a work
        tree's, and around the workspace.
        """
        here = self.root / place
        for folder in (here, *here.parents) if not place else (here,):
            git = folder / ".git"
            pointed = (one.removeprefix("gitdir:").strip() for one in self._read_versions(git))
            owns = [_join(folder, one) for one in pointed]
            owns += [git] if folder != here and S_ISDIR(mode_of(git)) else []
            for own in owns:
                common = next(self._read_versions(own / "commondir"), ".").strip()
                yield from self.find_of_repository(str(_join(own, common)), folder)

    def find_of_repository(self, place: str, *trees: Path) -> Iterator[Named]:
        """What a repository's settings and hooks name. `trees`: further work trees."""
        here, home = self.root / place, Path.home()
        tops = [*list_tops(here), *trees]
        waiting = [here / name for name in SETTINGS]
        waiting += [home / ".gitconfig", home / ".config/git/config"]
        hooks, seen = [here / "hooks"], set[Path]()
        while waiting and len(seen) < MAX_NAMED:
            file = waiting.pop(0)
            if file in seen:
                continue
            seen.add(file)
            by = self._name(file)
            for section, key, value in _read_settings(file):
                if section.startswith("include") and key == "path":
                    target = _join(file.parent, value)
                    waiting.append(target)
                    if self._name(target):
                        yield self._name(target), "settings", by
                elif key in ("hookspath", "templatedir"):
                    for folder in (_join(top, value) for top in tops):
                        hooks += [folder] if key == "hookspath" else [folder / "hooks"]
                        if self._name(folder):
                            yield self._name(folder), "hooks", by
                elif section == "alias" or not INERT_SETTING.fullmatch(key):
                    for path in self._list_spelled(tops, value):
                        yield path, "plain", by
        for folder in dict.fromkeys(hooks):
            yield from self._find_of_hooks(tops, folder)

    def find_of_start(self, path: str) -> Iterator[Named]:
        """What a start-up file, or a folder of them, names."""
        place = self.root / path
        if place.name in HOOK_FOLDERS:
            yield from self._find_of_hooks([place.parent], place)
            return
        files = [place]
        if S_ISDIR(mode_of(place)):
            files = [one for one in place.iterdir() if STARTS.fullmatch(one.name)]
        for file in files:
            yield from self._find_of_program([place.parent], file, path)
            for folder in self._list_folders([place.parent], _split(_read(file))):
                yield from ((one, "plain", path) for one in self._find_programs(folder))

    def _find_programs(self, folder: Path) -> Iterator[str]:
        """What runs by its name alone where this folder is searched for programs."""
        for name in self._list(folder):
            path = self._name(folder / name)
            infos = filter(None, (lstat(self.over / path), lstat(self.root / path)))
            modes = [one.st_mode for one in infos]
            if any(S_ISLNK(one) or (S_ISREG(one) and one & 0o111) for one in modes):
                yield path

    def _find_of_hooks(self, tops: Sequence[Path], folder: Path) -> Iterator[Named]:
        with suppress(OSError, ValueError):
            for file in folder.iterdir():
                if not file.name.endswith(".sample"):
                    yield from self._find_of_program([*tops, folder], file, self._name(folder))

    def _find_of_program(self, tops: Sequence[Path], file: Path, by: str) -> Iterator[Named]:
        if file.is_symlink() and (path := self._name(Path(os.path.realpath(file)))):
            yield path, "plain", by
        for path in self._list_spelled(tops, _read(file)):
            yield path, "plain", by

    def _list_spelled(self, tops: Sequence[Path], text: str) -> Iterator[str]:
        """The files that a text spells, and those that these spell."""
        found, count_read, left = dict[str, None](), 0, MAX_TEXT
        level = [(text, list(tops))]
        for _ in range(MAX_LEVELS):
            named = dict[str, None]()
            for each, places in level:
                named |= dict.fromkeys(self._find_spelled(each, places))
            new = [one for one in named if one and one not in found]
            found |= dict.fromkeys(new)
            # What stands there comes first: a command can make any number of others.
            new.sort(key=lambda one: not mode_of(self.root / one))
            read = new[: MAX_NAMED - count_read]
            count_read += len(read)
            level = []
            for one in read:
                said = _read(self._find(one))[:left]
                left -= len(said)
                level.append((said, [*tops, (self.root / one).parent]))
        yield from found

    def _find_spelled(self, text: str, tops: Sequence[Path]) -> Iterator[str]:
        pieces, modules = _split(text), [*_list_modules(text)][:MAX_PIECES]
        for place in dict.fromkeys((*tops, *self._list_folders(tops, pieces))):
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

    def _list_folders(self, tops: Sequence[Path], pieces: Sequence[str]) -> Sequence[Path]:
        """Those that are spelled, the owner's first: a command can make any number of others."""
        found = {
            _join(top, one): None
            for top in tops
            for piece in self._filter(top, pieces)
            for one in (piece, piece.strip("/"))
        }
        known = [one for one in found if self._is_folder(one)]
        return sorted(known, key=lambda one: not mode_of(one))[:MAX_PLACES]

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
            for stem in stems:
                for name in self._stems(place).get(stem, ()):
                    yield self._name(place / name)

    def _sort_by_stem(self, place: Path) -> Mapping[str, Sequence[str]]:
        found = dict[str, list[str]]()
        for name, is_file in self._list(place).items():
            if is_file:
                found.setdefault(name.partition(".")[0], []).append(name)
        return found

    def _is_file(self, path: Path) -> bool:
        return not path.name.endswith(NOTE_KINDS) and self._list(path.parent).get(path.name, False)

    def _is_folder(self, path: Path) -> bool:
        return not self._list(path.parent).get(path.name, True)

    def _find(self, path: str) -> Path:
        return self.root / path if mode_of(self.root / path) else self.over / path

    def _read_folder(self, place: Path) -> Mapping[str, bool]:
        """The names in this folder of the workspace, and whether each is a file."""
        found = {self.new: True} if self.new and place == self.root / self.new_folder else {}
        path, folders = self._name(place), [place]
        if path or place == self.root:
            places = (path, *self.follow(path))
            folders = [top / one for one in places for top in (self.over, self.root)]
        for folder in dict.fromkeys(folders):
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                found |= {one.name: one.is_file() for one in entries}
        return found

    def _follow_links(self, path: str, first: Path) -> str:
        """Where this leads, with what lies below `first` in the place of the workspace's own; ""
        of what leads out of it.
        """
        waiting, place = path.split("/")[::-1], ""
        for _ in range(MAX_STEPS):
            if not waiting:
                return place
            here = f"{place}/{waiting.pop()}".lstrip("/")
            file = first / here if lstat(first / here) else self.root / here
            info = lstat(file)
            if info and S_ISLNK(info.st_mode):
                here = self._name(_join((self.root / here).parent, str(file.readlink())))
                if not here:
                    return ""
                waiting, here = [*waiting, *here.split("/")[::-1]], ""
            place = here
        return ""

    def _read_versions(self, place: Path) -> Iterator[str]:
        """What this file holds, by the command and as it stands, if anything."""
        path = self._name(place)
        files = dict.fromkeys((self.over / path, place) if path else (place,))
        yield from filter(None, map(_read, files))

    def _name(self, place: Path) -> str:
        """The path in the workspace; "" of what is not below it."""
        root, path = f"{self.root}/", str(place)
        return path.removeprefix(root) if path.startswith(root) else ""


def list_tops(here: Path) -> Iterator[Path]:
    """Where git runs hooks and programs: the tops of its work trees."""
    yield from (here.parent, here)
    for _, key, value in _read_settings(here / "config"):
        if key == "worktree":
            yield _join(here, value)
    with suppress(OSError, ValueError):
        for pointer in here.glob("worktrees/*/gitdir"):
            yield Path(_read(pointer).strip()).parent


def _read_settings(file: Path) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in _read(file).replace("\\\n", "").split("\n"):
        if head := SECTION.match(line):
            section = head[1].lower()
        if found := SETTING.match(line, head.end() if head else 0):
            yield section, found[1].lower(), _read_value(found[2])


def _read_value(text: str) -> str:
    """As git does: without quotes, escapes and a comment."""
    found, is_quoted = "", False
    for piece in VALUE.findall(text):
        if piece == '"':
            is_quoted = not is_quoted
        elif piece in ("#", ";") and not is_quoted:
            break
        else:
            found += piece.removeprefix("\\")
    return found.strip()


def _split(text: str) -> Sequence[str]:
    plain = VARIABLE.sub(" ", HOME.sub(lambda _: str(Path.home()), text))
    quoted = (one or other for one, other in QUOTED.findall(plain))
    words = (ESCAPED.sub(r"\1", one) for one in PIECE.findall(plain))
    return [*dict.fromkeys((*quoted, *words))][:MAX_PIECES]


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
            with os.fdopen(os.open(file, READ_FLAGS & ~os.O_NOFOLLOW), "rb") as opened:
                return (opened.read(MAX_TEXT) or b"").decode("utf-8", "replace")
    return ""
