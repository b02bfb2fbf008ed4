"""search_files: which lines of which files hold a text. Bounded, and safe against patterns that never come to an end.

The file tools. All of them work inside the workspace only, off the event loop.
"""

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Self

from daemon.core import value
from daemon.core.trust import Effect, Label
from daemon.tools.arguments import is_protected
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.fs import READ_FLAGS, Workspace, explain_os_errors

MAX_SEARCH_FILES = 5_000
MAX_SEARCH_BYTES = 8_000_000
MAX_SEARCHED_FILE = 1_000_000
MAX_SEARCH_HITS = 100
MAX_LINE = 200

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


@value
class SearchScope:
    """What may be looked through: the workspace without its protected paths, which need a yes of their own."""

    files: FileStore
    protected: tuple[str, ...] = ()
    regex_s: float = 5.0

    @property
    def workspace(self) -> Workspace:
        """Where the files are."""
        return self.files.workspace

    def narrow(self, protected: Sequence[str], path: str) -> Self:
        """With these paths protected, too. Whoever was allowed to look at `path` may look at all of it."""
        start = PurePosixPath(self.workspace.normalize(path))
        return replace(
            self,
            protected=tuple(
                one for one in (*self.protected, *protected) if not is_protected(start, (one,))
            ),
        )

    def find_protected(self, folder: str, names: Iterable[str]) -> set[str]:
        """Those entries of the folder that are not to be looked into."""
        start = PurePosixPath(self.workspace.normalize(folder))
        return (
            {name for name in names if is_protected(start / name, self.protected)}
            if self.protected
            else set()
        )

    def label_of_names(self, folder: str, names: Iterable[str]) -> Label:
        """Of these entries' names, and of the folder's."""
        start = PurePosixPath(self.workspace.normalize(folder))
        return self.files.labels.label_of_names(str(start / name) for name in names)


@value
class SearchTexts:
    """The texts to look through, and whether the bounds cut some off."""

    texts: list[tuple[str, list[str]]]
    truncated: bool


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def search_files(
    place: SearchScope, context: ToolContext, pattern: str, path: str = "", regex: bool = False
) -> ToolOutput:
    """Find lines in the text files of the workspace; hidden files are left out."""
    if not pattern:
        raise ToolError("pattern is empty; give the text to look for")
    if regex:
        _check_regex(pattern)
    place = place.narrow(context.turn.spec.protected_paths, path)
    before = place.files.labels.snapshot()
    found = await asyncio.to_thread(_collect, place, path)
    hits = (
        await _search_regex(pattern, found, place.regex_s)
        if regex
        else await asyncio.to_thread(_search_text, pattern, found)
    )
    names = {place.workspace.normalize(name) for name, _, _ in hits}
    label = before.label_of_names(names).join_with(place.files.labels.label_of_names(names))
    lines = [f"{name}:{number}: {line}" for name, number, line in hits]
    if len(hits) == MAX_SEARCH_HITS:
        lines.append(f"[the first {MAX_SEARCH_HITS}; there may be more]")
    if found.truncated:
        lines.append("[too many files: not all were looked at; give a path]")
    return ToolOutput("\n".join(lines) or f"no line holds {pattern!r}", label=label)


def _check_regex(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolError(f"pattern is not a regular expression: {error}") from error


def _search_text(pattern: str, found: SearchTexts) -> list[tuple[str, int, str]]:
    hits: list[tuple[str, int, str]] = []
    for path, lines in found.texts:
        for number, line in enumerate(lines, 1):
            if pattern in line:
                hits.append((path, number, line[:MAX_LINE]))
        if len(hits) >= MAX_SEARCH_HITS:
            break
    return hits[:MAX_SEARCH_HITS]


async def _search_regex(
    pattern: str, found: SearchTexts, seconds: float
) -> list[tuple[str, int, str]]:
    rows = "\n".join(json.dumps(text) for text in found.texts)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", MATCHER, pattern, str(MAX_SEARCH_HITS), env={},
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


def _collect(place: SearchScope, path: str) -> SearchTexts:
    texts: list[tuple[str, list[str]]] = []
    room = MAX_SEARCH_BYTES
    for name, data in _iter_files(place, path):
        room -= len(data)
        if room < 0 or len(texts) == MAX_SEARCH_FILES:
            return SearchTexts(texts, truncated=True)
        if b"\0" not in data:
            texts.append((name, data.decode("utf-8", "replace").splitlines()))
    return SearchTexts(texts, truncated=False)


def _iter_files(place: SearchScope, path: str) -> Iterator[tuple[str, bytes]]:
    if place.workspace.is_file(path):
        yield path, place.workspace.read(path)
        return
    start = PurePosixPath(place.workspace.normalize(path))
    with place.workspace.open_directory(path) as top, explain_os_errors(path):
        for folder, folders, names, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
            here = start / folder
            folders[:] = sorted(name for name in folders if _is_searchable(place, here, name))
            for name in sorted(name for name in names if _is_searchable(place, here, name)):
                data = _read_small(name, handle)
                if data is not None:
                    yield str(here / name), data


def _is_searchable(place: SearchScope, here: PurePosixPath, name: str) -> bool:
    return not name.startswith(".") and not is_protected(here / name, place.protected)


def _read_small(name: str, place: int) -> bytes | None:
    """What an ordinary file of reasonable size holds; links and devices are passed over."""
    try:
        handle = os.open(name, READ_FLAGS, dir_fd=place)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        ordinary = (
            stat.S_ISREG(found.st_mode)
            and found.st_nlink == 1
            and found.st_size <= MAX_SEARCHED_FILE
        )
        return file.read(MAX_SEARCHED_FILE) if ordinary else None


MAX_LIST_ENTRIES = 300
PAGE_RESERVE = 120
BINARY_CHECK_BYTES = 8192
MOUNT_LINE = "{name}/ (came with messages; read only)"


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def read_file(files: FileStore, path: str, offset: int = 1, limit: int = 0) -> ToolOutput:
    """Read a text file of the workspace; offset and limit count lines."""
    room = files.workspace.max_chars
    text, label = await files.read(
        path, lambda data: _format_page(data, path, max(offset, 1), limit, room)
    )
    return ToolOutput(text, label=label)


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def write_file(files: FileStore, context: ToolContext, path: str, text: str) -> str:
    """Write a text file of the workspace, replacing what it held."""
    with explain_os_errors(path):
        data = text.encode()
    await files.write(path, lambda old: data, ChangeAuthor.from_context(context))
    return f"wrote {len(data)} bytes to {path}"


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def edit_file(files: FileStore, context: ToolContext, path: str, old: str, new: str) -> str:
    """Replace a piece of a text file; old must stand in it exactly once."""
    await files.write(
        path,
        lambda data: _apply_edit(data, path, old, new),
        ChangeAuthor.from_context(context),
        whole=False,
    )
    return f"edited {path}"


@tool(effect=Effect.WRITE, parallel=True, critical=("to",), paths=("path", "to"))
async def copy_file(files: FileStore, context: ToolContext, path: str, to: str) -> str:
    """Copy a file within the workspace, or one that came with a message (inbox/...) into it, so that commands can read it."""
    data, label = await files.read(path, lambda data: data)
    author = ChangeAuthor.from_context(context)
    await files.write(to, lambda old: data, replace(author, label=author.label.join_with(label)))
    return f"copied {len(data)} bytes to {to}"


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def list_dir(place: SearchScope, context: ToolContext, path: str = "") -> ToolOutput:
    """List a directory of the workspace."""
    place = place.narrow(context.turn.spec.protected_paths, path)
    names = await asyncio.to_thread(_list_names, place.workspace, path)
    before = place.label_of_names(path, names)
    text = await asyncio.to_thread(_format_list, place, path, names)
    return ToolOutput(text, label=before.join_with(place.label_of_names(path, names)))


def _format_page(data: bytes, path: str, offset: int, limit: int, room: int) -> str:
    text = _decode(data, path)
    lines = text.removesuffix("\n").split("\n")
    if not text:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"{path}: it has {len(lines)} lines; offset {offset} is past its end")
    last = len(lines) if limit <= 0 else min(len(lines), offset - 1 + limit)
    page = _fit_lines(lines[offset - 1 : last], room - PAGE_RESERVE)
    shown = offset - 1 + len(page)
    if offset == 1 and shown == len(lines):
        return "\n".join(page)
    more = f"; go on with offset={shown + 1}" if shown < len(lines) else ""
    return "\n".join(page) + f"\n[lines {offset}-{shown} of {len(lines)}{more}]"


def _fit_lines(lines: list[str], room: int) -> list[str]:
    """As many lines as there is room for; at least one, cut if need be."""
    page: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        page.append(line)
    return page or [
        f"{lines[0][: max(room + len(lines[0]), 0)]} [line cut: it has {len(lines[0])} characters]"
    ]


def _decode(data: bytes, path: str) -> str:
    if b"\0" in data[:BINARY_CHECK_BYTES]:
        raise ToolError(
            f"{path}: a binary file of {len(data)} bytes; use shell to look into it (copy_file first, from inbox)"
        )
    return data.decode("utf-8", "replace")


def _apply_edit(data: bytes | None, path: str, old: str, new: str) -> bytes:
    if data is None:
        raise ToolError(f"{path}: no such file; write_file makes one")
    with explain_os_errors(path):
        wanted, instead = old.encode(), new.encode()
    if b"\r\n" in data and wanted not in data:
        wanted, instead = wanted.replace(b"\n", b"\r\n"), instead.replace(b"\n", b"\r\n")
    found = data.count(wanted) if wanted else 0
    if found != 1:
        advice = (
            "read the file and copy the piece exactly"
            if not found
            else "give more of the text around it"
        )
        raise ToolError(
            f"{path}: old stands in it {found} times, not once; {advice}. Nothing was changed."
        )
    return data.replace(wanted, instead)


def _list_names(workspace: Workspace, path: str) -> list[str]:
    beside = [] if workspace.normalize(path) else workspace.mount_names
    with (
        workspace.open_directory(path) as folder,
        explain_os_errors(path),
        os.scandir(folder) as entries,
    ):
        return sorted({*(entry.name for entry in entries), *beside})


def _format_list(place: SearchScope, path: str, names: Sequence[str]) -> str:
    with place.workspace.open_directory(path) as folder, explain_os_errors(path):
        protected = place.find_protected(path, names[:MAX_LIST_ENTRIES])
        beside = [] if place.workspace.normalize(path) else place.workspace.mount_names
        entries = names[:MAX_LIST_ENTRIES]
        shown = [
            MOUNT_LINE.format(name=name)
            if name in beside
            else _format_entry(name, folder, name in protected)
            for name in entries
        ]
    more = [f"[{len(names) - MAX_LIST_ENTRIES} more]"] if len(names) > MAX_LIST_ENTRIES else []
    return "\n".join(shown + more) or "(the directory is empty)"


def _format_entry(name: str, place: int, protected: bool) -> str:
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=False)
    except OSError:
        return f"{name} (gone)"
    if stat.S_ISDIR(found.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{name} (link, not followed)"
    return f"{name} (protected)" if protected else f"{name} {found.st_size}"
