"""Commands that look through whole folders, told to pass over what is protected: nobody was asked about that.

A path that is named in the command is looked at elsewhere (tools/safe.py); this is for what is found on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

Spared = Callable[[Sequence[str], Sequence[str]], list[str] | None]
ONE_PATH = ("-L", "--follow")


def sparing(words: Sequence[str], protected: Sequence[str]) -> list[str] | None:
    """The same command without these patterns of paths; None where that cannot be said to the program."""
    spare = PROGRAMS.get(words[0])
    return list(words) if spare is None else spare(words, protected)


def _grep(words: Sequence[str], protected: Sequence[str]) -> list[str] | None:
    if not _is_set(words, "r", "--recursive"):
        return list(words)
    names = _names(protected)
    more = [f"{flag}={name}" for name in names or () for flag in ("--exclude", "--exclude-dir")]
    return None if names is None else [*words, *more]


def _diff(words: Sequence[str], protected: Sequence[str]) -> list[str] | None:
    if not _is_set(words, "r", "--recursive"):
        return list(words)
    names = _names(protected)
    return None if names is None else [*words, *(f"--exclude={name}" for name in names)]


def _rg(words: Sequence[str], protected: Sequence[str]) -> list[str]:
    return [*words, *(f"--glob=!{place}" for pattern in protected for place in (f"**/{pattern}", f"**/{pattern}/**"))]


def _git(words: Sequence[str], protected: Sequence[str]) -> list[str]:
    """What is said of a single path needs no more."""
    if words[1:2] not in (["log"], ["show"], ["diff"]) or any(word.startswith(ONE_PATH) for word in words):
        return list(words)
    places = (place for pattern in protected for place in (f"**/{pattern}", f"**/{pattern}/**"))
    return [*words, *(f":(exclude,glob){place}" for place in places)]


def _is_set(words: Sequence[str], letters: str, long: str) -> bool:
    short = (word for word in words[1:] if word.startswith("-") and not word.startswith("--"))
    return long in words or any(letter in word for word in short for letter in letters)


def _names(protected: Sequence[str]) -> list[str] | None:
    """These programs know names only. A hidden folder is passed over whole; of another more would be left out than is meant."""
    parts = [PurePosixPath(pattern.lstrip("/")).parts for pattern in protected]
    if any(len(steps) > 1 and not steps[0].startswith(".") for steps in parts):
        return None
    return list(dict.fromkeys(steps[0] for steps in parts if steps))


PROGRAMS: Mapping[str, Spared] = {**dict.fromkeys(("grep", "egrep", "fgrep"), _grep), "diff": _diff, "rg": _rg, "git": _git}
