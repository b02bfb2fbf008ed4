"""A config file becomes a Config, or a list of everything that is wrong with it."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from daemon.config.expand import Expander
from daemon.config.faults import explain
from daemon.config.model import Config
from daemon.core.errors import ConfigError

ENDLESS = "found no finite number, expected one; for no limit see config.toml.example"
POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A config that is in order. `text` is the TOML as read, nothing expanded: what is kept as last good (A8)."""

    config: Config = field(repr=False)
    text: str = field(repr=False)
    path: Path


def load(path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]) -> Loaded:
    """The file as a Config; an absent file means the embedded defaults. Raises ConfigError with a line for every fault."""
    return parse(read(path), path, env=env, secrets=secrets)


def read(path: Path) -> str:
    """The file's text; nothing when it is absent."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; expected a text file in UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def parse(text: str, path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]) -> Loaded:
    """A config from its text; `path` is only named in messages. Raises ConfigError with a line for every fault."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {_where(str(error), text)}") from error
    expander = Expander(env, secrets)
    expanded = expander.expand(raw)
    faults, config = list(expander.faults), Config()
    try:
        config = Config.model_validate(expanded)
        faults += [(key, ENDLESS) for key in _endless(config.model_dump())]
    except ValidationError as error:
        unset = {key for key, _ in faults}
        faults += [fault for fault in explain(error, Config, raw) if fault[0] not in unset]
    if faults:
        raise _refusal(path, faults)
    return Loaded(config, text, path)


def _endless(value: object, key: str = "") -> Iterator[str]:
    """Keys of numbers like `inf`: the journal holds JSON, which knows none."""
    match value:
        case float() if not math.isfinite(value):
            yield key
        case dict():
            for name, inner in value.items():
                yield from _endless(inner, f"{key}.{name}" if key else str(name))
        case _:
            pass


def _refusal(path: Path, faults: Sequence[tuple[str, str]]) -> ConfigError:
    return ConfigError("\n".join(f"{path}: {key}: {fault}" if key else f"{path}: {fault}" for key, fault in faults))


def _where(message: str, text: str) -> str:
    """tomllib's message with its place in front: `line 3, column 7: is not TOML: ...`."""
    place = POSITION.search(message)
    reason = POSITION.sub("", message)
    lines = text.split("\n")
    line, column = (place[1], place[2]) if place and place[1] else (len(lines), len(lines[-1]) + 1)
    return f"line {line}, column {column}: is not TOML: {reason[:1].lower()}{reason[1:]}"
