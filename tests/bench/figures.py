"""What was measured, beside what the issue asks for."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value; `target` is None where it is told for information only."""

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False

    @property
    def ratio(self) -> float | None:
        """Value to target."""
        return self.value / self.target if self.target else None

    @property
    def within(self) -> str:
        """Whether it is what the issue asks for; "" without a target."""
        if self.target is None:
            return ""
        return (
            "yes"
            if (self.value >= self.target if self.at_least else self.value <= self.target)
            else "NO"
        )


HEAD = ("figure", "value", "target", "ratio", "within")


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns."""
    return columns([HEAD, *(_row(figure) for figure in figures)])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _row(figure: Figure) -> tuple[str, ...]:
    target = (
        "" if figure.target is None else f"{'>=' if figure.at_least else '<='} {figure.target:g}"
    )
    ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
    return figure.name, f"{digits(figure.value)} {figure.unit}", target, ratio, figure.within


def digits(value: float) -> str:
    """As many as tell something."""
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, *rest = zip(row, widths, strict=True)
    return "  ".join(
        [name[0].ljust(name[1]), *(cell.rjust(width) for cell, width in rest)]
    ).rstrip()
