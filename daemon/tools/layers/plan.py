"""What of a command's changes comes into the workspace: plain files, folders and links. What could
run later outside the sandbox waits for the owner, and lies over the views of later commands.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from time import monotonic

from daemon.tools.layers.changes import Change, ChangeReader, leads_out, list_folder
from daemon.tools.layers.git_index import MAX_INDEX, is_fine_index
from daemon.tools.layers.owners_programs import OwnersPrograms
from daemon.tools.layers.repositories import PARTS, Repository
from daemon.tools.layers.runs_later import (
    clean_settings,
    clean_steps,
    is_repository,
    judge_folder,
    judge_links,
    only_paths,
)
from daemon.tools.layers.step import Step, read, read_bytes
from daemon.tools.workspace.index import join, lstat

MAX_CHECK_S = 300
RUNS_LATER = "it could run outside the sandbox later"
POINTERS = ("commondir", "gitdir", ".git")
FORMAT = re.compile(r"(?im)^\s*objectformat ?= ?(\w+)\s*$")


class MergePlan:
    """Of one layer. In a thread."""

    def __init__(
        self, reader: ChangeReader, changes: Iterable[Change], *, goes_on: bool = False
    ) -> None:
        self.reader, self.root, self.changes = reader, reader.layer.workspace, changes
        self.goes_on = goes_on  # it may still be changed: nothing is cleaned
        self._programs = OwnersPrograms(self.root, over=reader.upper)
        self._judged = dict[str, dict[str, str]]()
        self._above = dict[str, list[tuple[dict[str, str], list[str]]]]()  # of each folder
        self._repositories = dict[str, str | None]()

    @cached_property
    def steps(self) -> list[Step]:
        """In the order of merging. A repository is judged as a whole."""
        plain, repositories = list[Change](), dict[str, list[Change]]()
        until = monotonic() + MAX_CHECK_S
        for change in self.changes:
            above, _, name = change.path.rpartition("/")
            is_one = change.kind in ("folder", "deleted") or name == ".git"
            place = self._find_repository(change.path if is_one else above)
            (plain if place is None else repositories.setdefault(place, [])).append(change)
        found = [
            Repository(
                self.reader,
                place,
                changes,
                self._decide,
                self._waits,
                self._has_long_hashes(place),
                until,
            ).list_steps()
            for place, changes in repositories.items()
        ]
        gone = [steps for steps in found if steps[0].action == "remove"]
        other = [steps for steps in found if steps[0].action != "remove"]
        return [*chain(*gone), *map(self._decide, plain), *chain(*other)]

    def _waits(self, path: str) -> bool:
        return any(self._find_rules(path))

    def _find_repository(self, place: str) -> str | None:
        """The innermost that this lies in, or is."""
        passed, known = list[str](), self._repositories
        while place not in known:
            passed.append(place)
            if self._is_git(place):
                known[place] = place
            elif not place:
                known[place] = None
            else:
                place = place.rpartition("/")[0]
        known |= dict.fromkeys(passed, known[place])
        return known[place]

    def _is_git(self, place: str) -> bool:
        above, _, name = place.rpartition("/")
        if name == ".git":
            entries = (self.reader.list_names(above).get(name), lstat(self.root / place))
            return any(one and stat.S_ISDIR(one.st_mode) for one in entries)
        views = (self.reader.list_names(place), list_folder(self.root / place))
        return any(one.keys() >= PARTS for one in views)

    def _decide(self, change: Change) -> Step:
        path, kind = change.path, change.kind
        name = path.rpartition("/")[2]
        if kind == "special":
            return Step(change, "drop", "is no plain file, or has too long a path")
        if not is_text(path):
            return Step(change, "hold", "its name is no UTF-8")
        if change.conflict:
            return Step(change, "keep", change.conflict)
        if name.endswith(".pyc") and kind != "deleted":
            made = "/__pycache__/" in f"/{path}"  # Python makes it again, of its source
            return Step(change, "drop" if made else "hold", "" if made else RUNS_LATER)
        for rule in self._find_rules(path):
            step = self._apply(rule, change)
            if step.action != "merge" or step.cleaned is not None:
                return step
        if kind == "link" and leads_out(path, str(change.source.readlink())):
            return Step(change, "hold", "it leads out of the workspace")
        if kind == "link" and self._leads_to_named(path):
            return Step(change, "hold", RUNS_LATER)
        return Step(change, "merge")

    def _apply(self, rule: str, change: Change) -> Step:
        path, kind = change.path, change.kind
        name, hold = path.rpartition("/")[2], Step(change, "hold", RUNS_LATER)
        if rule == "index" and kind in ("file", "deleted"):
            data = read_bytes(change.source, MAX_INDEX) if kind == "file" else None
            place = self._find_repository(path.rpartition("/")[0])
            if data is None or place is None:
                return Step(change, "merge") if kind == "deleted" else hold
            is_fine = is_fine_index(data, long=self._has_long_hashes(place))
            return Step(change, "merge") if is_fine else hold
        if kind == "deleted" and name in POINTERS:
            return Step(change, "merge")
        if kind == "mode" or kind == "deleted" or kind == "link":
            return hold
        if kind == "folder":
            return Step(change, "merge") if rule == "hooks" else hold
        if rule == "hooks" and name.endswith(".sample"):
            return Step(change, "merge")
        text = read(change.source)
        if text is None:
            return hold
        if name in POINTERS and self._leads_inside(change, text):
            return Step(change, "merge")
        if name.endswith(".pth") and rule == "launchers" and only_paths(text):
            return Step(change, "merge")
        if rule == "settings" and self.reader.find_before(path) is None and not self.goes_on:
            return self._clean(change, clean_settings(text))
        if rule == "steps" and not self.goes_on:
            before = self.root / path
            known = (read(before) or "") if before.is_file() else ""
            return self._clean(change, clean_steps(name, text, known))
        return hold

    def _has_long_hashes(self, place: str) -> bool:
        """The hashes of this repository are SHA-256, by its settings as they will be."""
        own = self.root / place / "config"
        if lstat(own) or self.goes_on:
            text = read(own) or ""
        else:
            new = read(self.reader.upper / place / "config") or ""
            cleaned = clean_settings(new)
            text = new if cleaned is None else cleaned
        return FORMAT.findall(text)[-1:] == ["sha256"]

    def _clean(self, change: Change, cleaned: str | None) -> Step:
        if cleaned is None:
            return Step(change, "merge")
        return Step(change, "hold", f"{RUNS_LATER}; what cannot run a program stays", cleaned)

    def _leads_inside(self, change: Change, text: str) -> bool:
        """What it leads to is judged where it is."""
        if "objects" in self.reader.list_names(change.path.rpartition("/")[0]):
            return False  # a repository with its own
        to = text.removeprefix("gitdir:").strip()
        place = os.path.normpath((self.root / change.path).parent / to)
        inside = Path(place).is_relative_to(self.root) and "\0" not in to
        return inside and Path(os.path.realpath(place)).is_relative_to(self.root)

    def _find_rules(self, path: str) -> Iterator[str]:
        """Why this place, or a folder above it, runs later."""
        folders = ["", *accumulate(path.split("/"), join)][:-1]
        above = list[tuple[dict[str, str], list[str]]]()
        for count, place in enumerate(folders):
            if place not in self._above:
                judged = self._judge(place)
                own = [judged[one] for one in folders[: count + 1] if one in judged]
                here = (
                    (found, [*rules, found[place]] if place in found else rules)
                    for found, rules in above
                )
                self._above[place] = [*here, (judged, own)]
            above = self._above[place]
        for judged, rules in above:
            yield from rules
            if path in judged:
                yield judged[path]

    def _leads_to_named(self, path: str) -> bool:
        """What runs later lies behind this link, by its name."""
        folders = ["", *accumulate(path.split("/"), join)][:-1]
        return any(one.startswith(f"{path}/") for place in folders for one in self._judge(place))

    def _judge(self, place: str) -> dict[str, str]:
        """What runs later of what is in this folder, or is named by its repository."""
        if place not in self._judged:
            found = dict[str, str]()
            names = self.reader.list_names(place)
            inside = {name: stat.S_ISDIR(info.st_mode) for name, info in names.items()}
            links = {name for name, info in names.items() if stat.S_ISLNK(info.st_mode)}
            for path, kind, _ in (
                *judge_folder(self._programs, place, inside),
                *judge_links(place, links),
            ):
                if kind != "repository":
                    found.setdefault(path, kind)
            is_hidden = ".git" in place.split("/")
            if is_repository(inside) and not is_hidden and not self._was_repository(place):
                found |= {join(place, name): "repository" for name in inside}
            if inside.get(".git"):
                found |= self._judge(join(place, ".git"))
            self._judged[place] = found
        return self._judged[place]

    def _was_repository(self, place: str) -> bool:
        try:
            return is_repository({one.name: True for one in (self.root / place).iterdir()})
        except OSError:
            return False


def is_text(path: str) -> bool:
    """A name that is UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
