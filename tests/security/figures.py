"""What was measured, beside what must hold."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.figures import columns, digits

HEAD = ("what", "figure", "target", "")
WORDS = {True: "ok", False: "NOT", None: ""}


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `met` is None where nothing is asked of it, and where it could not be measured."""

    what: str
    shown: str
    target: str = ""
    met: bool | None = None


def none_of(what: str, count: int, of: int, cases: str) -> Figure:
    """Something that must never have happened, in so many cases. Of no cases at all, it is not met."""
    return Figure(what, f"{count} in {of:,} {cases}", "0", met=count == 0 < of)


def all_of(what: str, count: int, of: int) -> Figure:
    """Something that must always have happened."""
    return Figure(what, f"{count:,} of {of:,}", "all", met=count == of > 0)


def at_least(percent: float, what: str, count: int, of: int) -> Figure:
    """Something that must have happened in this part of the cases."""
    return Figure(what, _share(count, of), f">= {percent:g} %", met=100 * count >= percent * of > 0)


def at_most(percent: float, what: str, count: int, of: int) -> Figure:
    """Something that may have happened in this part of the cases."""
    return Figure(
        what, _share(count, of), f"<= {percent:g} %", met=of > 0 and 100 * count <= percent * of
    )


def told(what: str, value: float, unit: str) -> Figure:
    """For information only."""
    return Figure(what, f"{digits(value)} {unit}")


def not_measured(what: str, why: str) -> Figure:
    """Neither met nor missed."""
    return Figure(what, f"not measured: {why}")


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns."""
    return columns([HEAD, *((one.what, one.shown, one.target, WORDS[one.met]) for one in figures)])


def exit_code(figures: Sequence[Figure]) -> int:
    """1 when one of them is not met."""
    return int(any(one.met is False for one in figures))


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} % of {of:,}" if of else "0 of 0"
