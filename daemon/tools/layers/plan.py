"""What of a command's changes comes into the workspace: plain files, folders and links. What could
run later outside the sandbox waits for the owner, and lies over the views of later commands.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from daemon.core import value
from daemon.tools.layers.changes import Change, ChangeReader, leads_out
from daemon.tools.layers.git_index import MAX_INDEX, is_fine_index
from daemon.tools.layers.runs_later import (
    clean_settings,
    clean_steps,
    is_repository,
    judge_folder,
    judge_links,
    only_paths,
)
from daemon.tools.workspace.fs import READ_FLAGS
from daemon.tools.workspace.index import join

Action = Literal["merge", "hold", "drop", "keep"]  # keep: of both, the owner's stays
RUNS_LATER = "it could run outside the sandbox later"
MAX_READ = 1_000_000  # of what is judged by its text
POINTERS = ("commondir", "gitdir", ".git")


@value
class Step:
    """What is done with one change. `cleaned`: what of its text comes over all the same."""

    change: Change
    action: Action
    reason: str = ""
    cleaned: str | None = None


class MergePlan:
    """Of one layer. In a thread."""

    def __init__(
        self, reader: ChangeReader, changes: Iterable[Change], *, goes_on: bool = False
    ) -> None:
        self.reader, self.root, self.changes = reader, reader.layer.workspace, changes
        self.goes_on = goes_on  # it may still be changed: nothing is cleaned
        self._judged = dict[str, dict[str, str]]()

    @cached_property
    def steps(self) -> list[Step]:
        """In the order of merging. A repository in which the owner worked meanwhile stays whole."""
        found = [*map(self._decide, self.changes)]
        late = {
            step.change.path.partition(".git/")[0]
            for step in found
            if step.change.conflict and "/.git/" in f"/{step.change.path}"
        }
        return [
            Step(step.change, "keep", "the owner worked in this repository meanwhile")
            if "/.git/" in f"/{step.change.path}" and step.change.path.partition(".git/")[0] in late
            else step
            for step in found
        ]

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
        return Step(change, "merge")

    def _apply(self, rule: str, change: Change) -> Step:
        path, kind = change.path, change.kind
        name, hold = path.rpartition("/")[2], Step(change, "hold", RUNS_LATER)
        if rule == "index" and kind in ("file", "deleted"):
            data = read_bytes(change.source, MAX_INDEX) if kind == "file" else None
            is_fine = kind == "deleted" or (data is not None and is_fine_index(data))
            return Step(change, "merge") if is_fine else hold
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

    def _clean(self, change: Change, cleaned: str | None) -> Step:
        if cleaned is None:
            return Step(change, "merge")
        return Step(change, "hold", f"{RUNS_LATER}; what cannot run a program stays", cleaned)

    def _leads_inside(self, change: Change, text: str) -> bool:
        """What it leads to is judged where it is."""
        to = text.removeprefix("gitdir:").strip()
        place = Path(os.path.normpath((self.root / change.path).parent / to))
        return place.is_relative_to(self.root) and place.resolve().is_relative_to(self.root)

    def _find_rules(self, path: str) -> Iterator[str]:
        """Why this place, or a folder above it, runs later."""
        steps = path.split("/")
        places = ["/".join(steps[:count]) for count in range(len(steps) + 1)]
        for place in places[:-1]:
            judged = self._judge(place)
            yield from (judged[one] for one in places if one in judged)

    def _judge(self, place: str) -> dict[str, str]:
        """What runs later of what is in this folder, or is named by its repository."""
        if place not in self._judged:
            found = dict[str, str]()
            names = self.reader.list_names(place)
            inside = {name: stat.S_ISDIR(info.st_mode) for name, info in names.items()}
            links = {name for name, info in names.items() if stat.S_ISLNK(info.st_mode)}
            for path, kind, _ in (
                *judge_folder(self.root, place, inside, self.reader.upper),
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


def read(place: Path) -> str | None:
    """An ordinary file's text; None of another, or of too much."""
    data = read_bytes(place, MAX_READ)
    return None if data is None else data.decode("utf-8", "replace")


def read_bytes(place: Path, limit: int) -> bytes | None:
    """All of an ordinary file; None of another, or of more than this."""
    with suppress(OSError), os.fdopen(os.open(place, READ_FLAGS), "rb") as file:
        info = os.fstat(file.fileno())
        if stat.S_ISREG(info.st_mode) and info.st_size <= limit:
            return file.read(limit)
    return None
