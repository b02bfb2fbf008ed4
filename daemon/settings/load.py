"""Loads a TOML file as a model; `${NAME}` and `secret:NAME` are filled in. The config that last
worked replaces one that does not (A8).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from daemon.core import value
from daemon.core.errors import ConfigError, ErrorClass
from daemon.settings.toml_file import (
    NON_FINITE,
    config_error,
    find_non_finite,
    parse_table,
    read_text,
)
from daemon.settings.validation_errors import explain_errors

C = TypeVar("C", bound=BaseModel, covariant=True)
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = "secret:"
UNSET = "the environment variable {} is not set; export it before the start"
MIN_MASKED_CHARS = 4
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


def choose_config(path: Path, lastgood: Path, parse: Parse[C]) -> LoadedConfig[C]:
    """The file if it loads, else the last good one. Raises ConfigError when neither loads."""
    try:
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
