"""Words that are to be gone, in every table of a file."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

FORGOTTEN = "[forgotten]"
TABLES = """
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
    AND sql NOT LIKE 'CREATE VIRTUAL%'
"""
COLUMNS = "SELECT name FROM pragma_table_info(?) WHERE type IN ('TEXT', '')"


class WordEraser:
    """Puts something else in place of whole words and phrases, in whatever letters: the same for
    the same one, so that what belongs together still does. `make_digits` gives so many digits.
    """

    def __init__(
        self, phrases: Iterable[str], names: Iterable[str], make_digits: Callable[[int], str]
    ) -> None:
        self._others = dict.fromkeys(map(str.casefold, phrases), FORGOTTEN)
        for name in names:
            digits = make_digits(max(len(name), 6))
            other = digits if name.isdecimal() else f"forgotten-{digits}"
            self._others[name.casefold()] = other
        for word, other in list(self._others.items()):
            for form in (json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1]):
                self._others.setdefault(form.casefold(), other)
            self._others.setdefault(quote(word, safe="@+~").casefold(), other)
        longest_first = sorted(self._others, key=len, reverse=True)
        words = "|".join(map(re.escape, longest_first))
        self.pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)

    def __call__(self, text: Any) -> Any:
        """The text without them; what is no text stays."""
        if not isinstance(text, str) or not self.pattern.search(text):
            return text
        return self.pattern.sub(lambda found: self._others[found[0].casefold()], text)


def erase_words(file: sqlite3.Connection, erase: WordEraser) -> int:
    """In one pass over all tables; gives in how many rows there were some."""
    file.create_function("erase_words", 1, erase, deterministic=True)
    count = 0
    for (table,) in file.execute(TABLES).fetchall():
        columns = [f'"{one}"' for (one,) in file.execute(COLUMNS, (table,)).fetchall()]
        if columns:
            changes = ", ".join(f"{one} = erase_words({one})" for one in columns)
            wanted = " OR ".join(f"{one} <> erase_words({one})" for one in columns)
            count += file.execute(f'UPDATE "{table}" SET {changes} WHERE {wanted}').rowcount
    return count
