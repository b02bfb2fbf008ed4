"""git, looking only. A repository's own settings can name programs to run (a filter, a monitor, a viewer of changes), so none
of them are read: the command works on a second directory, made anew, that holds the objects and the branches and no settings.
"""

import re
from collections.abc import Mapping, Sequence

from daemon.tools.shells.grammar import NUMBER, Pattern, Program, is_inside, only_flags

REVISION = re.compile(r"(?![-/~:])[\w./@^~{}:,=+* -]{1,300}")
DATE = re.compile(r"[\w:+. /-]{1,40}")
WORDS = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
# Without signatures, which another program looks at. Its value stands behind `=` only: git takes the next word for a flag.
SHAPE = r"--(pretty|format)(?!.*%[-+ ]?G)(=[^\x00-\x1f\x7f(]{0,200})?"
LINES = r"(-U|--unified=)\d{1,6}"
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
    "--author": WORDS, "--grep": WORDS, "-L": REVISION,
}  # fmt: skip
VERBS: Mapping[str, Program] = {
    "status": Program(only_flags("sbv", "--short", "--branch", "--porcelain", "--long", also="-u(no|normal|all)?"), rest=None),
    "log": Program(only_flags("pis", *HISTORY, *CHANGES, also=rf"-\d{{1,6}}|{SHAPE}|{LINES}"), OF_HISTORY, rest=REVISION),
    "show": Program(only_flags("ps", *HISTORY, *CHANGES, also=f"{SHAPE}|{LINES}"), OF_HISTORY, rest=REVISION),
    "diff": Program(only_flags("pbwRsz", *CHANGES, also=LINES), rest=REVISION),
    "blame": Program(only_flags("lsew"), {"-L": REVISION}, rest=REVISION),
    "shortlog": Program(only_flags("sne"), rest=REVISION),
    "branch": Program(only_flags("arv", "--list", "--show-current", "--all"), rest=None),
    "tag": Program(only_flags("l", "--list"), rest=None),
    "ls-files": Program(only_flags("cdmosz", "--others", "--exclude-standard", "--modified", "--deleted"), rest=REVISION),
    "rev-parse": Program(only_flags("", "--short", "--abbrev-ref", "--verify"), rest=REVISION),
    "describe": Program(only_flags("", "--tags", "--always", "--all", "--long"), rest=REVISION),
}
QUIET: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("log", "show", "diff"), ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")),
    "status": ("--ignore-submodules=all",),
}
ALWAYS = ("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "diff.autoRefreshIndex=false")
SCRIPT = """\
umask 077; here=$(pwd -P); fresh=$(mktemp -d /tmp/git.XXXXXXXX) || exit 126
cp "$here/.git/HEAD" "$fresh/HEAD" 2>/dev/null || { echo 'fatal: not a git repository with a .git directory'; exit 128; }
for one in objects refs packed-refs index logs info shallow; do
  if [ -e "$here/.git/$one" ]; then ln -s "$here/.git/$one" "$fresh/$one"; fi
done
export GIT_DIR="$fresh" GIT_WORK_TREE="$here" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_OPTIONAL_LOCKS=0
export GIT_PAGER=cat GIT_EDITOR=false GIT_TERMINAL_PROMPT=0 GIT_ATTR_NOSYSTEM=1 GIT_NO_LAZY_FETCH=1
exec git "$@"
"""


class Git:
    """The grammar of git."""

    def allows(self, words: Sequence[str]) -> bool:
        """A verb that looks, with flags that look. Nothing may stand before the verb."""
        if list(words) == ["--version"]:
            return True
        if not words or words[0] not in VERBS:
            return False
        names = [word for word in words[1:] if not word.startswith("-")]
        return VERBS[words[0]].allows([word for word in words[1:] if word != "--"]) and all(map(_stays, names))


def without_settings(words: Sequence[str]) -> list[str]:
    """The same command, run where no settings of the repository are read. Only for words that the grammar allows."""
    verb, *rest = words[1:]
    if verb not in VERBS:
        return list(words)
    return ["/bin/sh", "-c", SCRIPT, "git", *ALWAYS, verb, *QUIET.get(verb, ()), *rest]


def _stays(word: str) -> bool:
    """Two dots stand between two revisions; as a step of a path they lead out."""
    return is_inside(word.replace(":", "/"))
