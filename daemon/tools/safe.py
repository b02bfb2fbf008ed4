"""Commands that need no approval: a grammar of harmless arguments per program, and never a shell (DESIGN 6).

The sandbox is the boundary; this only spares a question. Only what the user names in tools.shell.allowed is looked at.
"""

import re
from collections.abc import Callable, Mapping, Sequence

PLAIN_WORDS = re.compile(r"[A-Za-z0-9_./,:=@%+\- ]*")
RELATIVE = re.compile(r"[A-Za-z0-9_.@%+][A-Za-z0-9_.,:=@%+\-/]*")
NO_FILES = frozenset({"pwd", "whoami", "id", "uname", "date", "uptime", "nproc"})

Flags = re.Pattern[str]
GRAMMAR: Mapping[str, Flags] = {
    "ls": re.compile(r"-[1aAlhrtSRdFp]+"),
    "cat": re.compile(r"-[nbsAET]+"),
    "head": re.compile(r"-\d{1,9}|-[qv]+"),
    "tail": re.compile(r"-\d{1,9}|-[qv]+"),
    "wc": re.compile(r"-[clmwL]+"),
    "stat": re.compile(r"-[t]+"),
    "du": re.compile(r"-[shkmc]+"),
    "df": re.compile(r"-[hkTi]+"),
    "cmp": re.compile(r"-[sl]+"),
    "sha256sum": re.compile(r"-[bt]+"),
    "basename": re.compile(r"-[z]"),
    "dirname": re.compile(r"-[z]"),
    "pwd": re.compile(r"-[LP]"),
    "whoami": re.compile(r"(?!)"),
    "id": re.compile(r"-[ugn]+"),
    "uname": re.compile(r"-[asnrvmpio]+"),
    "date": re.compile(r"-u|-I[a-z]*|-R|\+[%A-Za-z0-9:./,=_\-]*"),
    "uptime": re.compile(r"-[ps]+"),
    "nproc": re.compile(r"(?!)"),
}


def known_programs() -> tuple[str, ...]:
    """The programs that have a grammar."""
    return tuple(GRAMMAR)


def words_of(arguments: Mapping[str, object]) -> list[str] | None:
    """The command as words, if it needs no shell to be understood."""
    argv, command = arguments.get("argv"), arguments.get("command")
    if isinstance(argv, list) and argv and not command:
        return [str(word) for word in argv]
    if isinstance(command, str) and not argv and PLAIN_WORDS.fullmatch(command):
        return command.split()
    return None


def is_harmless(words: Sequence[str] | None, allowed: Sequence[str]) -> bool:
    """The program is allowed and every argument is one of its harmless flags or a path inside the workspace."""
    if not words or words[0] not in allowed or words[0] not in GRAMMAR:
        return False
    flags, takes_files = GRAMMAR[words[0]], words[0] not in NO_FILES
    return all(flags.fullmatch(word) or (takes_files and _inside(word)) for word in words[1:])


def harmless(allowed: Sequence[str], enabled: bool) -> Callable[[Mapping[str, object]], bool]:
    """The rule of the shell tool; with no sandbox nothing is harmless, for a link may lead anywhere."""
    return lambda arguments: enabled and is_harmless(words_of(arguments), allowed)


def _inside(word: str) -> bool:
    return bool(RELATIVE.fullmatch(word)) and ".." not in word.split("/")
