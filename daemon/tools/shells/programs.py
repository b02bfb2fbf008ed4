"""The programs people look at things with, and what of them is harmless: nothing that writes, runs, waits or leads out.

Left out on purpose, though they seem to read only: awk, sed, less, man, xargs, tar, env, make and whatever runs code or a pager.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon.tools.shells.finding import Find
from daemon.tools.shells.git import Git
from daemon.tools.shells.grammar import ANY, NOTHING, NUMBER, PATH, TEXT, Grammar, Pattern, Program, flags

FIELDS = re.compile(r"\d{1,4}(-\d{0,4})?(,\d{1,4}(-\d{0,4})?)*|-\d{1,4}")
SIGN = re.compile(r".|\\t")
KEY = re.compile(r"\d{1,3}(\.\d{1,3})?[bdfginrMVh]*(,\d{1,3}(\.\d{1,3})?[bdfginrMVh]*)?")
SMALL = re.compile(r"\d{1,4}")
SHORT_NUMBER = re.compile(r"-?\d{1,6}(\.\d{1,2})?")
SHORT_FORMAT = re.compile(r"(?!-|.*\d{5})[^\x00-\x08\x0a-\x1f\x7f*]{0,300}")
FORMAT = re.compile(r"\+[^\x00-\x1f\x7f]{0,200}")
LINES = re.compile(r"[+-]?\d{1,9}")
OF_LINES: Mapping[str, Pattern] = {"-n": LINES, "-c": LINES, "--lines": LINES, "--bytes": LINES}
SEARCHES: Mapping[str, Pattern] = {
    **dict.fromkeys(("-A", "-B", "-C", "-m", "--max-count", "--after-context", "--before-context", "--context"), SMALL),
    **dict.fromkeys(("--include", "--exclude", "--exclude-dir", "--glob"), TEXT),
}
SEARCH = flags(
    "EFGHIVabchilLnoqrsvwxyz", "--color=never", "--color=auto", "--recursive", "--ignore-case", "--line-number", "--count",
    "--files-with-matches", "--word-regexp", "--fixed-strings", "--invert-match", "--extended-regexp", also=r"-\d{1,4}",
)  # fmt: skip


def _says_version(*words: str) -> Program:
    return Program(re.compile("|".join(map(re.escape, words))), rest=None)


@dataclass(frozen=True, slots=True)
class Only:
    """A grammar of one kind of word, for programs to which all words are text."""

    kind: Pattern

    def allows(self, words: Sequence[str]) -> bool:
        """Every word is of the kind."""
        return all(self.kind.fullmatch(word) for word in words)


SHA = Program(flags("btz"))
LOOKING: Mapping[str, Grammar] = {
    "ls": Program(flags("1aAlhrtSRdFpisnogGUvXCx", "--all", "--human-readable", "--reverse", "--recursive", "--directory")),
    "cat": Program(flags("nbsAETev", "--number", "--show-all")),
    "head": Program(flags("qv", also=r"-\d{1,9}"), OF_LINES),
    "tail": Program(flags("qv", also=r"-\d{1,9}"), OF_LINES),
    "wc": Program(flags("clmwL", "--lines", "--words", "--bytes", "--chars")),
    "stat": Program(flags("tL"), {"-c": TEXT, "--format": TEXT}),
    "du": Program(flags("shkmcab", "--summarize", "--human-readable"), {"-d": SMALL, "--max-depth": SMALL}),
    "df": Program(flags("hkTi", "--human-readable")),
    "file": Program(flags("bi", "--brief", "--mime-type", "--mime")),
    "tree": Program(flags("adfFhDrtCsp", "--dirsfirst", "--du"), {"-L": SMALL, "-I": TEXT, "-P": TEXT}),
    "readlink": Program(flags("fem")),
    "realpath": Program(flags("emsz")),
    "basename": Program(flags("az"), {"-s": TEXT}, rest=PATH),
    "dirname": Program(flags("z")),
    "strings": Program(flags("a"), {"-n": SMALL}),
    "od": Program(flags("bcdoxv"), {"-A": TEXT, "-t": TEXT, "-N": NUMBER, "-j": NUMBER}),
    "hexdump": Program(flags("Cbcdox"), {"-n": NUMBER, "-s": NUMBER}),
}
TEXTS: Mapping[str, Grammar] = {
    "grep": Program(SEARCH, SEARCHES, operands=(TEXT,)),
    "egrep": Program(SEARCH, SEARCHES, operands=(TEXT,)),
    "fgrep": Program(SEARCH, SEARCHES, operands=(TEXT,)),
    "rg": Program(flags("FHIiclnosSvwx"), {"-A": SMALL, "-B": SMALL, "-C": SMALL, "-m": SMALL, "-g": TEXT, "-t": TEXT}, (TEXT,)),
    "sort": Program(flags("bdfghiMnRrVuszc"), {"-k": KEY, "-t": SIGN}),
    "uniq": Program(flags("cdiuz"), {"-f": SMALL, "-s": SMALL, "-w": SMALL}, operands=(PATH,), rest=None),
    "cut": Program(flags("sz"), {"-f": FIELDS, "-c": FIELDS, "-b": FIELDS, "-d": SIGN}),
    "tr": Program(flags("cCdst"), operands=(TEXT, TEXT), rest=None),
    "nl": Program(flags(""), {"-b": TEXT, "-w": SMALL}),
    "tac": Program(flags("")),
    "rev": Program(flags("")),
    "fold": Program(flags("bs"), {"-w": SMALL}),
    "column": Program(flags("tx"), {"-s": SIGN, "-c": SMALL}),
    "paste": Program(flags("sz"), {"-d": SIGN}),
    "comm": Program(flags("123z")),
    "diff": Program(flags("uqrywbBiNac", "--brief", "--unified", "--side-by-side"), {"-U": SMALL}, (PATH, PATH), None),
    "cmp": Program(flags("sl"), {}, (PATH, PATH), None),
    "jq": Program(flags("rcSesnMaj", "--raw-output", "--compact-output", "--sort-keys", "--slurp"), operands=(TEXT,)),
    "sha1sum": SHA, "sha256sum": SHA, "sha512sum": SHA, "md5sum": SHA, "b2sum": SHA, "cksum": Program(flags("")),
}  # fmt: skip
SAYING: Mapping[str, Grammar] = {
    "echo": Only(ANY),
    "printf": Program(operands=(SHORT_FORMAT,), rest=ANY),
    "seq": Program(flags("w"), {"-s": TEXT}, operands=(SHORT_NUMBER,) * 3, rest=None),
    "true": Only(ANY), "false": Only(ANY),
    "pwd": Program(flags("LP"), rest=None),
    "whoami": Program(flags(""), rest=None),
    "id": Program(flags("ugnGr"), rest=None),
    "groups": Program(flags(""), rest=None),
    "uname": Program(flags("asnrvmpio"), rest=None),
    "arch": Program(flags(""), rest=None),
    "hostname": Program(NOTHING, rest=None),
    "uptime": Program(flags("ps"), rest=None),
    "nproc": Program(flags("", "--all"), rest=None),
    "free": Program(flags("hbkmgt"), rest=None),
    "cal": Program(flags("13ym"), operands=(SMALL, SMALL), rest=None),
    "date": Program(flags("uR", also="-I[a-z]*|--utc|--iso-8601"), {"-d": TEXT, "--date": TEXT}, (FORMAT,), None),
    "python": _says_version("--version", "-V"), "python3": _says_version("--version", "-V"),
    "node": _says_version("--version", "-v"), "gcc": _says_version("--version"), "bash": _says_version("--version"),
}  # fmt: skip
PROGRAMS: Mapping[str, Grammar] = {**LOOKING, **TEXTS, **SAYING, "find": Find(), "git": Git()}
