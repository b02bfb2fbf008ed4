"""The tools that change a text file: write_file replaces it, edit_file one piece of it."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from itertools import takewhile
from pathlib import PurePosixPath

from daemon.core import value
from daemon.core.trust import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.calls import is_protected, truncate_middle
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.fs import explain_os_errors

MAX_SHOWN, MAX_LINE, MAX_LINES = 200, 80, 400  # a second at worst
MAX_PLACES, NEAR_LINES, NEAR_RATIO = 10, 3, 0.4
NOTHING = "Nothing was changed."
WORDS, LINE_END = re.compile(r"\w+|[^\w\s]|\n\s*"), "\n"


class NotFoundOnce(ToolError):
    """The piece stands in the file more than once, or not at all; `places` are its lines."""

    def __init__(self, path: str, places: list[int]) -> None:
        where = f" (lines {', '.join(map(str, places[:MAX_PLACES]))})" if places else ""
        advice = "call it again with every=true to change all, or with more of the text around one"
        super().__init__(
            f"{path}: old stands in it {len(places)} times{where}, not once. {NOTHING}"
            f" Next: {advice if places else 'copy the piece exactly'}."
        )
        self.places = places


@value
class Change:
    """One piece of a text and what it becomes, by its place in the text."""

    start: int
    end: int
    put: str


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
    files: FileStore, context: ToolContext, path: str, old: str, new: str, every: bool = False
) -> ToolOutput:
    """Replace a piece of a text file; old must stand in it once, or every time with `every`. With
    old "", new is added at the end.
    """
    with explain_os_errors(path):
        old.encode(), new.encode()
    told: list[str] = []

    def edit(data: bytes | None) -> bytes:
        if data is None:
            raise ToolError(f"{path}: no such file; write_file makes one")
        text = data.decode("utf-8", "surrogateescape")
        changes = plan_changes(path, text, old, new, every)
        told[:] = [describe_changes(path, text, changes)]
        return apply_changes(text, changes).encode("utf-8", "surrogateescape")

    try:
        await files.write(path, edit, ChangeAuthor.from_context(context), whole=False)
    except NotFoundOnce as missed:
        hidden = (*context.turn.spec.protected_paths, *context.unreadable)
        place = PurePosixPath(files.workspace.normalize(path))
        if missed.places or is_protected(place, hidden):
            raise
        near, label, holds = await files.read(path, partial(find_near, wanted=old))
        return ToolOutput(f"{missed} {near}", is_error=True, label=label, holds=holds)
    return ToolOutput(told[0])


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",))
async def delete_line(files: FileStore, context: ToolContext, path: str, text: str) -> str:
    """Delete the one line of a text file that has this text."""
    sought, at = text.strip().encode(), list[int]()
    if not sought:
        raise ToolError(f"text is empty; give a piece of the line. {NOTHING}")

    def delete(data: bytes | None) -> bytes:
        lines = (data or b"").splitlines(keepends=True)
        at[:] = [number for number, line in enumerate(lines, 1) if sought in line]
        if len(at) != 1:
            raise ToolError(f"{path}: {len(at)} lines have {text!r}, not one. {NOTHING}")
        return b"".join((*lines[: at[0] - 1], *lines[at[0] :]))

    await files.write(path, delete, ChangeAuthor.from_context(context), whole=False)
    return f"deleted line {at[0]} of {path}"


def plan_changes(path: str, text: str, old: str, new: str, every: bool) -> list[Change]:
    """Where the piece stands; if nowhere, the one place where it stands with other blanks. Raises
    NotFoundOnce.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    if end == "\r\n":
        if "\r\n" not in old and old not in text:
            old = old.replace("\n", end)
        new = new.replace("\r\n", "\n").replace("\n", end)
    if not old:
        gap = end if text and not text.endswith("\n") else ""
        ended = new if new.endswith("\n") or not new else new + end
        return [Change(len(text), len(text), gap + ended)]
    found = [Change(*one.span(), new) for one in re.finditer(re.escape(old), text)]
    found = found or fit_loosely(text, old, new)
    if not found or (len(found) > 1 and not every):
        raise NotFoundOnce(path, [find_line(text, one.start) for one in found])
    return found


def fit_loosely(text: str, old: str, new: str) -> list[Change]:
    """Where the same words and signs stand in the same lines, with other blanks. Words that take
    the place of words leave the blanks beside them; else all of the piece is replaced.
    """
    have, wanted, given = ([*WORDS.finditer(one)] for one in (text, old.strip(), new.strip()))
    words, others = [*map(show_word, wanted)], [*map(show_word, given)]
    same = count_same(words, others)
    rear = count_same(words[same:][::-1], others[same:][::-1])
    put = new.strip()
    if len(words) > same + rear < len(others):
        put = put[given[same].start() : given[-rear - 1].end()]
    else:
        same = rear = 0
    whole, found = "".join(map(show_word, have)), list[Change]()
    for one in re.finditer(rf"(?<!\S){re.escape(''.join(words))}", whole) if words else ():
        first = whole.count(" ", 0, one.start())
        last = first + len(words) - 1
        found.append(Change(have[first + same].start(), have[last - rear].end(), put))
    return found


def show_word(word: re.Match[str]) -> str:
    """With a space behind it; a line's end, and blanks after that, are one word."""
    return f"{word.group().strip() or LINE_END} "


def count_same(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def apply_changes(text: str, changes: list[Change]) -> str:
    """The new text."""
    ends = [0, *(one.end for one in changes)]
    parts = [text[end : one.start] + one.put for end, one in zip(ends, changes, strict=False)]
    return "".join((*parts, text[ends[-1] :]))


def describe_changes(path: str, text: str, changes: list[Change]) -> str:
    """What was replaced by what, and in which lines."""
    first = changes[0]
    was, put = (
        truncate_middle(one.strip("\r\n"), MAX_SHOWN)
        for one in (text[first.start : first.end], first.put)
    )
    if first.start == len(text):
        return f"edited {path}: added at its end, line {len(text.splitlines()) + 1}: {put!r}"
    lines = ", ".join(str(find_line(text, one.start)) for one in changes[:MAX_PLACES])
    became = f"became {put!r}" if put else "was deleted"
    times = f" {len(changes)} times" if len(changes) > 1 else ""
    return f"edited {path}, line {lines}: {was!r} {became}{times}"


def find_line(text: str, at: int) -> int:
    """The number of the line in which this place is."""
    return text.count("\n", 0, at) + 1


def find_near(data: bytes, wanted: str) -> str:
    """The lines that are most like the first one that is wanted, with their numbers."""
    lines = [line[:MAX_LINE] for line in data.decode("utf-8", "replace").splitlines()]
    first = next((line for line in wanted.splitlines() if line.strip()), "")[:MAX_LINE]
    close = get_close_matches(first, lines[:MAX_LINES], n=NEAR_LINES, cutoff=NEAR_RATIO)
    rows = [f"{number}: {line}" for number, line in enumerate(lines, 1) if line in close]
    if not rows:
        return f"None of its {len(lines)} lines is like it."
    return "\n".join(["The lines that are most like it:", *rows[:MAX_PLACES]])
