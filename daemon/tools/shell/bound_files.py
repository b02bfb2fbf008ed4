"""Binds a yes to a command to the state of what it may run, and tells what has changed in it.

Nobody knows what a command runs. So a yes holds while no stranger has left anything new in the
workspace; what the owner, or the assistant by the owner's words, changes does not end it. A yes for
once is for the files that its words name, too, as they were shown.
"""

import asyncio
import json
import os
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from difflib import unified_diff
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from daemon.core import value
from daemon.core.rows import LabelScope
from daemon.core.trust import Decision, Label
from daemon.settings.paths import write_private_file
from daemon.tools.base import Arguments, BoundContent, ToolContext
from daemon.tools.calls import args_hash, parse_arguments
from daemon.tools.policy.grants import NAMED
from daemon.tools.shell.parse import OPERATORS, split_words
from daemon.tools.workspace.command_effects import (
    CommandEffects,
    hash_held,
    hash_untrusted,
    list_held,
)
from daemon.tools.workspace.file_store import KEPT_PREFIX
from daemon.tools.workspace.index import WorkspaceIndex, show_name
from daemon.tools.workspace.labels import NOTE, OWNERS, FileLabels
from daemon.tools.workspace.protected import ProtectedFiles

UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
MAX_KEPT, MAX_SHOWN, MAX_DIFF_LINES, MAX_LINE = 50_000, 5, 40, 200
MAX_LISTED, MAX_WORD = 100, 4096
BEFORE = "files were bound in another way when it was allowed, so it asks once more"


@value
class CommandBinder:
    """What files held is kept in `folder`, so that a change can be shown, without secrets and
    without what is `protected`. `reads_only` knows commands that run nothing.
    """

    effects: CommandEffects
    folder: Path
    tool: str
    reads_only: Callable[[Arguments], bool]
    redact: Callable[[str], str] = str
    protected: ProtectedFiles | None = None

    async def look(self, arguments: Arguments, now: datetime) -> BoundContent:
        """Strangers' files, but for what the same command has left, and what its words name."""
        if self.reads_only(arguments):
            return BoundContent()
        index = await self.effects.look()
        labels, maker = self.effects.files.labels.snapshot(), args_hash(self.tool, arguments)
        return await asyncio.to_thread(self._look, index, labels, maker, arguments, now)

    def _look(
        self,
        index: WorkspaceIndex,
        labels: FileLabels,
        maker: str,
        arguments: Arguments,
        now: datetime,
    ) -> BoundContent:
        named = list_named(labels.workspace.root, arguments)
        held = self.effects.held.list_folders()  # of whose turn this is, is not known here
        strangers = find_strangers(index, labels, held, maker, named)
        lines = [describe_file(labels.workspace.root / path, path, now) for path in named]
        if strangers:
            shown = ", ".join(map(show_name, sorted(strangers)[:MAX_SHOWN]))
            more = len(strangers) - MAX_SHOWN
            rest = f" and {more} more" if more > 0 else ""
            lines.append(f"may run what strangers left here: {shown}{rest}")
        key = {f"{NAMED}{path}": labels.hash_file(path) for path in named} | strangers
        for path, digest in key.items():
            place = path.removeprefix(NAMED)
            if not (self.protected and self.protected.covers(place)):
                self._keep(labels.workspace.root / place, digest)
        return BoundContent(json.dumps(key, sort_keys=True) if key else "", "\n".join(lines))

    def _keep(self, file: Path, digest: str) -> None:
        """Without it, a change is told and not shown."""
        place = self.folder / f"{KEPT_PREFIX}{digest}"
        with suppress(OSError):
            if place.exists():
                os.utime(place)
            elif stat.S_ISREG((info := file.lstat()).st_mode) and info.st_size <= MAX_KEPT:
                data = file.read_bytes()
                if sha256(data).hexdigest() == digest and b"\0" not in data:
                    text = self.redact(data.decode("utf-8", "replace"))
                    write_private_file(place, text.encode())

    async def explain_change(self, former: str, key: str) -> str:
        """What is different by now: a short diff."""
        return await asyncio.to_thread(self._explain_change, former, key)

    def _explain_change(self, former: str, key: str) -> str:
        before, after = (json.loads(one) if one else {} for one in (former, key))
        lines = [BEFORE] * ("" in before)
        for name in sorted({*before, *after} - {""}):
            old, new, path = before.get(name, ""), after.get(name, ""), name.removeprefix(NAMED)
            if old == new or (path != name and not (old and new)):
                continue
            texts = [self._load(digest) for digest in (old, new)]
            is_shown = None not in texts and new
            state = "is new" if not old else "is no stranger's now" if not new else "has changed"
            lines.append(
                f"{show_name(path)} {state}" + ("" if is_shown or not new else " (not shown)")
            )
            if is_shown:
                before_lines, after_lines = ((text or "").splitlines() for text in texts)
                lines += list(unified_diff(before_lines, after_lines, n=1, lineterm=""))[2:]
        more = len(lines) - MAX_DIFF_LINES
        rest = [f"... and {more} more lines of difference"] if more > 0 else []
        return "\n".join([line[:MAX_LINE] for line in lines[:MAX_DIFF_LINES]] + rest)

    def _load(self, digest: str) -> str | None:
        """None for what is not kept."""
        if not digest:
            return ""
        try:
            return (self.folder / f"{KEPT_PREFIX}{digest}").read_text("utf-8", "replace")
        except OSError:
            return None


def find_maker(context: ToolContext, label: Label) -> str:
    """Whose what a command leaves is (FileLabel): the owner's, if it works without a network, in a
    chat that read nothing of a stranger's or by a standing yes of before, with what is here.
    """
    state = context.turn.call(context.call_id)
    is_allowed = state.judged is not None and state.judged.decision is Decision.ALLOW
    is_owners = is_allowed or not context.untrusted_source
    if is_owners and label is Label.TRUSTED:
        return OWNERS
    return args_hash(state.call.name, parse_arguments(state.call.arguments))


def find_strangers(
    index: WorkspaceIndex,
    labels: FileLabels,
    held: Sequence[Path],
    maker: str,
    named: Container[str],
) -> dict[str, str]:
    """What is not the owner's, by path, with a digest; of very much, one digest for each folder at
    the top. What the command of this hash has left is no news to it, and what the owner's commands
    make of all this is none to any; a note is data, where it is not `named`. In a thread.
    """
    place = index.too_much
    closed = "" if place == "." else place
    found = (
        {} if closed is None else {place or ".": _hash_rows(closed, labels, {maker, OWNERS, NOTE})}
    )
    known = {maker, OWNERS}
    for path, size, digest in hash_untrusted(index, labels):
        notes = set() if path in named else {NOTE}
        if not labels.find_makers(path, digest) <= known | notes:
            changed_ns = 0 if digest else (labels.workspace.root / path).lstat().st_ctime_ns
            found[path] = digest or f"{size} {changed_ns}"
    for folder, path in ((one, path) for one in held for path in list_held(one)):
        digest = hash_held(labels, folder, path)
        if not labels.is_same(path, digest) and not labels.find_makers(path, digest) <= known:
            found[path] = f"{found.get(path, '')} {digest}".lstrip()  # in several folders, perhaps
    if len(found) <= MAX_LISTED:
        return found
    groups = dict[str, list[str]]()
    for path, digest in sorted(found.items()):
        top, slash, _ = path.partition("/")
        groups.setdefault(top + slash, []).append(f"{path}\0{digest}")
    if len(groups) > MAX_LISTED:
        groups = {".": [one for group in groups.values() for one in group]}
    return {
        top: sha256("\n".join(group).encode(errors="surrogateescape")).hexdigest()
        for top, group in groups.items()
    }


def _hash_rows(place: str, labels: FileLabels, known: Container[str]) -> str:
    """What is known to have been left in a folder that cannot be looked through."""
    rows = sorted(
        f"{one.path}\0{one.turn}\0{one.digest}"
        for one in labels.entries
        if one.label is Label.UNTRUSTED and one.maker not in known
        if one.scope is not LabelScope.NAME and f"{one.path}/".startswith(place and f"{place}/")
    )
    return sha256("\n".join(rows).encode(errors="surrogateescape")).hexdigest()


def list_named(root: Path, arguments: Arguments) -> list[str]:
    """The files of the workspace that its words name, as they stand. In a thread."""
    argv = arguments.get("argv")
    words: Sequence[str] = [str(word) for word in argv] if isinstance(argv, list) else ()
    line = str(arguments.get("command") or "")
    with suppress(ValueError):  # a quote that is not closed
        words = words or (split_words(line) if len(line) <= MAX_KEPT else line.split())
    return list(dict.fromkeys(_find_files(root, words)))


def _find_files(root: Path, words: Sequence[str]) -> Iterator[str]:
    for before, word in pairwise(("", *words[:MAX_LISTED])):
        is_written = ">" in before and not set(before) - set(OPERATORS)  # a redirect's target
        if is_written or len(word) > MAX_WORD:  # no file has such a name, and it takes long to see
            continue
        with suppress(OSError, ValueError):
            place = os.path.realpath(root / word)
            if place.startswith(f"{root}/") and stat.S_ISREG(os.lstat(place).st_mode):
                yield place.removeprefix(f"{root}/")


def describe_file(place: Path, path: str, now: datetime) -> str:
    """`names deploy.sh (12 lines, changed 3 minutes ago)`."""
    with suppress(OSError):
        info, data = place.stat(), b"\0"
        if info.st_size <= MAX_KEPT:
            data = place.read_bytes()
        count = data.count(b"\n") + bool(data and not data.endswith(b"\n"))
        size = f"{info.st_size} bytes" if b"\0" in data else f"{count} line{'s' * (count != 1)}"
        age = max(now.timestamp() - info.st_ctime, 0)
        unit, name = next(pair for pair in UNITS if age >= pair[0] or pair[0] == 1)
        number = int(age // unit)
        return f"names {show_name(path)} ({size}, changed {number} {name}{'s' * (number != 1)} ago)"
    return f"names {show_name(path)}"
