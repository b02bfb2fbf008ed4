"""How the parts of a drawn run are worded and coloured."""

from collections.abc import Mapping
from datetime import datetime

from rich.text import Text

from daemon.door.base import RunLine, RunView, UsageView

HEAD_LINES, HEAD_CHARS = 6, 600
COLOURS = {
    "ended": "green",
    "running": "cyan",
    "queued": "blue",
    "suspended": "yellow",
    "quarantined": "red",
    "ok": "green",
    "done": "green",
    "condition": "green",
    "passed": "green",
    "error": "red",
    "failed": "red",
    "rejected": "yellow",
    "unknown": "bold red",
    "not_run": "yellow",
    "allow": "green",
    "ask": "yellow",
    "deny": "red",
}

Line = Mapping[str, object]


def coloured(state: str) -> Text:
    """A state or an outcome, in its colour."""
    return Text(printable(state), style=COLOURS.get(state, ""))


def printable(text: object) -> str:
    """Text from anywhere, unable to move the cursor or colour the screen."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in str(text))


def head(text: object) -> str:
    """Its beginning, and how much was left out."""
    whole = printable(text).strip()
    short = "\n".join(whole.split("\n")[:HEAD_LINES])[:HEAD_CHARS].rstrip()
    left_out = len(whole) - len(short)
    return f"{short}\n... {left_out} characters more" if left_out else short


def local(instant: str | None) -> str:
    """An ISO instant on the reader's clock."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}" if instant else ""


def took(line: RunLine) -> str:
    """How long it was, from its beginning to its end, waiting for people included."""
    if not line.started or not line.ended:
        return ""
    seconds = (datetime.fromisoformat(line.ended) - datetime.fromisoformat(line.started)).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def spent(run: RunView) -> str:
    """What the run itself used up."""
    return f"{count(run.iterations, 'iteration')}, {spent_tokens(run.usage)}"


def spent_tokens(used: UsageView) -> str:
    """Tokens and money; a price that is not known is not shown as nothing."""
    price = "price unknown" if used.usd is None else f"{used.usd:.4f} USD"
    return f"{used.input_tokens} tokens in ({used.cached_tokens} cached), {used.output_tokens} out, {price}"


def usage(line: Line) -> str:
    """What one model call took."""
    used = line["usage"]
    if not isinstance(used, Mapping):
        return ""
    price = "" if used["usd"] is None else f", {used['usd']:.4f} USD"
    tokens = f"{used['input_tokens']} in ({used['cached_tokens']} cached), {used['output_tokens']} out"
    return f"{line['seconds']:.1f} s, {tokens}{price}"


def told(what: str, text: str, style: str) -> Text:
    """A thing that happened, and its words."""
    return Text.assemble((what, style), "  ", text) if text else Text(what, style)


def count(number: object, what: str) -> str:
    """So many of them."""
    return f"{number} {what}{'' if number == 1 else 's'}"
