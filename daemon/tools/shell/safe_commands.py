"""Commands that need no approval: programs people read with, and their safe arguments.

The sandbox is what protects; this only spares a question, for programs that tools.shell.allowed
names, READ_ONLY unless the owner says otherwise. Left out on purpose, though they seem to read
only: awk, sed, less, man, xargs, tar, env, make and whatever runs code or a pager.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath

from daemon.core import value
from daemon.tools.calls import is_protected
from daemon.tools.shell.parse import parse_line
from daemon.tools.shell.process import SandboxKind
from daemon.tools.workspace.labels import FileLabels
from daemon.tools.workspace.protected import ProtectedFiles

Pattern = re.Pattern[str]

NUMBER = re.compile(r"[+-]?\d{1,9}[kKMGbc]?")
TEXT = re.compile(r"(?!-)[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
ANY = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
PATH = re.compile(r"(?![-/~])[^\x00-\x1f\x7f\\;&|<>$`*?{}\"']{1,1000}")
SECRET_NAMES = re.compile(
    r"(?i)\.(env.*|git|ssh|gnupg|aws|azure|kube|docker|netrc|npmrc|pypirc|pgpass|git-credentials)"
    r"|id_(rsa|dsa|ecdsa|ed25519).*"
)


@value
class ProgramGrammar:
    """`flags` matches whole words; `valued` are flags whose value is the next word or attached.

    `operands` are the kinds of the first other words; `rest` is that of the rest, None: no more.
    """

    flags: str = "--help|--version"
    valued: Mapping[str, Pattern] = field(default_factory=dict)
    operands: tuple[Pattern, ...] = ()
    rest: Pattern | None = PATH

    def allows(self, words: Sequence[str]) -> bool:
        """`--` is not known: nothing hides behind it."""
        waiting, kinds = list(words), list(self.operands)
        while waiting:
            word = waiting.pop(0)
            if word in self.valued:
                if not waiting or not matches(self.valued[word], waiting.pop(0)):
                    return False
            elif not word.startswith("-") or (kinds and matches(kinds[0], word)):
                kind = kinds.pop(0) if kinds else self.rest
                if kind is None or not matches(kind, word):
                    return False
            elif (
                not re.fullmatch(self.flags, word)
                and not any(  # as in `-n5` and `--lines=5`
                    word.startswith(prefix)
                    and word != prefix
                    and matches(kind, word[len(prefix) :])
                    for flag, kind in self.valued.items()
                    if (prefix := f"{flag}=" if flag.startswith("--") else flag)
                )
            ):
                return False
        return True


def matches(kind: Pattern, word: str) -> bool:
    """The word is of this kind; a path lies inside the workspace and names no secret."""
    return bool(kind.fullmatch(word)) and (kind is not PATH or is_inside(word))


def is_inside(path: str) -> bool:
    """As written, it leads nowhere else. A link still can: that is for the sandbox."""
    parts = PurePosixPath(path).parts
    return ".." not in parts and not any(SECRET_NAMES.fullmatch(part) for part in parts)


AGE = re.compile(r"[+-]?\d{1,9}")
FIND_TESTS = {
    **dict.fromkeys(
        ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-printf"), TEXT
    ),
    **dict.fromkeys(("-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin"), AGE),
    **dict.fromkeys(("-maxdepth", "-mindepth"), re.compile(r"\d{1,3}")),
    "-type": re.compile(r"[bcdpfls](,[bcdpfls])*"),
    "-size": re.compile(r"[+-]?\d{1,9}[cwbkMG]?"),
    "-newer": PATH,
}
# Places, tests and the actions that only print; `(`, `)` and `!` pass for places.
FIND = ProgramGrammar("-(not|o(r)?|a(nd)?|empty|print0?|ls|prune|depth|quit)", FIND_TESTS)


REVISION = re.compile(r"(?![-/~:])[\w./@^~{}:,=+* -]{1,300}")
DATE = re.compile(r"[\w:+. /-]{1,40}")
WORD_TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
# Without signatures, which another program checks. Only `=` attaches the value: git takes the next
# word for a flag.
SHAPE = r"--(pretty|format)(?!.*%[-+ ]?G)(=[^\x00-\x1f\x7f(]{0,200})?"
CONTEXT_LINES = r"(-U|--unified=)\d{1,6}"
NAMES = "--((short|num)?stat|name-(only|status)|summary|no-patch|color=never|no-color)"
CHANGES = f"--(cached|staged|patch|word-diff|check|minimal|ignore-all-space)|{NAMES}"
LISTED = (
    "--(oneline|graph|all|(no-)?decorate|reverse|(no-)?merges|first-parent|follow|abbrev-commit"
    f"|date=(short|iso|relative))|{SHAPE}"
)
LOG_FLAGS = f"{LISTED}|{CHANGES}|{CONTEXT_LINES}"
OF_HISTORY = {
    **dict.fromkeys(("-n", "--max-count", "--skip"), NUMBER),
    **dict.fromkeys(("--since", "--until", "--after", "--before"), DATE),
    **dict.fromkeys(("--author", "--grep"), WORD_TEXT),
    "-L": REVISION,
}
# A log without any content of files.
LOG_OF_NAMES = ProgramGrammar(
    rf"-[is]+|-\d{{1,6}}|{LISTED}|{NAMES}",
    {flag: kind for flag, kind in OF_HISTORY.items() if flag != "-L"},
    rest=REVISION,
)


VERBS = {
    verb: ProgramGrammar(flags, OF_HISTORY if LOG_FLAGS in flags else {}, rest=REVISION)
    for verb, flags in {
        "log": rf"-[pis]+|-\d{{1,6}}|{LOG_FLAGS}",
        "show": f"-[ps]+|{LOG_FLAGS}",
        "diff": f"-[pbwRsz]+|{CHANGES}|{CONTEXT_LINES}",
        "shortlog": "-[sne]+",
        "ls-files": "-[cdmosz]+|--(others|exclude-standard|modified|deleted)",
        "rev-parse": "--(short|abbrev-ref|verify)",
        "describe": "--(tags|always|all|long)",
    }.items()
} | {
    "status": ProgramGrammar(
        "-[sb]+|--(short|branch|porcelain|long)|-u(no|normal|all)?", rest=None
    ),
    "blame": ProgramGrammar("-[lsew]+", {"-L": REVISION}, rest=REVISION),
    "branch": ProgramGrammar("-[arv]+|--(list|show-current|all)", rest=None),
    "tag": ProgramGrammar("-l|--list", rest=None),
}
QUIET = {
    **dict.fromkeys(
        ("log", "show", "diff"), ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    ),
    "status": ("--ignore-submodules=all",),
}
SAFE_SETTINGS = (
    "-c core.fsmonitor= -c core.hooksPath=/dev/null -c core.pager=cat"
    " -c diff.autoRefreshIndex=false"
)
ENTER_FRESH_GIT = """\
umask 077; here=$(pwd -P); fresh=$(mktemp -d /tmp/git.XXXXXXXX) || exit 126
cp "$here/.git/HEAD" "$fresh/HEAD" 2>/dev/null ||
  { echo 'fatal: not a git repository with a .git directory'; exit 128; }
for one in objects refs packed-refs index logs info shallow; do
  if [ -e "$here/.git/$one" ]; then ln -s "$here/.git/$one" "$fresh/$one"; fi
done
export GIT_DIR="$fresh" GIT_WORK_TREE="$here" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_OPTIONAL_LOCKS=0 GIT_PAGER=cat GIT_EDITOR=false GIT_TERMINAL_PROMPT=0
export GIT_ATTR_NOSYSTEM=1 GIT_NO_LAZY_FETCH=1
"""
ISOLATION_SCRIPT = (
    ENTER_FRESH_GIT
    + """\
settings=$0 verb=$1
look() {
  if [ "${1%%:*}" != "$1" ] && git cat-file -e "$1" 2>/dev/null; then  # a folder has no number
    git cat-file -e "${1%%:*}^{commit}" 2>/dev/null ||
      { echo "fatal: ${1%%:*} is no commit: name a file as COMMIT:PATH"; exit 128; }
  fi
  case "$verb:$(git cat-file -t "$1^{}" 2>/dev/null):$1" in
    *:blob:*:*) ;;
    *:blob:*|diff:tree:*|log:tree:*)
      echo "fatal: $1 is no commit: name a file as COMMIT:PATH"; exit 128;;
  esac
}
for one; do
  case "$one" in
    -*|:*) ;;
    *..*) look "${one%%..*}"; look "${one##*..}";;
    *) look "$one";;
  esac
done
exec git $settings "$@"
"""
)


class GitGrammar(ProgramGrammar):
    """A verb that reads, with flags that read. Nothing may stand before the verb."""

    def allows(self, words: Sequence[str]) -> bool:
        """Two dots are fine between two revisions; as a step of a path they lead out."""
        if list(words) == ["--version"]:
            return True
        if not words or words[0] not in VERBS:
            return False
        rest = [word for word in words[1:] if word != "--"]
        names = [word.replace(":", "/") for word in rest if not word.startswith("-")]
        return VERBS[words[0]].allows(rest) and all(map(is_inside, names))


def isolate_git(words: Sequence[str]) -> list[str]:
    """The same command without the repository's settings, which can name programs to run.

    It works on a fresh directory that holds the objects and branches and no settings. A content is
    shown by its path only, which was judged, not by its number. Only for words that the grammar
    allows.
    """
    verb, *rest = words[1:]
    if verb not in VERBS:
        return list(words)
    quiet = QUIET.get(verb, ())
    return ["/bin/sh", "-c", ISOLATION_SCRIPT, SAFE_SETTINGS, verb, *quiet, *rest]


FIELDS = re.compile(r"\d{1,4}(-\d{0,4})?(,\d{1,4}(-\d{0,4})?)*|-\d{1,4}")
SIGN = re.compile(r".|\\t")
KEY = re.compile(r"\d{1,3}(\.\d{1,3})?[bdfginrMVh]*(,\d{1,3}(\.\d{1,3})?[bdfginrMVh]*)?")
SMALL = re.compile(r"\d{1,4}")
SHORT_NUMBER = re.compile(r"-?\d{1,6}(\.\d{1,2})?")
SHORT_FORMAT = re.compile(r"(?!-|.*\d{5})[^\x00-\x08\x0a-\x1f\x7f*]{0,300}")
FORMAT = re.compile(r"\+[^\x00-\x1f\x7f]{0,200}")
LINE_COUNT = re.compile(r"[+-]?\d{1,9}")
LINE_OPTIONS = dict.fromkeys(("-n", "-c", "--lines", "--bytes"), LINE_COUNT)


def _reader(
    flags: str = "--help",
    valued: Mapping[str, Pattern] | None = None,
    operands: tuple[Pattern, ...] = (),
    rest: Pattern | None = PATH,
) -> ProgramGrammar:
    return ProgramGrammar(f"--help|--version|{flags}", valued or {}, operands, rest)


GREP = _reader(
    r"-[EFGHIVabchilLnoqrsvwxyz]+|-\d{1,4}|--(color=never|color=auto|recursive|ignore-case"
    "|line-number|count|files-with-matches|word-regexp|fixed-strings|invert-match|extended-regexp)",
    {
        **dict.fromkeys(
            (
                "-A",
                "-B",
                "-C",
                "-m",
                "--max-count",
                "--after-context",
                "--before-context",
                "--context",
            ),
            SMALL,
        ),
        **dict.fromkeys(("--include", "--exclude", "--exclude-dir", "--glob"), TEXT),
    },
    (TEXT,),
)
WORDS = ProgramGrammar(ANY.pattern, rest=ANY)
PROGRAMS: Mapping[str, ProgramGrammar] = {
    "ls": _reader("-[1aAlhrtSRdFpisnogGUvXCx]+|--(all|human-readable|reverse|recursive|directory)"),
    "cat": _reader("-[nbsAETev]+|--(number|show-all)"),
    "head": _reader(r"-[qv]+|-\d{1,9}", LINE_OPTIONS),
    "tail": _reader(r"-[qv]+|-\d{1,9}", LINE_OPTIONS),
    "wc": _reader("-[clmwL]+|--(lines|words|bytes|chars)"),
    "stat": _reader("-[tL]+", {"-c": TEXT, "--format": TEXT}),
    "du": _reader("-[shkmcab]+|--(summarize|human-readable)", {"-d": SMALL, "--max-depth": SMALL}),
    "df": _reader("-[hkTi]+|--human-readable"),
    "file": _reader("-[bi]+|--(brief|mime-type|mime)"),
    "tree": _reader("-[adfFhDrtCsp]+|--(dirsfirst|du)", {"-L": SMALL, "-I": TEXT, "-P": TEXT}),
    "readlink": _reader("-[fem]+"),
    "realpath": _reader("-[emsz]+"),
    "basename": _reader("-[az]+", {"-s": TEXT}),
    "dirname": _reader("-z"),
    "strings": _reader("-a", {"-n": SMALL}),
    "od": _reader("-[bcdoxv]+", {"-A": TEXT, "-t": TEXT, "-N": NUMBER, "-j": NUMBER}),
    "hexdump": _reader("-[Cbcdox]+", {"-n": NUMBER, "-s": NUMBER}),
    "find": FIND,
    "git": GitGrammar(),
    **dict.fromkeys(("grep", "egrep", "fgrep"), GREP),
    "rg": _reader(
        "-[FHIiclnosSvwx]+",
        dict.fromkeys(("-A", "-B", "-C", "-m"), SMALL) | {"-g": TEXT, "-t": TEXT},
        (TEXT,),
    ),
    "sort": _reader("-[bdfghiMnRrVuszc]+", {"-k": KEY, "-t": SIGN}),
    "uniq": _reader("-[cdiuz]+", dict.fromkeys(("-f", "-s", "-w"), SMALL), (PATH,), None),
    "cut": _reader("-[sz]+", {"-f": FIELDS, "-c": FIELDS, "-b": FIELDS, "-d": SIGN}),
    "tr": _reader("-[cCdst]+", {}, (TEXT, TEXT), None),
    "nl": _reader(valued={"-b": TEXT, "-w": SMALL}),
    "fold": _reader("-[bs]+", {"-w": SMALL}),
    "column": _reader("-[tx]+", {"-s": SIGN, "-c": SMALL}),
    "paste": _reader("-[sz]+", {"-d": SIGN}),
    "comm": _reader("-[123z]+"),
    "diff": _reader(
        "-[uqrywbBiNac]+|--(brief|unified|side-by-side)", {"-U": SMALL}, (PATH, PATH), None
    ),
    "cmp": _reader("-[sl]+", {}, (PATH, PATH), None),
    "jq": _reader("-[rcSesnMaj]+|--(raw-output|compact-output|sort-keys|slurp)", {}, (TEXT,)),
    **dict.fromkeys(("sha1sum", "sha256sum", "sha512sum", "md5sum", "b2sum"), _reader("-[btz]+")),
    **dict.fromkeys(("tac", "rev", "cksum"), _reader()),
    **dict.fromkeys(("echo", "true", "false"), WORDS),
    "printf": ProgramGrammar("(?!)", {}, (SHORT_FORMAT,), ANY),
    "seq": _reader("-w+", {"-s": TEXT}, (SHORT_NUMBER,) * 3, None),
    "pwd": _reader("-[LP]+", rest=None),
    **dict.fromkeys(("whoami", "groups", "arch"), _reader(rest=None)),
    "id": _reader("-[ugnGr]+", rest=None),
    "uname": _reader("-[asnrvmpio]+", rest=None),
    "hostname": ProgramGrammar("(?!)", rest=None),
    "uptime": _reader("-[ps]+", rest=None),
    "nproc": _reader("--all", rest=None),
    "free": _reader("-[hbkmgt]+", rest=None),
    "cal": _reader("-[13ym]+", {}, (SMALL, SMALL), None),
    "date": _reader(
        "-[uR]+|-I[a-z]*|--utc|--iso-8601", {"-d": TEXT, "--date": TEXT}, (FORMAT,), None
    ),
    **dict.fromkeys(("python", "python3"), ProgramGrammar("--version|-V", rest=None)),
    "node": ProgramGrammar("--version|-v", rest=None),
    **dict.fromkeys(("gcc", "bash"), ProgramGrammar("--version", rest=None)),
}
READ_ONLY = (
    "ls", "cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "rg", "find", "tree", "stat", "du",
    "diff", "cmp", "pwd", "git",
)  # fmt: skip
ASK_ALWAYS = ("network", "domains", "background")
# Words that only a shell would understand: the command does not do what its author thinks.
SHELL_SYNTAX = re.compile(r"[\d<>|&;]*[<>|&;]|>.*|.*(`|\$\(|\$\{|[<>]\().*|.*;", re.DOTALL)


def parse_words(arguments: Mapping[str, object]) -> list[str] | None:
    """The command as words if it needs no shell: argv, or a line of plain and quoted words."""
    argv, command = arguments.get("argv"), arguments.get("command")
    if isinstance(argv, list) and argv and not command:
        return [str(word) for word in argv]
    plain = parse_line(command).plain if isinstance(command, str) and not argv else None
    return list(plain) if plain else None


@value
class SafeCommands:
    """Nobody touches paths that match `protected` without approval, nor uses git where `labels` say
    that a stranger's words are in the repository.
    """

    allowed: Sequence[str]
    kind: SandboxKind
    protected: Sequence[str] = ()
    files: ProtectedFiles | None = None
    labels: FileLabels | None = None

    def __call__(self, arguments: Mapping[str, object]) -> bool:
        """This call needs no approval."""
        return self.rewrite(arguments) is not None

    def rewrite(self, arguments: Mapping[str, object]) -> list[str] | None:
        """The words to run without a shell, or None: ask. Without a sandbox a link may lead out."""
        if not self.allowed or self.kind == "none" or any(map(arguments.get, ASK_ALWAYS)):
            return None
        words = parse_words(arguments)
        if not words or words[0] not in self.allowed or words[0] not in PROGRAMS:
            return None
        if any(map(SHELL_SYNTAX.fullmatch, words)) or not PROGRAMS[words[0]].allows(words[1:]):
            return None
        places = [
            part
            for word in words[1:]
            for part in {word, *word.replace(":", "=").split("=")}
            if part
        ]
        if any(is_protected(PurePosixPath(part), self.protected) for part in places):
            return None
        if self.files and any(map(self.files.leads_astray, places)):
            return None
        if words[0] == "git" and self.labels and not self.labels.owns_repository(places):
            return None
        is_recursive = words[0] == "rg" or _is_recursive(words[1:])
        if self.kind != "bubblewrap" and self.files and is_recursive:
            return None  # nothing can be hidden from it on its way
        excluded = exclude_protected(words, self.protected)
        if excluded is None or words[0] != "git":
            return excluded
        return isolate_git(excluded) if self.kind == "bubblewrap" else None


FOLLOWS = re.compile(r"-L.*|--follow")


def exclude_protected(words: list[str], protected: Sequence[str]) -> list[str] | None:
    """The command, told to skip protected files that it would find on its way through folders.

    None where the program has no flag for that.
    """
    globs = [place for one in protected for place in (f"**/{one}", f"**/{one}/**")]
    match words:
        case ["git", "log" | "show" as verb, *rest] if any(map(FOLLOWS.fullmatch, rest)):
            # They take one path only, and what a file was called before is not known here.
            lists = verb == "log" and LOG_OF_NAMES.allows([one for one in rest if one != "--"])
            return words if lists or not protected else None
        case ["rg", *_]:
            return [*words, *(f"--glob=!{place}" for place in globs)]
        case ["git", "log" | "show" | "diff", *rest]:
            return [*words, *(f":(exclude,glob,icase){one}" for one in globs)]
        case ["grep" | "egrep" | "fgrep" | "diff" as program, *rest] if _is_recursive(rest):
            # They exclude by name only. A hidden folder is skipped as a whole; for another,
            # more would be skipped than is meant.
            parts = [PurePosixPath(one.lstrip("/")).parts for one in protected]
            if any(len(steps) > 1 and not steps[0].startswith(".") for steps in parts):
                return None
            flags = ("--exclude",) if program == "diff" else ("--exclude", "--exclude-dir")
            names = dict.fromkeys(steps[0] for steps in parts if steps)
            return [*words, *(f"{flag}={name}" for name in names for flag in flags)]
    return words


def _is_recursive(words: Sequence[str]) -> bool:
    return "--recursive" in words or any(re.match("(?s)-(?!-).*r", word) for word in words)
