"""A shell line taken apart, to show what it does and to judge it. The sandbox is the boundary; this is for people."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from daemon import plugins
from daemon.core.errors import ConfigError

LONGEST = 20_000
MOST = 40


@dataclass(frozen=True, slots=True)
class Piece:
    """One simple command with its redirections; `remarks` say which of its words run another program."""

    text: str
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        """On one line, whatever is in it."""
        return "".join([" ⏎ ".join(self.text.splitlines()), *(f"   [{remark}]" for remark in self.remarks)])


@dataclass(frozen=True, slots=True)
class Reading:
    """What a line holds. `plain` are its words, if it is one simple command that needs no shell; None otherwise."""

    pieces: tuple[Piece, ...] = ()
    plain: tuple[str, ...] | None = None
    broken: bool = False

    def __str__(self) -> str:
        """For a person: a line per command, in the order in which they stand; empty when there is nothing to add."""
        if self.broken:
            return "this line could not be parsed: read it as it stands, and say no if in doubt"
        if self.plain is not None and not any(piece.remarks for piece in self.pieces):
            return ""
        more = [f"- and {len(self.pieces) - MOST} more"] if len(self.pieces) > MOST else []
        return "\n".join(["it runs:", *(f"- {piece}" for piece in self.pieces[:MOST]), *more])


UNREADABLE = Reading(broken=True)


def read_line(line: str) -> Reading:
    """Take it apart. What cannot be parsed is broken, and never plain."""
    try:
        read = cast(Callable[[str], Reading], plugins.load("shells", "bash"))
    except ConfigError:
        return UNREADABLE
    return read(line)
