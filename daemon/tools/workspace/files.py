"""The file tools: read, write, edit, copy, list and search, inside the workspace only."""

import asyncio
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Self

from channels.charsets import decode_text, is_wide
from daemon.core import value
from daemon.core.errors import UnreadableDocument
from daemon.core.trust import Effect, join_all, join_sources
from daemon.core.turn_spec import check_pattern
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.calls import is_protected
from daemon.tools.documents.pictures import is_picture
from daemon.tools.documents.reader import BEGINS, DocumentReader, DocumentText
from daemon.tools.shell.process import exchange
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import FileStore
from daemon.tools.workspace.fs import READ_FLAGS, open_regular

MAX_SEARCH_FILES = 5_000
MAX_SEARCH_BYTES = 8_000_000
MAX_SEARCHED_FILE = 1_000_000
MAX_SEARCH_HITS = 100
MAX_LIST_ENTRIES = 300
PAGE_RESERVE = 120
BINARY_CHECK_BYTES = 8192
MAX_DOCUMENT_CHARS = 2_000_000
# A regular expression can take for ever and blocks the interpreter; only a child can be killed.
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

Texts = list[tuple[str, list[str]]]


@value
class SearchScope:
    """What may be searched and listed: the workspace without its protected paths."""

    files: FileStore
    protected: tuple[str, ...] = ()
    regex_s: float = 5.0

    def narrow(self, context: ToolContext, path: str) -> Self:
        """Leave out what the agent protects and what rules let nobody read, too. Who was allowed to
        look at `path` may look at all of it.
        """
        start = PurePosixPath(self.files.workspace.normalize(path))
        both = (*self.protected, *context.turn.spec.protected_paths, *context.unreadable)
        return replace(
            self, protected=tuple(one for one in both if not is_protected(start, (one,)))
        )

    def list_folder(self, path: str) -> tuple[list[str], str]:
        """The paths, and the list as the model sees it. In a thread."""
        workspace, lines = self.files.workspace, []
        start = PurePosixPath(workspace.normalize(path))
        mounts = [] if start.parts else workspace.mount_names
        with workspace.open_directory(path) as folder, os.scandir(folder) as found:
            entries = {entry.name: entry for entry in found}
            names = sorted({*entries, *mounts})
            for name in names[:MAX_LIST_ENTRIES]:
                if name in mounts:
                    note = "/ (came with messages; read only)"
                elif entries[name].is_dir(follow_symlinks=False):
                    note = "/"
                elif entries[name].is_symlink():
                    note = " (link, not followed)"
                elif is_protected(start / name, self.protected):
                    note = " (protected)"
                else:
                    note = " (gone)"
                    with suppress(OSError):
                        note = f" {entries[name].stat(follow_symlinks=False).st_size} bytes"
                lines.append(name + note)
        if len(names) > MAX_LIST_ENTRIES:
            lines.append(f"[{len(names) - MAX_LIST_ENTRIES} more]")
        paths = [str(start / name) for name in names]
        return paths, "\n".join(lines) or "(the directory is empty)"

    def collect(self, path: str) -> tuple[Texts, bool]:
        """The lines of each text file, and whether there were too many. In a thread."""
        texts: Texts = []
        space = MAX_SEARCH_BYTES
        for name, data in self._iter_files(path):
            space -= len(data)
            if space < 0 or len(texts) == MAX_SEARCH_FILES:
                return texts, True
            if b"\0" not in data or is_wide(data):
                texts.append((name, decode_text(data)[0].splitlines()))
        return texts, False

    def _iter_files(self, path: str) -> Iterator[tuple[str, bytes]]:
        workspace = self.files.workspace
        place, found = workspace.normalize(path), workspace.stat(path)
        if found and stat.S_ISREG(found.st_mode):
            yield place, workspace.read(path)
            return
        with workspace.open_directory(path) as top:
            for folder, folders, names, handle in os.fwalk(".", dir_fd=top, follow_symlinks=False):
                here = PurePosixPath(place, folder)
                folders[:] = self._searchable(here, folders)
                for name in self._searchable(here, names):
                    data = None
                    with suppress(OSError, ToolError):  # links, devices and large files are skipped
                        opened = os.open(name, READ_FLAGS, dir_fd=handle)
                        with open_regular(name, opened, MAX_SEARCHED_FILE) as file:
                            if not workspace.is_disguised(str(here / name), os.fstat(opened)):
                                data = file.read(MAX_SEARCHED_FILE)
                    if data is not None:
                        yield str(here / name), data

    def _searchable(self, here: PurePosixPath, names: Iterable[str]) -> list[str]:
        return sorted(
            name
            for name in names
            if not name.startswith(".") and not is_protected(here / name, self.protected)
        )


@value
class FileReader:
    """The workspace, and what reads documents in it."""

    files: FileStore
    documents: DocumentReader


@tool(effect=Effect.READ, parallel=True, paths=("path",), evidence="read")
async def read_file(reader: FileReader, path: str, offset: int = 0, limit: int = 0) -> ToolOutput:
    """Read a text file; offset and limit count lines."""
    space = reader.files.workspace.max_chars - PAGE_RESERVE
    show = partial(_format_page, path=path, offset=max(offset, 1), limit=limit, space=space)

    def convert(data: bytes) -> str | bytes:
        return data if is_binary(data) else show(decode_text(data)[0])

    found, label, holds = await reader.files.read(path, convert)
    if isinstance(found, bytes) and is_picture(found):
        return ToolOutput(f"{path}: a picture.", label=label, holds=holds, images=(found,))
    if isinstance(found, bytes):
        document = await _read_document(reader.documents, found, path)
        if document.is_scan:
            told = f"{path}: {document.pages} pages without text; here are the first as pictures."
            return ToolOutput(told, label=label, holds=holds, images=(found,))
        found = await asyncio.to_thread(show, document.text)
    return ToolOutput(found, label=label, holds=holds)


async def _read_document(documents: DocumentReader, data: bytes, path: str) -> DocumentText:
    try:
        document = await documents.read(data, MAX_DOCUMENT_CHARS)
    except UnreadableDocument as error:
        raise ToolError(f"{path}: {error}") from error
    if document is None:
        raise ToolError(
            f"{path}: a binary file of {len(data)} bytes; use shell to look into it"
            " (copy_file first, from inbox)"
        )
    return document


@tool(effect=Effect.READ, parallel=True, paths=("path",))
async def list_dir(place: SearchScope, context: ToolContext, path: str = "") -> ToolOutput:
    """List a directory of the workspace, with the size of each file."""
    place, labels = place.narrow(context, path), place.files.labels
    before = labels.snapshot()
    paths, text = await asyncio.to_thread(place.list_folder, path)
    after = labels.snapshot()
    label = await asyncio.to_thread(
        lambda: join_all(one.label_of_names(paths) for one in (before, after))
    )
    return ToolOutput(text, label=label)


@tool(effect=Effect.READ, parallel=True, paths=("path",))
async def search_files(
    place: SearchScope, context: ToolContext, pattern: str, path: str = "", regex: bool = False
) -> ToolOutput:
    """Find lines in the text files of the workspace; hidden files are left out."""
    if not pattern:
        raise ToolError("pattern is empty; give the text to look for")
    if regex and (fault := check_pattern(pattern)):
        raise ToolError(f"pattern is not a regular expression: {fault}; use a simpler one")
    wanted = pattern if regex else re.escape(pattern)
    place, labels = place.narrow(context, path), place.files.labels
    before = labels.snapshot()
    texts, truncated = await asyncio.to_thread(place.collect, path)
    rows = "\n".join(map(json.dumps, texts)).encode()
    command = [sys.executable, "-I", "-S", "-c", MATCHER, wanted, str(MAX_SEARCH_HITS)]
    output = await exchange(command, rows, place.regex_s)
    if output is None:
        raise ToolError(f"the pattern took more than {place.regex_s:g} s; use a simpler one")
    hits = [json.loads(row) for row in output.splitlines()]
    paths = {name for name, _, _ in hits}
    after = labels.snapshot()
    label = await asyncio.to_thread(
        lambda: join_all(one.label_of_names(paths) for one in (before, after))
    )
    lines = [f"{name}:{number}: {line}" for name, number, line in hits]
    if len(hits) == MAX_SEARCH_HITS:
        lines.append(f"[the first {MAX_SEARCH_HITS}; there may be more]")
    if truncated:
        lines.append("[too many files: not all were searched; give a path]")
    text = "\n".join(lines) or f"no line holds {pattern!r}"
    holds = join_sources(one.list_held(paths) for one in (before, after))
    return ToolOutput(text, label=label, holds=holds)


def is_binary(data: bytes) -> bool:
    """No text, or a document that holds some."""
    return b"\0" in data[:BINARY_CHECK_BYTES] or data.startswith(BEGINS) or is_picture(data)


def _format_page(text: str, path: str, offset: int, limit: int, space: int) -> str:
    if not text:
        return "(the file is empty)"
    lines = text.removesuffix("\n").split("\n")
    if offset > len(lines):
        raise ToolError(f"{path}: it has {len(lines)} lines; offset {offset} is past its end")
    page: list[str] = []
    for line in lines[offset - 1 : offset - 1 + limit if limit > 0 else None]:
        space -= len(line) + 1
        if space < 0 and not page:  # at least one line, cut if need be
            page = [
                f"{line[: max(space + len(line), 0)]} [line cut: it has {len(line)} characters]"
            ]
        if space < 0:
            break
        page.append(line)
    shown = offset - 1 + len(page)
    if offset == 1 and shown == len(lines):
        return "\n".join(page)
    more = f"; continue with offset={shown + 1}" if shown < len(lines) else ""
    return "\n".join(page) + f"\n[lines {offset}-{shown} of {len(lines)}{more}]"
