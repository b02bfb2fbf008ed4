"""Files that come with messages: what is known of them before they are fetched, and how they are named and spoken of."""

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from channels.message import Attachment

NOTHING = "file"
MOST_CHARS, MOST_BYTES, LONGEST_ENDING = 80, 160, 16
UNWANTED = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
AMISS = re.compile(r"[\[\]<>|*?\":;`$&]")
KIND = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,80}", re.ASCII)
EDGES = " .-~_"


def to_json(files: Sequence[Attachment]) -> str:
    """As the journal keeps it; "" for none."""
    return json.dumps([asdict(file) for file in files], ensure_ascii=False) if files else ""


def from_json(text: str) -> tuple[Attachment, ...]:
    """The opposite of `to_json`."""
    rows = json.loads(text) if text else []
    return tuple(Attachment(row["kind"], row["name"], row["mime"], row["size"], row["ref"]) for row in rows)


def safe_name(name: str) -> str:
    """A name that leads nowhere and hides nothing, whoever chose it: one part of a path, at most 80 characters, never empty.

    Its ending is kept, so that people and programs still see what it is.
    """
    last = re.split(r"[/\\]", name)[-1] or name
    shown = "".join(char for char in unicodedata.normalize("NFC", last) if unicodedata.category(char) not in UNWANTED)
    plain = AMISS.sub("_", "_".join(re.split(r"[/\\]", " ".join(shown.split())))).strip(EDGES)
    stem, dot, ending = plain.rpartition(".")
    if not dot or len(ending) > LONGEST_ENDING:
        return _cut(plain, "") or NOTHING
    return (_cut(stem.rstrip(EDGES), f".{ending}") or NOTHING) + f".{ending}"


def apart(names: Iterable[str]) -> list[str]:
    """The same names, each only once: the second report.pdf of a message becomes report-2.pdf."""
    found: list[str] = []
    for name in names:
        stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        tries = (name, *(f"{stem}-{number}{dot}{ending}" for number in range(2, len(found) + 3)))
        found.append(next(one for one in tries if one not in found))
    return found


def arrived(path: str, mime: str, size: int) -> str:
    """How the model is told of a file that was saved."""
    kind = mime.partition(";")[0].strip()
    return f"[file: {', '.join((path, kind, shown_size(size)) if KIND.fullmatch(kind) else (path, shown_size(size)))}]"


def missed(name: str, why: str) -> str:
    """How the model is told of one that was not."""
    return f"[file {safe_name(name)} could not be fetched: {why}]"


def too_big(size: int, most: int) -> str:
    """Why."""
    return f"too big ({shown_size(size)}, at most {shown_size(most)})"


def shown_size(size: int) -> str:
    """In words of people."""
    for unit, step in (("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= step:
            amount = size / step
            return f"{amount:.1f} {unit}".replace(".0 ", " ") if amount < 10 else f"{amount:.0f} {unit}"
    return f"{size} bytes"


def _cut(stem: str, ending: str) -> str:
    """As much of it as there is room for before the ending."""
    stem = stem[: MOST_CHARS - len(ending)]
    room = MOST_BYTES - len(ending.encode())
    return stem.encode()[:room].decode("utf-8", "ignore").rstrip(EDGES)
