"""Edits one key of config.toml: checked, shown as a diff, written whole, a backup kept (A20)."""

import fcntl
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import unified_diff
from pathlib import Path

import tomlkit
from pydantic import BaseModel
from tomlkit.exceptions import TOMLKitError

from daemon.core import value
from daemon.core.errors import ConfigError, UsageError
from daemon.settings.dotted_keys import (
    KeyPath,
    find_changes,
    format_key,
    parse_key,
    parse_literals,
    replace_value,
)
from daemon.settings.load import LoadedConfig, Parse
from daemon.settings.masking import is_reference, mask_text, set_value_in_text
from daemon.settings.paths import write_private_file
from daemon.settings.toml_file import read_text
from daemon.settings.validation_errors import is_secret_key

BACKUPS = ("bak", "bak.1", "bak.2")
UNGUARDED_KEYS: frozenset[KeyPath] = frozenset(
    ("agent", name)
    for name in (
        "effort",
        "while_busy",
        "on_stall",
        "summary_strategy",
        "context_window",
        "check_claims",
        "reflect",
    )
)


@value
class ConfigChange:
    """An edit that is in order, not written yet. `keys` are the places it changes."""

    before: str
    loaded: LoadedConfig[BaseModel]
    keys: tuple[KeyPath, ...]

    @property
    def diff(self) -> str:
        """Line by line, secrets left out; "" when nothing changes."""
        old, new = mask_text(self.before), mask_text(self.loaded.text, known=self.before)
        lines = unified_diff(
            old.splitlines(), new.splitlines(), "config.toml", "config.toml", n=1, lineterm=""
        )
        return "\n".join(lines)

    @property
    def guarded_keys(self) -> tuple[str, ...]:
        """Keys that only the owner changes, by their full path: all but a few that are merely
        taste.
        """
        return tuple(format_key(steps) for steps in self.keys if steps not in UNGUARDED_KEYS)

    @property
    def exposed_keys(self) -> tuple[str, ...]:
        """Keys whose secret would stand in the file itself, where a reference to it should."""
        raw = tomllib.loads(self.loaded.text)
        return tuple(
            format_key(steps)
            for steps in self.keys
            if is_secret_key(".".join(steps)) and _is_plain_secret(_get_at(raw, steps))
        )


@value
class ConfigEditor:
    """The config file at `path`, which may be absent."""

    path: Path
    parse: Parse[BaseModel]

    def plan(self, key: str, value: object) -> ConfigChange:
        """This value at this key; None goes back to the default, a text may be TOML. Writes
        nothing.

        Raises ConfigError with every fault the file would have, UsageError for a key that is none.
        """
        steps, faults = parse_key(key), []
        for meant in parse_literals(value) if isinstance(value, str) else [value]:
            try:
                return self._plan_value(steps, meant)
            except ConfigError as error:
                faults.append(error)
        raise faults[0]

    def _plan_value(self, steps: KeyPath, value: object) -> ConfigChange:
        before = read_text(self.path)
        raw = tomllib.loads(self._check_toml(before))
        wanted = replace_value(raw, steps, value)
        if not isinstance(wanted, Mapping):
            raise UsageError(f"{format_key(steps)} is no key of a file")
        after = set_value_in_text(before, steps, value) if wanted != raw else before
        if tomllib.loads(after) != wanted:
            raise ConfigError(
                f"{self.path}: {format_key(steps)}: cannot be changed by itself as it is "
                "written; edit it by hand"
            )
        return ConfigChange(
            before,
            self.parse(after, self.path),
            tuple(find_changes(raw, wanted)),
        )

    def _check_toml(self, text: str) -> str:
        try:
            tomlkit.parse(text)
        except (TOMLKitError, RecursionError) as error:
            raise ConfigError(
                f"{self.path}: is not TOML: {error}. Mend it by hand, or: aidaemon config restore"
            ) from error
        return text

    def write(self, change: ConfigChange) -> None:
        """Replace the file in one step; what it held is its newest backup. Raises ConfigError when
        somebody was faster.
        """
        self._replace_file(change.before, change.loaded.text)

    def restore(self, number: int = 0) -> ConfigChange:
        """Bring a backup back, 0 the newest; what the file held is kept. Raises ConfigError for one
        that does not load.
        """
        kept = self._backup_path(number)
        if not kept.exists():
            raise ConfigError(f"there is no {kept}; nothing was changed")
        before, text = read_text(self.path), read_text(kept)
        change = ConfigChange(before, self.parse(text, kept), ())
        self._replace_file(before, text)
        return change

    def _backup_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{BACKUPS[number]}")

    def _replace_file(self, before: str, after: str) -> None:
        if before == after:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock_folder(self.path.parent):
            if read_text(self.path) != before:
                raise ConfigError(
                    f"{self.path}: somebody else has just changed it; nothing was written. "
                    "Look, and try again"
                )
            for newer, older in ((1, 2), (0, 1)):
                if self._backup_path(newer).exists():
                    self._backup_path(newer).replace(self._backup_path(older))
            write_private_file(self._backup_path(0), before)
            write_private_file(self.path.resolve(), after)


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """One writer at a time, whatever process it is in."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _get_at(value: object, steps: KeyPath) -> object:
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _is_plain_secret(value: object) -> bool:
    return isinstance(value, str) and bool(value) and not is_reference(value)
