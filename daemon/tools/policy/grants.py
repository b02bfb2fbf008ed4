"""Standing permissions: which calls each of them allows, and until when; how much fetches may tell
(trust.md).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Protocol

from daemon.core import value
from daemon.core.rows import Disclosure, GrantRow
from daemon.core.turn import Turn
from daemon.tools.base import ToolMeta

TURN_BITS, DAY_BITS, MAX_FETCHES = 32.0, 64.0, 5


NAMED = "/"  # before the path of a file that was shown, in a key; no path begins so
PLAN_SCOPE = "plan:"  # and a turn: what its plan allows in its tree


@value
class GrantRequest:
    """A call that needs a question or a grant; `paths` if it concerns nothing but these places;
    `binds`: the state of the files that it may run; `plan`: the scope of a plan, of which
    only exact actions count if `exact`.
    """

    tool: str
    args_hash: str
    paths: Sequence[str] = ()
    untrusted: bool = False
    binds: str = ""
    plan: str = ""
    exact: bool = False


class GrantStore(Protocol):
    """Standing permissions."""

    async def use_grant(self, session: str, wanted: GrantRequest, call: str) -> bool:
        """True if a person has allowed this; it uses the grant up by one. `call` is the id of the
        call, which uses a grant at most once (K7).
        """
        ...

    async def count_disclosure(self, disclosure: Disclosure) -> str:
        """Count a fetch today; why it would tell too much, or "". A call is counted once, also
        after a restart.
        """
        ...

    async def count_order(self, deed: Disclosure, *, bare: bool) -> bool:
        """Note a deed that was ordered, unless it (`domain` has its keys) was done by this turn or
        what it set to work; `bare`: by any turn of the conversation today. Whether it was.
        """
        ...

    async def is_shared(self, session: str) -> bool:
        """Others than the person who writes read this conversation: a group, a channel."""
        ...

    async def explain_crowd(self, turn: Turn) -> str:
        """Why this turn, which began by itself or outside, may ask no further question; "" while
        there is room for one more to stand or to wait.
        """
        ...

    async def find_former(self, session: str, wanted: GrantRequest) -> str | None:
        """`binds` of a permission for this call that its files have outlived; None for none."""
        ...


def covers(former: str, key: str, *, shown: bool = False) -> bool:
    """A standing yes for the state `former` is one for `key` (BoundContent): no stranger has left
    anything since. What was `shown` with it counts for a yes for once and for a plan.
    """
    old, new = (json.loads(one) if one else {} for one in (former, key))
    return "" not in old and all(
        digest in (old.get(path), old.get(path.removeprefix(NAMED)))
        or (path.startswith(NAMED) and not shown)
        for path, digest in new.items()
    )


def grantable_paths(meta: ToolMeta, arguments: Mapping[str, object]) -> tuple[str, ...]:
    """The places of a call; () when more than places decides where its effect goes."""
    if not meta.paths or meta.critical is None or not set(meta.critical) <= set(meta.paths):
        return ()
    given = [arguments.get(name) for name in meta.paths]
    complete = all(isinstance(path, str) and path for path in given)
    return tuple(map(str, given)) if complete else ()


def explain_excess(known: Sequence[Disclosure], new: Disclosure) -> str:
    """Why one more fetch is too much after those of its turn, and of its session's day; or ""."""
    turn = [one for one in known if one.turn == new.turn]
    day = [one for one in known if one.session == new.session and one.day == new.day]
    if new.domain and sum(one.domain == new.domain for one in turn) >= MAX_FETCHES:
        return f"{MAX_FETCHES} addresses of {new.domain} that you did not name were fetched already"
    if sum(one.bits for one in turn) + new.bits > TURN_BITS:
        return "which addresses it fetches could tell others what it has read of yours"
    if sum(one.bits for one in day) + new.bits > DAY_BITS:
        return "its fetches of today could tell others what it has read of yours"
    return ""


def is_active(grant: GrantRow, now: datetime) -> bool:
    """It has a bound, and has not reached it."""
    uses, expires = grant.uses_left, grant.expires
    bounded = uses is not None or expires is not None
    return bounded and (uses is None or uses > 0) and (expires is None or expires > now)


def matching_grants(
    grants: Sequence[GrantRow], wanted: GrantRequest, now: datetime
) -> list[GrantRow]:
    """Those that cover the call: uncounted ones first, then whichever expires first. One for paths
    never counts in a session from outside.
    """
    covering = [
        grant
        for grant in grants
        if grant.tool == wanted.tool
        and is_active(grant, now)
        and (
            not wanted.untrusted
            and wanted.paths
            and all(matches_pattern(path, grant.paths) for path in wanted.paths)
            if grant.paths
            else wanted.args_hash in grant.args_hash.split()
            and covers(grant.binds, wanted.binds, shown=grant.session.startswith(PLAN_SCOPE))
        )
    ]
    return sorted(
        covering,
        key=lambda grant: (grant.uses_left is not None, bool(grant.paths), grant.expires or now),
    )


def matches_pattern(path: str, pattern: str) -> bool:
    """`*` stands for a part of one name, `**` for any number of folders."""
    names, wanted = _path_parts(path), _path_parts(pattern)
    places = {0}  # how far the pattern may have been matched
    for name in names:
        places = _skip_folders(wanted, places)
        places = {
            place + (wanted[place] != "**")
            for place in places
            if place < len(wanted) and (wanted[place] == "**" or fnmatchcase(name, wanted[place]))
        }
    return bool(names) and len(wanted) in _skip_folders(wanted, places)


def _skip_folders(wanted: Sequence[str], places: set[int]) -> set[int]:
    """`**` may stand for no folder."""
    found = set(places)
    for place, name in enumerate(wanted):
        if name == "**" and place in found:
            found.add(place + 1)
    return found


def pattern_error(pattern: str, paths: Sequence[str]) -> str:
    """Why a person's pattern does not fit a call about these places; "" when it does."""
    if not paths:
        return "this call cannot be allowed by paths, for more than a path decides what it does"
    parts = _path_parts(pattern)
    if not parts:
        return (
            f"{pattern!r} is no path inside the workspace: write one like reports/*.md, without .."
            " and without / at its head"
        )
    if not any(part.strip("*?") for part in parts):
        example = "name a folder or an ending, as in reports/* or *.md"
        return f"{pattern!r} would be everything: {example}"
    outside = [path for path in paths if not matches_pattern(path, pattern)]
    if outside:
        return f"{pattern!r} does not match {outside[0]!r}, which is what was asked about"
    return ""


def _path_parts(path: str) -> list[str]:
    """The names in a relative path; none for a path that leads out or looks odd."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    odd = path.startswith(("/", "~")) or {"..", "\\", "\0"} & {*parts, *path}
    return [] if odd else parts
