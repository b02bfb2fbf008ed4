"""What runs later, outside the sandbox, when its owner only uses git, a shell, an editor or an
environment in the workspace: hooks, settings, start-up files, launchers.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from daemon.tools.base import ToolError
from daemon.tools.layers.owners_programs import SETTINGS, OwnersPrograms

Kind = Literal[
    "repository", "settings", "hooks", "launchers", "plain", "socket", "steps", "compiled", "index"
]
NAMES = frozenset(
    (".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
     ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".inputrc", ".gitconfig",
     ".envrc", ".direnv", ".vscode", ".idea", ".husky", ".devcontainer", ".mcp.json", ".claude",
     ".cursor", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".gdbinit", ".lldbinit", ".yarnrc",
     ".yarnrc.yml", ".npmrc", ".pnpmfile.cjs", "bunfig.toml", ".pre-commit-config.yaml",
     "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", ".huskyrc", ".cargo",
     ".mise.toml", "mise.toml", ".mise", "mise", "mise.local.toml", ".mise.local.toml",
     ".dir-locals.el", ".dir-locals-2.el", ".devcontainer.json", ".githooks", ".pdbrc", ".perldb",
     ".Rprofile", ".Renviron", ".RData", ".irbrc", ".pryrc", ".rdbgrc", ".byebugrc", ".ghci",
     ".ocamlinit", ".iex.exs", ".erlang", ".psysh.php", ".octaverc", ".helix", ".zed", ".vim",
     ".nvim", ".lvimrc", ".local.vimrc", ".vimrc.local", "_vimrc", ".ycm_extra_conf.py", ".fleet",
     ".theia", ".gemini", ".codex", ".windsurf", ".kiro", ".roo", ".opencode", "opencode.json",
     ".aider.conf.yml", ".autoenv", ".autoenv.zsh", ".overcommit.yml")
)  # fmt: skip
PATTERN = re.compile(
    r".*\.code-workspace|\.lintstagedrc.*|lint-staged\.config\..*|\.huskyrc\..*|\.?mise\..*\.toml"
    r"|\.autoenv.*"
)
WITHIN: Mapping[str, frozenset[str]] = {
    ".config": frozenset(("git", "fish", "nvim", "helix", "zed", "mise", "mise.toml", "direnv",
                          "systemd", "autostart", "lefthook.yml")),
    ".hg": frozenset(("hgrc", "hgrc-not-shared")),
}  # fmt: skip
PACKAGES = frozenset(("site-packages", "dist-packages"))
CUSTOMIZE = frozenset(("sitecustomize", "usercustomize"))
ENVIRONMENTS = frozenset((".venv", "venv", ".env", "env"))
POINTERS = ("commondir", "gitdir")
SECTION = re.compile(r"\[([a-zA-Z]+)(?: \"([^\"\\\n]*)\")?\]\s*")
SETTING = re.compile(r"\s*([a-zA-Z]+) ?= ?([^\"\\#;\n]*)")
# What the list of a rebase may hold when a command has ended: nothing that starts a program.
STEP = re.compile(
    r"\s*(#.*|(p|pick|revert|e|edit|r|reword|f|fixup|s|squash|d|drop|l|label|t|reset|m|merge"
    r"|u|update-ref|b|break|noop)(\s.*)?)?"
)
MAX_CLOSED = 2000
TOO_MANY = (
    "Not started: in {} lies too much that could run programs later (repositories, settings): no"
    " more than {} places can be closed to a server."
)
REBASES = frozenset(("rebase-merge", "sequencer"))
STEPS = frozenset(("git-rebase-todo", "git-rebase-todo.backup"))
PLAIN_SETTINGS: Mapping[str, str] = {
    "core": "repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    "|symlinks|autocrlf|eol|sharedrepository",
    "remote": "url|fetch|push|mirror|tagopt|prune",
    "branch": "remote|merge|rebase",
    "user": "name|email",
    "submodule": "url|active|branch",
    "extensions": "objectformat|refstorage",
    "init": "defaultbranch",
    "pull": "rebase|ff",
    "push": "default|autosetupremote",
}


def list_closed(root: Path) -> list[Path]:
    """What runs later of all that is below a folder which a server may write; in a thread."""
    found = dict[Path, None]()
    folders, programs = [""], OwnersPrograms(root)
    while folders:
        place = folders.pop()
        inside = _list(root / place)
        for path, kind, _ in judge_folder(programs, place, inside):
            target = (root / path).resolve()
            if (
                kind not in ("repository", "index")
                and target.is_relative_to(root)
                and target != root
            ):
                found[target] = None
        folders += [
            f"{place}/{name}".lstrip("/") for name, is_folder in inside.items() if is_folder
        ]
        if len(found) > MAX_CLOSED:
            raise ToolError(TOO_MANY.format(root, MAX_CLOSED))
    return [*found]


def runs_later(root: Path, path: str) -> bool:
    """A file at this path, as it stands or as it would be made, runs later, or makes a folder do
    so. Judged are the folders above it with their repositories.
    """
    steps = Path(os.path.relpath(root / path, root)).parts
    programs = OwnersPrograms(root, new="/".join(steps))
    for count, step in enumerate(() if ".." in steps else steps):
        place = "/".join(steps[:count])
        inside = {step: count + 1 < len(steps), **_list(root / place)}
        if is_repository(inside):
            return True
        judged = [*judge_folder(programs, place, inside)]
        if git := _list(root / place / ".git"):
            judged += judge_folder(programs, f"{place}/.git".lstrip("/"), git)
        if any(f"{'/'.join(steps)}/".startswith(f"{one}/") for one, _, _ in judged):
            return True
    return False


def _list(place: Path) -> dict[str, bool]:
    """The names in a folder, and whether each is one."""
    with suppress(OSError, ValueError), os.scandir(place) as entries:
        return {one.name: one.is_dir(follow_symlinks=False) for one in entries}
    return {}


def is_repository(inside: Mapping[str, bool]) -> bool:
    """A folder with these names is one, whatever its own name is."""
    return {"objects", "refs"} <= inside.keys() or {"HEAD", "commondir"} <= inside.keys()


def judge_links(place: str, links: set[str]) -> Iterator[tuple[str, Kind, str]]:
    """What gives a folder that lies elsewhere, under a name that says nothing, another meaning. A
    repository has no links.
    """
    meaning = ENVIRONMENTS | {"node_modules"} | PACKAGES | WITHIN.keys() | REBASES
    for name in links if ".git" in place.split("/") else links & meaning:
        yield f"{place}/{name}".lstrip("/"), "plain", ""


def judge_folder(
    programs: OwnersPrograms, place: str, inside: Mapping[str, bool]
) -> Iterator[tuple[str, Kind, str]]:
    """What runs later of what is in this folder, or is named by what is: where, its kind, and what
    names it. `inside`: the names there, and whether each is a folder.
    """
    for path, kind, by in _judge_names(programs, place, inside):
        yield path, kind, by
        for real in () if kind in ("repository", "index") else programs.follow(path):
            yield real, kind, by


def _judge_names(
    programs: OwnersPrograms, place: str, inside: Mapping[str, bool]
) -> Iterator[tuple[str, Kind, str]]:
    above, prefix = Path(place), f"{place}/" if place else ""
    if above.name == ".git" or is_repository(inside):
        if place:
            yield place, "repository", ""
        for name in inside.keys() & {*SETTINGS, *POINTERS}:
            yield prefix + name, "settings" if name in SETTINGS else "plain", ""
        for name in inside.keys() & {"hooks", "remotes", "branches"}:
            yield prefix + name, "hooks", ""
        for name in inside:
            if name == "index" or name.startswith("sharedindex."):
                yield prefix + name, "index", ""
        yield from programs.find_of_repository(place)
    for name in inside:
        if name in NAMES or PATTERN.fullmatch(name):
            yield prefix + name, "plain", ""
            yield from programs.find_of_start(prefix + name)
    for name in inside.keys() & WITHIN.get(above.name, frozenset()):
        yield prefix + name, "plain", ""
    is_pointer = not inside.get(".git", True)
    if is_pointer:
        yield f"{prefix}.git", "plain", ""
    if is_pointer or not place:
        yield from programs.find_of_outside(place)
    if above.name in REBASES:
        for name in inside.keys() & {*STEPS, "strategy", "opts"}:
            yield prefix + name, "steps", ""
    yield from _judge_environment(place, inside)


def _judge_environment(place: str, inside: Mapping[str, bool]) -> Iterator[tuple[str, Kind, str]]:
    above, prefix = Path(place), f"{place}/" if place else ""
    launchers = inside.keys() & {"bin", "Scripts"}
    if "pyvenv.cfg" in inside or above.name in ENVIRONMENTS:
        for name in launchers:
            yield prefix + name, "launchers", ""
    # A command's own has no launchers when it has ended.
    if "pyvenv.cfg" in inside and launchers:
        yield f"{prefix}pyvenv.cfg", "plain", f"{prefix}pyvenv.cfg"
    if above.name == "node_modules" and above.parts.count("node_modules") == 1 and ".bin" in inside:
        yield f"{prefix}.bin", "launchers", ""
    for name in inside:
        if name.split(".")[0] in CUSTOMIZE:  # a path of an environment may lead to any folder
            yield prefix + name, "plain", ""
        if above.name in PACKAGES and name.endswith(".pth"):
            yield prefix + name, "launchers", ""


def clean_settings(text: str) -> str | None:
    """Git's settings without those that could name a program; None when there are none of them."""
    kept: list[str] = []
    dropped, section = False, ""
    for line in text.split("\n"):
        if found := SECTION.fullmatch(line):
            section = found[1].lower()
        elif found := SETTING.fullmatch(line):
            allowed = re.fullmatch(PLAIN_SETTINGS.get(section, "-"), found[1].lower())
            if not allowed or "::" in found[2]:
                dropped = True
                continue
        elif line.strip() and line.lstrip()[0] not in "#;":
            dropped = True
            continue
        kept.append(line)
    return "\n".join(kept) if dropped else None


def clean_steps(name: str, text: str, known: str) -> str | None:
    """A rebase's list without the programs that were not in it before; None when there are none."""
    if name not in STEPS:  # a strategy with a path in its name is a program
        return None if re.fullmatch(r"[^/]*", text) else ""
    before, lines = known.split("\n"), text.split("\n")
    fine = [line for line in lines if STEP.fullmatch(line) or line in before]
    return "\n".join(fine) if fine != lines else None


def only_paths(text: str) -> bool:
    """No line of a .pth file is run at each start of Python."""
    lines = text.splitlines()  # as Python does, at more than line feeds
    return "\ufffd" not in text and not any(re.match(r"\W*import", one) for one in lines)
