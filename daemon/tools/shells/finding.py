"""find: places first, then tests and the actions that only print. All that runs, writes or deletes is unknown here."""

import re
from collections.abc import Mapping, Sequence

from daemon.tools.shells.grammar import PATH, TEXT, Pattern, is_of

AGE = re.compile(r"[+-]?\d{1,9}")
SIZE = re.compile(r"[+-]?\d{1,9}[cwbkMG]?")
DEPTH = re.compile(r"\d{1,3}")
KINDS = re.compile(r"[bcdpfls](,[bcdpfls])*")
TESTS: Mapping[str, Pattern] = {
    **dict.fromkeys(("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex"), TEXT),
    **dict.fromkeys(("-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin"), AGE),
    **dict.fromkeys(("-maxdepth", "-mindepth"), DEPTH),
    "-type": KINDS,
    "-size": SIZE,
    "-newer": PATH,
    "-printf": TEXT,
}
JOINTS = ("!", "-not", "-o", "-or", "-a", "-and", "(", ")")
ALONE = frozenset((*JOINTS, "-empty", "-print", "-print0", "-ls", "-prune", "-depth", "-quit"))


class Find:
    """The grammar of find."""

    def allows(self, words: Sequence[str]) -> bool:
        """Every place lies inside, every test is known."""
        waiting = list(words)
        while waiting and not _is_test(waiting[0]):
            if not is_of(PATH, waiting.pop(0)):
                return False
        while waiting:
            word = waiting.pop(0)
            if word in ALONE:
                continue
            if word not in TESTS or not waiting or not is_of(TESTS[word], waiting.pop(0)):
                return False
        return True


def _is_test(word: str) -> bool:
    return word in ALONE or word.startswith("-")
