"""The tools that change a text file: write_file replaces it, edit_file one piece of it."""

import re
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from io import StringIO
from itertools import chain, takewhile
from pathlib import PurePosixPath

from channels.charsets import decode_text
from daemon.core.trust import Effect
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.calls import is_protected, truncate_middle
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.fs import explain_os_errors

MAX_SHOWN, MAX_LINE, MAX_LINES = 200, 80, 400  # a second at worst
MAX_PLACES, NEAR_LINES, NEAR_RATIO = 10, 3, 0.4
NOTHING = "Nothing was changed."
LINE_END, BLANKS, Places = r"\n\s*+", r"[^\S\n]*+", list[tuple[int, int]]
WORDS = re.compile(r"(\w+)|[^\w\s]|\n\s*")


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


@tool(effect=Effect.WRITE, parallel=True, critical=("path",), paths=("path",), public=True)
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
        text, codec = open_text(data)
        places, put = find_places(path, text, old, new, every)
        told[:] = [_describe(path, text, places, put)]
        cuts = [0, *chain(*places), len(text)]
        kept = (text[start:end] for start, end in zip(cuts[::2], cuts[1::2], strict=True))
        return close_text(path, put.join(kept), codec)

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
    sought = text.strip()

    def delete(data: bytes | None) -> bytes:
        whole, codec = open_text(data or b"")
        lines = StringIO(whole, newline="").readlines()
        kept = [line for line in lines if sought not in line]
        if (gone := len(lines) - len(kept)) != 1 or not sought:
            raise ToolError(f"{path}: {gone} lines have {text!r}, not one. {NOTHING}")
        return close_text(path, "".join(kept), codec)

    await files.write(path, delete, ChangeAuthor.from_context(context), whole=False)
    return f"deleted the line with {text!r} from {path}"


def open_text(data: bytes) -> tuple[str, str]:
    """A file's text, and the codec that writes it back byte for byte; "" for one that none does."""
    text, codec = decode_text(data)
    with suppress(UnicodeError, LookupError):
        if text.encode(codec) == data:
            return text, codec
    return data.decode("utf-8", "surrogateescape"), ""


def close_text(path: str, text: str, codec: str) -> bytes:
    """A changed text in its file's charset. Raises ToolError where that has no such sign."""
    try:
        return text.encode(codec) if codec else text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{path}: its charset {codec} has no {text[error.start]!r}. {NOTHING}"
            " Next: leave the sign out, or write the whole file with write_file, as UTF-8."
        ) from error


def find_places(path: str, text: str, old: str, new: str, every: bool) -> tuple[Places, str]:
    """Where the piece stands, if need be with other blanks, and what is put there. A line that is
    deleted goes with its end. Raises NotFoundOnce.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    if end == "\r\n":
        if "\r\n" not in old and old not in text:
            old = old.replace("\n", end)
        new = new.replace("\r\n", "\n").replace("\n", end)
    if not old:
        gap = end if text and not text.endswith("\n") else ""
        ended = new if new.endswith("\n") or not new else new + end
        return [(len(text), len(text))], gap + ended
    piece, put = re.escape(old), new
    if not new and not old.endswith("\n"):
        piece = rf"^{piece}[^\S\n]*\n|{piece}"
    places = [one.span() for one in re.finditer(piece, text, re.MULTILINE)]
    if not places:
        piece, put = loosen(old, new)
        places = [one.span(1) for one in re.finditer(piece, text)] if piece else []
    if not places or (len(places) > 1 and not every):
        raise NotFoundOnce(path, [_find_line(text, start) for start, _ in places])
    return places, put


def loosen(old: str, new: str) -> tuple[str, str]:
    """A pattern of the same words and signs in the same lines, with any blanks, whose group 1 is
    replaced, and by what. Words that take the place of words leave the blanks beside them.
    """
    put, given = new.strip(), [*WORDS.finditer(new.strip())]
    words = [*map(_loosen_word, WORDS.finditer(old.strip()))]
    others = [*map(_loosen_word, given)]
    same = _count_same(words, others)
    rear = _count_same(words[same:][::-1], others[same:][::-1])
    if len(words) > same + rear < len(others):
        put = put[given[same].start() : given[-rear - 1].end()]
    else:
        same = rear = 0
    last = len(words) - rear
    middle = f"({BLANKS.join(words[same:last])})"
    return BLANKS.join((*words[:same], middle, *words[last:])) if words else "", put


def _loosen_word(word: re.Match[str]) -> str:
    if word[0].isspace():
        return LINE_END
    return rf"\b{word[0]}\b" if word[1] else re.escape(word[0])


def _count_same(one: Sequence[str], other: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _describe(path: str, text: str, places: Places, put: str) -> str:
    start, end = places[0]
    was, now = (truncate_middle(one.strip("\r\n"), MAX_SHOWN) for one in (text[start:end], put))
    if start == len(text):
        return f"edited {path}: added at its end, line {len(text.splitlines()) + 1}: {now!r}"
    lines = ", ".join(str(_find_line(text, at)) for at, _ in places[:MAX_PLACES])
    return f"edited {path}, line {lines}: {was!r} {f'became {now!r}' if put else 'was deleted'}"


def _find_line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def find_near(data: bytes, wanted: str) -> str:
    """The lines that are most like the first one that is wanted, with their numbers."""
    lines = [line[:MAX_LINE] for line in decode_text(data)[0].splitlines()]
    first = next((line for line in wanted.splitlines() if line.strip()), "")[:MAX_LINE]
    close = get_close_matches(first, lines[:MAX_LINES], n=NEAR_LINES, cutoff=NEAR_RATIO)
    rows = [f"{number}: {line}" for number, line in enumerate(lines, 1) if line in close]
    if not rows:
        return f"None of its {len(lines)} lines is like it."
    return "\n".join(["The lines that are most like it:", *rows[:MAX_PLACES]])
