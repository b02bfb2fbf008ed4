"""Which programs a script of Python, JavaScript, Perl, Ruby, PHP or Lua starts, where that is
plain: what it works out may be any file.

It errs towards "worked out": then more files are bound than run.
"""

import re
from collections.abc import Sequence

STARTERS = (
    r"system|popen\w*|Popen|posix_spawnp?|spawn\w*|exec[lv]\w*|execSync|execFile\w*|check_call"
    r"|check_output|getoutput|getstatusoutput|create_subprocess_\w+|passthru|shell_exec|proc_open"
    r"|capture[23]\w*|Command|qx"
)
# Names of many things; of starters, where a script says which it means.
WEAK = (
    ("subprocess", r"(?<!asyncio\.)(?:run|call)"),
    ("child_process", r"exec|fork"),
    (";", r"(?<![.\w])exec(?=\s+[\"'$@(])"),
)
MODULES = r"os|subprocess|sp|child_process|cp|Kernel|Open3|IO|pty"
# Not called but handed on, or under a name of its own.
HANDED_ON = re.compile(
    rf"getattr\(\s*(?:{MODULES})\b|\b(?:{STARTERS})\s+as\b"
    rf"|\b(?:{MODULES})\s*\.\s*(?:{STARTERS}|run|call|exec)\b(?!\s*[\w(\"'])"
    r"|\b(?:exec|spawn)\w*\s*:|\bctypes\b|\bpromisify\b"
)
BACKTICKS = re.compile(r"`([^`]*)`|%x[{(\[]([^})\]]*)|\bqx\s*[{(/]([^})/]*)")
TEXT = re.compile(r"""(?<![\w"'])[rbuRBU]{0,2}(?:"([^"\\\n]*)"|'([^'\\\n]*)')(?![\w"'])""")
CONSTANT = re.compile(
    r"sys\.executable|process\.(?:execPath|argv0)|os\.P_\w+|\b(?:cwd|env|shell|check|text|timeout"
    r"|encoding|capture_output|stdout|stderr|stdio|universal_newlines|errors)\s*[=:]\s*[\w.]+(?:\(\))?"
)
PLAIN_CALL = re.compile(r"[\s,()\[\]{}]*(?:\x00[\s,()\[\]{}]+)*\x00?[\s,()\[\]{}]*")
ENDS = re.compile(r"[;\n]|\b(?:or|and|if|unless)\b|\|\||&&")
MAX_CALL, MAX_CALLS = 2000, 200


def find_started(text: str) -> list[list[str]] | None:
    """The words of each call that starts a program; one word alone is a line for a shell. None
    where something is not plain.
    """
    names = [STARTERS, *(weak for sign, weak in WEAK if sign in text)]
    called = re.compile(rf"\b(?:{'|'.join(names)})(?=\s*\(|\s+[\"'$@%])")
    found: list[list[str]] = []
    if HANDED_ON.search(text):
        return None
    for match in called.finditer(text):
        if text[: match.start()].endswith(("def ", "function ", "sub ", "func ")):
            continue
        words = _read_call(text[match.end() : match.end() + MAX_CALL])
        if words is None or len(found) >= MAX_CALLS:
            return None
        found.append(words)
    return found


def find_quoted_lines(text: str) -> list[list[str]] | None:
    """The same for lines between backticks, of Perl, Ruby and PHP."""
    lines = ["".join(match.groups("")) for match in BACKTICKS.finditer(text)]
    return None if re.search(r"[$@]|#\{", " ".join(lines)) else [[line] for line in lines]


def _read_call(text: str) -> list[str] | None:
    """Its words; None where they are more than words between quotes."""
    words: list[str] = []

    def take(match: re.Match[str]) -> str:
        words.append(match[1] or match[2] or "")
        return "\0"

    plain = TEXT.sub(take, text.lstrip())
    end = _find_end(plain)
    if end < 0:
        return None
    call = CONSTANT.sub("", plain[:end])
    words = words[: call.count("\0")]
    is_shell = any(re.search(r"\$[\w({]|[@#]\{", word) for word in words)
    return words if words and PLAIN_CALL.fullmatch(call) and not is_shell else None


def _find_end(plain: str) -> int:
    """Behind the bracket that closes the first one, or where the statement ends; -1 for nowhere."""
    if not plain.startswith("("):
        end = ENDS.search(plain)
        return end.start() if end else len(plain)
    depth = 0
    for at, sign in enumerate(plain):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            return at + 1
    return -1


def starts_unclear(code: Sequence[list[str] | None]) -> bool:
    """One of them is not plain."""
    return None in code
