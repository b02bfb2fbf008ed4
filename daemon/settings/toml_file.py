"""A TOML text becomes a checked model, or a list of everything that is wrong with it."""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from daemon.core.errors import ConfigError
from daemon.settings.dotted_keys import iter_leaves

MAX_LINE = 2000
NON_FINITE = "found no finite number, expected one; for no limit see config.toml.example"
POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_text(path: Path) -> str:
    """The file's text; nothing when it is absent."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start} is not UTF-8; expected a text file in UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def parse_table(text: str, path: Path) -> dict[str, object]:
    """Its table; `path` is only for messages. Raises ConfigError with line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, lines = str(error), text.split("\n")
        place, reason = POSITION.search(message), POSITION.sub("", message)
        at_end = str(len(lines)), str(len(lines[-1]) + 1)
        line, column = place.groups() if place and place[1] else at_end
        reason = f"is not TOML: {reason[:1].lower()}{reason[1:]}"
        raise ConfigError(f"{path}: line {line}, column {column}: {reason}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits is no mistake to tomllib
        raise ConfigError(f"{path}: a number in it has too many digits") from error


def find_non_finite(table: Mapping[str, object]) -> list[str]:
    """Keys of numbers like `inf`: the journal holds JSON, which knows none."""
    return [
        ".".join(steps)
        for steps, (_, value) in iter_leaves(table)
        if isinstance(value, float) and not math.isfinite(value)
    ]


def config_error(path: Path, faults: Sequence[tuple[str, str]]) -> ConfigError:
    """All faults of a file, (key, what is wrong), one a line: keys and names of files may hold
    anything.
    """
    lines: list[str] = []
    for key, fault in faults:
        text = f"{path}: {key}: {fault}" if key else f"{path}: {fault}"
        shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        lines.append("".join(islice(shown, MAX_LINE)) + ("..." if len(text) > MAX_LINE else ""))
    return ConfigError("\n".join(lines))
