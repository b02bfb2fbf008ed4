"""The programs people look at things with, and what of them is harmless: nothing that writes, runs, waits or leads out.

Left out on purpose, though they seem to read only: awk, sed, less, man, xargs, tar, env, make and whatever runs code or a pager.

Commands that look through whole folders, told to pass over what is protected: nobody was asked about that.

A path that is named in the command is looked at elsewhere (tools/safe.py); this is for what is found on the way.

Commands that need no approval: a grammar of harmless arguments per program, and never a shell (DESIGN 6).

The sandbox is the boundary; this only spares a question. Only what the user names in tools.shell.allowed is looked at.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from daemon.core import value
from daemon.tools.arguments import is_protected
from daemon.tools.shell.command_grammar import (
    ANY,
    NOTHING,
    NUMBER,
    PATH,
    TEXT,
    FindGrammar,
    GitGrammar,
    Grammar,
    Pattern,
    ProgramGrammar,
    flag_pattern,
    isolate_git,
)
from daemon.tools.shell.parse import parse_line
from daemon.tools.shell.sandbox import SandboxKind

FIELDS = re.compile(r"\d{1,4}(-\d{0,4})?(,\d{1,4}(-\d{0,4})?)*|-\d{1,4}")
SIGN = re.compile(r".|\\t")
KEY = re.compile(r"\d{1,3}(\.\d{1,3})?[bdfginrMVh]*(,\d{1,3}(\.\d{1,3})?[bdfginrMVh]*)?")
SMALL = re.compile(r"\d{1,4}")
SHORT_NUMBER = re.compile(r"-?\d{1,6}(\.\d{1,2})?")
SHORT_FORMAT = re.compile(r"(?!-|.*\d{5})[^\x00-\x08\x0a-\x1f\x7f*]{0,300}")
FORMAT = re.compile(r"\+[^\x00-\x1f\x7f]{0,200}")
LINE_COUNT = re.compile(r"[+-]?\d{1,9}")
LINE_OPTIONS: Mapping[str, Pattern] = {
    "-n": LINE_COUNT,
    "-c": LINE_COUNT,
    "--lines": LINE_COUNT,
    "--bytes": LINE_COUNT,
}
SEARCH_OPTIONS: Mapping[str, Pattern] = {
    **dict.fromkeys(
        ("-A", "-B", "-C", "-m", "--max-count", "--after-context", "--before-context", "--context"),
        SMALL,
    ),
    **dict.fromkeys(("--include", "--exclude", "--exclude-dir", "--glob"), TEXT),
}
SEARCH_FLAGS = flag_pattern(
    "EFGHIVabchilLnoqrsvwxyz", "--color=never", "--color=auto", "--recursive", "--ignore-case", "--line-number", "--count",
    "--files-with-matches", "--word-regexp", "--fixed-strings", "--invert-match", "--extended-regexp", also=r"-\d{1,4}",
)  # fmt: skip


def _version_only(*words: str) -> ProgramGrammar:
    return ProgramGrammar(re.compile("|".join(map(re.escape, words))), rest=None)


@value
class WordsGrammar:
    """A grammar of one kind of word, for programs to which all words are text."""

    kind: Pattern

    def allows(self, words: Sequence[str]) -> bool:
        """Every word is of the kind."""
        return all(self.kind.fullmatch(word) for word in words)


SHA = ProgramGrammar(flag_pattern("btz"))
FILE_PROGRAMS: Mapping[str, Grammar] = {
    "ls": ProgramGrammar(
        flag_pattern(
            "1aAlhrtSRdFpisnogGUvXCx",
            "--all",
            "--human-readable",
            "--reverse",
            "--recursive",
            "--directory",
        )
    ),
    "cat": ProgramGrammar(flag_pattern("nbsAETev", "--number", "--show-all")),
    "head": ProgramGrammar(flag_pattern("qv", also=r"-\d{1,9}"), LINE_OPTIONS),
    "tail": ProgramGrammar(flag_pattern("qv", also=r"-\d{1,9}"), LINE_OPTIONS),
    "wc": ProgramGrammar(flag_pattern("clmwL", "--lines", "--words", "--bytes", "--chars")),
    "stat": ProgramGrammar(flag_pattern("tL"), {"-c": TEXT, "--format": TEXT}),
    "du": ProgramGrammar(
        flag_pattern("shkmcab", "--summarize", "--human-readable"),
        {"-d": SMALL, "--max-depth": SMALL},
    ),
    "df": ProgramGrammar(flag_pattern("hkTi", "--human-readable")),
    "file": ProgramGrammar(flag_pattern("bi", "--brief", "--mime-type", "--mime")),
    "tree": ProgramGrammar(
        flag_pattern("adfFhDrtCsp", "--dirsfirst", "--du"), {"-L": SMALL, "-I": TEXT, "-P": TEXT}
    ),
    "readlink": ProgramGrammar(flag_pattern("fem")),
    "realpath": ProgramGrammar(flag_pattern("emsz")),
    "basename": ProgramGrammar(flag_pattern("az"), {"-s": TEXT}, rest=PATH),
    "dirname": ProgramGrammar(flag_pattern("z")),
    "strings": ProgramGrammar(flag_pattern("a"), {"-n": SMALL}),
    "od": ProgramGrammar(
        flag_pattern("bcdoxv"), {"-A": TEXT, "-t": TEXT, "-N": NUMBER, "-j": NUMBER}
    ),
    "hexdump": ProgramGrammar(flag_pattern("Cbcdox"), {"-n": NUMBER, "-s": NUMBER}),
}
TEXT_PROGRAMS: Mapping[str, Grammar] = {
    "grep": ProgramGrammar(SEARCH_FLAGS, SEARCH_OPTIONS, operands=(TEXT,)),
    "egrep": ProgramGrammar(SEARCH_FLAGS, SEARCH_OPTIONS, operands=(TEXT,)),
    "fgrep": ProgramGrammar(SEARCH_FLAGS, SEARCH_OPTIONS, operands=(TEXT,)),
    "rg": ProgramGrammar(flag_pattern("FHIiclnosSvwx"), {"-A": SMALL, "-B": SMALL, "-C": SMALL, "-m": SMALL, "-g": TEXT, "-t": TEXT}, (TEXT,)),
    "sort": ProgramGrammar(flag_pattern("bdfghiMnRrVuszc"), {"-k": KEY, "-t": SIGN}),
    "uniq": ProgramGrammar(flag_pattern("cdiuz"), {"-f": SMALL, "-s": SMALL, "-w": SMALL}, operands=(PATH,), rest=None),
    "cut": ProgramGrammar(flag_pattern("sz"), {"-f": FIELDS, "-c": FIELDS, "-b": FIELDS, "-d": SIGN}),
    "tr": ProgramGrammar(flag_pattern("cCdst"), operands=(TEXT, TEXT), rest=None),
    "nl": ProgramGrammar(flag_pattern(""), {"-b": TEXT, "-w": SMALL}),
    "tac": ProgramGrammar(flag_pattern("")),
    "rev": ProgramGrammar(flag_pattern("")),
    "fold": ProgramGrammar(flag_pattern("bs"), {"-w": SMALL}),
    "column": ProgramGrammar(flag_pattern("tx"), {"-s": SIGN, "-c": SMALL}),
    "paste": ProgramGrammar(flag_pattern("sz"), {"-d": SIGN}),
    "comm": ProgramGrammar(flag_pattern("123z")),
    "diff": ProgramGrammar(flag_pattern("uqrywbBiNac", "--brief", "--unified", "--side-by-side"), {"-U": SMALL}, (PATH, PATH), None),
    "cmp": ProgramGrammar(flag_pattern("sl"), {}, (PATH, PATH), None),
    "jq": ProgramGrammar(flag_pattern("rcSesnMaj", "--raw-output", "--compact-output", "--sort-keys", "--slurp"), operands=(TEXT,)),
    "sha1sum": SHA, "sha256sum": SHA, "sha512sum": SHA, "md5sum": SHA, "b2sum": SHA, "cksum": ProgramGrammar(flag_pattern("")),
}  # fmt: skip
INFO_PROGRAMS: Mapping[str, Grammar] = {
    "echo": WordsGrammar(ANY),
    "printf": ProgramGrammar(operands=(SHORT_FORMAT,), rest=ANY),
    "seq": ProgramGrammar(flag_pattern("w"), {"-s": TEXT}, operands=(SHORT_NUMBER,) * 3, rest=None),
    "true": WordsGrammar(ANY), "false": WordsGrammar(ANY),
    "pwd": ProgramGrammar(flag_pattern("LP"), rest=None),
    "whoami": ProgramGrammar(flag_pattern(""), rest=None),
    "id": ProgramGrammar(flag_pattern("ugnGr"), rest=None),
    "groups": ProgramGrammar(flag_pattern(""), rest=None),
    "uname": ProgramGrammar(flag_pattern("asnrvmpio"), rest=None),
    "arch": ProgramGrammar(flag_pattern(""), rest=None),
    "hostname": ProgramGrammar(NOTHING, rest=None),
    "uptime": ProgramGrammar(flag_pattern("ps"), rest=None),
    "nproc": ProgramGrammar(flag_pattern("", "--all"), rest=None),
    "free": ProgramGrammar(flag_pattern("hbkmgt"), rest=None),
    "cal": ProgramGrammar(flag_pattern("13ym"), operands=(SMALL, SMALL), rest=None),
    "date": ProgramGrammar(flag_pattern("uR", also="-I[a-z]*|--utc|--iso-8601"), {"-d": TEXT, "--date": TEXT}, (FORMAT,), None),
    "python": _version_only("--version", "-V"), "python3": _version_only("--version", "-V"),
    "node": _version_only("--version", "-v"), "gcc": _version_only("--version"), "bash": _version_only("--version"),
}  # fmt: skip
PROGRAMS: Mapping[str, Grammar] = {
    **FILE_PROGRAMS,
    **TEXT_PROGRAMS,
    **INFO_PROGRAMS,
    "find": FindGrammar(),
    "git": GitGrammar(),
}


Exclude = Callable[[Sequence[str], Sequence[str]], list[str] | None]
ONE_PATH = ("-L", "--follow")


def exclude_protected(words: Sequence[str], protected: Sequence[str]) -> list[str] | None:
    """The same command without these patterns of paths; None where that cannot be said to the program."""
    spare = EXCLUDERS.get(words[0])
    return list(words) if spare is None else spare(words, protected)


def _exclude_grep(words: Sequence[str], protected: Sequence[str]) -> list[str] | None:
    if not _is_set(words, "r", "--recursive"):
        return list(words)
    names = _protected_names(protected)
    more = [f"{flag}={name}" for name in names or () for flag in ("--exclude", "--exclude-dir")]
    return None if names is None else [*words, *more]


def _exclude_diff(words: Sequence[str], protected: Sequence[str]) -> list[str] | None:
    if not _is_set(words, "r", "--recursive"):
        return list(words)
    names = _protected_names(protected)
    return None if names is None else [*words, *(f"--exclude={name}" for name in names)]


def _exclude_rg(words: Sequence[str], protected: Sequence[str]) -> list[str]:
    return [
        *words,
        *(
            f"--glob=!{place}"
            for pattern in protected
            for place in (f"**/{pattern}", f"**/{pattern}/**")
        ),
    ]


def _exclude_git(words: Sequence[str], protected: Sequence[str]) -> list[str]:
    """What is said of a single path needs no more."""
    if words[1:2] not in (["log"], ["show"], ["diff"]) or any(
        word.startswith(ONE_PATH) for word in words
    ):
        return list(words)
    places = (place for pattern in protected for place in (f"**/{pattern}", f"**/{pattern}/**"))
    return [*words, *(f":(exclude,glob){place}" for place in places)]


def _is_set(words: Sequence[str], letters: str, long: str) -> bool:
    short = (word for word in words[1:] if word.startswith("-") and not word.startswith("--"))
    return long in words or any(letter in word for word in short for letter in letters)


def _protected_names(protected: Sequence[str]) -> list[str] | None:
    """These programs know names only. A hidden folder is passed over whole; of another more would be left out than is meant."""
    parts = [PurePosixPath(pattern.lstrip("/")).parts for pattern in protected]
    if any(len(steps) > 1 and not steps[0].startswith(".") for steps in parts):
        return None
    return list(dict.fromkeys(steps[0] for steps in parts if steps))


EXCLUDERS: Mapping[str, Exclude] = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), _exclude_grep),
    "diff": _exclude_diff,
    "rg": _exclude_rg,
    "git": _exclude_git,
}


ASK_ALWAYS = ("network", "background")
ISOLATED = frozenset({"git"})
# Whoever writes this in a list of words believes that a shell reads it; then it does not do what they think, so it is asked.
SHELL_SYNTAX = re.compile(r"[\d<>|&;]*[<>|&;]|>.*|.*(`|\$\(|\$\{|[<>]\().*|.*;", re.DOTALL)


def list_programs() -> tuple[str, ...]:
    """The programs that have a grammar."""
    return tuple(PROGRAMS)


def parse_words(arguments: Mapping[str, object]) -> list[str] | None:
    """The command as words, if it needs no shell to be understood: a list of words, or a line of plain and quoted ones."""
    argv, command = arguments.get("argv"), arguments.get("command")
    if isinstance(argv, list) and argv and not command:
        return [str(word) for word in argv]
    if isinstance(command, str) and not argv:
        plain = parse_line(command).plain
        return list(plain) if plain else None
    return None


def is_safe(words: Sequence[str] | None, allowed: Sequence[str]) -> bool:
    """The program is allowed, by its bare name, and its grammar knows every argument as harmless."""
    if not words or words[0] not in allowed or words[0] not in PROGRAMS:
        return False
    return not any(map(SHELL_SYNTAX.fullmatch, words)) and PROGRAMS[words[0]].allows(
        list(words[1:])
    )


@value
class SafeCommands:
    """The rule of the shell tool. `protected` are the patterns of paths that nobody touches without a question."""

    allowed: Sequence[str]
    kind: SandboxKind
    protected: Sequence[str] = ()

    def __call__(self, arguments: Mapping[str, object]) -> bool:
        """This call needs no approval."""
        return self.rewrite(arguments) is not None

    def rewrite(self, arguments: Mapping[str, object]) -> list[str] | None:
        """The words to run, without a shell; None where it must be asked. With no sandbox always: a link may lead anywhere."""
        if (
            not self.allowed
            or self.kind == "none"
            or any(arguments.get(name) for name in ASK_ALWAYS)
        ):
            return None
        words = parse_words(arguments)
        if words is None or not is_safe(words, self.allowed) or self._touches(words):
            return None
        words = exclude_protected(words, self.protected)
        if words is None:
            return None
        if words[0] not in ISOLATED:
            return words
        return isolate_git(words) if self.kind == "bubblewrap" else None

    def _touches(self, words: Sequence[str]) -> bool:
        places = (part for word in words[1:] for part in word.replace(":", "=").split("=") if part)
        return any(is_protected(PurePosixPath(place), self.protected) for place in places)
