"""Words that are to be gone, in every table of the journal. The journal's own words stay: the marks
of which it consists, and the keys of its JSON.
"""

import json
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from daemon.core.errors import AidaemonError
from daemon.store.codec import UnreadableEvent, decode

FORGOTTEN = "[forgotten]"
TABLES = """
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
    AND sql NOT LIKE 'CREATE VIRTUAL%'
"""
COLUMNS = "SELECT name FROM pragma_table_info(?) WHERE type IN ('TEXT', '')"
# Columns of the journal's own words, of which a name must not be one; and others that are read by
# programs.
VOCABULARY = {
    "agent", "answer", "channel", "effect", "effort", "kind", "label", "misfire", "model", "origin",
    "provider", "role", "scope", "stage", "state", "stop_reason", "tool",
}  # fmt: skip
# What files are called stays, too: their labels go by it.
KEPT = VOCABULARY | {"binds", "cursor", "path", "paths", "pins", "rule", "server", "zone"}
KEYED = frozenset(("payload", "arguments", "attachments", "limits", "condition", "matcher"))
# A word begins after what is no letter, or what stands for such in JSON or in an address.
BEGIN = r"(?:(?<![^\W_])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9a-fA-F]{2}))"
END = r"(?![^\W_]|[\u0300-\u036f]|\\u03[0-6])"  # an accent goes on with it
CHANGED = "SELECT kind, version, payload FROM events WHERE payload <> erase_keyed(payload)"


class NameTaken(AidaemonError):
    """The journal itself uses this word; nothing was changed in it."""


class WordEraser:
    """Puts something else in place of whole words and phrases, in whatever letters: the same for
    the same one, so that what belongs together still does. `make_digits` gives so many digits; of
    15 no platform has made an id.
    """

    def __init__(
        self, phrases: Iterable[str], names: Iterable[str], make_digits: Callable[[int], str]
    ) -> None:
        self._given = (*phrases,), (*names,), make_digits
        phrases, names, _ = self._given
        others = dict.fromkeys(phrases, FORGOTTEN)
        for name in names:
            digits = make_digits(14)
            others[name] = f"9{digits}" if name.isdecimal() else f"forgotten-{digits}"
        longest_first = sorted(others, key=len, reverse=True)
        self._others = [others[word] for word in longest_first]
        words = "|".join(map(_match, longest_first))
        self.names = frozenset(map(str.casefold, names))
        self.pattern = re.compile(words, re.IGNORECASE)
        self._no_key = re.compile(rf'(?:{words})(?!\\*":)', re.IGNORECASE)

    def split(self) -> "list[WordEraser]":
        """One for each phrase, and one for the names."""
        phrases, names, make = self._given
        parts = [([one], ()) for one in phrases] + [((), names)] * bool(names)
        return [WordEraser(*part, make) for part in parts]

    def finds(self, text: str) -> bool:
        """One of them stands there."""
        return bool(self.pattern.search(text))

    def erase(self, text: Any) -> Any:
        """The text without them; what is no text stays."""
        return self._replace(self.pattern, text)

    def erase_keyed(self, text: Any) -> Any:
        """As `erase`, in the strings of JSON: keys and numbers stay. Places in a text that changed
        would lie elsewhere, so all of it counts as quoted then.
        """
        if not isinstance(text, str) or not self.pattern.search(text):
            return text
        try:
            return json.dumps(self._walk(json.loads(text)), separators=(",", ":"))
        except ValueError:
            return self._replace(self._no_key, text)

    def requote(self, text: Any, quoted: Any) -> Any:
        """Which parts of the text are quoted, once it is erased."""
        left = self.erase(text)
        return quoted if left == text or quoted == "[]" else f"[[0,{len(left)}]]"

    def _walk(self, one: Any) -> Any:
        match one:
            case str():
                return self._replace(self._no_key, one)
            case list():
                return [self._walk(part) for part in one]
            case dict():
                left = {key: self._walk(part) for key, part in one.items()}
                if left.get("quoted") and left.get("text") != one.get("text"):
                    left["quoted"] = [[0, len(left["text"])]]
                return left
            case _:
                return one

    def _replace(self, pattern: re.Pattern[str], text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return pattern.sub(lambda found: self._others[(found.lastindex or 1) - 1], text)


def is_joined(sign: str) -> bool:
    """A letter of a script without capitals: there words stand side by side, or take on others."""
    return unicodedata.category(sign) == "Lo"


def _match(word: str) -> str:
    begin = "" if is_joined(word[:1] or " ") else BEGIN
    end = "" if is_joined(word[-1:] or " ") else END
    return f"{begin}({'|'.join(_list_forms(word))}){end}"


def _list_forms(word: str) -> list[str]:
    """In other letters, in JSON, in an address: what to look for, the longest first."""
    cases = (word, word.lower(), word.upper(), word.title(), word.casefold())
    written = {unicodedata.normalize(form, one) for one in cases for form in ("NFC", "NFD")}
    written.update(cases)
    forms = {
        form
        for one in written
        for form in (
            one,
            json.dumps(one)[1:-1],
            json.dumps(one, ensure_ascii=False)[1:-1],
            quote(one, safe="@+~"),
        )
    }
    return [re.escape(one) for one in sorted(forms, key=len, reverse=True)]


def erase_recalled(payload: str, begins: Collection[str], chars: int) -> str:
    """An event without what it was shown of memory: each line of that is "when and who: words". So
    many characters of a long text are known, and of a shorter one all.
    """
    event, is_changed = json.loads(payload), False
    for part in event.get("memories", [event]):
        left = "\n".join(_erase_line(one, begins, chars) for one in part["text"].split("\n"))
        is_changed, part["text"] = is_changed or left != part["text"], left
    return json.dumps(event, separators=(",", ":")) if is_changed else payload


def _erase_line(line: str, begins: Collection[str], chars: int) -> str:
    for found in re.finditer(": ", line):
        words = line[found.end() :]
        if words[:chars] in begins or words.partition(" (no longer, since ")[0] in begins:
            return f"{line[: found.end()]}{FORGOTTEN}"
    return line


def erase_words(file: sqlite3.Connection, eraser: WordEraser) -> int:
    """In one pass over all tables; gives in how many rows there were some. Raises NameTaken; the
    caller undoes it then.
    """
    file.create_function("erase", 1, eraser.erase, deterministic=True)
    file.create_function("erase_keyed", 1, eraser.erase_keyed, deterministic=True)
    file.create_function("requote", 2, eraser.requote, deterministic=True)
    tables = {
        table: [one for (one,) in file.execute(COLUMNS, (table,)).fetchall()]
        for (table,) in file.execute(TABLES).fetchall()
    }
    _check(file, eraser, tables)
    count = 0
    for table, columns in tables.items():
        changes = {one: _change(one) for one in columns if one not in KEPT}
        if "quoted" in changes:
            changes["quoted"] = "requote(body, quoted)"
        if changes:
            made = ", ".join(f'"{one}" = {new}' for one, new in changes.items())
            wanted = " OR ".join(f'"{one}" <> {new}' for one, new in changes.items())
            try:
                count += file.execute(f'UPDATE "{table}" SET {made} WHERE {wanted}').rowcount
            except sqlite3.IntegrityError as error:
                raise NameTaken(f"two entries differ in this name alone ({error})") from error
    return count


def _change(column: str) -> str:
    return f'erase_keyed("{column}")' if column in KEYED else f'erase("{column}")'


def _check(
    file: sqlite3.Connection, eraser: WordEraser, tables: Mapping[str, Sequence[str]]
) -> None:
    """No name is a word of the journal's own, and each event can be read without it. Raises
    NameTaken.
    """
    for table, columns in tables.items():
        for column in VOCABULARY & {*columns}:
            for (word,) in file.execute(f'SELECT DISTINCT "{column}" FROM "{table}"'):
                if str(word).casefold() in eraser.names:
                    raise NameTaken(f"{word} is a word of the journal's own ({table}.{column})")
    for kind, version, payload in file.execute(CHANGED):
        try:
            decode(kind, version, payload)
        except UnreadableEvent:
            continue  # it was none before
        try:
            decode(kind, version, eraser.erase_keyed(payload))
        except UnreadableEvent as error:
            raise NameTaken(f"it is a word of the journal's own ({error})") from error
