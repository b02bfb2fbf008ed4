"""The arguments of a call: parsed, compared, hashed."""

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePosixPath

from daemon.core.redaction import drop_lone_surrogates
from daemon.tools.base import ToolError
from daemon.tools.workspace.fs import casefold_name

SHOWN_CHARS = 200


class BadArguments(ToolError):
    """The arguments of the call could not be used."""


def parse_arguments(arguments: str) -> dict[str, object]:
    """The arguments without those that begin with `_`, which only we fill in (A10).

    Raises BadArguments.
    """
    why = "not a JSON object"
    try:
        found = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        found, why = None, f"not JSON ({error})"
    if isinstance(found, dict):
        return {name: given for name, given in found.items() if not name.startswith("_")}
    shown = arguments if len(arguments) <= SHOWN_CHARS else arguments[:SHOWN_CHARS] + "…"
    raise BadArguments(f"the arguments are {why}: {shown!r}. Send one JSON object.")


def canonical_json(arguments: Mapping[str, object]) -> str:
    """The same text for the same arguments, readable for a person."""
    text = json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(", ", ": "))
    return drop_lone_surrogates(text)


def args_hash(tool: str, arguments: Mapping[str, object]) -> str:
    """What an approval and a grant are bound to: the tool and exactly these arguments."""
    text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def path_arguments(arguments: Mapping[str, object], names: Iterable[str]) -> list[PurePosixPath]:
    """The paths among the arguments; a missing one is the workspace itself."""
    return [PurePosixPath(str(arguments.get(name) or ".")) for name in names]


def is_protected(path: PurePosixPath, patterns: Iterable[str]) -> bool:
    """The path equals a protected one or lies under one, wherever that is anchored."""
    parts = [casefold_name(part) for part in path.parts if part not in ("/", ".")]
    for pattern in map(_casefold_parts, patterns):
        starts = range(len(parts) - len(pattern) + 1)
        if pattern and any(all(map(fnmatchcase, parts[start:], pattern)) for start in starts):
            return True
    return False


def paths_overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    """The same place, or one inside the other."""
    return one.is_relative_to(other) or other.is_relative_to(one)


@lru_cache(maxsize=1024)
def _casefold_parts(pattern: str) -> tuple[str, ...]:
    return tuple(casefold_name(part) for part in PurePosixPath(pattern).parts if part != "/")
