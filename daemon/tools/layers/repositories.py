"""What of a command's changes to a repository of git comes over: objects that are what their names
say, then what is known to be data, and references last. What the owner did there meanwhile stays.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from stat import S_IFMT, S_ISDIR

from daemon.core import value
from daemon.tools.layers.changes import Change, ChangeReader
from daemon.tools.layers.git_index import MAX_INDEX, read_entries
from daemon.tools.layers.git_objects import SHA1_CHARS, DamagedObjects, ObjectStage
from daemon.tools.layers.held import make_readable
from daemon.tools.layers.owners_programs import list_tops
from daemon.tools.layers.step import Step, read, read_bytes
from daemon.tools.workspace.index import join, lstat

HASH = "[0-9a-f]{40}(?:[0-9a-f]{24})?"
LOOSE = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{38}(?:[0-9a-f]{24})?")
PACK = re.compile(rf"(objects/pack/pack-{HASH})\.(?:pack|idx)")
REFERENCE = re.compile(r"(worktrees/[^/]+/)?(refs/.*|HEAD)|packed-refs")
ELSEWHERE = re.compile(r"objects/info/(http-)?alternates|refs/replace/.*")
MADE_ANEW = re.compile(r"objects/.*|(.*/)?[^/]+\.lock|gc\.(pid|log)")
DATA = re.compile(
    r"(worktrees/[^/]+/)?(config(\.worktree)?|(shared)?index(\.[0-9a-f]+)?|shallow|description"
    r"|gitdir|commondir|locked|(logs|hooks)/.*|info/(exclude|refs|sparse-checkout)|AUTO_MERGE"
    r"|[A-Z]+_(HEAD|MSG|EDITMSG|MODE|RR)|BISECT_\w+"
    r"|(rebase-merge|rebase-apply|sequencer|rr-cache)/.*)"
)
# As git itself checks them: a name, what a reference's text is, HEAD's, and those of lists.
NAME = r"refs(?:/(?!\.)(?:(?!\.\.|@\{)[^\0-\x20\x7f~^:?*\[\\/])++(?<!\.lock))++(?<!\.)"
ONE = re.compile(rf"{HASH}\n?")
HEAD = re.compile(rf"(?:ref: (?!.*/HEAD\n?$){NAME}|{HASH})\n?")
MANY = re.compile(
    rf"(?:# pack-refs with:[^\n]*\n)?+(?:{HASH} (?!refs/replace/){NAME}\n(?:\^{HASH}\n)?+)*+"
)
CUT = re.compile(rf"(?:{HASH}\n)*+")
HASHES = re.compile(rf"\b{HASH}\b")
MAX_REFERENCES = 50_000_000
PARTS = frozenset(("HEAD", "objects", "refs"))
LATE = (
    "the owner worked in this repository meanwhile, so theirs stays; the command's branches are"
    " below {0} there (git log {0}/heads/NAME)"
)
DAMAGED = "{}, so nothing of this repository was changed"
WAITING = (
    "{1} waits for the owner and is staged, or in a commit; so the owner's index and branches stay,"
    " and the command's branches are below {0} there (git log {0}/heads/NAME)"
)
INDEX = re.compile(r"(worktrees/[^/]+/)?(shared)?index(\.[0-9a-f]+)?")
INDEXES = ("index", "sharedindex.*", "worktrees/*/index", "worktrees/*/sharedindex.*")
TAKEN_BY_HAND = ("refs/remotes/", "refs/tags/")  # what others made, which the owner merges or not
UNKNOWN = "it is no known part of a repository"


@value
class Repository:
    """One, at `place`, with its changes. `judge`: what is done with a change by itself; `waits`:
    a file at this path of the workspace is one that waits for the owner; `long`, `until`: see
    ObjectStage.
    """

    reader: ChangeReader
    place: str
    changes: Sequence[Change]
    judge: Callable[[Change], Step]
    waits: Callable[[str], bool]
    long: bool
    until: float

    def list_steps(self) -> list[Step]:
        """In the order of merging. Its objects are looked at."""
        own = [one for one in self.changes if one.path == self.place]
        if self._root.is_dir() and any(one.kind == "deleted" for one in own):
            if len(own) == 1 and not self._is_late:
                return [Step(own[0], "remove")]
            return self._refuse("it was deleted or replaced, which only the owner does")
        steps = [self._decide(one) for one in self.changes]
        changed = list[str]()
        try:
            objects = [*self._check_objects(steps, changed)]
        except (DamagedObjects, OSError) as error:
            return self._refuse(getattr(error, "strerror", None) or str(error))
        waiting = self._find_waiting(changed)
        if self._is_late or waiting:
            beside = self._find_beside()
            kept = (self._put_beside(one, beside) for one in steps)
            words = WAITING.format(beside, waiting) if waiting else LATE.format(beside)
            return [*objects, self._say(words), *kept]
        return [*objects, *sorted(steps, key=self._rank)]

    @property
    def _root(self) -> Path:
        return self.reader.layer.workspace / self.place

    @property
    def _is_late(self) -> bool:
        """The owner has moved, or staged, something since the command began."""
        late = (self._name(one) for one in self.changes if one.conflict)
        is_moved = any(REFERENCE.fullmatch(one) or one.endswith("index") for one in late)
        return is_moved or self.reader.is_late(join(self.place, "packed-refs"))

    def _name(self, change: Change) -> str:
        """Its path in the repository."""
        return change.path.removeprefix(f"{self.place}/" if self.place else "")

    def _rank(self, step: Step) -> tuple[bool, bool]:
        change, name = step.change, self._name(step.change)
        before = self.reader.find_before(change.path) if change.kind == "deleted" else None
        is_folder = before is not None and S_ISDIR(before.st_mode)
        return is_folder or REFERENCE.fullmatch(name) is not None, name == "HEAD"

    def _say(self, words: str) -> Step:
        return Step(Change(self.place, "special", self.reader.upper), "say", words)

    def _refuse(self, why: str) -> list[Step]:
        kept = (one for one in self.changes if one.kind != "deleted")
        return [self._say(DAMAGED.format(why)), *(Step(one, "keep") for one in kept)]

    def _decide(self, change: Change) -> Step:
        name, step = self._name(change), self.judge(change)
        is_part = change.kind in ("file", "mode", "deleted") and change.path != self.place
        if step.action == "hold" or not is_part:
            return step
        if ELSEWHERE.fullmatch(name) and change.kind != "deleted":
            return Step(change, "hold", UNKNOWN)
        if MADE_ANEW.fullmatch(name):
            return Step(change, "drop")
        is_known = DATA.fullmatch(name) or REFERENCE.fullmatch(name) or change.kind == "deleted"
        return step if is_known or step.action != "merge" else Step(change, "hold", UNKNOWN)

    def _find_beside(self) -> str:
        """Where references go that must not replace any: those of commands before stay, too."""
        packed = read(self._root / "packed-refs", MAX_REFERENCES) or ""
        names = chain(["refs/layer"], map("refs/layer-{}".format, count(2)))
        return next(one for one in names if not (lstat(self._root / one) or f" {one}/" in packed))

    def _put_beside(self, step: Step, beside: str) -> Step:
        """Where the owner's stays: the command's branch by another name, the rest aside."""
        change, name = step.change, self._name(step.change)
        if step.action == "hold":
            return step
        if step.action == "drop" or change.kind == "deleted":
            return Step(change, "drop")
        if name.startswith("refs/") and change.kind == "file":
            path = join(self.place, f"{beside}/{name.removeprefix('refs/')}")
            return Step(Change(path, "file", change.source), "merge")
        return Step(change, "keep")

    def _find_waiting(self, changed: Iterable[str]) -> str:
        """A file of the work tree that git would write there, from an index or a commit of the
        command, though it waits for the owner; "" for none.
        """
        if not lstat(self._root / "HEAD"):
            return ""  # what is cloned or made comes as a whole
        root = self.reader.layer.workspace
        tops = [os.path.relpath(one, root) for one in list_tops(self._root)]
        places = ["" if one == "." else one for one in tops if not one.startswith("..")]
        paths = (join(place, one) for one in dict.fromkeys(changed) if one for place in places)
        return next(filter(self.waits, paths), "")

    def _list_staged(self, files: Mapping[str, Path]) -> Iterator[str]:
        """The paths that an index of the command's has, and no index of the owner's so."""
        new = [source for name, source in files.items() if INDEX.fullmatch(name)]
        old = chain(*map(self._root.glob, INDEXES)) if new else ()
        staged, known = (
            {
                entry
                for one in places
                for entry in read_entries(read_bytes(one, MAX_INDEX), long=self.long)
            }
            for places in (new, old)
        )
        yield from (os.fsdecode(path) for path, _ in staged - known)

    def _check_objects(self, steps: Sequence[Step], changed: list[str]) -> Iterator[Step]:
        """The steps for new ones. `changed` gets the paths of what is staged or in commits. Raises
        DamagedObjects, OSError.
        """
        self._check_parts()
        files = {
            self._name(one.change): one.change.source
            for one in steps
            if one.change.kind == "file" and one.action != "hold"
        }
        changed += self._list_staged(files)
        new = [one for one in files if _is_object(one) and not lstat(self._root / one)]
        named = [*self._list_targets(files)]
        targets = [one for _, one in named]
        is_cut_anew = any(self._name(one.change) == "shallow" for one in steps)
        cut = files.get("shallow") if is_cut_anew else self._root / "shallow"
        if not new and not targets and not is_cut_anew:
            return
        if any((len(one) > SHA1_CHARS) != self.long for one in targets):
            raise DamagedObjects("a hash has another length")
        place = self.reader.layer.place / f"stage-{sha256(self.place.encode()).hexdigest()[:12]}"
        stage = ObjectStage.create(place, self._root, self.until, long=self.long)
        ends, later = self._read_ends(self._root / "shallow"), self._read_ends(cut)
        if lstat(self._root / "HEAD") and stage.has_any(later - ends):
            raise DamagedObjects("shallow would hide what is there")
        for name in filter(LOOSE.fullmatch, new):
            make_readable(files[name])
            stage.add_loose(files[name], name)
            yield self._bring(name, files[name])
        for stem in dict.fromkeys(found[1] for found in map(PACK.fullmatch, new) if found):
            pack = f"{stem}.pack"
            source = files.get(pack, self._root / pack)  # a kill may have left it without an index
            make_readable(source)
            index = stage.add_pack(source, pack)
            if pack in files:
                yield self._bring(pack, source)
            yield self._bring(f"{stem}.idx", index)
        stage.check_whole(targets, cut, anew=bool(ends - later))
        if lstat(self._root / "HEAD"):
            own = (one for name, one in named if not name.startswith(TAKEN_BY_HAND))
            changed += stage.list_changed(own)
        stage.drop_links()

    def _check_parts(self) -> None:
        """What was a repository still is one. Raises DamagedObjects."""
        names = self.reader.list_names(self.place)
        before = {one: info for one in PARTS if (info := lstat(self._root / one))}
        kept = (
            (now := names.get(one)) and S_IFMT(now.st_mode) == S_IFMT(info.st_mode)
            for one, info in before.items()
        )
        if len(before) == len(PARTS) and not all(kept):
            raise DamagedObjects("HEAD, objects or refs is missing")

    def _bring(self, name: str, source: Path) -> Step:
        return Step(Change(join(self.place, name), "file", source), "merge")

    def _list_targets(self, files: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
        """The names of new references, and the hashes that they name. Raises DamagedObjects."""
        for name, source in files.items():
            if not REFERENCE.fullmatch(name):
                continue
            make_readable(source)
            text = read(source, MAX_REFERENCES)
            form = MANY if name == "packed-refs" else HEAD if name.endswith("HEAD") else ONE
            is_named = "refs/" not in name or re.fullmatch(NAME, name[name.index("refs/") :])
            if text is None or not (is_named and form.fullmatch(text)):
                raise DamagedObjects(f"{name} is no reference")
            for line in text.split("\n"):
                _, _, packed = line.partition(" ")
                yield from ((packed or name, one) for one in HASHES.findall(line))

    def _read_ends(self, place: Path | None) -> set[str]:
        """Where a history that is not whole ends. Raises DamagedObjects."""
        if place is None or not lstat(place):
            return set()
        if place.is_relative_to(self.reader.layer.place):
            make_readable(place)
        text = read(place, MAX_REFERENCES)
        if text is None or not CUT.fullmatch(text):
            raise DamagedObjects("shallow has no hashes")
        return {*text.split()}


def _is_object(name: str) -> bool:
    return bool(LOOSE.fullmatch(name) or PACK.fullmatch(name))
