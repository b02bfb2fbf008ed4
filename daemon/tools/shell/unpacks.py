"""Whether a command unpacks or fetches what nobody knows yet, by its own words or by those of the
scripts and build files that it runs.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from daemon.tools.shell.named_files import find_named_files
from daemon.tools.shell.started import PROGRAMMING, TEXT, find_started

UNPACKS = re.compile(  # what is in an archive or comes from a repository is nobody's yet
    r"\b(?:unzip|7z\w*|unrar|unar|bsdtar|cpio|shutil|zipfile|tarfile|jar\s+-?x)\b"
    r"|\btar\b[^;&|]*(?:\s-[a-zA-Z]*x|--extract|--get)|\btar\s+[a-zA-Z]*x[a-zA-Z]*(?:\s|$)"
    r"|\b(?:gunzip|unxz|bunzip2|patch|dpkg|zstd\s+-d|(?:gzip|xz|bzip2)\s+-\w*d|ar\s+-?x)\b"
    r"|\bgit\b[^;&|]*\s(?:clone|pull|fetch|am|apply|submodule|bundle|switch|merge|cherry-pick"
    r"|worktree\s+add|checkout(?!\s+(?:--|\.)(?:\s|$)))\b"
)
NAMED_PROGRAM = re.compile(r"\$[({]?(TAR|UNZIP|GIT|GUNZIP)[)}]?", re.IGNORECASE)
NO_COMMAND = re.compile(r"\bpatch\b(?!\s+-|[^|]*<)|^\s*#.*|\s#\s.*")  # a word of many programs
BY_MODULE = re.compile(r"unpack_archive\(|\.extract(?:all)?\(|\bextractAll\w*\(")
RULE = re.compile(r"([\w./ -]+?)\s*::?(?!=)")
CALLS_TOOL = re.compile(r"\b(?:make|npm|pnpm|yarn|just|task)\s+\S")
MAX_CALLS, MAX_DEPTH = 12, 2
PIECE, OVERLAP = 1000, 100  # of a long line: the time is in proportion to its length
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


def unpacks(root: Path, command: str | Sequence[str], depth: int = 0) -> bool:
    """As far as its files are looked into for a yes to it. In a thread."""
    line = command if isinstance(command, str) else " ".join(command)
    if UNPACKS.search(line):
        return True
    files = find_named_files(root, command)
    found = {path: one.text for path, one in files.items() if one.text and not one.by_itself}
    goals = set(re.findall(r"[\w.:-]+", line)) if len(found) == 1 else set[str]()
    if re.search(r"[$`*?\[{]", line):
        goals = set()
    rows = [row for path, text in found.items() for row in _list_rows(path, text, goals)]
    if any(UNPACKS.search(one) for row in rows for one in (row, row.lower())):
        return True
    called = [*dict.fromkeys(row for row in rows if CALLS_TOOL.search(row))][:MAX_CALLS]
    return depth < MAX_DEPTH and any(unpacks(root, row, depth + 1) for row in called)


def _list_rows(path: str, text: str, goals: set[str]) -> list[str]:
    """The lines that may be a command."""
    name, first = PurePosixPath(path).name, text.partition("\n")[0]
    kind = f"{name} {first}" if first.startswith("#!") else name
    if name == "package.json":
        rows = _select(_read_scripts(text), goals)
    elif name in MAKEFILES:
        rows = _select(_read_rules(text), goals)
    elif PROGRAMMING.search(kind):
        rows = [" ".join(words) for words in find_started(kind, text) or ()]
        for row in text.splitlines():
            rows.append(" ".join(one or other for one, other in TEXT.findall(row)))
        has_module = re.search(r"tarfile|zipfile|shutil|[zZ]ip", text)
        rows += ["unzip"] * bool(has_module and BY_MODULE.search(text))
    else:
        rows = text.replace("\\\n", " ").splitlines()
    pieces = (row[at : at + PIECE] for row in rows for at in range(0, len(row), PIECE - OVERLAP))
    return [NO_COMMAND.sub("", NAMED_PROGRAM.sub(r"\1", one)) for one in pieces]


def _read_scripts(text: str) -> Mapping[str, str]:
    """By name; all of a text that is no JSON."""
    try:
        scripts = json.loads(text)["scripts"]
    except (ValueError, KeyError, TypeError):
        return {"": text}
    return {str(name): str(line) for name, line in scripts.items()} if scripts else {}


def _read_rules(text: str) -> Mapping[str, str]:
    """What a Makefile does for each target; for "" what belongs to all."""
    rules, names = {"": ""}, [""]
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1] not in ("\t", " ", "#", "") and (rule := RULE.match(line[:PIECE])):
            names = rule[1].split()
        elif line[:1].strip():
            names = [""]
        for name in names:
            rules[name] = f"{rules.get(name, '')}{line}\n"
    return rules


def _select(parts: Mapping[str, str], goals: set[str]) -> Sequence[str]:
    """The lines of what these words ask for and of what that names; of everything for no word."""
    wanted = [*_closure(parts, goals & parts.keys())]
    chosen = [*wanted, ""] if wanted else [*parts]
    return [line for name in chosen for line in parts.get(name, "").splitlines()]


def _closure(parts: Mapping[str, str], names: set[str]) -> Iterator[str]:
    waiting, seen = [*names], set[str]()
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        yield name
        words = set(re.findall(r"[\w./:-]+", parts[name])) | {f"pre{name}", f"post{name}"}
        waiting += [one for part in words for one in (part, part.rstrip(":")) if one in parts]
