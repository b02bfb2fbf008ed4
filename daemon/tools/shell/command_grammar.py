"""What a grammar of harmless arguments is: flags known one by one, values and operands of known kinds, nothing else.

find: places first, then tests and the actions that only print. All that runs, writes or deletes is unknown here.

git, looking only. A repository's own settings can name programs to run (a filter, a monitor, a viewer of changes), so none
of them are read: the command works on a second directory, made anew, that holds the objects and the branches and no settings.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Protocol

from daemon.core import value

Pattern = re.Pattern[str]

NOTHING = re.compile(r"(?!)")
NUMBER = re.compile(r"[+-]?\d{1,9}[kKMGbc]?")
TEXT = re.compile(r"(?!-)[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
ANY = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]{0,1000}")
PATH = re.compile(r"(?![-/~])[^\x00-\x1f\x7f\\;&|<>$`*?{}\"']{1,1000}")
SECRET_NAMES = re.compile(
    r"(?i)\.(env.*|git|ssh|gnupg|aws|azure|kube|docker|netrc|npmrc|pypirc|pgpass|git-credentials)|id_(rsa|dsa|ecdsa|ed25519).*"
)


class Grammar(Protocol):
    """The harmless arguments of one program."""

    def allows(self, words: Sequence[str]) -> bool:
        """None of these words, which stand after the program's name, can do harm."""
        ...


@value
class ProgramGrammar:
    """`flags` are whole words; `valued` are flags whose value is the next word, or stands behind them.

    `operands` are the kinds of the first words that are no flags; `rest` is the kind of the others, None where there are none.
    """

    flags: Pattern = NOTHING
    valued: Mapping[str, Pattern] = field(default_factory=dict)
    operands: tuple[Pattern, ...] = ()
    rest: Pattern | None = PATH

    def allows(self, words: Sequence[str]) -> bool:
        """Each word is a known flag, the value of one, or an operand of its kind."""
        loose = self._read_operands(list(words))
        if loose is None:
            return False
        kinds = [
            *self.operands,
            *([self.rest] if self.rest else []) * max(len(loose) - len(self.operands), 0),
        ]
        return len(loose) <= len(kinds) and all(
            matches(kind, word) for kind, word in zip(kinds, loose, strict=False)
        )

    def _read_operands(self, words: list[str]) -> list[str] | None:
        """The words that are no flags; None when one of the others is not known. `--` is not known: nothing hides behind it."""
        loose: list[str] = []
        while words:
            word = words.pop(0)
            if word in self.valued:
                if not words or not matches(self.valued[word], words.pop(0)):
                    return None
            elif not word.startswith("-") or any(
                matches(kind, word) for kind in self.operands[len(loose) : len(loose) + 1]
            ):
                loose.append(word)
            elif not (self.flags.fullmatch(word) or self._has_attached_value(word)):
                return None
        return loose

    def _has_attached_value(self, word: str) -> bool:
        """`-n5`, `--lines=5`: the value stands behind its flag."""
        for flag, kind in self.valued.items():
            behind = word.removeprefix(f"{flag}=" if flag.startswith("--") else flag)
            if behind != word and behind and matches(kind, behind):
                return True
        return False


def matches(kind: Pattern, word: str) -> bool:
    """The word is of this kind; a path is one inside the workspace, and not the place of a secret."""
    return bool(kind.fullmatch(word)) and (kind is not PATH or is_inside(word))


def is_inside(path: str) -> bool:
    """As it is written it leads nowhere else. A link can still lead out: that is the sandbox's to stop."""
    parts = PurePosixPath(path).parts
    return ".." not in parts and not any(SECRET_NAMES.fullmatch(part) for part in parts)


def flag_pattern(letters: str, *long: str, also: str = "") -> Pattern:
    """Single letters in any company, these long flags, what else is a flag, and what a program says of itself."""
    return exact_flag_pattern(letters, *long, "--help", "--version", also=also)


def exact_flag_pattern(letters: str, *long: str, also: str = "") -> Pattern:
    """The same for a program whose help opens another."""
    kinds = [f"-[{letters}]+"] if letters else []
    return re.compile("|".join([*kinds, *map(re.escape, long), *([also] if also else [])]))


AGE = re.compile(r"[+-]?\d{1,9}")
SIZE = re.compile(r"[+-]?\d{1,9}[cwbkMG]?")
DEPTH = re.compile(r"\d{1,3}")
KINDS = re.compile(r"[bcdpfls](,[bcdpfls])*")
TESTS: Mapping[str, Pattern] = {
    **dict.fromkeys(
        ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex"), TEXT
    ),
    **dict.fromkeys(("-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin"), AGE),
    **dict.fromkeys(("-maxdepth", "-mindepth"), DEPTH),
    "-type": KINDS,
    "-size": SIZE,
    "-newer": PATH,
    "-printf": TEXT,
}
JOINTS = ("!", "-not", "-o", "-or", "-a", "-and", "(", ")")
ALONE = frozenset((*JOINTS, "-empty", "-print", "-print0", "-ls", "-prune", "-depth", "-quit"))


class FindGrammar:
    """The grammar of find."""

    def allows(self, words: Sequence[str]) -> bool:
        """Every place lies inside, every test is known."""
        waiting = list(words)
        while waiting and not _is_test(waiting[0]):
            if not matches(PATH, waiting.pop(0)):
                return False
        while waiting:
            word = waiting.pop(0)
            if word in ALONE:
                continue
            if word not in TESTS or not waiting or not matches(TESTS[word], waiting.pop(0)):
                return False
        return True


def _is_test(word: str) -> bool:
    return word in ALONE or word.startswith("-")


REVISION = re.compile(r"(?![-/~:])[\w./@^~{}:,=+* -]{1,300}")
DATE = re.compile(r"[\w:+. /-]{1,40}")
WORD_TEXT = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
# Without signatures, which another program looks at. Its value stands behind `=` only: git takes the next word for a flag.
SHAPE = r"--(pretty|format)(?!.*%[-+ ]?G)(=[^\x00-\x1f\x7f(]{0,200})?"
CONTEXT_LINES = r"(-U|--unified=)\d{1,6}"
CHANGES = (
    "--stat", "--shortstat", "--numstat", "--name-only", "--name-status", "--cached", "--staged", "--summary", "--patch",
    "--no-patch", "--word-diff", "--check", "--color=never", "--no-color", "--minimal", "--ignore-all-space",
)  # fmt: skip
HISTORY = (
    "--oneline", "--graph", "--all", "--decorate", "--no-decorate", "--reverse", "--merges", "--no-merges", "--first-parent",
    "--follow", "--abbrev-commit", "--date=short", "--date=iso", "--date=relative",
)  # fmt: skip
OF_HISTORY: Mapping[str, Pattern] = {
    "-n": NUMBER, "--max-count": NUMBER, "--since": DATE, "--until": DATE, "--after": DATE, "--before": DATE, "--skip": NUMBER,
    "--author": WORD_TEXT, "--grep": WORD_TEXT, "-L": REVISION,
}  # fmt: skip
VERBS: Mapping[str, ProgramGrammar] = {
    "status": ProgramGrammar(
        exact_flag_pattern(
            "sbv", "--short", "--branch", "--porcelain", "--long", also="-u(no|normal|all)?"
        ),
        rest=None,
    ),
    "log": ProgramGrammar(
        exact_flag_pattern("pis", *HISTORY, *CHANGES, also=rf"-\d{{1,6}}|{SHAPE}|{CONTEXT_LINES}"),
        OF_HISTORY,
        rest=REVISION,
    ),
    "show": ProgramGrammar(
        exact_flag_pattern("ps", *HISTORY, *CHANGES, also=f"{SHAPE}|{CONTEXT_LINES}"),
        OF_HISTORY,
        rest=REVISION,
    ),
    "diff": ProgramGrammar(
        exact_flag_pattern("pbwRsz", *CHANGES, also=CONTEXT_LINES), rest=REVISION
    ),
    "blame": ProgramGrammar(exact_flag_pattern("lsew"), {"-L": REVISION}, rest=REVISION),
    "shortlog": ProgramGrammar(exact_flag_pattern("sne"), rest=REVISION),
    "branch": ProgramGrammar(
        exact_flag_pattern("arv", "--list", "--show-current", "--all"), rest=None
    ),
    "tag": ProgramGrammar(exact_flag_pattern("l", "--list"), rest=None),
    "ls-files": ProgramGrammar(
        exact_flag_pattern("cdmosz", "--others", "--exclude-standard", "--modified", "--deleted"),
        rest=REVISION,
    ),
    "rev-parse": ProgramGrammar(
        exact_flag_pattern("", "--short", "--abbrev-ref", "--verify"), rest=REVISION
    ),
    "describe": ProgramGrammar(
        exact_flag_pattern("", "--tags", "--always", "--all", "--long"), rest=REVISION
    ),
}
QUIET: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("log", "show", "diff"), ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    ),
    "status": ("--ignore-submodules=all",),
}
SAFE_SETTINGS = (
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.pager=cat",
    "-c",
    "diff.autoRefreshIndex=false",
)
ISOLATION_SCRIPT = """\
umask 077; here=$(pwd -P); fresh=$(mktemp -d /tmp/git.XXXXXXXX) || exit 126
cp "$here/.git/HEAD" "$fresh/HEAD" 2>/dev/null || { echo 'fatal: not a git repository with a .git directory'; exit 128; }
for one in objects refs packed-refs index logs info shallow; do
  if [ -e "$here/.git/$one" ]; then ln -s "$here/.git/$one" "$fresh/$one"; fi
done
export GIT_DIR="$fresh" GIT_WORK_TREE="$here" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_OPTIONAL_LOCKS=0
export GIT_PAGER=cat GIT_EDITOR=false GIT_TERMINAL_PROMPT=0 GIT_ATTR_NOSYSTEM=1 GIT_NO_LAZY_FETCH=1
exec git "$@"
"""


class GitGrammar:
    """The grammar of git."""

    def allows(self, words: Sequence[str]) -> bool:
        """A verb that looks, with flags that look. Nothing may stand before the verb."""
        if list(words) == ["--version"]:
            return True
        if not words or words[0] not in VERBS:
            return False
        names = [word for word in words[1:] if not word.startswith("-")]
        return VERBS[words[0]].allows([word for word in words[1:] if word != "--"]) and all(
            map(_stays_inside, names)
        )


def isolate_git(words: Sequence[str]) -> list[str]:
    """The same command, run where no settings of the repository are read. Only for words that the grammar allows."""
    verb, *rest = words[1:]
    if verb not in VERBS:
        return list(words)
    return [
        "/bin/sh",
        "-c",
        ISOLATION_SCRIPT,
        "git",
        *SAFE_SETTINGS,
        verb,
        *QUIET.get(verb, ()),
        *rest,
    ]


def _stays_inside(word: str) -> bool:
    """Two dots stand between two revisions; as a step of a path they lead out."""
    return is_inside(word.replace(":", "/"))
