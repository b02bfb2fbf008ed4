"""What is shown of a config: never a secret (A20)."""

import json
import re
import tomllib
from collections.abc import Mapping

import tomli_w
import tomlkit
from tomlkit.exceptions import TOMLKitError

from daemon.config.document import put
from daemon.config.keyed import Steps, leaves
from daemon.config.load import Loaded
from daemon.config.model import Config
from daemon.core.errors import UsageError
from daemon.core.faults import MASK, NEW, credentials_in, is_hidden, without_credentials
from daemon.core.keys import descend, nearest

REFERENCE = re.compile(r"secret:[A-Za-z0-9_.-]+|\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def is_reference(text: str) -> bool:
    """It only says where the value is."""
    return bool(REFERENCE.fullmatch(text))


def value_of(loaded: Loaded, key: str, *, expanded: bool = True) -> str:
    """The value in force at this key, or a whole section; the whole config for "". Raises UsageError for a key there is not.

    Without `expanded` a value that stands elsewhere is shown as the file names it: `secret:NAME`, `${NAME}`.
    """
    value: object = loaded.config.model_dump(mode="json")
    raw: object = tomllib.loads(loaded.text)
    for part in key.split(".") if key else ():
        value, raw = descend(value, part), descend(raw, part)
        if value is None:
            near = nearest(Config, key)
            raise UsageError(f"{loaded.path}: there is no key {key!r}" + (f"; did you mean {near}?" if near else ""))
    return _printed(_masked(value, raw, key, expanded))


def _masked(value: object, raw: object, key: str, expanded: bool) -> object:
    if isinstance(value, Mapping):
        parts = ((name, inner) for name, inner in value.items() if inner is not None)
        return {name: _masked(inner, descend(raw, name), f"{key}.{name}" if key else name, expanded) for name, inner in parts}
    if isinstance(value, list):
        return [_masked(inner, descend(raw, str(index)), f"{key}.{index}", expanded) for index, inner in enumerate(value)]
    if isinstance(raw, str) and REFERENCE.search(raw) and not expanded:
        return raw if not is_hidden(key) or is_reference(raw) else MASK
    from_store = isinstance(raw, str) and raw.startswith("secret:")
    if value and (from_store or is_hidden(key)):
        return MASK
    return without_credentials(value) if isinstance(value, str) else value


def _printed(value: object) -> str:
    if isinstance(value, Mapping):
        return tomli_w.dumps(value).rstrip()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def masked_text(text: str, known: str | None = None) -> str:
    """The file's text with every secret left out; one that does not stand in the text `known` is marked as new.

    Of a text that is not TOML no value is shown at all.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError):
        return re.sub(r"=.*", f"= {MASK}", text)
    known = text if known is None else known
    before = [value for _, value in _secrets_in(known)]
    for steps, value in _secrets_in(text):
        put(document, steps, MASK if value in before else NEW)
    return without_credentials(tomlkit.dumps(document), {MASK, *credentials_in(known)})


def _secrets_in(text: str) -> list[tuple[Steps, str]]:
    try:
        found = [(steps, str(value)) for steps, (_, value) in leaves(tomllib.loads(text)) if is_hidden(".".join(steps))]
    except (ValueError, RecursionError):
        return []
    return [(steps, value) for steps, value in found if value not in ("", "[]", "{}") and not is_reference(value)]
