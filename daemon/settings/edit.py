"""Edits one key of config.toml: checked, shown as a diff, written whole, a backup kept (A20); shows
a config without its secrets.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from functools import reduce
from pathlib import Path

import tomli_w
import tomlkit
from pydantic import BaseModel
from tomlkit.container import OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

from daemon.core import value
from daemon.core.errors import ConfigError, UsageError
from daemon.settings.dotted_keys import (
    KeyPath,
    find_changes,
    find_nearest,
    format_key,
    get_child,
    iter_leaves,
    parse_key,
    parse_literals,
)
from daemon.settings.load import C, LoadedConfig, Parse, read_text
from daemon.settings.paths import lock_folder, write_private_file
from daemon.settings.validation_errors import (
    MASK,
    MASK_NEW,
    find_credentials,
    is_secret_key,
    mask_credentials,
)

BACKUPS = ("bak", "bak.1", "bak.2")
UNGUARDED_KEYS = (
    "agent.effort",
    "agent.while_busy",
    "agent.on_stall",
    "agent.summary_strategy",
    "agent.context_window",
    "agent.check_claims",
    "agent.reflect",
)
REFERENCE_PATTERN = re.compile(r"secret:[A-Za-z0-9_.-]+|\$\{[A-Za-z_][A-Za-z0-9_]*\}")
TomlTable = tomlkit.TOMLDocument | AbstractTable | OutOfOrderTableProxy


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
        return tuple(key for key in map(format_key, self.keys) if key not in UNGUARDED_KEYS)

    @property
    def exposed_keys(self) -> tuple[str, ...]:
        """Keys whose secret would stand in the file itself, where a reference to it should."""
        raw = tomllib.loads(self.loaded.text)
        return tuple(
            format_key(steps)
            for steps in self.keys
            if is_secret_key(".".join(steps))
            and isinstance(text := reduce(get_child, steps, raw), str)
            and text
            and not is_reference(text)
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
        try:
            tomlkit.parse(before)
        except (TOMLKitError, RecursionError) as error:
            raise ConfigError(
                f"{self.path}: is not TOML: {error}. Mend it by hand, or: aidaemon config restore"
            ) from error
        raw = tomllib.loads(before)
        after = set_value_in_text(before, steps, value)
        found = tomllib.loads(after)
        changes = find_changes(raw, found)
        above = steps[:-1]  # an entry that goes moves those behind it
        is_entry = value is None and isinstance(reduce(get_child, above, raw), list)
        allowed = above if is_entry else steps
        if any(place[: len(allowed)] != allowed[: len(place)] for place in changes) or (
            value is not None and reduce(get_child, steps, found) != value
        ):
            raise ConfigError(
                f"{self.path}: {format_key(steps)}: cannot be changed by itself as it is "
                "written; edit it by hand"
            )
        loaded = self.parse(after if changes else before, self.path)
        return ConfigChange(before, loaded, tuple(changes))

    def write(self, change: ConfigChange) -> None:
        """Replace the file in one step; what it held is its newest backup. Raises ConfigError when
        somebody was faster.
        """
        if change.before == change.loaded.text:
            return
        with lock_folder(self.path.parent):
            if read_text(self.path) != change.before:
                raise ConfigError(
                    f"{self.path}: somebody else has just changed it; nothing was written. "
                    "Look, and try again"
                )
            for newer, older in ((1, 2), (0, 1)):
                if self._backup_path(newer).exists():
                    self._backup_path(newer).replace(self._backup_path(older))
            write_private_file(self._backup_path(0), change.before)
            write_private_file(self.path.resolve(), change.loaded.text)

    def restore(self, number: int = 0) -> ConfigChange:
        """Bring a backup back, 0 the newest; what the file held is kept. Raises ConfigError for one
        that does not load.
        """
        kept = self._backup_path(number)
        if not kept.exists():
            raise ConfigError(f"there is no {kept}; nothing was changed")
        change = ConfigChange(read_text(self.path), self.parse(read_text(kept), kept), ())
        self.write(change)
        return change

    def _backup_path(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{BACKUPS[number]}")


def set_value_in_text(text: str, steps: KeyPath, value: object) -> str:
    """The text with this value at this place; None takes out what is there. Raises ConfigError for
    what TOML cannot hold.
    """
    document = tomlkit.parse(text)
    try:
        set_value(document, steps, value)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, KeyError, IndexError) as error:
        raise ConfigError(f"{format_key(steps)}: cannot hold this: {error}") from error


def set_value(document: tomlkit.TOMLDocument, steps: KeyPath, value: object) -> None:
    """The same in a document. Raises UsageError where there is no such place."""
    place: object = document
    for position, step in enumerate(steps, 1):
        is_last = position == len(steps)
        if isinstance(place, list):
            if get_child(place, step) is None:
                raise UsageError(
                    f"there is no entry {step!r}: the list has {len(place)}, counted from 0. Give "
                    "the whole list"
                )
            if not is_last:
                place = place[int(step)]
            elif value is None:
                del place[int(step)]
            else:
                place[int(step)] = value
        elif not isinstance(place, TomlTable):
            above = format_key(steps[: position - 1])
            raise UsageError(f"{above} is {place!r} there, and no table: set {above} itself")
        elif not is_last:
            place = place.setdefault(step, tomlkit.table())
        elif value is not None:
            place[step] = value
        elif step in place:
            del place[step]


def is_reference(text: str) -> bool:
    """It only says where the value is."""
    return bool(REFERENCE_PATTERN.fullmatch(text))


def render_value(loaded: LoadedConfig[C], key: str, *, expanded: bool = True) -> str:
    """The value in force at this key, or a whole section; the whole config for "". Raises
    UsageError for a key there is not.

    Without `expanded` a value that stands elsewhere is shown as the file names it: `secret:NAME`,
    `${NAME}`.
    """
    value: object = loaded.config.model_dump(mode="json")
    raw: object = tomllib.loads(loaded.text)
    for part in key.split(".") if key else ():
        value, raw = get_child(value, part), get_child(raw, part)
        if value is None:
            near = find_nearest(type(loaded.config), key)
            raise UsageError(
                f"{loaded.path}: there is no key {key!r}"
                + (f"; did you mean {near}?" if near else "")
            )
    value = _mask(value, raw, key, expanded)
    if isinstance(value, Mapping):
        return tomli_w.dumps(value).rstrip()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _mask(value: object, raw: object, key: str, expanded: bool) -> object:
    if isinstance(value, Mapping):
        return {
            name: _mask(inner, get_child(raw, name), f"{key}.{name}" if key else name, expanded)
            for name, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [
            _mask(inner, get_child(raw, index), f"{key}.{index}", expanded)
            for index, inner in enumerate(value)
        ]
    written = raw if isinstance(raw, str) else ""
    if REFERENCE_PATTERN.search(written) and not expanded:
        return written if not is_secret_key(key) or is_reference(written) else MASK
    if value and (written.startswith("secret:") or is_secret_key(key)):
        return MASK
    return mask_credentials(value) if isinstance(value, str) else value


def mask_text(text: str, known: str | None = None) -> str:
    """The file's text with every secret left out; one that does not stand in the text `known` is
    marked as new.

    Of a text that is not TOML no value is shown at all.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError):
        return re.sub(r"=.*", f"= {MASK}", text)
    known = text if known is None else known
    before = [secret for _, secret in _find_secrets(known)]
    for steps, secret in _find_secrets(text):
        set_value(document, steps, MASK if secret in before else MASK_NEW)
    return mask_credentials(tomlkit.dumps(document), {MASK, *find_credentials(known)})


def _find_secrets(text: str) -> list[tuple[KeyPath, str]]:
    try:
        leaves = list(iter_leaves(tomllib.loads(text)))
    except (ValueError, RecursionError):
        return []
    return [
        (steps, str(value))
        for steps, (_, value) in leaves
        if is_secret_key(".".join(steps)) and value and not is_reference(str(value))
    ]


def replace_sections(text: str, source: str, sections: Sequence[str]) -> str:
    """The text with these sections as they are in the other text."""
    document, other = tomlkit.parse(text), tomlkit.parse(source)
    for name in sections:
        if name in other:
            document[name] = other[name]
        else:
            document.pop(name, None)
    return tomlkit.dumps(document)
