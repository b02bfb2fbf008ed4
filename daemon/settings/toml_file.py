"""A TOML text becomes a checked model, or a list of everything that is wrong with it."""

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from daemon.core.errors import ConfigError

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
        raise ConfigError(f"{path}: {_add_position(str(error), text)}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits is no mistake to tomllib
        raise ConfigError(f"{path}: a number in it has too many digits") from error


def find_non_finite(value: object, key: str = "") -> Iterator[str]:
    """Keys of numbers like `inf`: the journal holds JSON, which knows none."""
    match value:
        case float() if not math.isfinite(value):
            yield key
        case dict():
            for name, inner in value.items():
                yield from find_non_finite(inner, f"{key}.{name}" if key else str(name))
        case list():
            for index, inner in enumerate(value):
                yield from find_non_finite(inner, f"{key}.{index}")
        case _:
            pass


def config_error(path: Path, faults: Sequence[tuple[str, str]]) -> ConfigError:
    """All faults of a file, (key, what is wrong), one a line."""
    return ConfigError(
        "\n".join(
            _one_line(f"{path}: {key}: {fault}" if key else f"{path}: {fault}")
            for key, fault in faults
        )
    )


def _one_line(text: str) -> str:
    """Keys and names of files may hold anything; what is told of them is one line, and not without
    end.
    """
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode()
        for sign in text[:MAX_LINE]
    )
    return shown if len(text) <= MAX_LINE else f"{shown}..."


def _add_position(message: str, text: str) -> str:
    """tomllib's message with its place in front: `line 3, column 7: is not TOML: ...`."""
    place = POSITION.search(message)
    reason = POSITION.sub("", message)
    lines = text.split("\n")
    line, column = (place[1], place[2]) if place and place[1] else (len(lines), len(lines[-1]) + 1)
    return f"line {line}, column {column}: is not TOML: {reason[:1].lower()}{reason[1:]}"
