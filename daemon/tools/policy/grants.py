"""Standing permissions: which calls each of them allows, and until when (DESIGN 6). Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from daemon.core import value
from daemon.core.rows import GrantRow
from daemon.tools.base import ToolMeta

ANY_DEPTH = "**"


@value
class GrantRequest:
    """A call that would have to be asked about. `paths`: the places it is about, when it is about nothing else."""

    tool: str
    args_hash: str
    paths: Sequence[str] = ()
    untrusted: bool = False


def grantable_paths(meta: ToolMeta, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The places a call is about; () when more than places decides where its effect goes, or one is left out."""
    if not meta.paths or meta.critical is None or not set(meta.critical) <= set(meta.paths):
        return ()
    given = [arguments.get(name) for name in meta.paths]
    return (
        tuple(str(path) for path in given)
        if all(isinstance(path, str) and path for path in given)
        else ()
    )


def covers(grant: GrantRow, wanted: GrantRequest, now: datetime) -> bool:
    """The permission stands and is for this call. One for places is never for a session from outside."""
    if grant.tool != wanted.tool or not is_active(grant, now):
        return False
    if not grant.paths:
        return grant.args_hash == wanted.args_hash
    return (
        not wanted.untrusted
        and bool(wanted.paths)
        and all(matches_pattern(path, grant.paths) for path in wanted.paths)
    )


def is_active(grant: GrantRow, now: datetime) -> bool:
    """It has a bound, and has not come to it."""
    unbounded = grant.uses_left is None and grant.expires is None
    used_up = grant.uses_left is not None and grant.uses_left <= 0
    return not (unbounded or used_up or (grant.expires is not None and grant.expires <= now))


def matching_grants(
    grants: Sequence[GrantRow], wanted: GrantRequest, now: datetime
) -> list[GrantRow]:
    """Those that cover the call; a counted one is used only where no other does, and the one that lapses first before others."""
    covering = [grant for grant in grants if covers(grant, wanted, now)]
    return sorted(
        covering,
        key=lambda grant: (grant.uses_left is not None, bool(grant.paths), grant.expires or now),
    )


def matches_pattern(path: str, pattern: str) -> bool:
    """The place is one of the pattern's: `*` is for a part of one name, `**` for any number of folders between."""
    parts = _path_parts(path)
    return bool(parts) and _match_parts(parts, _path_parts(pattern))


def pattern_error(pattern: str, paths: Sequence[str]) -> str:
    """What is wrong with a pattern that a person gave for a call about these places; "" when nothing is."""
    if not paths:
        return "this call cannot be allowed by paths, for more than a path decides what it does"
    parts = _path_parts(pattern)
    if not parts:
        return f"{pattern!r} is no path inside the workspace: write one like reports/*.md, without .. and without / at its head"
    if all(not part.strip("*?") for part in parts):
        return (
            f"{pattern!r} would be everything: name a folder or an ending, as in reports/* or *.md"
        )
    outside = [path for path in paths if not matches_pattern(path, pattern)]
    return (
        f"{pattern!r} does not match {outside[0]!r}, which is what was asked about"
        if outside
        else ""
    )


def _path_parts(path: str) -> list[str]:
    """The names in a relative path; none at all for a path that leads out, or that is not what it looks like."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    odd = path.startswith(("/", "~")) or ".." in parts or "\\" in path or "\0" in path
    return [] if odd else parts


def _match_parts(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Runs along both from the front; of several `**` only the last one tried needs to be gone back to."""
    at = place = 0
    star, held = -1, 0
    while at < len(parts):
        if place < len(pattern) and pattern[place] == ANY_DEPTH:
            star, held, place = place, at, place + 1
        elif place < len(pattern) and fnmatchcase(parts[at], pattern[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            held, at, place = held + 1, held + 1, star + 1
        else:
            return False
    return all(part == ANY_DEPTH for part in pattern[place:])
