"""Starts a program of the tests as an ordinary user, whoever runs them: what it needs of places that are root's alone is shown
to it where it is, and nothing else of them.
"""

import os
import shlex
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[3]
USER = 12345
OTHERS_ENTER = 0o1
HOLD = 'mkdir -p "$HELD/{number}" && mount --bind {place} "$HELD/{number}"'
COVER = "mount -t tmpfs -o mode=755 none {place}"
SHOW = 'mkdir -p {place} && mount --bind "$HELD/{number}" {place}'


@contextmanager
def owned() -> Iterator[Path]:
    """A home that is this user's."""
    with TemporaryDirectory(prefix="aidaemon-home-") as folder:
        home = Path(folder).resolve()
        (home / "held").mkdir()
        if os.geteuid() == 0:
            os.chown(home, USER, USER)
        yield home


def line_as_user(words: Sequence[str], user: int = USER) -> list[str]:
    """The command line that runs Python with these words as the user; who is none of root's is one already."""
    if os.geteuid():
        return [sys.executable, *words]
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"]
    script = " && ".join([*_show(_find_needed()), 'exec "$@"'])
    return ["unshare", "--mount", "sh", "-ec", script, "sh", *drop, sys.executable, *words]


def environment(home: Path) -> dict[str, str]:
    """What the program is told: its home, and which code it runs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    ours = {name: value for name, value in os.environ.items() if name.startswith("AIDAEMON_")}
    folders = {"HOME": str(home), "TMPDIR": str(home), "HELD": str(home / "held")}
    folders["AIDAEMON_MODELS"] = str(home / "models")
    return {**kept, **ours, **folders, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def _find_needed() -> list[Path]:
    """Python, what is installed, and the code."""
    paths = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    found = {Path(one).resolve() for one in (sys.base_prefix, sys.prefix, *paths, ROOT)}
    return [one for one in sorted(found) if not any(one.is_relative_to(up) for up in found - {one})]


def _find_shut(place: Path) -> Path | None:
    """The first folder above that others cannot enter."""
    above = reversed([place, *place.parents])
    return next((one for one in above if not one.stat().st_mode & OTHERS_ENTER), None)


def _show(places: Iterable[Path]) -> Iterator[str]:
    """In a mount namespace of its own an empty folder lies over each that is shut, with these in it."""
    shut = {place: cover for place in places if (cover := _find_shut(place))}
    numbered = [(number, shlex.quote(str(place))) for number, place in enumerate(shut)]
    yield from (HOLD.format(number=number, place=place) for number, place in numbered)
    yield from (COVER.format(place=shlex.quote(str(one))) for one in sorted(set(shut.values())))
    yield from (SHOW.format(number=number, place=place) for number, place in numbered)
