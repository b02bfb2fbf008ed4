"""Which files a script may run beside those that its words name: programs that it starts, modules
that it loads. What it works out may be any file.

It errs towards "worked out": then more files are bound than run.
"""

import re
from collections.abc import Mapping, Sequence

from daemon.tools.policy.stemming import word_set

PYTHON, SHELL, NODE = (
    (".py",),
    (".sh", ".bash", ".zsh"),
    (".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx"),
)
ANY = ("",)
CODE = (*SHELL, *PYTHON, *NODE, ".rb", ".pl", ".pm", ".php", ".lua", ".mk")
JAVA = (".java", ".kt", ".kts", ".groovy", ".scala", ".gradle")
# They find by themselves what they run: any file with such an ending.
DISCOVERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("pytest", "py.test", "unittest", "tox", "nox", "pre-commit", "invoke"), PYTHON
    ),
    **dict.fromkeys(("hatch", "pdm", "poetry", "uv", "pip", "pip3"), PYTHON),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun", "npx", "deno", "jest", "vitest", "mocha", "playwright"), NODE
    ),
    **dict.fromkeys(("vite", "webpack", "rollup", "eslint"), NODE),
    **dict.fromkeys(("mvn", "gradle", "gradlew", "ant"), JAVA),
    "cargo": (".rs",),
    "go": (".go",),
    **dict.fromkeys(("rake", "bundle"), (".rb",)),
    "composer": (".php",),
}
# What git starts by itself.
HOOKS = word_set("""
    pre-commit prepare-commit-msg commit-msg post-commit pre-push pre-rebase post-rewrite
    post-checkout post-merge pre-merge-commit applypatch-msg pre-applypatch post-applypatch
    reference-transaction pre-auto-gc
""")
SHELL_KIND = re.compile(r"(?i).*\.(sh|bash|zsh|ksh|mk)|makefile|gnumakefile|[^.#]+|#!.*sh\b.*")
# A command, a program for an interpreter or a search path that is worked out.
COMPUTED = re.compile(
    r"(?m)(?:^|[;&|(`]|\b(?:do|then|else|exec|sudo|nohup|env|xargs|eval))"
    r"[ \t@+-]*[\"']?[\w./-]*[$`](?!\()[\w({][^\s=]*[\"']?(?:\s|$)"
    r"|(?:\b(?:ba|z|k|da)?sh|\bpython[\d.]*|\bnode|\bperl|\bruby|\bphp|\bsource|(?<=\s)\.)"
    r"[ \t]+(?:-\w+[ \t]+)*[\"']?[^\s;&|\"']*[$`]"
)
# A script that works out what it loads may load any of its kind.
DYNAMIC = (
    (SHELL_KIND, re.compile(r"[$`]"), SHELL),
    (re.compile(r".*\.(rb|pl|pm|php|lua)"), re.compile(""), (".rb", ".pl", ".pm", ".php", ".lua")),
    (
        re.compile(r".*\.pyw?|#!.*python.*"),
        re.compile(r"importlib|__import__|runpy|pkgutil|sys\.path"),
        PYTHON,
    ),
    (re.compile(r".*\.pyw?|#!.*python.*"), re.compile(r"\b(exec|eval|execfile)\("), ANY),
    (SHELL_KIND, COMPUTED, CODE),
    (SHELL_KIND, re.compile(r"\bPATH\+?="), ANY),
    (
        re.compile(r".*\.[cm]?[jt]sx?|#!.*node.*"),
        re.compile(r"(require|import)\(\s*[^\s\"')]"),
        NODE,
    ),
)
PROGRAMMING = re.compile(
    r"python|pypy|perl|ruby|node|php|\blua|\bdeno|\bbun\b|\btsx?\b|ts-node"
    r"|\.(pyw?|rb|pl|pm|php|lua|[cm]?[jt]sx?)\b"
)
QUOTING = re.compile(r"perl|ruby|php|\.(rb|pl|pm)\b")
STARTERS = (
    r"system|popen\w*|Popen|posix_spawnp?|spawn\w*|exec[lv]\w*|execSync|execFile\w*|check_call"
    r"|check_output|getoutput|getstatusoutput|create_subprocess_\w+|passthru|shell_exec|proc_open"
    r"|capture[23]\w*|Deno\.Command"
)
# Names of many things; of starters where the script has such a sign.
WEAK = (
    ("subprocess", r"(?<!asyncio\.)\b(?:run|call)"),
    ("child_process", r"\b(?:exec|fork)"),
    ("exec ", r"(?<![.\w])exec(?=\s+[\"'$@])"),
)
MODULES = r"os|subprocess|sp|child_process|cp|Kernel|Open3|IO|pty"
# Not called but handed on, or under a name of its own.
HANDED_ON = re.compile(
    rf"getattr\(\s*(?:{MODULES})\b|\b(?:{STARTERS})\s+as\b"
    rf"|\b(?:{MODULES})\s*\.\s*(?:{STARTERS}|run|call|exec)\b(?!\s*[\w(\"'])"
    r"|\b(?:exec|spawn)\w*\s*:|\bctypes\b|\bpromisify\b"
)
BACKTICKS = re.compile(r"`([^`]*)`|(?:%x|\bqx)\s*[{(\[/|!]([^})\]/|!]*)")
TEXT = re.compile(r"""(?<![\w"'\\])[rbuRBU]{0,2}(?:"([^"\\\n]*)"|'([^'\\\n]*)')(?![\w"'])""")
CONSTANT = re.compile(
    r"\b(?:cwd|env|shell|check|text|timeout|encoding|capture_output|stdout|stderr|stdio|errors"
    r"|universal_newlines)\s*[=:]\s*[\w.]+(?:\(\))?|os\.P_\w+"
)
CONSTANT_PROGRAMS = (("sys.executable", "'python'"), ("process.execPath", "'node'"))
PLAIN_CALL = re.compile(r"[\s,()\[\]{}]*(?:\0\s*[,()\[\]{}][\s,()\[\]{}]*)*\0?\s*")
ENDS = re.compile(r"[;\n]|\b(?:or|and|if|unless)\b|\|\||&&")
WORKED_OUT = re.compile(r"\$[\w({]|[@#]\{|@\w")
MAX_CALL, MAX_CALLS = 2000, 200


def list_dynamic(name: str, first: str, text: str) -> set[str]:
    """The endings of what a script may load, by its name and first line."""
    found: set[str] = set()
    for kind, sign, endings in DYNAMIC:
        if (kind.fullmatch(name) or kind.fullmatch(first)) and sign.search(text):
            found.update(endings)
    return found


def find_started(kind: str, text: str) -> list[list[str]] | None:
    """The words of each call that starts a program; a word alone is a line for a shell. None where
    one is not plain. `kind` has the names of languages or endings.
    """
    if not PROGRAMMING.search(kind):
        return []
    if HANDED_ON.search(text):
        return None
    found = _find_quoted(text) if QUOTING.search(kind) else []
    names = "|".join([rf"\b(?:{STARTERS})", *(weak for sign, weak in WEAK if sign in text)])
    for match in re.finditer(rf"(?:{names})(?=\s*\((?!\s*\))|\s+[\"'$@%])", text):
        if text[: match.start()].endswith(("def ", "function ", "sub ")):
            continue
        words = _read_call(text[match.end() : match.end() + MAX_CALL])
        if words is None or len(found) >= MAX_CALLS:
            return None
        found.append(words)
    return None if any(WORKED_OUT.search(word) for words in found for word in words) else found


def _find_quoted(text: str) -> list[list[str]]:
    """Lines between backticks."""
    return [["".join(match.groups(""))] for match in BACKTICKS.finditer(text)]


def _read_call(text: str) -> list[str] | None:
    """Its words; None where they are more than words between quotes."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.append(match[1] or match[2] or "")
        return "\0"

    for constant, program in CONSTANT_PROGRAMS:
        text = text.replace(constant, program)
    plain = TEXT.sub(take, text.replace("\0", "?").lstrip())
    call = CONSTANT.sub("", plain[: _find_end(plain)])
    words: Sequence[str] = found[: call.count("\0")]
    return [*words] if words and PLAIN_CALL.fullmatch(call) else None


def _find_end(plain: str) -> int:
    """Behind the bracket that closes the first one, or where the statement ends; 0 for nowhere."""
    if not plain.startswith("("):
        end = ENDS.search(plain)
        return end.start() if end else len(plain)
    depth = 0
    for at, sign in enumerate(plain):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            return at + 1
    return 0
