"""The tools that change a text file: write_file replaces it, edit_file one piece of it."""

from difflib import get_close_matches
from functools import partial
from pathlib import PurePosixPath

from daemon.core.trust import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.calls import is_protected, truncate_middle
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.fs import explain_os_errors

MAX_SHOWN, MAX_LINE, MAX_LINES = 200, 80, 400  # a second at worst
MAX_PLACES, NEAR_LINES, NEAR_RATIO = 10, 3, 0.4
NOTHING = "Nothing was changed."


class NotFoundOnce(ToolError):
    """The piece stands in the file more than once, or not at all; `places` are its lines."""

    def __init__(self, path: str, places: list[int]) -> None:
        where = f" (lines {', '.join(map(str, places[:MAX_PLACES]))})" if places else ""
        advice = "give more of the text around it" if places else "copy the piece exactly"
        super().__init__(
            f"{path}: old stands in it {len(places)} times{where}, not once; {advice}. {NOTHING}"
        )
        self.places = places


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def write_file(files: FileStore, context: ToolContext, path: str, text: str) -> str:
    """Write a text file of the workspace, replacing what it held."""
    before: list[int] = []
    with explain_os_errors(path):  # before a folder is made
        data = text.encode()

    def replace_all(old: bytes | None) -> bytes:
        before.append(len((old or b"").splitlines()))
        return data

    await files.write(path, replace_all, ChangeAuthor.from_context(context))
    replaced = f"; this replaced the {before[-1]} lines that it held" if any(before) else ""
    return f"wrote {len(data)} bytes to {path}{replaced}"


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def edit_file(
    files: FileStore, context: ToolContext, path: str, old: str, new: str
) -> ToolOutput:
    """Replace a piece of a text file; old must stand in it exactly once. With old "", new is
    added at the end.
    """
    with explain_os_errors(path):
        find, put = old.encode(), new.encode()
    at: list[int] = []

    def edit(data: bytes | None) -> bytes:
        if data is None:
            raise ToolError(f"{path}: no such file; write_file makes one")
        line, changed = change_piece(path, data, find, put)
        at.append(line)
        return changed

    try:
        await files.write(path, edit, ChangeAuthor.from_context(context), whole=False)
    except NotFoundOnce as missed:
        hidden = (*context.turn.spec.protected_paths, *context.unreadable)
        place = PurePosixPath(files.workspace.normalize(path))
        if missed.places or is_protected(place, hidden):
            raise
        near, label, holds = await files.read(path, partial(find_near, wanted=old))
        return ToolOutput(f"{missed} {near}", is_error=True, label=label, holds=holds)
    put_there = truncate_middle(new.strip("\n"), MAX_SHOWN)
    if not old:
        return ToolOutput(f"edited {path}: added at its end, line {at[-1]}: {put_there!r}")
    was = truncate_middle(old.strip("\n"), MAX_SHOWN)
    return ToolOutput(f"edited {path}, line {at[-1]}: {was!r} became {put_there!r}")


def change_piece(path: str, data: bytes, find: bytes, put: bytes) -> tuple[int, bytes]:
    """The line of the piece, and the new content. Raises NotFoundOnce."""
    if b"\r\n" in data:
        if b"\r\n" not in find and find not in data:
            find = find.replace(b"\n", b"\r\n")
        put = put.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    end = b"\r\n" if b"\r\n" in data else b"\n"
    if not find:
        whole = data if not data or data.endswith(b"\n") else data + end
        ended = put if put.endswith(b"\n") or not put else put + end
        return whole.count(b"\n") + 1, whole + ended
    parts = data.split(find)
    if len(parts) != 2:
        before, places = 0, list[int]()
        for part in parts[:-1]:
            before += part.count(b"\n")
            places.append(before + 1)
            before += find.count(b"\n")
        raise NotFoundOnce(path, places)
    return parts[0].count(b"\n") + 1, data.replace(find, put)


def find_near(data: bytes, wanted: str) -> str:
    """The lines that are most like the first one that is wanted, with their numbers."""
    lines = [line[:MAX_LINE] for line in data.decode("utf-8", "replace").splitlines()]
    first = next((line for line in wanted.splitlines() if line.strip()), "")[:MAX_LINE]
    close = get_close_matches(first, lines[:MAX_LINES], n=NEAR_LINES, cutoff=NEAR_RATIO)
    rows = [f"{number}: {line}" for number, line in enumerate(lines, 1) if line in close]
    if not rows:
        return f"None of its {len(lines)} lines is like it."
    return "\n".join(["The lines that are most like it:", *rows[:MAX_PLACES]])
