"""The manifest: whose words the files of the workspace are (F3). They are the owner's, but for what
has a bad label.

A stranger's is what something that is not trusted wrote, what changes while such a thing is at
work, what a stranger's file held, files of another user, and a repository of its own until it is
trusted. What the assistant follows by itself (OWN_PROMPTS) needs a good label for what it holds.
"""

import asyncio
import os
import stat
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from hashlib import file_digest, sha256

from daemon.core.rows import FileLabel, FileVersion, LabelScope
from daemon.core.trust import Label, Sources, join_all, join_sources
from daemon.store.journal import Store, Tx
from daemon.store.tables.file_state import ForeignContent
from daemon.tools.calls import HEARTBEAT_FILE
from daemon.tools.workspace.foreign import TINY, ForeignContents, HeldContent
from daemon.tools.workspace.fs import READ_FLAGS, Workspace, casefold_name, find_birth

NO_FILE = ""
OWNERS, NOTE = "owner", "note"  # makers that are no command of a stranger's
UNTRUSTED, TRUSTED, FILE = Label.UNTRUSTED, Label.TRUSTED, LabelScope.FILE
CLOCK_REALTIME_COARSE = 5
SETTLED_NS = 100_000_000  # a file that changed this recently may change again without a sign
OWN_PROMPTS = (HEARTBEAT_FILE,)
MAX_DIGESTS = 100_000


def file_clock_ns() -> int:
    """The clock that stamps files, as coarse as it is."""
    if os.uname().sysname == "Linux":
        return time.clock_gettime_ns(CLOCK_REALTIME_COARSE)
    return time.time_ns() - 1_000_000_000


def hash_content(data: bytes | None) -> str:
    """NO_FILE for None."""
    return NO_FILE if data is None else sha256(data).hexdigest()


class FileLabels:
    """What is known of files: a file's own label counts before its folders'.

    Names that differ only in case or composition are one name, as they are on some disks.
    `unsandboxed`: a server without a sandbox may change any file, so none is known but by what it
    holds. `digests` are those of files by their inode, size and stamps, `held_contents` what files
    of these digests may hold. `tree_labels`: in a snapshot, what is known of folders by now.
    `strange_count`: how often something got a bad label, which it may have lost since.
    """

    def __init__(
        self,
        workspace: Workspace,
        store: Store,
        rows: Iterable[FileLabel],
        foreign: ForeignContents | None = None,
    ) -> None:
        self.workspace, self.store = workspace, store
        self.foreign = foreign or ForeignContents(())
        self.by_folded: dict[str, dict[str, FileLabel]] = {}
        self.unsandboxed = False
        self.digests: dict[tuple[int, ...], str] = {}
        self.tree_labels: dict[str, Label] | None = None
        self.owners = set[int]()
        self.held_contents = dict[str, Sources]()
        self.strange_count = 0
        self.add(rows)

    @property
    def entries(self) -> list[FileLabel]:
        """Every label."""
        return [label for group in self.by_folded.values() for label in group.values()]

    def snapshot(self) -> "FileLabels":
        """The labels of now: what is read next may be overwritten before it is asked about."""
        copy = FileLabels(self.workspace, self.store, self.entries, self.foreign)
        copy.unsandboxed, copy.digests = self.unsandboxed, self.digests
        copy.tree_labels, copy.owners = {}, self.owners
        return copy

    async def label_of(self, name: str, digest: str = "") -> Label:
        """Of this file, which holds this. A file that is gone loses its label."""
        if self.workspace.is_mounted(name):
            return UNTRUSTED
        if self.find_own(name) and not self.workspace.stat(name):
            await self.remove([name])
        return self.find_label(name, digest)

    def label_of_names(self, names: Iterable[str]) -> Label:
        """Of these names, as a list shows them, and of what the files hold now: a folder's name is
        as bad as what is in it. In a thread.
        """
        names = list(names)
        if any(map(self.workspace.is_mounted, names)):
            return UNTRUSTED
        bad = {
            place
            for folded, group in self.by_folded.items()
            if any(one.label is UNTRUSTED for one in group.values())
            for place in _list_ancestors(folded)
        }
        return join_all(
            UNTRUSTED if casefold_path(name) in bad else self.find_label(name) for name in names
        )

    def label_new_names(
        self, names: Iterable[str], turn: str, label: Label = UNTRUSTED
    ) -> list[FileLabel]:
        """Labels for new names; existing labels stay as they are."""
        return [
            FileLabel(name, label, turn, LabelScope.NAME)
            for name in names
            if name not in self.by_folded.get(casefold_path(name), ())
        ]

    def owns_repository(self, places: Iterable[str] = ()) -> bool:
        """The workspace's own `.git`, if there is one, is a folder with nothing of a stranger's in
        it, and none of these places lies in another repository that is not trusted.
        """
        git = self.workspace.stat(".git")
        if self.unsandboxed or (git and not stat.S_ISDIR(git.st_mode)):
            return False
        trusted = self.label_of_names([".git"]) is TRUSTED
        return trusted and all(self.find_folder_label(f"{one}/") is TRUSTED for one in places)

    async def set_trusted(self, name: str, digest: str, turn: str) -> None:
        """Trusted text replaces the whole file, or it is removed."""
        if digest == NO_FILE or not self.needs_row(name, digest):
            await self.remove([name])
        else:
            await self.save([FileLabel(name, TRUSTED, turn, digest=digest)])

    async def save(
        self,
        labels: Sequence[FileLabel],
        foreign: Sequence[ForeignContent] = (),
        versions: Sequence[FileVersion] = (),
    ) -> None:
        """On disk when this returns, with what these replace."""
        surplus = self.foreign.list_surplus(foreign)

        def record(tx: Tx) -> None:
            tx.put_files(labels, versions)
            tx.change_foreign_contents(foreign, surplus)

        if labels or foreign or versions:
            self.strange_count += any(one.label is UNTRUSTED for one in labels)
            await self.store.write(record)
            self.add(labels)
            self.foreign.change(foreign, surplus)

    def find_new_foreign(self, held: Iterable[HeldContent], turn: str) -> list[ForeignContent]:
        """Rows for what strangers' files hold, unless it is known as the owner's, too."""
        own = {one.digest for one in self.entries if one.label is TRUSTED} | self.foreign.own.keys()
        return self.foreign.find_new(held, turn, own)

    def hold(self, name: str) -> HeldContent:
        """What stands there. In a thread."""
        with suppress(OSError), os.fdopen(os.open(self.workspace.root / name, READ_FLAGS)) as file:
            info = os.fstat(file.fileno())
            if stat.S_ISREG(info.st_mode):
                head = os.read(file.fileno(), TINY)
                return HeldContent(name, self.hash_file(name), info.st_size, head)
        return HeldContent(name, NO_FILE, 0, b"")

    async def note_old(self) -> None:
        """What files hold now that have had a bad label since before this was noted."""
        bad = [one.path for one in self.entries if one.label is UNTRUSTED and one.scope is FILE]
        if bad and not self.foreign.by_key:
            held = await asyncio.to_thread(lambda: [*map(self.hold, bad)])
            await self.save((), foreign=self.find_new_foreign(held, ""))

    async def forget_foreign(self, keys: Collection[str]) -> None:
        """The owner says that these contents are theirs."""
        if keys:
            await self.store.write(lambda tx: tx.change_foreign_contents(removed=keys))
            self.foreign.change((), keys)

    def add(self, labels: Iterable[FileLabel]) -> None:
        """The journal has them."""
        for label in labels:
            if label.digest and label.holds:
                self.held_contents[label.digest] = label.holds
            self.by_folded.setdefault(casefold_path(label.path), {})[label.path] = label

    async def remove(self, names: Iterable[str]) -> None:
        """The caller holds the lock of the FileStore: no label is added meanwhile."""
        gone = {
            name: folded
            for name in names
            if name in self.by_folded.get(folded := casefold_path(name), ())
        }
        if not gone:
            return
        await self.store.write(lambda tx: tx.remove_file_labels(gone))
        for name, folded in gone.items():
            del self.by_folded[folded][name]
            if not self.by_folded[folded]:
                del self.by_folded[folded]

    def find_own(self, name: str) -> list[FileLabel]:
        """Bad news holds for every spelling of the name, good news for its own."""
        if name and self.by_folded.keys() <= {""}:
            return []  # spellings cost more than all else, and most workspaces have no labels
        return [
            one
            for one in self.by_folded.get(casefold_path(name), {}).values()
            if one.scope is not LabelScope.NAME and (one.path == name or one.label is UNTRUSTED)
        ]

    def list_held(self, names: Iterable[str]) -> tuple[str, ...]:
        """What these may hold of private sources that were read before they were written."""
        rows = (
            one.holds
            for name in names
            for place in _list_ancestors(casefold_path(name))
            for one in self.by_folded.get(place, {}).values()
        )
        return join_sources(rows)

    async def load_held(self, name: str, digest: str, label: Label) -> Sources:
        """Of the file and of what it holds, which may have come under this name by a command."""
        holds, moved = self.list_held([name]), self.held_contents.get(digest, ())
        if label is TRUSTED and not {*moved} <= {*holds}:
            await self.save([FileLabel(name, TRUSTED, "", digest=digest, holds=moved)])
        return join_sources((holds, moved))

    def find_folder_label(self, name: str) -> Label:
        """That of the nearest folder with a label for everything in it, unless a repository of its
        own lies between. A snapshot looks once for all files of a folder.
        """
        folder, known = name.rpartition("/")[0], self.tree_labels
        if known is None or not name:
            return self._find_tree_label(name)
        if folder not in known:
            known[folder] = self._find_tree_label(name)
        return known[folder]

    def _find_tree_label(self, name: str) -> Label:
        folded = _list_ancestors(casefold_path(name))[1:]
        for place, spelled in zip(folded, _list_ancestors(name)[1:], strict=True):
            if found := self.find_tree(spelled, place):
                return found
            if spelled and os.path.lexists(self.workspace.root / spelled / ".git"):
                return UNTRUSTED
        return TRUSTED

    def find_tree(self, place: str, folded: str) -> Label | None:
        """The label for everything in this folder, if it has one of its own. That of a repository
        ends with it: another in its place is not known.
        """
        group = self.by_folded.get(folded, {}).values()
        trees = [one for one in group if one.scope is LabelScope.TREE]
        births = {one.digest for one in trees if one.label is TRUSTED and one.digest}
        if births and births != {self.find_repository(place)}:
            return UNTRUSTED
        return join_all(one.label for one in trees) if trees else None

    def find_repository(self, name: str) -> str:
        """Which one lies in this folder: its birth; "" for none. That of the workspace is none of
        its own.
        """
        return find_birth(self.workspace.root / name / ".git") if name else ""

    def find_label(self, name: str, digest: str = "", owner: int | None = None) -> Label:
        """Of a file that holds this; without a digest, of what stands on the disk. `owner`: whose
        file it is, where that is known.
        """
        own = self.find_own(name)
        if any(one.label is UNTRUSTED for one in own):
            return UNTRUSTED
        if own and own[0].digest in (NO_FILE, digest or self.hash_file(name)):
            return TRUSTED
        if self.unsandboxed or (owner not in self.owners and self._is_others(name, owner)):
            return UNTRUSTED
        if self.find_folder_label(name) is UNTRUSTED:
            return UNTRUSTED
        return UNTRUSTED if self.is_foreign(name, digest) else TRUSTED

    def is_foreign(self, name: str, digest: str = "") -> bool:
        """A stranger's file held this; without a digest, what stands on the disk."""
        if not digest and self.foreign.sizes:
            try:
                info = os.lstat(self.workspace.root / name)
            except (OSError, ValueError):
                return False
            if stat.S_ISREG(info.st_mode) and info.st_size in self.foreign.sizes:
                digest = self.hash_file(name)
        return bool(digest) and self.foreign.has(name, digest)

    def find_makers(self, name: str, digest: str) -> set[str]:
        """What left this content there; "" for what nobody knows, or not as it is now."""
        own = self.find_own(name)
        return {one.maker if digest and one.digest == digest else "" for one in own} or {""}

    def needs_cleaning(self, name: str) -> bool:
        """It has a bad label of its own, which stays until a trusted text stands there."""
        return any(one.label is UNTRUSTED for one in self.find_own(name))

    def is_same(self, name: str, digest: str = "") -> bool:
        """It has a good label of its own, for what it holds: this, or what stands there now."""
        own = self.find_own(name)
        if not own or any(one.label is UNTRUSTED for one in own):
            return False
        return bool(own[0].digest) and own[0].digest == (digest or self.hash_file(name))

    def needs_row(self, name: str, digest: str) -> bool:
        """That a folder is the owner's is not enough for what a trusted turn writes there now."""
        if name in OWN_PROMPTS:
            return True
        covered = not self.unsandboxed and self.find_folder_label(name) is TRUSTED
        return not covered or self.is_foreign(name, digest)

    def _is_others(self, name: str, owner: int | None) -> bool:
        """Another user of the machine wrote it: neither ours nor that of the workspace."""
        with suppress(OSError, ValueError):
            if not self.owners:
                self.owners = {os.getuid(), self.workspace.root.stat().st_uid}
            if owner is None:
                owner = os.lstat(self.workspace.root / name).st_uid
            return owner not in self.owners
        return False

    def hash_file(self, name: str) -> str:
        """The digest of what stands there, without following a link. NO_FILE for nothing."""
        place = self.workspace.root / name
        try:
            info = os.lstat(place)
            if stat.S_ISLNK(info.st_mode):
                return hash_content(os.fsencode(place.readlink()))
            key = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            if key in self.digests or not stat.S_ISREG(info.st_mode):
                return self.digests.get(key, NO_FILE)
            with os.fdopen(os.open(place, READ_FLAGS), "rb") as file:
                found = file_digest(file, "sha256").hexdigest()
        except OSError:
            return NO_FILE
        if info.st_ctime_ns < file_clock_ns() - SETTLED_NS and len(self.digests) < MAX_DIGESTS:
            self.digests[key] = found
        return found


def _list_ancestors(name: str) -> list[str]:
    """It, the folders above it, and "" for the root."""
    steps = name.split("/") if name else []
    return ["/".join(steps[:count]) for count in range(len(steps), -1, -1)]


def casefold_path(name: str) -> str:
    return "/".join(map(casefold_name, name.split("/")))
