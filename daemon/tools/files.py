"""The file tools. All of them work inside the workspace only, off the event loop."""

import asyncio
import os
import stat
from itertools import islice

from daemon.core.label import Effect
from daemon.tools.base import ToolError
from daemon.tools.decorate import tool
from daemon.tools.workspace import Workspace, told

MOST_ENTRIES = 300
ROOM = 120
SNIFFED = 8192


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def read_file(files: Workspace, path: str, offset: int = 1, limit: int = 0) -> str:
    """Read a text file of the workspace; offset and limit count lines."""
    return await asyncio.to_thread(_read_page, files, path, max(offset, 1), limit)


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def write_file(files: Workspace, path: str, text: str) -> str:
    """Write a text file of the workspace, replacing what it held."""
    return await asyncio.to_thread(_write, files, path, text)


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def edit_file(files: Workspace, path: str, old: str, new: str) -> str:
    """Replace a piece of a text file; old must stand in it exactly once."""
    return await asyncio.to_thread(_edit, files, path, old, new)


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def list_dir(files: Workspace, path: str = "") -> str:
    """List a directory of the workspace."""
    return await asyncio.to_thread(_list, files, path)


def _read_page(files: Workspace, path: str, offset: int, limit: int) -> str:
    text = _text(files, path)
    lines = text.removesuffix("\n").split("\n")
    if not text:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"{path}: it has {len(lines)} lines; offset {offset} is past its end")
    last = len(lines) if limit <= 0 else min(len(lines), offset - 1 + limit)
    page = _fitting(lines[offset - 1 : last], files.max_chars - ROOM)
    shown = offset - 1 + len(page)
    if offset == 1 and shown == len(lines):
        return "\n".join(page)
    more = f"; go on with offset={shown + 1}" if shown < len(lines) else ""
    return "\n".join(page) + f"\n[lines {offset}-{shown} of {len(lines)}{more}]"


def _fitting(lines: list[str], room: int) -> list[str]:
    """As many lines as there is room for; at least one, cut if need be."""
    page: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        page.append(line)
    return page or [f"{lines[0][: max(room + len(lines[0]), 0)]} [line cut: it has {len(lines[0])} characters]"]


def _text(files: Workspace, path: str) -> str:
    data = files.read(path)
    if b"\0" in data[:SNIFFED]:
        raise ToolError(f"{path}: a binary file of {len(data)} bytes; use shell to look into it")
    return data.decode("utf-8", "replace")


def _write(files: Workspace, path: str, text: str) -> str:
    with told(path):
        data = text.encode()
    files.write(path, data)
    return f"wrote {len(data)} bytes to {path}"


def _edit(files: Workspace, path: str, old: str, new: str) -> str:
    data = files.read(path)
    with told(path):
        wanted, instead = old.encode(), new.encode()
    if b"\r\n" in data and wanted not in data:
        wanted, instead = wanted.replace(b"\n", b"\r\n"), instead.replace(b"\n", b"\r\n")
    found = data.count(wanted) if wanted else 0
    if found != 1:
        advice = "read the file and copy the piece exactly" if not found else "give more of the text around it"
        raise ToolError(f"{path}: old stands in it {found} times, not once; {advice}. Nothing was changed.")
    files.write(path, data.replace(wanted, instead))
    return f"edited {path}"


def _list(files: Workspace, path: str) -> str:
    with files.directory(path) as place, told(path):
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries)
        shown = [_entry(name, place) for name in islice(names, MOST_ENTRIES)]
    more = [f"[{len(names) - MOST_ENTRIES} more]"] if len(names) > MOST_ENTRIES else []
    return "\n".join(shown + more) or "(the directory is empty)"


def _entry(name: str, place: int) -> str:
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=False)
    except OSError:
        return f"{name} (gone)"
    if stat.S_ISDIR(found.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{name} (link, not followed)"
    return f"{name} {found.st_size}"
