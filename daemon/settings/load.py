"""`${NAME}` from the environment and `secret:NAME` from the secret store, in every string of a config.

A config file becomes a Config, or a list of everything that is wrong with it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from daemon.core import value
from daemon.settings.model import Config
from daemon.settings.toml_file import (
    NON_FINITE,
    config_error,
    find_non_finite,
    parse_table,
    read_text,
)
from daemon.settings.validation_errors import explain_errors

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = "secret:"
MIN_MASKED_CHARS = 4


@dataclass(slots=True)
class Interpolator:
    """Goes through a config and notes what it could not fill in, with the key it stands at."""

    env: Mapping[str, str]
    secrets: Mapping[str, str]
    errors: list[tuple[str, str]] = field(default_factory=list)
    _filled: dict[str, str] = field(default_factory=dict, repr=False)

    def hide_values(self, text: str) -> str:
        """A message with every value that was filled in as the file names it: whoever reads a fault need not know them."""
        for filled, name in sorted(self._filled.items(), key=lambda item: -len(item[0])):
            text = text.replace(filled, name)
        return text

    def _remember(self, value: str, as_written: str) -> str:
        if len(value) >= MIN_MASKED_CHARS:
            self._filled[value] = as_written
        return value

    def expand(self, value: object, key: str = "") -> object:
        """The value with everything in it filled in."""
        match value:
            case str():
                return self._expand_text(value, key)
            case list():
                return [self.expand(item, f"{key}.{index}") for index, item in enumerate(value)]
            case dict():
                return {
                    name: self.expand(item, f"{key}.{name}" if key else name)
                    for name, item in value.items()
                }
            case _:
                return value

    def _expand_text(self, text: str, key: str) -> str:
        if text.startswith(SECRET):
            return self._expand_secret(text.removeprefix(SECRET), text, key)
        return VARIABLE.sub(lambda match: self._expand_variable(match[1], match[0], key), text)

    def _expand_variable(self, name: str, as_written: str, key: str) -> str:
        if name not in self.env:
            self.errors.append(
                (key, f"the environment variable {name} is not set; export it before the start")
            )
        return self._remember(self.env.get(name, as_written), as_written)

    def _expand_secret(self, name: str, as_written: str, key: str) -> str:
        if name not in self.secrets:
            near = get_close_matches(name, self.secrets, n=1)
            hint = (
                f'; did you mean "{SECRET}{near[0]}"?'
                if near
                else f'; expected a line {name} = "..." in secrets.toml'
            )
            self.errors.append((key, f"there is no secret named {name!r}{hint}"))
        return self._remember(self.secrets.get(name, as_written), as_written)


@value
class LoadedConfig:
    """A config that is in order. `text` is the TOML as read, nothing expanded: what is kept as last good (A8)."""

    config: Config = field(repr=False)
    text: str = field(repr=False)
    path: Path


def load_config(path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]) -> LoadedConfig:
    """The file as a Config; an absent file means the embedded defaults. Raises ConfigError with a line for every fault."""
    return parse_config(read_text(path), path, env=env, secrets=secrets)


def parse_config(
    text: str, path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]
) -> LoadedConfig:
    """A config from its text; `path` is only named in messages. Raises ConfigError with a line for every fault."""
    raw = parse_table(text, path)
    expander = Interpolator(env, secrets)
    expanded = expander.expand(raw)
    faults, config = list(expander.errors), Config()
    try:
        config = Config.model_validate(expanded)
        faults += [(key, NON_FINITE) for key in find_non_finite(config.model_dump())]
    except ValidationError as error:
        unset = {key for key, _ in faults}
        found = explain_errors(error, Config, raw)
        faults += [(key, expander.hide_values(words)) for key, words in found if key not in unset]
    if faults:
        raise config_error(path, faults)
    return LoadedConfig(config, text, path)
