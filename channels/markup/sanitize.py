"""Text made harmless (A6): it steers no terminal, and where it matters nothing can hide in it."""

import json
import re
import unicodedata
from functools import partial

COLOR = re.compile(r"\x1b\[[0-9;:]*m")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
HIDDEN_CHARS = re.compile(
    r"[\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Letters without ink, and variation selectors, which have carried hidden messages."""
PLAIN_WORD = re.compile(r"[^\s'\"\\]+")
WORD = re.compile(r"[^\W\d_]+(?:[.-][^\W\d_]+)*")
HOST = re.compile(r"://(?:[^/\s\"'?#@]*@)?([^/\s\"'?#:]+)")
SCRIPTS = frozenset(("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"))


def escape_controls(text: str) -> str:
    """For replies: colours go, what steers terminals or turns letters round is spelled out; lines
    and all scripts stay.
    """
    plain = COLOR.sub("", text).replace("\r\n", "\n")
    return CONTROLS.sub(_escape_match, plain)


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def escape_invisible(text: str) -> str:
    """For approvals: whatever cannot be seen is spelled out, line breaks too, so that what is read
    is what will run.
    """
    parts = []
    for char in text:
        is_hidden = unicodedata.category(char) in HIDDEN_CATEGORIES or HIDDEN_CHARS.match(char)
        escaped = char.encode("unicode_escape").decode() + "\n" * (char == "\n")
        parts.append(escaped if is_hidden and char != " " else char)
    return "".join(parts)


def find_suspicious(text: str) -> list[str]:
    """What may not be what it looks like, a line each: words that mix scripts whose letters look
    alike, as in a false domain, and hosts in other letters than a to z. Beside each is the name
    that a machine would look up (punycode).
    """
    mixed = []
    for word in dict.fromkeys(WORD.findall(text)):
        scripts = {unicodedata.name(char, "").split(" ")[0] for char in word}
        if not word.isascii() and len(SCRIPTS & scripts) > 1:
            mixed.append(word)
    hosts = dict.fromkeys(HOST.findall(text))
    foreign = [host for host in hosts if not host.isascii() and host not in mixed]
    found = [f"letters of different alphabets that look alike: {_punycode(word)}" for word in mixed]
    return found + [f"a host in other letters than a to z: {_punycode(host)}" for host in foreign]


def _punycode(host: str) -> str:
    """As "host (xn--...)"; without where no machine would look it up."""
    shown = escape_invisible(host)
    try:
        return f"{shown} ({host.encode('idna').decode()})"
    except UnicodeError:
        return shown


def shorten_line(text: str, limit: int) -> str:
    """The text on one line of at most so many characters."""
    line = " ".join(escape_controls(text[: limit * 8]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def argument_fields(arguments: str) -> list[tuple[str, str]]:
    """A call's arguments as (name, value); what is not a JSON object is whole, without a name."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        return [("", arguments)]
    return [(str(name), _argument_text(value)) for name, value in parsed.items()]


def _argument_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        dump = partial(json.dumps, ensure_ascii=False)
        return " ".join(word if PLAIN_WORD.fullmatch(word) else dump(word) for word in value)
    return json.dumps(value, ensure_ascii=False)


def summarize_call(tool: str, arguments: str, limit: int = 60) -> str:
    """A call in a few words: what it does it to, without the names of the arguments."""
    values = " ".join(value for _, value in argument_fields(arguments))
    return shorten_line(escape_invisible(f"{tool} {values}".strip()), limit)


PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#+\-.!|~&)$^=])")
"""All that could be a sign, and what makes a formula of brackets that are escaped."""
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
SPACE = "\u00a0"


def escape_markdown(text: str) -> str:
    """Markdown that is read as exactly this text, which is no markdown: for what commands say."""
    plain = PUNCTUATION.sub(r"\\\1", escape_controls(text))
    return INDENT.sub(_keep_indent, plain)


def _keep_indent(match: re.Match[str]) -> str:
    return match[0].replace("\t", SPACE * 4).replace(" ", SPACE)
