"""Objects of git that a command made: each is what its name says, and what references name is
whole, before any reference moves. What git keeps beside them is made anew.
"""

import os
import subprocess
import zlib
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha1, sha256
from pathlib import Path

from daemon.core import value
from daemon.tools.layers.layer import remove_tree
from daemon.tools.workspace.fs import READ_FLAGS

PIECE, MAX_UNPACKED, TIMEOUT_S = 1_000_000, 4_000_000_000, 300
SHA1_CHARS, SHA256_BYTES = 40, 32
# Nothing of the repository's own settings, nor of this account's, starts a program.
GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}


class DamagedObjects(Exception):
    """In words, what of a repository is not as it says."""


@value
class ObjectStage:
    """A repository of the daemon's own, at `place`: it holds what a command made and was checked.
    `real` is where it will go; nothing may be there yet. All of it works in a thread.
    """

    place: Path
    real: Path

    @classmethod
    def create(cls, place: Path, real: Path, hash_size: int) -> "ObjectStage":
        """`hash_size`: in bytes."""
        remove_tree(place)
        for name in ("objects/pack", "objects/info", "refs"):
            (place / name).mkdir(parents=True, mode=0o700)
        (place / "HEAD").write_text("ref: refs/heads/none\n")
        if (real / "objects").is_dir():  # of an earlier merge, which was killed
            (place / "objects/info/alternates").write_text(f"{real}/objects\n")
        words = "1\n[extensions]\n\tobjectformat = sha256" if hash_size == SHA256_BYTES else "0"
        (place / "config").write_text(f"[core]\n\trepositoryformatversion = {words}\n")
        return cls(place, real)

    def add_loose(self, source: Path, name: str) -> None:
        """One object, by its path in a repository. Raises DamagedObjects, OSError."""
        found = "".join(name.split("/")[-2:])
        with os.fdopen(os.open(source, READ_FLAGS), "rb") as file:
            is_short = len(found) == SHA1_CHARS
            digest = sha1(usedforsecurity=False) if is_short else sha256()
            unpack, left = zlib.decompressobj(), MAX_UNPACKED
            with suppress(zlib.error):
                while left > 0 and not unpack.eof and (data := file.read(PIECE)):
                    while data and left > 0 and not unpack.eof:
                        piece = unpack.decompress(data, PIECE)
                        digest.update(piece)
                        left -= len(piece)
                        data = unpack.unconsumed_tail
                digest.update(unpack.flush())
            if not unpack.eof or file.read(1) or digest.hexdigest() != found:
                raise DamagedObjects(f"object {found} is not what its name says")
        self._link(source, name)

    def add_pack(self, source: Path, name: str) -> Path:
        """A pack; gives the index that git makes of it. Raises DamagedObjects, OSError."""
        self._link(source, name)
        pack = self.place / name
        if self._run("index-pack", str(pack), git_dir=self.place) is None:
            raise DamagedObjects(f"{pack.name} is damaged")
        return pack.with_suffix(".idx")

    def check_whole(self, targets: Iterable[str], shallow: Path) -> None:
        """All that can be reached from these hashes is there. Raises DamagedObjects, OSError."""
        lines = "".join(f"{one}\n" for one in dict.fromkeys(targets))
        is_new = not (self.real / "HEAD").exists()
        more = f'"{self.place / "objects"}"'.replace("\\", "\\\\")
        env = {"GIT_SHALLOW_FILE": str(shallow)} if shallow.is_file() else {}
        words = ("rev-list", "--objects", "--quiet", "--stdin", "--not", "--all")
        found = self._run(
            *words,
            given=lines,
            git_dir=self.place if is_new else self.real,
            env=env | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": more},
        )
        if lines and found is None:
            raise DamagedObjects("a branch or tag names what is not there")

    def _link(self, source: Path, name: str) -> None:
        target = self.place / name
        target.parent.mkdir(exist_ok=True)
        target.unlink(missing_ok=True)
        os.link(source, target, follow_symlinks=False)

    def _run(
        self, *words: str, git_dir: Path, given: str = "", env: dict[str, str] | None = None
    ) -> str | None:
        """What git prints; None where it fails."""
        try:
            done = subprocess.run(
                [*GIT, f"--git-dir={git_dir}", *words], input=given, env=ENV | (env or {}),
                cwd=self.place, capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else done.stdout
