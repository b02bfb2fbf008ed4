"""Binds a yes to what the files that a command runs hold, and tells what has changed in them."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from difflib import unified_diff
from pathlib import Path

from daemon.core import value
from daemon.settings.paths import write_private_file
from daemon.tools.base import Arguments, BoundContent
from daemon.tools.policy.grants import OWN_CONTENT
from daemon.tools.shell.named_files import MAX_FILES, FoundFile, find_named_files
from daemon.tools.workspace.file_store import KEPT_PREFIX

UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
MAX_KEPT, MAX_SHOWN, MAX_DIFF_LINES, MAX_LINE = 50_000, 10, 40, 200


@value
class NamedFilesBinder:
    """Binds a yes to the files that a command runs. What they held is kept in `folder`, so that a
    change can be shown, without secrets. `own_contents`: the digests of what tools wrote by the
    owner's words.
    """

    root: Path
    folder: Path
    own_contents: Callable[[], Mapping[str, str]] = dict
    redact: Callable[[str], str] = str

    def look(self, arguments: Arguments, now: datetime) -> BoundContent:
        """In a thread."""
        argv, command = arguments.get("argv"), arguments.get("command")
        words = [str(word) for word in argv] if isinstance(argv, list) and argv else str(command)
        found = find_named_files(self.root, words if argv or command else [])
        own, key = self.own_contents(), dict[str, str]()
        for path, one in sorted(found.items()):
            is_own = one.by_itself and own.get(path) == one.digest
            key[path] = OWN_CONTENT if is_own else one.digest
            place = self.folder / f"{KEPT_PREFIX}{one.digest}"
            if one.text and one.size <= MAX_KEPT and not is_own:
                with suppress(OSError):  # without it, a change is told and not shown
                    if place.exists():
                        os.utime(place)
                    else:
                        write_private_file(place, self.redact(one.text).encode())
        return BoundContent(
            json.dumps(key) if key else "",
            "\n".join(_describe(found, now.timestamp())),
        )

    def explain_change(self, former: str, key: str) -> str:
        """What is different by now: a short diff. In a thread."""
        before, after = (json.loads(one) if one else {} for one in (former, key))
        lines: list[str] = []
        for path in sorted({*before, *after}):
            old, new = before.get(path, ""), after.get(path, "")
            if new in (old, OWN_CONTENT):
                continue
            texts = [self._load(digest) for digest in (old, new)]
            state = "is new" if not old else "is gone" if not new else "has changed"
            lines.append(
                f"{path} {state}" + ("" if None not in texts else " (not shown: too long)")
            )
            if None not in texts:
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


def _describe(found: Mapping[str, FoundFile], now: float) -> Iterator[str]:
    """`runs deploy.sh (12 lines, changed 3 minutes ago)`."""
    for path, one in list(found.items())[:MAX_SHOWN]:
        lines = len(one.text.splitlines())
        size = f"{lines} line{'s' * (lines != 1)}" if one.text else f"{one.size} bytes"
        age = max(now - one.changed, 0)
        unit, name = next(pair for pair in UNITS if age >= pair[0] or pair[0] == 1)
        count = int(age // unit)
        when = f"changed {count} {name}{'s' * (count != 1)} ago" if one.changed else "outside"
        yield f"runs {path} ({size}, {when})"
    if len(found) > MAX_SHOWN:
        yield f"and {len(found) - MAX_SHOWN} more files that these name or find"
    if len(found) == MAX_FILES:
        yield "they name so many files that not all were looked at"
