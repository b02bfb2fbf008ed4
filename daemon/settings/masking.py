"""Changes values in a TOML text; shows a config without its secrets (A20)."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence

import tomli_w
import tomlkit
from tomlkit.container import OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AbstractTable

from daemon.core.errors import ConfigError, UsageError
from daemon.settings.dotted_keys import KeyPath, format_key, iter_leaves
from daemon.settings.load import C, LoadedConfig
from daemon.settings.model_keys import find_nearest, get_child
from daemon.settings.validation_errors import (
    MASK,
    MASK_NEW,
    find_credentials,
    is_secret_key,
    mask_credentials,
)

TomlTable = tomlkit.TOMLDocument | AbstractTable | OutOfOrderTableProxy


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
    """The same in a document. Raises TypeError and its like where there is no such place."""
    place: object = document
    for step in steps[:-1]:
        place = _enter(place, step)
    step = steps[-1]
    if isinstance(place, list):
        if value is None:
            del place[int(step)]
        else:
            place[int(step)] = value
    elif not isinstance(place, TomlTable):
        raise TypeError(f"{step} stands in no table")
    elif value is not None:
        place[step] = value
    elif step in place:
        del place[step]


def _enter(place: object, step: str) -> object:
    if isinstance(place, list):
        return place[int(step)]
    if not isinstance(place, TomlTable):
        raise TypeError(f"{step} stands in no table")
    if step not in place:
        place[step] = tomlkit.table()
    return place[step]


REFERENCE_PATTERN = re.compile(r"secret:[A-Za-z0-9_.-]+|\$\{[A-Za-z_][A-Za-z0-9_]*\}")


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
    return _format(_mask(value, raw, key, expanded))


def _mask(value: object, raw: object, key: str, expanded: bool) -> object:
    if isinstance(value, Mapping):
        parts = ((name, inner) for name, inner in value.items() if inner is not None)
        return {
            name: _mask(inner, get_child(raw, name), f"{key}.{name}" if key else name, expanded)
            for name, inner in parts
        }
    if isinstance(value, list):
        return [
            _mask(inner, get_child(raw, str(index)), f"{key}.{index}", expanded)
            for index, inner in enumerate(value)
        ]
    if isinstance(raw, str) and REFERENCE_PATTERN.search(raw) and not expanded:
        return raw if not is_secret_key(key) or is_reference(raw) else MASK
    from_store = isinstance(raw, str) and raw.startswith("secret:")
    if value and (from_store or is_secret_key(key)):
        return MASK
    return mask_credentials(value) if isinstance(value, str) else value


def _format(value: object) -> str:
    if isinstance(value, Mapping):
        return tomli_w.dumps(value).rstrip()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
    before = [value for _, value in _find_secrets(known)]
    for steps, value in _find_secrets(text):
        set_value(document, steps, MASK if value in before else MASK_NEW)
    return mask_credentials(tomlkit.dumps(document), {MASK, *find_credentials(known)})


def _find_secrets(text: str) -> list[tuple[KeyPath, str]]:
    try:
        found = [
            (steps, str(value))
            for steps, (_, value) in iter_leaves(tomllib.loads(text))
            if is_secret_key(".".join(steps))
        ]
    except (ValueError, RecursionError):
        return []
    return [
        (steps, value)
        for steps, value in found
        if value not in ("", "[]", "{}") and not is_reference(value)
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
