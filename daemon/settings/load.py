"""Loads a TOML file as a model; `${NAME}` and `secret:NAME` are filled in. The config that last
worked replaces one that does not (A8).
"""

import codecs
import math
import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from daemon.core import value
from daemon.core.errors import ConfigError, ErrorClass
from daemon.settings.dotted_keys import iter_leaves
from daemon.settings.validation_errors import explain_errors

C = TypeVar("C", bound=BaseModel, covariant=True)
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = "secret:"
UNSET = "the environment variable {} is not set; export it before the start"
MIN_MASKED_CHARS = 4
MAX_LINE = 2000
NON_FINITE = "found no finite number, expected one; for no limit see config.toml.example"
POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
CONFIG_ERRORS = (ErrorClass.AUTH, ErrorClass.NOT_FOUND)


@value
class LoadedConfig(Generic[C]):
    """A valid config. `text` is the TOML as read, nothing filled in; `notice` tells the owner when
    it is not the one in the file.
    """

    config: C = field(repr=False)
    text: str = field(repr=False)
    path: Path
    notice: str = ""


Parse = Callable[[str, Path], LoadedConfig[C]]


def read_text(path: Path) -> str:
    """The file's text, without a byte order mark; nothing when it is absent."""
    try:
        return decode_text(path.read_bytes())
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}: line {line} is not UTF-8 (byte {error.start}); expected a text file in UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def decode_text(data: bytes) -> str:
    """UTF-8, or what an editor that writes UTF-16 has marked as that, with any ends of lines."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if is_wide else "utf-8-sig")
    return text if "\n" in text else text.replace("\r", "\n")


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
        found = lines[int(line) - 1][int(column) - 1 :][:1]
        if found > "\x7f":  # a quote or a blank that an editor or a page has put in
            reason += f", found {unicodedata.name(found, 'a sign')} (U+{ord(found):04X})"
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


def parse_model(
    text: str,
    path: Path,
    compose: Callable[[Mapping[str, object]], type[C]],
    *,
    env: Mapping[str, str],
    secrets: Mapping[str, str],
) -> LoadedConfig[C]:
    """A config from its text; `compose` chooses the model by the raw table.

    Raises ConfigError with a line for every fault; `path` is only named in it.
    """
    raw = parse_table(text, path)
    model = compose(raw)
    fill = _Interpolator(env, secrets)
    values = fill.expand(raw, "")
    faults = list(fill.errors)
    try:
        config = model.model_validate(values)
    except ValidationError as error:
        unset = {key for key, _ in faults}
        found = explain_errors(error, model, raw)
        faults += [(key, fill.hide_values(words)) for key, words in found if key not in unset]
        raise config_error(path, faults) from None
    faults += [(key, NON_FINITE) for key in find_non_finite(config.model_dump())]
    if faults:
        raise config_error(path, faults)
    return LoadedConfig(config, text, path)


class _Interpolator:
    """Fills in values; `errors` are the keys that it could not fill, with the reason."""

    def __init__(self, env: Mapping[str, str], secrets: Mapping[str, str]) -> None:
        self._env, self._secrets = env, secrets
        self._filled: dict[str, str] = {}
        self.errors: list[tuple[str, str]] = []

    def hide_values(self, text: str) -> str:
        """A message with each value that was filled in as the file names it."""
        for found, name in sorted(self._filled.items(), key=lambda item: -len(item[0])):
            text = text.replace(found, name)
        return text

    def expand(self, given: object, key: str) -> object:
        """The value with everything in it filled in."""
        match given:
            case str() if given.startswith(SECRET):
                name = given.removeprefix(SECRET)
                near = get_close_matches(name, self._secrets, n=1)
                expected = f'expected a line {name} = "..." in secrets.toml'
                hint = f'did you mean "{SECRET}{near[0]}"?' if near else expected
                missing = f"there is no secret named {name!r}; {hint}"
                return self._fill(self._secrets.get(name), given, key, missing)
            case str():
                return VARIABLE.sub(
                    lambda found: self._fill(
                        self._env.get(found[1]), found[0], key, UNSET.format(found[1])
                    ),
                    given,
                )
            case list():
                return [self.expand(item, f"{key}.{index}") for index, item in enumerate(given)]
            case dict():
                prefix = f"{key}." if key else ""
                return {name: self.expand(item, prefix + name) for name, item in given.items()}
            case _:
                return given

    def _fill(self, found: str | None, written: str, key: str, missing: str) -> str:
        if found is None:
            self.errors.append((key, missing))
            return written
        if len(found) >= MIN_MASKED_CHARS:
            self._filled[found] = written
        return found


def read_last_good(path: Path) -> str | None:
    """The text kept; None when no config has worked yet."""
    try:
        return path.read_bytes().decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def find_lost_config(path: Path, lastgood: Path) -> str:
    """That the file is absent or empty where another one worked before: nobody wrote it so. "" for
    any other. Raises ConfigError.
    """
    if read_text(path).strip() or not read_last_good(lastgood):
        return ""
    state = "it is empty" if path.exists() else "there is no such file"
    return (
        f"{path}: {state}, though a config worked before; {lastgood} has its text: copy it there,"
        " or write a line of your own"
    )


def choose_config(path: Path, lastgood: Path, parse: Parse[C]) -> LoadedConfig[C]:
    """The file if it loads, else the last good one. Raises ConfigError when neither loads."""
    try:
        if lost := find_lost_config(path, lastgood):
            raise ConfigError(lost)
        return parse(read_text(path), path)
    except ConfigError as fault:
        return load_last_good(path, str(fault), lastgood, parse)


def load_last_good(path: Path, fault: str, lastgood: Path, parse: Parse[C]) -> LoadedConfig[C]:
    """The last good config, with a notice of the file's fault. Raises ConfigError without one."""
    text = read_last_good(lastgood)
    if text is None:
        raise ConfigError(fault)
    try:
        loaded = parse(text, lastgood)
    except ConfigError as second:
        message = f"{fault}\nThe last good config does not load either:\n{second}"
        raise ConfigError(message) from second
    notice = (
        f"{path} is not in use. Its fault:\n{fault}\n"
        f"The daemon runs on the last good config instead ({lastgood}). Nothing was changed: "
        "correct the file (aidaemon config check shows what is wrong) and start again."
    )
    return replace(loaded, notice=notice)


def should_fall_back(running: str, lastgood: str | None, first_call_error: ErrorClass) -> bool:
    """Whether an edit since the config last worked made the first model call of a start fail."""
    return lastgood not in (None, running) and first_call_error in CONFIG_ERRORS
