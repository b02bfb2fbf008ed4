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
SHELL, RUNS_COMMAND, MAX_WORDS = "shell", "runs a command", 300
UNTRUSTED_INPUT = "This turn has read text from outside; it may not be your wish."
ARGUMENTS, PREVIEW = 1500, 800
MAX_WARNINGS, WARNING_CHARS = 3, 120
TOOL = 80
DIFF_LINE = re.compile(r"^(?:@@|\+\+\+|---) ", re.MULTILINE)
FENCE = re.compile(r"`{3,}")


def describe_effect(tool: str, effect: str, preview: str) -> tuple[str, str]:
    """What the call does, in words, and the rest of the preview: that of the shell begins with
    where the command runs and what it reaches.
    """
    does, (first, _, rest) = EFFECTS.get(effect, EFFECTS["destructive"]), preview.partition("\n")
    if tool == SHELL and first.startswith(RUNS_COMMAND) and len(first) <= MAX_WORDS:
        return f"{escape_invisible(first)}; it {does}", rest
    return does, preview


def approval_prompt(
    tool: str,
    arguments: str,
    effect: str,
    expires: datetime,
    preview: str = "",
    *,
    outside: bool = False,
) -> str:
    """The question in markdown, at most some 3,000 characters. What is left out of the middle of
    long arguments is counted.
    """
    local = expires.astimezone()
    given, name = _arguments_text(arguments), shorten_line(escape_invisible(tool), TOOL)
    suspicious = find_suspicious(f"{given}\n{preview}")
    warnings = [UNTRUSTED_INPUT] * outside
    warnings += [shorten_line(line, WARNING_CHARS) for line in suspicious[:MAX_WARNINGS]]
    if len(suspicious) > MAX_WARNINGS:
        warnings.append(f"and {len(suspicious) - MAX_WARNINGS} more of that kind")
    what, preview = describe_effect(tool, effect, preview)
    lang = "diff" if DIFF_LINE.search(preview) else ""
    parts = [
        f"**Allow `{name.replace('`', 'ˋ')}`?** It {escape_markdown(what)}.",
        _code_block(given, ARGUMENTS) if given.strip() else "It is given nothing.",
        _code_block(preview, PREVIEW, lang) if preview else "",
        "\n".join(f"⚠️ {escape_markdown(line)}" for line in warnings),
        f"It can be answered until {local:%d %b %H:%M} {local.tzname()}.",
    ]
    return "\n\n".join(filter(None, parts))


def is_complete(arguments: str, preview: str = "") -> bool:
    """Nothing of it is left out of the question: whoever reads that has read it all."""
    return not (_clip(_arguments_text(arguments), ARGUMENTS)[1] or _clip(preview, PREVIEW)[1])


def _arguments_text(arguments: str) -> str:
    return "\n".join(
        f"{name}: {value}".replace("\n", "\n    ") if name else value
        for name, value in argument_fields(arguments)
    )


def _code_block(text: str, limit: int, lang: str = "") -> str:
    """Verbatim, what cannot be seen spelled out; a fence that the text cannot close."""
    shown, hidden = _clip(text, limit)
    fence = "`" * max((len(run) + 1 for run in FENCE.findall(shown)), default=3)
    block = f"{fence}{lang}\n{shown}\n{fence}"
    if not hidden:
        return block
    return f"{block}\n\n{hidden} characters in the middle are not shown; `/approve show` shows all."


def _clip(text: str, limit: int) -> tuple[str, int]:
    """Beginning and end of the text, and how many characters between them are left out."""
    whole = _escape_lines(text) if len(text) <= limit else ""
    if whole and len(whole) <= limit:
        return whole, 0
    head = _fitting_length(text, limit * 2 // 3)
    tail = _fitting_length(text[:head:-1], limit // 3)
    end = len(text) - tail
    return f"{_escape_lines(text[:head])}\n[…]\n{_escape_lines(text[end:])}", end - head


def _fitting_length(text: str, limit: int) -> int:
    """How many characters fit when they are spelled out."""
    for count, char in enumerate(text):
        limit -= len(_escape_lines(char))
        if limit < 0:
            return count
    return len(text)


def _escape_lines(text: str) -> str:
    """As `escape_invisible`, but line breaks stay."""
    return "\n".join(map(escape_invisible, text.split("\n")))
