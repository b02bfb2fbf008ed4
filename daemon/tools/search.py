"""search_files: which lines of which files hold a text. Bounded, and safe against patterns that never come to an end."""

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Self

from daemon.core.label import Effect, Label
from daemon.tools.arguments import is_protected
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.changes import Files
from daemon.tools.decorate import tool
from daemon.tools.draft import READ
from daemon.tools.workspace import Workspace, told

MOST_FILES = 5_000
MOST_BYTES = 8_000_000
MOST_OF_ONE = 1_000_000
MOST_HITS = 100
LINE = 200

# A regular expression can take for ever and holds the interpreter meanwhile; no thread helps, a child can be killed.
MATCHER = """
import json, re, sys
pattern, most = re.compile(sys.argv[1]), int(sys.argv[2])
for row in sys.stdin:
    path, lines = json.loads(row)
    for number, line in enumerate(lines, 1):
        if most and pattern.search(line):
            most -= 1
            print(json.dumps([path, number, line[:200]]))
"""


@dataclass(frozen=True, slots=True)
class Searchable:
    """What may be looked through: the workspace without its protected paths, which need a yes of their own."""

    files: Files
    protected: tuple[str, ...] = ()
    regex_s: float = 5.0

    @property
    def workspace(self) -> Workspace:
        """Where the files are."""
        return self.files.workspace

    def within(self, protected: Sequence[str], path: str) -> Self:
        """With these paths protected, too. Whoever was allowed to look at `path` may look at all of it."""
        start = PurePosixPath(self.workspace.name(path))
        return replace(self, protected=tuple(one for one in (*self.protected, *protected) if not is_protected(start, (one,))))

    def protected_of(self, folder: str, names: Iterable[str]) -> set[str]:
        """Those entries of the folder that are not to be looked into."""
        start = PurePosixPath(self.workspace.name(folder))
        return {name for name in names if is_protected(start / name, self.protected)} if self.protected else set()

    def label_of_names(self, folder: str, names: Iterable[str]) -> Label:
        """Of these entries' names, and of the folder's."""
        start = PurePosixPath(self.workspace.name(folder))
        return self.files.marks.label_of_names(str(start / name) for name in names)


@dataclass(frozen=True, slots=True)
class Found:
    """The texts to look through, and whether the bounds cut some off."""

    texts: list[tuple[str, list[str]]]
    cut: bool


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def search_files(
    place: Searchable, context: ToolContext, pattern: str, path: str = "", regex: bool = False
) -> ToolOutput:
    """Find lines in the text files of the workspace; hidden files are left out."""
    if not pattern:
        raise ToolError("pattern is empty; give the text to look for")
    if regex:
        _check_regex(pattern)
    place = place.within(context.turn.terms.protected_paths, path)
    before = place.files.marks.snapshot()
    found = await asyncio.to_thread(_collect, place, path)
    hits = await _by_regex(pattern, found, place.regex_s) if regex else await asyncio.to_thread(_by_text, pattern, found)
    names = {place.workspace.name(name) for name, _, _ in hits}
    label = before.label_of_names(names).joined(place.files.marks.label_of_names(names))
    lines = [f"{name}:{number}: {line}" for name, number, line in hits]
    if len(hits) == MOST_HITS:
        lines.append(f"[the first {MOST_HITS}; there may be more]")
    if found.cut:
        lines.append("[too many files: not all were looked at; give a path]")
    return ToolOutput("\n".join(lines) or f"no line holds {pattern!r}", label=label)


def _check_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(f"pattern is not a regular expression: {error}") from error


def _by_text(pattern: str, found: Found) -> list[tuple[str, int, str]]:
    hits: list[tuple[str, int, str]] = []
    for path, lines in found.texts:
        for number, line in enumerate(lines, 1):
            if pattern in line:
                hits.append((path, number, line[:LINE]))
        if len(hits) >= MOST_HITS:
            break
    return hits[:MOST_HITS]


async def _by_regex(pattern: str, found: Found, seconds: float) -> list[tuple[str, int, str]]:
    rows = "\n".join(json.dumps(text) for text in found.texts)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", MATCHER, pattern, str(MOST_HITS), env={},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            printed, _ = await process.communicate(rows.encode())
    except TimeoutError as error:
        raise ToolError(f"the pattern took more than {seconds:g} s; use a simpler one") from error
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return [(path, number, line) for path, number, line in map(json.loads, printed.splitlines())]


def _collect(place: Searchable, path: str) -> Found:
    texts: list[tuple[str, list[str]]] = []
    room = MOST_BYTES
    for name, data in _files(place, path):
        room -= len(data)
        if room < 0 or len(texts) == MOST_FILES:
            return Found(texts, cut=True)
        if b"\0" not in data:
            texts.append((name, data.decode("utf-8", "replace").splitlines()))
    return Found(texts, cut=False)


def _files(place: Searchable, path: str) -> Iterator[tuple[str, bytes]]:
    if place.workspace.is_file(path):
        yield path, place.workspace.read(path)
        return
    start = PurePosixPath(place.workspace.name(path))
    with place.workspace.directory(path) as top, told(path):
        for folder, folders, names, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            here = start / folder
            folders[:] = sorted(name for name in folders if _open_to_search(place, here, name))
            for name in sorted(name for name in names if _open_to_search(place, here, name)):
                data = _content(name, handle)
                if data is not None:
                    yield str(here / name), data


def _open_to_search(place: Searchable, here: PurePosixPath, name: str) -> bool:
    return not name.startswith(".") and not is_protected(here / name, place.protected)


def _content(name: str, place: int) -> bytes | None:
    """What an ordinary file of reasonable size holds; links and devices are passed over."""
    try:
        handle = os.open(name, READ, dir_fd=place)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        ordinary = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size <= MOST_OF_ONE
        return file.read(MOST_OF_ONE) if ordinary else None
