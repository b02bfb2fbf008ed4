"""The question that is put before a call runs, as a chat shows it: exactly what would be done, what
to beware of (A6, A14).
"""

import re
from datetime import datetime

from channels.markup.sanitize import (
    argument_fields,
    escape_invisible,
    escape_markdown,
    find_suspicious,
    shorten_line,
)

EFFECTS = {
    "read": "reads only",
    "fetch": "fetches something from outside",
    "write": "changes something here",
    "egress": "sends something out",
    "destructive": "may destroy something",
}
UNTRUSTED_INPUT = "This turn has read text from outside; it may not be your wish."
ARGUMENTS, PREVIEW = 1500, 800
MAX_WARNINGS, WARNING_CHARS = 3, 120
TOOL = 80
DIFF_LINE = re.compile(r"^(?:@@|\+\+\+|---) ", re.MULTILINE)
FENCE = re.compile(r"`{3,}")


def approval_prompt(
    tool: str,
    arguments: str,
    effect: str,
    expires: datetime,
    preview: str = "",
    *,
    outside: bool = False,
    warning: str = "",
) -> str:
    """The question in markdown, at most some 3,000 characters. What is left out of the middle of
    long arguments is counted.
    """
    told = _arguments_text(arguments)
    parts = [
        f"**Allow `{shorten_line(escape_invisible(tool), TOOL).replace('`', 'ˋ')}`?** It {EFFECTS.get(effect, EFFECTS['destructive'])}.",
        _code_block(told, ARGUMENTS) if told.strip() else "It is given nothing.",
        _code_block(preview, PREVIEW, "diff" if DIFF_LINE.search(preview) else "")
        if preview
        else "",
        "\n".join(f"⚠️ {line}" for line in _warnings(f"{told}\n{preview}", outside, warning)),
        f"It can be answered until {expires:%d %b %H:%M} UTC.",
    ]
    return "\n\n".join(part for part in parts if part)


def is_complete(arguments: str, preview: str = "") -> bool:
    """Nothing of it is left out of the question: whoever reads that has read it all."""
    return not (_clip(_arguments_text(arguments), ARGUMENTS)[1] or _clip(preview, PREVIEW)[1])


def _arguments_text(arguments: str) -> str:
    return "\n".join(_argument_lines(name, value) for name, value in argument_fields(arguments))


def _argument_lines(name: str, value: str) -> str:
    first, *rest = value.split("\n")
    return "\n".join(
        [f"{name}: {first}" if name else first, *(f"    {line}" if name else line for line in rest)]
    )


def _code_block(text: str, most: int, lang: str = "") -> str:
    """Verbatim, what cannot be seen spelled out; a fence that the text cannot close."""
    shown, hidden = _clip(text, most)
    fence = "`" * max((len(run) + 1 for run in FENCE.findall(shown)), default=3)
    more = (
        f"\n\n{hidden} characters in the middle are not shown; `/approve show` shows all."
        if hidden
        else ""
    )
    return f"{fence}{lang}\n{shown}\n{fence}{more}"


def _clip(text: str, most: int) -> tuple[str, int]:
    """Beginning and end of the text, and how many characters between them are left out."""
    whole = _escape_lines(text) if len(text) <= most else ""
    if whole and len(whole) <= most:
        return whole, 0
    head = _fitting_length(text, most * 2 // 3)
    tail = _fitting_length(text[:head:-1], most // 3)
    end = len(text) - tail
    return f"{_escape_lines(text[:head])}\n[…]\n{_escape_lines(text[end:])}", end - head


def _fitting_length(text: str, most: int) -> int:
    """How many characters fit when they are spelled out."""
    room = most
    for count, char in enumerate(text):
        room -= len(_escape_lines(char))
        if room < 0:
            return count
    return len(text)


def _escape_lines(text: str) -> str:
    """As `exact`, but a line break is a line break: it shows."""
    return "\n".join(escape_invisible(line) for line in text.split("\n"))


def _warnings(text: str, outside: bool, warning: str) -> list[str]:
    found = find_suspicious(text)
    told = [shorten_line(line, WARNING_CHARS) for line in found[:MAX_WARNINGS]]
    more = (
        [f"and {len(found) - MAX_WARNINGS} more of that kind"] if len(found) > MAX_WARNINGS else []
    )
    return [
        escape_markdown(line)
        for line in [UNTRUSTED_INPUT] * outside
        + [shorten_line(warning, 300)] * bool(warning)
        + told
        + more
    ]
