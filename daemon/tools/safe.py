"""Commands that need no approval: a grammar of harmless arguments per program, and never a shell (DESIGN 6).

The sandbox is the boundary; this only spares a question. Only what the user names in tools.shell.allowed is looked at.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from daemon.tools.arguments import is_protected
from daemon.tools.sandbox import Kind
from daemon.tools.shells.git import without_settings
from daemon.tools.shells.parsing import read_line
from daemon.tools.shells.programs import PROGRAMS
from daemon.tools.shells.sparing import sparing

BESIDES = ("network", "background")
OWN_ROOM = frozenset({"git"})
# Whoever writes this in a list of words believes that a shell reads it; then it does not do what they think, so it is asked.
MEANT_FOR_A_SHELL = re.compile(r"[\d<>|&;]*[<>|&;]|>.*|.*(`|\$\(|\$\{|[<>]\().*|.*;", re.DOTALL)


def known_programs() -> tuple[str, ...]:
    """The programs that have a grammar."""
    return tuple(PROGRAMS)


def words_of(arguments: Mapping[str, object]) -> list[str] | None:
    """The command as words, if it needs no shell to be understood: a list of words, or a line of plain and quoted ones."""
    argv, command = arguments.get("argv"), arguments.get("command")
    if isinstance(argv, list) and argv and not command:
        return [str(word) for word in argv]
    if isinstance(command, str) and not argv:
        plain = read_line(command).plain
        return list(plain) if plain else None
    return None


def is_harmless(words: Sequence[str] | None, allowed: Sequence[str]) -> bool:
    """The program is allowed, by its bare name, and its grammar knows every argument as harmless."""
    if not words or words[0] not in allowed or words[0] not in PROGRAMS:
        return False
    return not any(map(MEANT_FOR_A_SHELL.fullmatch, words)) and PROGRAMS[words[0]].allows(list(words[1:]))


@dataclass(frozen=True, slots=True)
class Harmless:
    """The rule of the shell tool. `protected` are the patterns of paths that nobody touches without a question."""

    allowed: Sequence[str]
    kind: Kind
    protected: Sequence[str] = ()

    def __call__(self, arguments: Mapping[str, object]) -> bool:
        """This call needs no approval."""
        return self.words(arguments) is not None

    def words(self, arguments: Mapping[str, object]) -> list[str] | None:
        """The words to run, without a shell; None where it must be asked. With no sandbox always: a link may lead anywhere."""
        if not self.allowed or self.kind == "none" or any(arguments.get(name) for name in BESIDES):
            return None
        words = words_of(arguments)
        if words is None or not is_harmless(words, self.allowed) or self._touches(words):
            return None
        words = sparing(words, self.protected)
        if words is None:
            return None
        if words[0] not in OWN_ROOM:
            return words
        return without_settings(words) if self.kind == "bubblewrap" else None

    def _touches(self, words: Sequence[str]) -> bool:
        places = (part for word in words[1:] for part in word.replace(":", "=").split("=") if part)
        return any(is_protected(PurePosixPath(place), self.protected) for place in places)
