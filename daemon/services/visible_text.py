"""What a person is shown before they say yes: nothing in it hides or turns round, and what is cut off is told (A6)."""


from channels.markup.sanitize import escape_invisible, find_suspicious
from daemon.core import value

MAX_CHARS = 500


@value
class VisibleText:
    """A text as it may be shown: `missing` characters of it are left out; `warnings` say what looks like something else."""

    text: str
    missing: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def is_cut(self) -> bool:
        """It has to be looked at whole before it can be said yes to."""
        return self.missing > 0

    def __str__(self) -> str:
        """The text, what is missing of it, and the warnings, a line each."""
        rest = f"… and {self.missing:,} more characters" if self.is_cut else ""
        return "\n".join(
            part
            for part in (self.text + rest, *(f"! {warning}" for warning in self.warnings))
            if part
        )


def make_visible(text: str, most: int = MAX_CHARS) -> VisibleText:
    """The text on one line, with whatever cannot be seen spelled out, its head only where it is long; `most` 0 is all of it.

    The warnings are about the whole of it: a false address may well stand where nobody looks.
    """
    plain = escape_invisible(text).replace("\n", "")
    missing = max(len(plain) - most, 0) if most else 0
    head = plain[:most] if missing else plain
    return VisibleText(head, missing, tuple(find_suspicious(text)))


def make_lines_visible(text: str, most: int = MAX_CHARS) -> VisibleText:
    """The same for what has lines of its own, as a change shown as a diff: each of them stands apart from what is around it."""
    plain = "\n".join(f"    {escape_invisible(line)}" for line in text.split("\n")) if text else ""
    missing = max(len(plain) - most, 0) if most else 0
    return VisibleText(plain[:most] if missing else plain, missing, tuple(find_suspicious(text)))
