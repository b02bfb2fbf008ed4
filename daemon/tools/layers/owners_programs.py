"""Which files of the workspace run when their owner only uses git there, or enters it: what the
owner's settings of git (with what they include), hooks and start-up files name.

Only names are followed: a hook that starts the project's build or tests runs the project's code.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal

from daemon.tools.workspace.fs import mode_of

MAX_NAMED, MAX_LEVELS, MAX_TEXT = 300, 3, 200_000
SETTINGS = ("config", "config.worktree")
SECTION = re.compile(r"\s*\[\s*([\w.-]+)[^\]]*\]")
SETTING = re.compile(r"\s*([a-zA-Z][\w-]*)\s*=\s*(.*)")
# They name no program.
INERT_SETTING = re.compile(r".*file|template|.*url|fetch|merge|remote|name|email|worktree")
WHOLE = re.compile(r"\.envrc.*|.*(rc|profile|login|logout|aliases|env)")  # every file they name
# What lies in a closed folder and starts programs by itself.
STARTS = re.compile(r"(tasks|settings(\.local)?|mcp|devcontainer|hooks)\.json|languages\.toml")
HOOK_FOLDERS = frozenset((".husky", ".githooks", "hooks"))
# They say how to build, so commands may change them.
BUILT_BY = (
    "*.bazel", "*.config.*", "*.tf", "*.tfvars", "*compose*.y*ml", "*ockerfile*", "CMakeLists.txt",
    "CMakePresets.json", "Cargo.toml", "GNUmakefile", "Gemfile", "[Mm]akefile", "[Rr]akefile",
    "SConstruct", "Taskfile.y*ml", "WORKSPACE*", "build.gradle*", "build.ninja", "build.rs",
    "build.xml", "composer.json", "conftest.py", "deno.json*", "go.mod", "gradle.properties",
    "[Jj]ustfile",
    "meson.build", "meson[._]options*", "mypy.ini", "noxfile.py", "package.json", "pom.xml",
    "pyproject.toml", "pytest.ini", "rust-toolchain*", "settings.gradle*", "setup.cfg", "setup.py",
    "tasks.py", "tox.ini", "tsconfig*.json",
)  # fmt: skip
OUTPUT_FOLDERS = frozenset(
    ("node_modules", ".venv", "venv", ".git", "__pycache__", "dist", "build", "out", "target",
     "coverage", ".next", ".cache", ".tox", ".nox", ".pytest_cache", ".mypy_cache", ".ruff_cache",
     "site-packages", ".idea", ".gradle")
)  # fmt: skip
# They run the file that they are given.
INTERPRETERS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "python", "pypy", "perl", "ruby", "node",
     "nodejs", "php", "lua", "luajit", "tclsh", "expect", "rscript", "julia", "deno", "bun",
     "ts-node", "tsx", "elixir", "groovy", "java", "osascript", "guile", "swipl", "source", "eval",
     "exec", "xargs", "parallel", "env", "busybox", "script", "su", "run-parts")
)  # fmt: skip
CODE_NAME = re.compile(
    r"(?i).*\.(sh|bash|zsh|ksh|fish|py|pyw|pth|js|mjs|cjs|ts|mts|cts|tsx|jsx|rb|pl|pm|php|lua|awk"
    r"|sed|mk|mak|cmake|gradle|kts|groovy|jar|class|so|c|cc|cpp|h|hpp|rs|go|java|kt|ps1|bat|tcl|exp|r|jl|ex|exs|el|just|nix)"
)
PLAIN_PIECE = re.compile(r"[\w.@%+/~-]+")
IMPORT = re.compile(r"(?m)^\s*(?:from\s+([.\w]+)\s+import\s+([\w, *()]+)|import\s+([\w., ]+))")
REQUIRED = re.compile(r"""(?:from|require\(|import\(?)\s*["'](\.{1,2}/[^"'\n]{1,200})["']""")
JS_ENDINGS = (
    "",
    "/package.json",
    ".node",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".tsx",
    ".json",
    "/index.js",
    "/index.ts",
)

Named = tuple[str, Literal["settings", "hooks", "plain"], str]  # path, kind, what names it


def find_of_repository(root: Path, place: str, over: Path) -> Iterator[Named]:
    """What a repository's settings and hooks name in the workspace, or in what lies `over` it."""
    here = root / place
    tops = [*_list_tops(here)]
    own = (here / name for name in SETTINGS)
    home = Path.home()
    waiting = [*own, home / ".gitconfig", home / ".config/git/config"]
    hooks, seen = [here / "hooks"], set[Path]()
    while waiting and len(seen) < MAX_NAMED:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        by = _name(root, file)
        for section, key, value in _read_settings(file):
            if section.startswith("include") and key == "path":
                target = _join(file.parent, value)
                waiting.append(target)
                if _name(root, target):
                    yield _name(root, target), "settings", by
            elif key == "hookspath":
                for folder in (_join(top, value) for top in tops):
                    hooks.append(folder)
                    if _name(root, folder):
                        yield _name(root, folder), "hooks", by
            elif not INERT_SETTING.fullmatch(key):
                for path in list_named(root, tops, value, over, whole=True):
                    yield path, "plain", by
    for folder in dict.fromkeys(hooks):
        yield from _find_of_hooks(root, tops, folder, over)


def find_of_start(root: Path, path: str, over: Path) -> Iterator[Named]:
    """What a start-up file, or a folder of them, names."""
    place = root / path
    if place.name in HOOK_FOLDERS:
        yield from _find_of_hooks(root, [place.parent], place, over)
        return
    files = [place]
    if S_ISDIR(mode_of(place)):
        files = [one for one in place.iterdir() if STARTS.fullmatch(one.name)]
    for file in files:
        whole = WHOLE.fullmatch(file.name) is not None
        for found in list_named(root, [place.parent], _read(file), over, whole=whole):
            yield found, "plain", path


def _find_of_hooks(root: Path, tops: Sequence[Path], folder: Path, over: Path) -> Iterator[Named]:
    with suppress(OSError):
        for file in folder.iterdir():
            if not file.name.endswith(".sample"):
                for path in list_named(root, [*tops, folder], _read(file), over):
                    yield path, "plain", _name(root, folder)


def list_named(
    root: Path, tops: Sequence[Path], text: str, over: Path, *, whole: bool = False
) -> Iterator[str]:
    """The files that a text names and what those name: code, what a program is said to run, or
    with `whole` every file; nothing that is built or says how to build.
    """
    found = dict[str, None]()
    level = [(text, list(tops), whole)]
    for _ in range(MAX_LEVELS):
        further: list[tuple[str, list[Path], bool]] = []
        for each, places, all_files in level:
            for piece, is_run in (*_list_pieces(each), *_list_modules(each)):
                for place in places:
                    path = _name(root, _join(place, piece)) or _name(root, place / piece.strip("/"))
                    if path in found or len(found) >= MAX_NAMED or not path:
                        continue
                    file = root / path if mode_of(root / path) else over / path
                    if not _is_own(file, path):
                        continue
                    if all_files or is_run or _looks_like_code(file):
                        found[path] = None
                        further.append((_read(file), [*tops, (root / path).parent], False))
        level = further
    yield from found


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


def _list_pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Words that may be paths, and whether an interpreter before them runs them."""
    runs = False
    for piece in PLAIN_PIECE.findall(text):
        if not (runs and piece.startswith("-")):
            yield piece, runs
            runs = re.sub(r"[\d.]+$", "", piece.rpartition("/")[2]) in INTERPRETERS or piece == "."


def _list_modules(text: str) -> Iterator[tuple[str, bool]]:
    for start, _, plain in IMPORT.findall(text):
        for module in (start, *plain.split(",")):
            base = module.split(" as ")[0].strip(" .").replace(".", "/")
            yield from ((f"{base}{ending}", True) for ending in (".py", "/__init__.py") if base)
    for module in re.findall(r"-m\s+([\w.]+)", text):
        base = module.replace(".", "/")
        yield from ((f"{base}{ending}", True) for ending in (".py", "/__main__.py"))
    for module in REQUIRED.findall(text):
        yield from ((f"{module}{ending}", True) for ending in JS_ENDINGS)


def _is_own(file: Path, path: str) -> bool:
    parts = path.split("/")
    built = any(fnmatchcase(parts[-1], pattern) for pattern in BUILT_BY)
    return not (OUTPUT_FOLDERS & set(parts) or built) and S_ISREG(mode_of(file))


def _looks_like_code(file: Path) -> bool:
    with suppress(OSError):
        is_code = CODE_NAME.fullmatch(file.name) or file.stat().st_mode & 0o111
        return bool(is_code) or _read(file).startswith("#!")
    return False


def _join(place: Path, word: str) -> Path:
    word = str(Path.home()) + word[1:] if word.startswith("~/") else word
    return Path(os.path.normpath(place / word))


def _name(root: Path, place: Path) -> str:
    """The path in the workspace; "" of what is not below it."""
    path = os.path.normpath(place)
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else ""


def _read(file: Path) -> str:
    with suppress(OSError, ValueError):
        if S_ISREG(mode_of(file)):
            with file.open("rb") as opened:
                return opened.read(MAX_TEXT).decode("utf-8", "replace")
    return ""
