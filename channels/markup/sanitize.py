"""Text on its way to a terminal: nothing in it may steer the terminal, and where it matters nothing
may hide in it (A6).

A text that is no markdown, word for word (A6): what commands, notices and answers to buttons say.
"""

import json
import re
import unicodedata

COLOR = re.compile(r"\x1b\[[0-9;:]*m")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
ODD_SPACES = {"Zs"}
HIDDEN_LETTERS = {"\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f", "\u17b4", "\u17b5"}
WORD = re.compile(r"[^\W\d_]+(?:[.-][^\W\d_]+)*")
HOST = re.compile(r"://(?:[^/\s\"'?#@]*@)?([^/\s\"'?#:]+)")
SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


def escape_controls(text: str) -> str:
    """For replies: colours go, what steers terminals or turns letters round is spelled out, lines
    and all scripts stay.
    """
    plain = COLOR.sub("", text).replace("\r\n", "\n")
    return CONTROLS.sub(lambda found: escape_char(found.group()), plain)


def escape_invisible(text: str) -> str:
    """For approvals: whatever cannot be seen is spelled out, line breaks too, so that what is read
    is what will run.
    """
    return "".join(
        escape_char(char) + "\n" * (char == "\n") if _is_invisible(char) else char for char in text
    )


def escape_char(char: str) -> str:
    """The character by its escape: \\n, \\x1b, \\u202e."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    if short:
        return short
    code = ord(char)
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def _is_invisible(char: str) -> bool:
    if " " <= char <= "~":
        return False
    category = unicodedata.category(char)
    return (
        category in HIDDEN_CATEGORIES
        or category in ODD_SPACES
        or char in HIDDEN_LETTERS
        or _is_variation_selector(char)
    )


def _is_variation_selector(char: str) -> bool:
    """Variation selectors carry no ink and have carried hidden messages."""
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def find_mixed_scripts(text: str) -> list[str]:
    """Words that mix scripts whose letters look alike, as in a false domain."""
    return [
        word
        for word in dict.fromkeys(WORD.findall(text))
        if not word.isascii() and len(_scripts(word)) > 1
    ]


def find_suspicious(text: str) -> list[str]:
    """What may not be what it looks like, a line each: words of several scripts, and hosts in other
    letters than a to z. Beside each stands the name that a machine would look up (punycode).
    """
    mixed = find_mixed_scripts(text)
    hosts = [
        host for host in dict.fromkeys(HOST.findall(text)) if not (host.isascii() or host in mixed)
    ]
    told = [
        f"letters of different alphabets that look alike: {word}{_punycode(word)}" for word in mixed
    ]
    return told + [
        f"a host in other letters than a to z: {escape_invisible(host)}{_punycode(host)}"
        for host in hosts
    ]


def _punycode(host: str) -> str:
    """As " (xn--...)"; nothing where no machine would look it up."""
    try:
        return f" ({host.encode('idna').decode()})"
    except UnicodeError:
        return ""


def _scripts(word: str) -> set[str]:
    names = {unicodedata.name(char, "").split(" ")[0] for char in word}
    return names.intersection(SCRIPTS)


def shorten_line(text: str, limit: int) -> str:
    """The text on one line of at most so many characters."""
    line = " ".join(escape_controls(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def argument_fields(arguments: str) -> list[tuple[str, str]]:
    """A call's arguments as (name, value); what is not a JSON object stands whole, without a name."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return [("", arguments)]
    if not isinstance(parsed, dict):
        return [("", arguments)]
    return [(str(name), _argument_text(value)) for name, value in parsed.items()]


def _argument_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        return " ".join(_quote_word(str(part)) for part in value)
    return json.dumps(value, ensure_ascii=False)


def _quote_word(part: str) -> str:
    return (
        part if part and not re.search(r"[\s'\"\\]", part) else json.dumps(part, ensure_ascii=False)
    )


def summarize_call(tool: str, arguments: str, limit: int = 60) -> str:
    """A call in a few words: what it does it to, without the names of the arguments."""
    values = " ".join(value for _, value in argument_fields(arguments))
    return shorten_line(escape_invisible(f"{tool} {values}".strip()), limit)


PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#+\-.!|~&)$^=])")
"""All that could be a sign, and what makes a formula of brackets that are escaped."""
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
SPACE = "\u00a0"


def escape_markdown(text: str) -> str:
    """Markdown that is read as exactly this text: for what commands and notices say, which is no
    markdown.
    """
    plain = PUNCTUATION.sub(r"\\\1", escape_controls(text))
    return INDENT.sub(
        lambda found: found.group().replace("\t", SPACE * 4).replace(" ", SPACE), plain
    )
