"""What has changed in the tools of a server, as the owner is shown it before a yes: nothing hidden, nothing left out unsaid."""

import difflib
import json
from collections.abc import Iterator, Sequence

from daemon.tools.mcp.pins import Pin, Pins
from daemon.tools.mcp.texts import HIDDEN

WIDTH = 120
LINES = 40


def difference(pins: Pins, tools: Sequence[str] = (), *, lines: int = LINES) -> str:
    """All that waits, or these tools of it, as a diff against what holds; at most so many lines of each tool, 0 for all."""
    names = [name for name in pins.waiting if not tools or name in tools]
    return "\n".join(line for name in names for line in _of_one(name, pins.approved.get(name), pins.waiting[name], lines))


def _of_one(name: str, old: Pin | None, new: Pin, most: int) -> Iterator[str]:
    yield f"{visible(name)}: " + ("changed" if old else "new")
    found = list(difflib.unified_diff(_lines(old) if old else [], _lines(new), lineterm="", n=1))[2:]
    lines = [line for line in found if not line.startswith("@@")]
    kept = lines[:most] if most else lines
    yield from (f"  {line}" for line in kept)
    if not lines:
        yield f"  the change is beyond what is kept of its description ({len(new.definition.description)} characters)"
    if len(lines) > len(kept):
        yield f"  [... {len(lines) - len(kept)} more lines]"


def _lines(pin: Pin) -> list[str]:
    one = pin.definition
    table = {"arguments": json.loads(one.schema), "hints": json.loads(one.annotations)}
    text = f"{one.description}\n{json.dumps(table, ensure_ascii=False, indent=1, sort_keys=True)}"
    return [visible(part) for line in text.split("\n") for part in _folded(line)]


def _folded(line: str) -> list[str]:
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def visible(text: str) -> str:
    """What cannot be seen is written out."""
    return "".join(f"\\u{{{ord(one):x}}}" if HIDDEN.match(one) or not one.isprintable() else one for one in text)
