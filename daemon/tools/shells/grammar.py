"""What a grammar of harmless arguments is: flags known one by one, values and operands of known kinds, nothing else."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

Pattern = re.Pattern[str]

NOTHING = re.compile(r"(?!)")
NUMBER = re.compile(r"[+-]?\d{1,9}[kKMGbc]?")
TEXT = re.compile(r"(?!-)[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
ANY = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
PATH = re.compile(r"(?![-/~])[^\x00-\x1f\x7f\\;&|<>$`*?{}\"']{1,1000}")
SECRET_NAMES = re.compile(
    r"(?i)\.(env.*|git|ssh|gnupg|aws|azure|kube|docker|netrc|npmrc|pypirc|pgpass|git-credentials)|id_(rsa|dsa|ecdsa|ed25519).*"
)


class Grammar(Protocol):
    """The harmless arguments of one program."""

    def allows(self, words: Sequence[str]) -> bool:
        """None of these words, which stand after the program's name, can do harm."""
        ...


@dataclass(frozen=True, slots=True)
class Program:
    """`flags` are whole words; `valued` are flags whose value is the next word, or stands behind them.

    `operands` are the kinds of the first words that are no flags; `rest` is the kind of the others, None where there are none.
    """

    flags: Pattern = NOTHING
    valued: Mapping[str, Pattern] = field(default_factory=dict)
    operands: tuple[Pattern, ...] = ()
    rest: Pattern | None = PATH

    def allows(self, words: Sequence[str]) -> bool:
        """Each word is a known flag, the value of one, or an operand of its kind."""
        loose = self._operands(list(words))
        if loose is None:
            return False
        kinds = [*self.operands, *([self.rest] if self.rest else []) * max(len(loose) - len(self.operands), 0)]
        return len(loose) <= len(kinds) and all(is_of(kind, word) for kind, word in zip(kinds, loose, strict=False))

    def _operands(self, words: list[str]) -> list[str] | None:
        """The words that are no flags; None when one of the others is not known. `--` is not known: nothing hides behind it."""
        loose: list[str] = []
        while words:
            word = words.pop(0)
            if word in self.valued:
                if not words or not is_of(self.valued[word], words.pop(0)):
                    return None
            elif not word.startswith("-") or any(is_of(kind, word) for kind in self.operands[len(loose) : len(loose) + 1]):
                loose.append(word)
            elif not (self.flags.fullmatch(word) or self._attached(word)):
                return None
        return loose

    def _attached(self, word: str) -> bool:
        """`-n5`, `--lines=5`: the value stands behind its flag."""
        for flag, kind in self.valued.items():
            behind = word.removeprefix(f"{flag}=" if flag.startswith("--") else flag)
            if behind != word and behind and is_of(kind, behind):
                return True
        return False


def is_of(kind: Pattern, word: str) -> bool:
    """The word is of this kind; a path is one inside the workspace, and not the place of a secret."""
    return bool(kind.fullmatch(word)) and (kind is not PATH or is_inside(word))


def is_inside(path: str) -> bool:
    """As it is written it leads nowhere else. A link can still lead out: that is the sandbox's to stop."""
    parts = PurePosixPath(path).parts
    return ".." not in parts and not any(SECRET_NAMES.fullmatch(part) for part in parts)


def flags(letters: str, *long: str, also: str = "") -> Pattern:
    """Single letters in any company, these long flags, what else is a flag, and what a program says of itself."""
    return only_flags(letters, *long, "--help", "--version", also=also)


def only_flags(letters: str, *long: str, also: str = "") -> Pattern:
    """The same for a program whose help opens another."""
    kinds = [f"-[{letters}]+"] if letters else []
    return re.compile("|".join([*kinds, *map(re.escape, long), *([also] if also else [])]))
