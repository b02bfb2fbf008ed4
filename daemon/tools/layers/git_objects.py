"""Objects of git that a command made: each is what its name says, and what references name is
whole, before any reference moves. What git keeps beside them is made anew.
"""

import errno
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha1, sha256
from pathlib import Path
from time import monotonic

from daemon.core import value
from daemon.tools.layers.layer import copy_file, remove_tree
from daemon.tools.workspace.fs import READ_FLAGS

PIECE, MAX_UNPACKED, HEAD_SIZE = 1_000_000, 4_000_000_000, 32
LIMITS = 'ulimit -d 2000000; exec "$@"'
HEADER = re.compile(rb"(?:blob|tree|commit|tag) (0|[1-9][0-9]*)\0")
SHA1_CHARS = 40
# Nothing of the repository's own settings, nor of this account's, starts a program.
GIT = (
    "/bin/sh", "-c", LIMITS, "sh", "git", "-c", "core.hooksPath=/dev/null", "-c",
    "core.fsmonitor=false", "-c", "gc.auto=0",
)  # fmt: skip
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TERMINAL_PROMPT": "0",
}


class DamagedObjects(Exception):
    """In words, what of a repository is not as it says."""


@value
class ObjectStage:
    """A repository of the daemon's own, at `place`: it holds what a command made and was checked.
    `real`, which need not exist, is where it will go. `until`: when all is to be checked. All of
    it works in a thread.
    """

    place: Path
    real: Path
    until: float

    @classmethod
    def create(cls, place: Path, real: Path, until: float, *, long: bool) -> "ObjectStage":
        """`long`: its hashes are SHA-256."""
        remove_tree(place)
        for name in ("objects/pack", "objects/info", "refs"):
            (place / name).mkdir(parents=True, mode=0o700)
        (place / "HEAD").write_text("ref: refs/heads/none\n")
        if (real / "objects").is_dir():  # of an earlier merge, which was killed
            (place / "objects/info/alternates").write_text(f"{real}/objects\n")
        words = "1\n[extensions]\n\tobjectformat = sha256" if long else "0"
        (place / "config").write_text(f"[core]\n\trepositoryformatversion = {words}\n")
        return cls(place, real, until)

    def add_loose(self, source: Path, name: str) -> None:
        """One object, by its path in a repository. Raises DamagedObjects, OSError."""
        found = "".join(name.split("/")[-2:])
        with os.fdopen(os.open(source, READ_FLAGS), "rb") as file:
            is_short = len(found) == SHA1_CHARS
            digest = sha1(usedforsecurity=False) if is_short else sha256()
            unpack, size, head = zlib.decompressobj(), 0, b""
            with suppress(zlib.error):
                while size <= MAX_UNPACKED and not unpack.eof and monotonic() < self.until:
                    data = unpack.unconsumed_tail or file.read(PIECE)
                    piece = unpack.decompress(data, PIECE)
                    if not data and not piece:
                        break
                    head = head or piece[:HEAD_SIZE]
                    digest.update(piece)
                    size += len(piece)
            whole = unpack.eof and not (unpack.unused_data or file.read(1))
            said = HEADER.match(head)
            is_one = said and int(said[1]) == size - said.end()
            if not (whole and is_one and digest.hexdigest() == found):
                raise DamagedObjects(f"object {found} is not what its name says")
        self._link(source, name)

    def add_pack(self, source: Path, name: str) -> Path:
        """A pack; gives the index that git makes of it. Raises DamagedObjects, OSError."""
        self._link(source, name)
        pack = self.place / name
        if self._run("index-pack", str(pack), git_dir=self.place) is None:
            raise DamagedObjects(f"{pack.name} is damaged")
        return pack.with_suffix(".idx")

    @property
    def _with_stage(self) -> dict[str, str]:
        """For git, to find what is here, too."""
        more = f'"{self.place / "objects"}"'.replace("\\", "\\\\")
        return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": more}

    def has_any(self, hashes: Iterable[str]) -> bool:
        """The repository has one of these. Raises OSError."""
        lines = "".join(f"{one}\n" for one in hashes)
        found = lines and self._run("cat-file", "--batch-check", given=lines, git_dir=self.real)
        return found is None or any(not one.endswith(" missing") for one in found.splitlines())

    def check_whole(self, targets: Iterable[str], shallow: Path | None, *, anew: bool) -> None:
        """All that can be reached from these hashes is there; with `anew`, of all the others, too.
        `shallow`: where history ends. Raises DamagedObjects, OSError.
        """
        lines = "".join(f"{one}\n" for one in dict.fromkeys(targets))
        is_new = not (self.real / "HEAD").exists()
        git_dir = self.place if is_new else self.real
        env = {"GIT_SHALLOW_FILE": str(shallow or ""), **self._with_stage}
        words = ("rev-list", "--objects", "--quiet", "--stdin")
        known = ("--all",) if anew else ("--not", "--all")
        found = self._run(*words, *known, given=lines, git_dir=git_dir, env=env)
        if found is None and not anew:  # a reference of the owner's may be broken: none is known
            found = self._run(*words, given=lines, git_dir=git_dir, env=env)
        if (lines or anew) and found is None:
            raise DamagedObjects("a branch or tag names what is not there")

    def list_changed(self, targets: Iterable[str]) -> Iterator[str]:
        """The paths in which new commits differ from what the owner has checked out."""
        env = self._with_stage
        for target in dict.fromkeys(targets):
            words = ("rev-list", "--max-count=1", target, "--not", "--all")
            if self._run(*words, git_dir=self.real, env=env) == "":
                continue  # it was there before
            words = ("diff-tree", "-r", "-z", "--name-only", "HEAD", target, "--")
            found = self._run(*words, git_dir=self.real, env=env)
            if found is None:
                words = ("ls-tree", "-r", "-z", "--name-only", target)
                found = self._run(*words, git_dir=self.real, env=env)
            yield from (found or "").split("\0")

    def drop_links(self) -> None:
        """What was checked has one name again; the indexes that git made stay."""
        for one in self.place.glob("objects/*/*"):
            if one.suffix != ".idx":
                one.unlink()

    def _link(self, source: Path, name: str) -> None:
        target = self.place / name
        target.parent.mkdir(exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError as error:  # the layers may lie on a disk of their own
            if error.errno != errno.EXDEV:
                raise
            copy_file(source, target)

    def _run(
        self, *words: str, git_dir: Path, given: str = "", env: dict[str, str] | None = None
    ) -> str | None:
        """What git prints; None where it fails."""
        try:
            done = subprocess.run(
                [*GIT, f"--git-dir={git_dir}", *words], input=given.encode(), env=ENV | (env or {}),
                cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                timeout=max(self.until - monotonic(), 0),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else done.stdout.decode("utf-8", "replace")
