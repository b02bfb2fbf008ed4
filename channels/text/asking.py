"""The question that is put before a call runs, as a chat shows it: exactly what would be done, what to beware of (A6, A14)."""

import re
from datetime import datetime

from channels.terminal_text import exact, fields, one_line, suspects
from channels.text.verbatim import literal

EFFECTS = {
    "read": "reads only",
    "fetch": "fetches something from outside",
    "write": "changes something here",
    "egress": "sends something out",
    "destructive": "may destroy something",
}
OUTSIDE = "This turn has read text from outside; it may not be your wish."
ARGUMENTS, PREVIEW = 1500, 800
SUSPICIONS, SUSPICION = 3, 120
TOOL = 80
DIFF = re.compile(r"^(?:@@|\+\+\+|---) ", re.MULTILINE)
FENCE = re.compile(r"`{3,}")


def question(
    tool: str, arguments: str, effect: str, expires: datetime, preview: str = "", *, outside: bool = False, warning: str = ""
) -> str:
    """The question in markdown, at most some 3,000 characters. What is left out of the middle of long arguments is counted."""
    told = _told(arguments)
    parts = [
        f"**Allow `{one_line(exact(tool), TOOL).replace('`', 'ˋ')}`?** It {EFFECTS.get(effect, EFFECTS['destructive'])}.",
        _block(told, ARGUMENTS) if told.strip() else "It is given nothing.",
        _block(preview, PREVIEW, "diff" if DIFF.search(preview) else "") if preview else "",
        "\n".join(f"⚠️ {line}" for line in _beware(f"{told}\n{preview}", outside, warning)),
        f"It can be answered until {expires:%d %b %H:%M} UTC.",
    ]
    return "\n\n".join(part for part in parts if part)


def is_whole(arguments: str, preview: str = "") -> bool:
    """Nothing of it is left out of the question: whoever reads that has read it all."""
    return not (_clipped(_told(arguments), ARGUMENTS)[1] or _clipped(preview, PREVIEW)[1])


def _told(arguments: str) -> str:
    return "\n".join(_argument(name, value) for name, value in fields(arguments))


def _argument(name: str, value: str) -> str:
    first, *rest = value.split("\n")
    return "\n".join([f"{name}: {first}" if name else first, *(f"    {line}" if name else line for line in rest)])


def _block(text: str, most: int, lang: str = "") -> str:
    """Verbatim, what cannot be seen spelled out; a fence that the text cannot close."""
    shown, hidden = _clipped(text, most)
    fence = "`" * max((len(run) + 1 for run in FENCE.findall(shown)), default=3)
    more = f"\n\n{hidden} characters in the middle are not shown; `/approve show` shows all." if hidden else ""
    return f"{fence}{lang}\n{shown}\n{fence}{more}"


def _clipped(text: str, most: int) -> tuple[str, int]:
    """Beginning and end of the text, and how many characters between them are left out."""
    whole = _spelled(text) if len(text) <= most else ""
    if whole and len(whole) <= most:
        return whole, 0
    head = _fitting(text, most * 2 // 3)
    tail = _fitting(text[:head:-1], most // 3)
    end = len(text) - tail
    return f"{_spelled(text[:head])}\n[…]\n{_spelled(text[end:])}", end - head


def _fitting(text: str, most: int) -> int:
    """How many characters fit when they are spelled out."""
    room = most
    for count, char in enumerate(text):
        room -= len(_spelled(char))
        if room < 0:
            return count
    return len(text)


def _spelled(text: str) -> str:
    """As `exact`, but a line break is a line break: it shows."""
    return "\n".join(exact(line) for line in text.split("\n"))


def _beware(text: str, outside: bool, warning: str) -> list[str]:
    found = suspects(text)
    told = [one_line(line, SUSPICION) for line in found[:SUSPICIONS]]
    more = [f"and {len(found) - SUSPICIONS} more of that kind"] if len(found) > SUSPICIONS else []
    return [literal(line) for line in [OUTSIDE] * outside + [one_line(warning, 300)] * bool(warning) + told + more]
