"""Grammars of safe arguments: known flags, values and operands of known kinds, nothing else."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Protocol

from daemon.core import value

Pattern = re.Pattern[str]

NUMBER = re.compile(r"[+-]?\d{1,9}[kKMGbc]?")
TEXT = re.compile(r"(?!-)[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
ANY = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
PATH = re.compile(r"(?![-/~])[^\x00-\x1f\x7f\\;&|<>$`*?{}\"']{1,1000}")
SECRET_NAMES = re.compile(
    r"(?i)\.(env.*|git|ssh|gnupg|aws|azure|kube|docker|netrc|npmrc|pypirc|pgpass|git-credentials)"
    r"|id_(rsa|dsa|ecdsa|ed25519).*"
)


class Grammar(Protocol):
    """The safe arguments of one program."""

    def allows(self, words: Sequence[str]) -> bool:
        """None of these words, which follow the program's name, can do harm."""
        ...


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
            elif not (re.fullmatch(self.flags, word) or self._has_attached_value(word)):
                return False
        return True

    def _has_attached_value(self, word: str) -> bool:
        """As in `-n5` and `--lines=5`."""
        for flag, kind in self.valued.items():
            prefix = f"{flag}=" if flag.startswith("--") else flag
            if word.startswith(prefix) and word != prefix and matches(kind, word[len(prefix) :]):
                return True
        return False


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
CHANGES = (
    "--((short|num)?stat|name-(only|status)|cached|staged|summary|(no-)?patch|word-diff|check"
    "|color=never|no-color|minimal|ignore-all-space)"
)
LOG_FLAGS = (
    f"--(oneline|graph|all|(no-)?decorate|reverse|(no-)?merges|first-parent|follow|abbrev-commit"
    f"|date=(short|iso|relative))|{CHANGES}|{SHAPE}|{CONTEXT_LINES}"
)
OF_HISTORY = {
    **dict.fromkeys(("-n", "--max-count", "--skip"), NUMBER),
    **dict.fromkeys(("--since", "--until", "--after", "--before"), DATE),
    **dict.fromkeys(("--author", "--grep"), WORD_TEXT),
    "-L": REVISION,
}


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
        "-[sbv]+|--(short|branch|porcelain|long)|-u(no|normal|all)?", rest=None
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
    "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat",
    "-c", "diff.autoRefreshIndex=false",
)  # fmt: skip
ISOLATION_SCRIPT = """\
umask 077; here=$(pwd -P); fresh=$(mktemp -d /tmp/git.XXXXXXXX) || exit 126
cp "$here/.git/HEAD" "$fresh/HEAD" 2>/dev/null ||
  { echo 'fatal: not a git repository with a .git directory'; exit 128; }
for one in objects refs packed-refs index logs info shallow; do
  if [ -e "$here/.git/$one" ]; then ln -s "$here/.git/$one" "$fresh/$one"; fi
done
export GIT_DIR="$fresh" GIT_WORK_TREE="$here" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_OPTIONAL_LOCKS=0 GIT_PAGER=cat GIT_EDITOR=false GIT_TERMINAL_PROMPT=0
export GIT_ATTR_NOSYSTEM=1 GIT_NO_LAZY_FETCH=1
exec git "$@"
"""


class GitGrammar:
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

    It works on a fresh directory that holds the objects and branches and no settings. Only for
    words that the grammar allows.
    """
    verb, *rest = words[1:]
    if verb not in VERBS:
        return list(words)
    quiet = QUIET.get(verb, ())
    return ["/bin/sh", "-c", ISOLATION_SCRIPT, "git", *SAFE_SETTINGS, verb, *quiet, *rest]
