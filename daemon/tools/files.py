"""The file tools. All of them work inside the workspace only, off the event loop."""

import asyncio
import os
import stat
from collections.abc import Sequence
from dataclasses import replace

from daemon.core.label import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.changes import Author, Files
from daemon.tools.decorate import tool
from daemon.tools.search import Searchable
from daemon.tools.workspace import Workspace, told

MOST_ENTRIES = 300
ROOM = 120
SNIFFED = 8192
GUEST = "{name}/ (came with messages; read only)"


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def read_file(files: Files, path: str, offset: int = 1, limit: int = 0) -> ToolOutput:
    """Read a text file of the workspace; offset and limit count lines."""
    room = files.workspace.max_chars
    text, label = await files.read(path, lambda data: _page(data, path, max(offset, 1), limit, room))
    return ToolOutput(text, label=label)


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def write_file(files: Files, context: ToolContext, path: str, text: str) -> str:
    """Write a text file of the workspace, replacing what it held."""
    with told(path):
        data = text.encode()
    await files.write(path, lambda old: data, Author.of(context))
    return f"wrote {len(data)} bytes to {path}"


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def edit_file(files: Files, context: ToolContext, path: str, old: str, new: str) -> str:
    """Replace a piece of a text file; old must stand in it exactly once."""
    await files.write(path, lambda data: _edited(data, path, old, new), Author.of(context), whole=False)
    return f"edited {path}"


@tool(effect=Effect.WRITE, parallel=True, critical=("to",), paths=("path", "to"))
async def copy_file(files: Files, context: ToolContext, path: str, to: str) -> str:
    """Copy a file within the workspace, or one that came with a message (inbox/...) into it, so that commands can read it."""
    data, label = await files.read(path, lambda data: data)
    author = Author.of(context)
    await files.write(to, lambda old: data, replace(author, label=author.label.joined(label)))
    return f"copied {len(data)} bytes to {to}"


@tool(effect=Effect.READ, parallel=True, idempotent=True, paths=("path",))
async def list_dir(place: Searchable, context: ToolContext, path: str = "") -> ToolOutput:
    """List a directory of the workspace."""
    place = place.within(context.turn.terms.protected_paths, path)
    names = await asyncio.to_thread(_names, place.workspace, path)
    before = place.label_of_names(path, names)
    text = await asyncio.to_thread(_list, place, path, names)
    return ToolOutput(text, label=before.joined(place.label_of_names(path, names)))


def _page(data: bytes, path: str, offset: int, limit: int, room: int) -> str:
    text = _text(data, path)
    lines = text.removesuffix("\n").split("\n")
    if not text:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"{path}: it has {len(lines)} lines; offset {offset} is past its end")
    last = len(lines) if limit <= 0 else min(len(lines), offset - 1 + limit)
    page = _fitting(lines[offset - 1 : last], room - ROOM)
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


def _text(data: bytes, path: str) -> str:
    if b"\0" in data[:SNIFFED]:
        raise ToolError(f"{path}: a binary file of {len(data)} bytes; use shell to look into it (copy_file first, from inbox)")
    return data.decode("utf-8", "replace")


def _edited(data: bytes | None, path: str, old: str, new: str) -> bytes:
    if data is None:
        raise ToolError(f"{path}: no such file; write_file makes one")
    with told(path):
        wanted, instead = old.encode(), new.encode()
    if b"\r\n" in data and wanted not in data:
        wanted, instead = wanted.replace(b"\n", b"\r\n"), instead.replace(b"\n", b"\r\n")
    found = data.count(wanted) if wanted else 0
    if found != 1:
        advice = "read the file and copy the piece exactly" if not found else "give more of the text around it"
        raise ToolError(f"{path}: old stands in it {found} times, not once; {advice}. Nothing was changed.")
    return data.replace(wanted, instead)


def _names(workspace: Workspace, path: str) -> list[str]:
    beside = [] if workspace.name(path) else workspace.guests
    with workspace.directory(path) as folder, told(path), os.scandir(folder) as entries:
        return sorted({*(entry.name for entry in entries), *beside})


def _list(place: Searchable, path: str, names: Sequence[str]) -> str:
    with place.workspace.directory(path) as folder, told(path):
        protected = place.protected_of(path, names[:MOST_ENTRIES])
        beside = [] if place.workspace.name(path) else place.workspace.guests
        entries = names[:MOST_ENTRIES]
        shown = [GUEST.format(name=name) if name in beside else _entry(name, folder, name in protected) for name in entries]
    more = [f"[{len(names) - MOST_ENTRIES} more]"] if len(names) > MOST_ENTRIES else []
    return "\n".join(shown + more) or "(the directory is empty)"


def _entry(name: str, place: int, protected: bool) -> str:
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=False)
    except OSError:
        return f"{name} (gone)"
    if stat.S_ISDIR(found.st_mode):
        return f"{name}/"
    if stat.S_ISLNK(found.st_mode):
        return f"{name} (link, not followed)"
    return f"{name} (protected)" if protected else f"{name} {found.st_size}"
