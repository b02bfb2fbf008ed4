"""One key of config.toml is changed: checked as the daemon would load it, shown as a diff, written whole, the old kept (A20)."""

import fcntl
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from daemon.config.document import with_value
from daemon.config.keyed import Steps, changed, literals, replaced, steps_of, written
from daemon.config.load import Loaded, parse
from daemon.config.private import write_private
from daemon.config.shown import is_reference, masked_text
from daemon.core.errors import ConfigError, UsageError
from daemon.core.faults import is_hidden
from daemon.core.toml import read

BACKUPS = ("bak", "bak.1", "bak.2")
FREE: frozenset[Steps] = frozenset(
    ("agent", name)
    for name in ("effort", "while_busy", "on_stall", "summary_strategy", "context_window", "check_claims", "reflect")
)


@dataclass(frozen=True, slots=True)
class Change:
    """An edit that is in order, not written yet. `keys` are the places it changes."""

    before: str
    loaded: Loaded
    keys: tuple[Steps, ...]

    @property
    def diff(self) -> str:
        """Line by line, secrets left out; "" when nothing changes."""
        old, new = masked_text(self.before), masked_text(self.loaded.text, known=self.before)
        lines = unified_diff(old.splitlines(), new.splitlines(), "config.toml", "config.toml", n=1, lineterm="")
        return "\n".join(lines)

    @property
    def guarded(self) -> tuple[str, ...]:
        """Keys that only the owner changes, by their full path: all but a few that are merely taste."""
        return tuple(written(steps) for steps in self.keys if steps not in FREE)

    @property
    def exposes(self) -> tuple[str, ...]:
        """Keys whose secret would stand in the file itself, where a reference to it should."""
        raw = tomllib.loads(self.loaded.text)
        return tuple(written(steps) for steps in self.keys if is_hidden(".".join(steps)) and _is_bare(_at(raw, steps)))


@dataclass(frozen=True, slots=True)
class Editor:
    """The config file at `path`, which may be absent."""

    path: Path
    env: Mapping[str, str]
    secrets: Mapping[str, str]

    def plan(self, key: str, value: object) -> Change:
        """This value at this key; None goes back to the default, a text may be TOML. Writes nothing.

        Raises ConfigError with every fault the file would have, UsageError for a key that is none.
        """
        steps, faults = steps_of(key), []
        for meant in literals(value) if isinstance(value, str) else [value]:
            try:
                return self._planned(steps, meant)
            except ConfigError as error:
                faults.append(error)
        raise faults[0]

    def _planned(self, steps: Steps, value: object) -> Change:
        before = read(self.path)
        raw = tomllib.loads(self._loadable(before))
        wanted = replaced(raw, steps, value)
        if not isinstance(wanted, Mapping):
            raise UsageError(f"{written(steps)} is no key of a file")
        after = with_value(before, steps, value) if wanted != raw else before
        if tomllib.loads(after) != wanted:
            raise ConfigError(f"{self.path}: {written(steps)}: cannot be changed by itself as it is written; edit it by hand")
        return Change(before, parse(after, self.path, env=self.env, secrets=self.secrets), tuple(changed(raw, wanted)))

    def _loadable(self, text: str) -> str:
        try:
            tomlkit.parse(text)
        except (TOMLKitError, RecursionError) as error:
            raise ConfigError(f"{self.path}: is not TOML: {error}. Mend it by hand, or: aidaemon config restore") from error
        return text

    def write(self, change: Change) -> None:
        """Replace the file in one step; what it held is its newest backup. Raises ConfigError when somebody was faster."""
        self._replace(change.before, change.loaded.text)

    def restore(self, number: int = 0) -> Change:
        """Bring a backup back, 0 the newest; what the file held is kept. Raises ConfigError for one that does not load."""
        kept = self._backup(number)
        if not kept.exists():
            raise ConfigError(f"there is no {kept}; nothing was changed")
        before, text = read(self.path), read(kept)
        change = Change(before, parse(text, kept, env=self.env, secrets=self.secrets), ())
        self._replace(before, text)
        return change

    def _backup(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{BACKUPS[number]}")

    def _replace(self, before: str, after: str) -> None:
        if before == after:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(self.path.parent):
            if read(self.path) != before:
                raise ConfigError(f"{self.path}: somebody else has just changed it; nothing was written. Look, and try again")
            for newer, older in ((1, 2), (0, 1)):
                if self._backup(newer).exists():
                    self._backup(newer).replace(self._backup(older))
            write_private(self._backup(0), before)
            write_private(self.path.resolve(), after)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One writer at a time, whatever process it is in."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _at(value: object, steps: Steps) -> object:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _is_bare(value: object) -> bool:
    return isinstance(value, str) and bool(value) and not is_reference(value)
