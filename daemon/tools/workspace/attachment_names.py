"""Names and descriptions of files that come with messages."""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from channels.message import Attachment

DEFAULT_NAME = "file"
MAX_CHARS, MAX_BYTES, MAX_EXTENSION = 80, 160, 16
DROPPED_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
UNSAFE = re.compile(r"[\[\]<>|*?\":;`$&]")
MIME_TYPE = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,80}", re.ASCII)
TRIMMED = " .-~_"


def attachments_to_json(files: Sequence[Attachment]) -> str:
    """As the journal keeps it."""
    return json.dumps([asdict(file) for file in files], ensure_ascii=False)


def attachments_from_json(text: str) -> tuple[Attachment, ...]:
    """The opposite of `attachments_to_json`."""
    return tuple(Attachment(**row) for row in json.loads(text or "[]"))


def make_safe_name(name: str) -> str:
    """One part of a path, printable, at most 80 characters, never empty. Keeps the extension."""
    chars = unicodedata.normalize("NFC", re.split(r"[/\\]", name)[-1] or name)
    shown = "".join(one for one in chars if unicodedata.category(one) not in DROPPED_CATEGORIES)
    plain = UNSAFE.sub("_", "_".join(re.split(r"[/\\]", " ".join(shown.split())))).strip(TRIMMED)
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > MAX_EXTENSION:
        return _truncate(plain, "") or DEFAULT_NAME
    return (_truncate(stem.rstrip(TRIMMED), f".{ending}") or DEFAULT_NAME) + f".{ending}"


def make_unique_names(names: Iterable[str]) -> list[str]:
    """The same names, each only once: the second report.pdf of a message becomes report-2.pdf."""
    found: list[str] = []
    for name in names:
        stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        tries = (name, *(f"{stem}-{number}{dot}{ending}" for number in range(2, len(found) + 3)))
        found.append(next(one for one in tries if one not in found))
    return found


def describe_saved_file(path: str, mime: str, size: int) -> str:
    """How the model hears of a file that was saved."""
    kind = mime.partition(";")[0].strip()
    shown = f"{kind}, " if MIME_TYPE.fullmatch(kind) else ""
    return f"[file: {path}, {shown}{format_size(size)}]"


def describe_missing_file(name: str, why: str) -> str:
    """How the model hears of a file that was not."""
    return f"[file {make_safe_name(name)} could not be fetched: {why}]"


def describe_too_big(size: int, most: int) -> str:
    """Why it was not."""
    return f"too big ({format_size(size)}, at most {format_size(most)})"


def format_size(size: int) -> str:
    """In MB, kB or bytes."""
    for unit, step in (("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= step:
            digits = 1 if size < 10 * step else 0
            return f"{size / step:.{digits}f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"


def _truncate(stem: str, ending: str) -> str:
    stem = stem[: MAX_CHARS - len(ending)]
    space = MAX_BYTES - len(ending.encode())
    return stem.encode()[:space].decode("utf-8", "ignore").rstrip(TRIMMED)
