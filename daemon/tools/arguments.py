"""What the model wrote as the arguments of a call: read, cleaned, and made comparable."""

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from pathlib import PurePosixPath

from daemon.core.redaction import drop_lone_surrogates
from daemon.tools.base import ToolError
from daemon.tools.workspace.fs import casefold_name

SHOWN = 200


class BadArguments(ToolError):
    """The arguments of the call could not be used."""


def parse_arguments(arguments: str) -> dict[str, object]:
    """The arguments as an object, without those that start with `_`: only the house fills these (A10). Raises BadArguments."""
    try:
        value = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadArguments(
            f"the arguments are not JSON ({error}): {_quote(arguments)}. Send one JSON object."
        ) from error
    if not isinstance(value, dict):
        raise BadArguments(
            f"the arguments are not a JSON object: {_quote(arguments)}. Send one JSON object."
        )
    return {name: given for name, given in value.items() if not name.startswith("_")}


def canonical_json(arguments: Mapping[str, object]) -> str:
    """The same text for the same arguments, fit to be shown to a person."""
    return drop_lone_surrogates(
        json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(", ", ": "))
    )


def args_hash(tool: str, arguments: Mapping[str, object]) -> str:
    """What an approval and a grant are bound to: the tool and exactly these arguments."""
    text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def path_arguments(arguments: Mapping[str, object], names: Iterable[str]) -> list[PurePosixPath]:
    """The paths among the arguments; one that is left out is the workspace itself."""
    return [PurePosixPath(str(arguments.get(name) or ".")) for name in names]


def is_protected(path: PurePosixPath, patterns: Iterable[str]) -> bool:
    """The path is one of the protected ones or lies under one, wherever it is anchored: too many questions beat one too few."""
    parts = [casefold_name(part) for part in path.parts if part not in ("/", ".")]
    return any(_contains_parts(parts, _casefold_parts(pattern)) for pattern in patterns)


def paths_overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    """The same place, or one inside the other."""
    return one.is_relative_to(other) or other.is_relative_to(one)


@lru_cache(maxsize=1024)
def _casefold_parts(pattern: str) -> tuple[str, ...]:
    return tuple(casefold_name(part) for part in PurePosixPath(pattern).parts if part != "/")


def _contains_parts(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    starts = range(len(parts) - len(pattern) + 1)
    return bool(pattern) and any(all(map(fnmatchcase, parts[start:], pattern)) for start in starts)


def _quote(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")
