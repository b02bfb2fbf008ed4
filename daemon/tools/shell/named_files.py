"""Which files of the workspace run when a command does: the scripts and build files that it names,
and what those name. An approval is for their contents, too (trust.md).

It errs towards one file too many: what it misses could be changed after the yes.
"""

import os
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import pairwise
from pathlib import Path, PurePosixPath
from stat import S_ISDIR

from daemon.core import value
from daemon.tools.shell.owners_programs import find_programs_of_git
from daemon.tools.shell.parse import explain_wrappers, split_words
from daemon.tools.shell.started import (
    ANY,
    BUILD_FILES,
    BUILDS,
    CODE_NAME,
    DISCOVERS,
    EACH,
    FILTERS,
    IMPORT,
    INCLUDED,
    INERT,
    INTERPRETERS,
    JS_ENDINGS,
    KNOWN,
    LOADED,
    LOADS,
    MADE_INTO,
    MOVERS,
    OUTPUT_FOLDERS,
    PLAIN_OPTIONS,
    PLAIN_PIECE,
    PYTHON,
    REQUIRED,
    SEARCHED,
    SET,
    SHELL,
    SHELL_KIND,
    START_UP,
    expand_assigned,
    find_odd_options,
    find_started,
    is_unclear,
    list_computed,
    list_dynamic,
    list_given,
    list_pieces,
    list_worked_out,
    name_program,
    split_segments,
)
from daemon.tools.workspace.fs import mode_of

MAX_FILES, MAX_DEPTH, MAX_WORDS, MAX_PLACES, MAX_NESTED = 40, 3, 4000, 12, 4
MAX_HASHED, MAX_READ = 64_000_000, 200_000
MAX_DISCOVERED, MAX_WALKED = 500, 50_000
RUNS_HERE = re.compile(r"-[a-zA-Z]*[mc].*|-")
PYTHON_RUNS = frozenset(("python", "pypy"))
OTHERS = "other files"  # all that are more than so many
GIT_RUNS = frozenset(("run", "foreach", "--exec", "-x", "--upload-pack", "--receive-pack"))
PROGRAM_FLAG = re.compile(r"-f.*|-E.*|--(file|exec|rcfile|init-file|require|import)(=.*)?")
ASSIGNED = re.compile(r"\w+\+?=")
GLOB_PIECE = re.compile(r"[\w.@%+/~-]*[\w/.][*?][\w.@%+/~*?-]*|[*?]+[\w.@%+/~*?-]*[./]\w+")
WORKSPACE = re.compile(r"^(~|\$\{?(HOME|PWD)\}?|/proc/[^/]+/(task/[^/]+/)?cwd)(?=/|$)")


@value
class FoundFile:
    """`text` is its beginning; "" of what is no text. `by_itself`: no word names it, a runner would
    find it.
    """

    digest: str
    size: int
    changed: float
    text: str = field(default="", repr=False)
    by_itself: bool = False


@dataclass(slots=True)
class Search:
    """The files that run when one command does, in the order in which they are found."""

    root: Path
    places: list[str] = field(default_factory=lambda: [""])
    found: dict[str, FoundFile] = field(default_factory=dict)
    tools: set[str] = field(default_factory=set)
    space: int = MAX_HASHED
    endings: set[str] = field(default_factory=set)
    shadows: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    starts: bool = False
    _names: dict[str, frozenset[str]] = field(default_factory=dict)

    def read_line(self, line: str, everything: bool = False, depth: int = 0) -> None:
        """What a line for the shell names."""
        if "\\\n" in line:  # goes on in the next line; but not in a remark
            self.read_line(line.replace("\\\n", "\n"), everything, depth)
            line = line.replace("\\\n", "")
        try:
            words = split_words(line)
        except ValueError:  # a quote that is not closed: no word of it is certain
            words, everything = PLAIN_PIECE.findall(line), True
        if "$'" in line:
            decoded = line.encode("latin-1", "replace").decode("unicode_escape", "replace")
            words, everything = [*words, ";", *PLAIN_PIECE.findall(decoded)], True
        self.read_words(words[:MAX_WORDS], everything, depth)

    def read_words(self, words: Sequence[str], everything: bool = False, depth: int = 0) -> None:
        """The same for words, operators among them."""
        for word in words:
            for piece in list_pieces(word):
                self._enter(piece)
        self._read_variables(" ".join(words))
        segments = list(split_segments(words))
        everything = everything or any(map(is_unclear, segments))
        if re.search(r"[$`]|\{\}|\b(xargs|parallel)\b" if everything else r"\{\}", " ".join(words)):
            self.endings.update(SHELL, PYTHON)
        for segment in segments:
            self._read_command(segment, everything, depth, alone=len(segments) == 1)

    def _read_command(
        self, words: Sequence[str], everything: bool, depth: int, alone: bool
    ) -> None:
        head = next((at for at, word in enumerate(words) if not ASSIGNED.match(word)), len(words))
        runs = [at for at, word in enumerate(words) if name_program(word) in INTERPRETERS]
        program = name_program(words[head]) if head < len(words) else ""
        tools = [at for at, word in enumerate(words) if name_program(word) in BUILD_FILES]
        if program in INERT:
            self._read_tool(program)
            tools = [at for at in tools if at != head]
        everything = everything or (not alone and program in MOVERS)
        inert = program in INERT and not (explain_wrappers(words) or GIT_RUNS & set(words))
        odd = {head + at for at in find_odd_options(program, words[head:])}
        unknown = not (inert or tools or runs or program in FILTERS)
        self._note_program(words, head, unknown and (depth == 0 or everything))
        unknown = unknown and program != "git"
        if any(word.startswith("PATH=") for word in words[:head]):
            self.endings.update(ANY)
        each = EACH.search(" ".join(words))
        script = -1
        for at in runs:  # up to the first file after it that is no flag's
            files = (j for j in range(at + 1, len(words)) if self._is_file(words[j]))
            plain = (j for j in files if not words[j].startswith("-"))
            script = max(script, next(plain, len(words)))
        for at, word in enumerate(words):
            flagged = not inert and PROGRAM_FLAG.fullmatch(words[at - 1] if at else "")
            flagged = flagged or (not inert and PROGRAM_FLAG.fullmatch(word))
            is_run = at <= max(head, script) or bool(tools and at > tools[0]) or flagged
            is_run = is_run or at in odd
            if runs and at > runs[0]:
                self._add_folder(word)
            if at in odd or each:
                self._note_folders(word)
            for path in self._candidates(word):
                if everything or is_run or unknown or (not inert and self._looks_like_code(path)):
                    self._add(path)
            if depth < MAX_NESTED and re.search(r"[\s;|&<>()`]", word):
                self.read_line(word.replace("`", " ; "), runs != [] or everything, depth + 1)
                if runs:
                    self._read_code("", word)
                    self._read_started(" ".join(name_program(words[run]) for run in runs), word)
        for at in tools:
            self._read_tool(name_program(words[at]))
        for name, after in pairwise([*words, ""]):
            if runs and (attached := re.fullmatch(r"-[a-zA-Z]*m(.*)", name)):
                after = attached[1] or after
                self._read_tool(after)
                self._add_module(after, [*self.places])

    def _note_program(self, words: Sequence[str], head: int, unknown: bool) -> None:
        """What one reads or finds that no word names."""
        programs = [name_program(word) for word in words]
        program = programs[head] if head < len(words) else ""
        self.starts |= bool(program) and (program in PLAIN_OPTIONS or program not in INERT)
        if "git" in programs:
            self._read_git()
        elif unknown and program and not (program in KNOWN | INERT or self._is_file(words[head])):
            self.endings.update(BUILDS)
        if PYTHON_RUNS & {*programs} and any(map(RUNS_HERE.fullmatch, words)):
            self.shadows.update(self.places)  # they come before the modules of the language
        self.endings.update(list_worked_out(words, head))
        for one in programs:
            self.endings.update(
                DISCOVERS.get(one, ()) if one in INTERPRETERS or one in KNOWN else ()
            )

    def _read_git(self) -> None:
        """What git starts by itself: its hooks, what its settings name."""
        above = {one.as_posix() for place in self.places for one in PurePosixPath(place).parents}
        for place in dict.fromkeys([*self.places, *sorted(above)]):
            for path, text in find_programs_of_git(self.root, "" if place == "." else place):
                if text:
                    self.found.setdefault(path, _of_text(text, self.root / path))
                else:
                    self._add(path)

    def _read_variables(self, text: str) -> None:
        """Folders in which programs are said to look for what they load."""
        for name, said in dict.fromkeys(SET.findall(text)):
            if name != "PATH" and SEARCHED.fullmatch(name):
                for place in self.places:
                    for one in re.split("[:=]", said):
                        for path in self._resolve(one, place):
                            self._note_place(name, path)

    def _note_place(self, name: str, path: str) -> None:
        if path and self._exists(path):
            self._add(path)
        else:  # it may come
            (self.shadows if name == "PYTHONPATH" else self.folders).add(path)

    def _note_folders(self, word: str) -> None:
        """All that lies there may run."""
        for piece in list_pieces(word):
            for path in (path for place in self.places for path in self._resolve(piece, place)):
                if S_ISDIR(mode_of(self.root / path)):
                    (self.folders if path else self.endings).update((path,))

    def _add_folder(self, word: str) -> None:
        """A folder that is run: a package, or scripts one after the other."""
        for path in self._resolve(word, ""):
            if S_ISDIR(mode_of(self.root / path)):
                for one in self._glob(f"{path}/*" if path else "*"):
                    if self._looks_like_code(one) or one.endswith("package.json"):
                        self._add(one, by_itself=True)

    def _read_tool(self, tool: str) -> None:
        if tool not in self.tools and tool in BUILD_FILES:
            self.tools.add(tool)
        self.endings.update(DISCOVERS.get(tool, ()))
        for place in self.places:
            for pattern in BUILD_FILES.get(tool, ()):
                for path in self._glob(f"{place}/{pattern}" if place else pattern):
                    self._add(path)

    def follow(self) -> None:
        """Add what the files found name, level by level."""
        done = 0
        for _ in range(MAX_DEPTH):
            here, done = list(self.found)[done:], len(self.found)
            for path in here:
                self._read_code(path, self.found[path].text)
        deeper = list(self.found)[done:] if len(self.found) < MAX_FILES else self.found
        self.endings.update(filter(None, (PurePosixPath(path).suffix for path in deeper)))

    def discover(self) -> None:
        """Add what a runner would find by itself."""
        endings, seen = tuple(self.endings), 0
        paths, deep = list[str](), {one for one in self.folders if one}
        waiting = [*([""] if endings else []), *deep]
        for pattern in START_UP if self.starts else ():
            for place in self.places:
                paths += self._glob(f"{place}/{pattern}" if place else pattern)
        while waiting and seen < MAX_WALKED:
            folder = waiting.pop()
            with suppress(OSError):
                for entry in os.scandir(self.root / folder):
                    seen += 1
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [path] * (entry.name not in OUTPUT_FOLDERS)
                        deep |= {path} if folder in deep else set()
                    elif entry.name.endswith(endings) or folder in deep:
                        paths += [path] * self._exists(path)
        for folder in self.shadows:  # a module there stands before any other of its name
            for name in ("*.py", "*.pyc", "*.so", "*/__init__.py"):
                paths += self._glob(f"{folder}/{name}" if folder else name)
        paths = sorted({*paths})
        for path in paths[:MAX_DISCOVERED]:
            if path not in self.found:
                self._add(path, by_itself=True)
        if (rest := paths[MAX_DISCOVERED:]) or seen >= MAX_WALKED:
            stamps = repr([_stamp(self.root / path) for path in rest])
            self.found[OTHERS] = FoundFile(sha256(stamps.encode()).hexdigest(), 0, 0)

    def _read_code(self, path: str, text: str) -> None:
        """Every word of a script that names code; modules that it imports."""
        text = expand_assigned(text)
        folder = str(PurePosixPath(path).parent) if "/" in path else ""
        places, self.places = self.places, list(dict.fromkeys([*self.places, folder]))
        name = PurePosixPath(path).name
        pieces = dict.fromkeys([*PLAIN_PIECE.findall(text), *GLOB_PIECE.findall(text)])
        for piece in list(pieces)[:MAX_WORDS]:
            for one in self._candidates(piece):
                if self._looks_like_code(one):
                    self._add(one)
            if name == "package.json" or SHELL_KIND.fullmatch(name) or "sh" in text[:20]:
                self._enter(piece)
        said = [one or other for one, other in INCLUDED.findall(text)]
        said += [one for line in MADE_INTO.findall(text) for one in line.split()]
        if LOADS.search(text):
            self.endings.update(LOADED)
            said += list(pieces)[:MAX_WORDS]
        for one in said:
            for found in self._candidates(one):
                self._add(found)
        for words in list_given(name, text.partition("\n")[0], text):
            for found in next(filter(None, ([*self._candidates(one)] for one in words)), ()):
                self._add(found)
        for tool in [*self.tools]:
            self._read_tool(tool)
        self._note_runners(name, text, pieces)
        if not path or name.endswith((".py", ".pyw")) or "python" in text[:80]:
            self._read_imports(folder, places, text)
        for module in REQUIRED.findall(text):
            for ending in JS_ENDINGS:
                self._add_module_file(os.path.normpath(f"{folder or '.'}/{module}{ending}"))
        self.places = places

    def _note_runners(self, name: str, text: str, pieces: Container[str]) -> None:
        """Whether a script runs what it finds, or works out what it runs."""
        first = text.partition("\n")[0]
        if SHELL_KIND.fullmatch(name) or name == "package.json" or SHELL_KIND.fullmatch(first):
            self.endings.update(*(DISCOVERS[tool] for tool in DISCOVERS if tool in pieces))
        self.endings.update(list_dynamic(name, first, text), list_computed(name, first, text))
        self._read_variables(text)
        if "git" in pieces and name:
            self._read_git()
        self._read_started(f"{name if '.' in name else 'python'} {first}" if name else "", text)

    def _read_started(self, kind: str, text: str) -> None:
        """The programs that a script starts; all files where it works out which."""
        started = find_started(kind, text)
        if started is None:
            self.endings.update(ANY)
        for words in started or ():
            if len(words) == 1:
                self.read_line(words[0])
            else:
                self.read_words(words)

    def _read_imports(self, folder: str, places: Sequence[str], text: str) -> None:
        for start, names, plain in IMPORT.findall(text):
            for module in (
                start,
                *(f"{start}.{one}" for one in names.split(",")),
                *plain.split(","),
            ):
                self._add_module(module.split(" as ")[0].strip(" ()"), [folder, *places])
        self.shadows.add(folder)

    def _add_module(self, module: str, places: Sequence[str]) -> None:
        steps = module.lstrip(".").split(".")
        for place in dict.fromkeys(places):
            for count in range(1, len(steps) + 1):
                base = "/".join(filter(None, (place, *steps[:count])))
                for ending in (".py", "/__init__.py", "/__main__.py", ".so"):
                    self._add_module_file(f"{base}{ending}")

    def _add_module_file(self, path: str) -> None:
        if not path.startswith((".", "/")) and self._exists(path):
            self._add(path)

    def _enter(self, word: str) -> None:
        """A folder that is named may be where the command runs."""
        for place in list(self.places):
            for path in self._resolve(word, place):
                known = path in self.places or len(self.places) >= MAX_PLACES
                if not known and S_ISDIR(mode_of(self.root / path)):
                    self.places.append(path)

    def _candidates(self, word: str) -> Iterator[str]:
        """The files of the workspace that a word, or a part of it, may name."""
        for piece in list_pieces(word):
            for place in self.places:
                for path in self._resolve(piece, place):
                    if any(sign in path for sign in "*?["):
                        yield from self._glob(path)
                    elif self._exists(path):
                        yield path

    def _resolve(self, word: str, place: str) -> Iterator[str]:
        """The path in the workspace, if it is one; HOME is the workspace for a command."""
        first = word.partition("/")[0]
        is_glob = any(sign in first for sign in "*?[")
        if first[:1].isalnum() and not is_glob and first not in self._list_names(place):
            return  # most words of a script
        word = WORKSPACE.sub(".", re.sub(r"^/proc/[^/]+/root(?=/)", "", word))
        whole = os.path.normpath(self.root / place / word)
        if whole == str(self.root):
            yield ""
        elif whole.startswith(f"{self.root}/"):
            yield whole.removeprefix(f"{self.root}/")

    def _glob(self, pattern: str) -> list[str]:
        """The files that fit, without following `**`; at most MAX_FILES."""
        found = [""]
        for step in PurePosixPath(pattern).parts:
            if not any(sign in step for sign in "*?["):
                found = [f"{one}/{step}" if one else step for one in found]
                continue
            further: list[str] = []
            for one in found[:MAX_PLACES]:
                names = sorted(self._list_names(one))[:MAX_WORDS]
                fitting = (name for name in names if fnmatchcase(name, step))
                further += [f"{one}/{name}" if one else name for name in fitting]
            found = further
        return [one for one in found if self._exists(one)][:MAX_FILES]

    def _is_file(self, word: str) -> bool:
        return next(self._candidates(word), None) is not None

    def _exists(self, path: str) -> bool:
        """An ordinary file, or a link to one."""
        first, _, rest = path.partition("/")
        if not rest and first not in self._list_names(""):
            return False
        try:
            return (self.root / path).is_file()
        except (OSError, ValueError):
            return False

    def _list_names(self, place: str) -> frozenset[str]:
        if place not in self._names:
            names: list[str] = []
            with suppress(OSError):
                names = [one.name for one in (self.root / place).iterdir()]
            self._names[place] = frozenset(names)
        return self._names[place]

    def _looks_like_code(self, path: str) -> bool:
        name = PurePosixPath(path).name
        if CODE_NAME.fullmatch(name) or name in BUILD_FILES["make"]:
            return True
        try:
            if (self.root / path).stat().st_mode & 0o111:
                return True
            with open(self.root / path, "rb", opener=_open_at_once) as file:
                return file.read(2) == b"#!"
        except OSError:
            return False

    def _add(self, path: str, *, by_itself: bool = False) -> None:
        if path in self.found:
            return
        if len(self.found) >= MAX_FILES and not by_itself:
            self.endings.update(ANY)  # what is not looked at one by one is bound with all others
            return
        real = os.path.realpath(self.root / path)
        if not real.startswith(f"{self.root}/"):  # such as an interpreter of the system
            self.found[path] = FoundFile(sha256(real.encode()).hexdigest(), 0, 0)
            return
        with suppress(OSError), open(real, "rb", opener=_open_at_once) as file:
            info = os.fstat(file.fileno())
            digest, head = sha256(), file.read(MAX_READ)
            if info.st_size > self.space:  # too much to read: by its stamps, which no command sets
                digest.update(f"{info.st_ino} {info.st_size} {info.st_ctime_ns}".encode())
            else:
                self.space -= info.st_size
                digest.update(head)
                while data := file.read(1_000_000):
                    digest.update(data)
            text = "" if b"\0" in head else head.decode("utf-8", "replace")
            self.found[path] = FoundFile(
                digest.hexdigest(), info.st_size, info.st_ctime, text, by_itself
            )


def _of_text(text: str, place: Path) -> FoundFile:
    """A part of a file."""
    _, size, changed = _stamp(place) or (0, 0, 0)
    return FoundFile(sha256(text.encode()).hexdigest(), size, changed / 1e9, text)


def _stamp(place: Path) -> tuple[int, ...]:
    """Other than before when it changes."""
    try:
        info = place.stat()
    except OSError:
        return ()
    return info.st_ino, info.st_size, info.st_ctime_ns


def _open_at_once(path: str, flags: int) -> int:
    """A pipe in the file's place does not hold us up."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def find_named_files(root: Path, command: str | Sequence[str]) -> dict[str, FoundFile]:
    """The files in the workspace `root` that run when this line or these words do, by path. In a
    thread. `root` is an absolute path without links.
    """
    search = Search(root)
    if isinstance(command, str):
        search.read_line(command)
    else:
        search.read_words(command)
    search.follow()
    search.discover()
    return search.found
