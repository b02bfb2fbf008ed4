"""Loads a TOML file as a model; `${NAME}` and `secret:NAME` are filled in."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from daemon.core import value
from daemon.settings.toml_file import NON_FINITE, config_error, find_non_finite, parse_table
from daemon.settings.validation_errors import explain_errors

C = TypeVar("C", bound=BaseModel, covariant=True)
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = "secret:"
MIN_MASKED_CHARS = 4


@value
class LoadedConfig(Generic[C]):
    """A valid config. `text` is the TOML as read, nothing filled in."""

    config: C = field(repr=False)
    text: str = field(repr=False)
    path: Path


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
                if name not in self._secrets:
                    near = get_close_matches(name, self._secrets, n=1)
                    expected = f'expected a line {name} = "..." in secrets.toml'
                    hint = f'did you mean "{SECRET}{near[0]}"?' if near else expected
                    self.errors.append((key, f"there is no secret named {name!r}; {hint}"))
                return self._remember(self._secrets.get(name, given), given)
            case str():
                return VARIABLE.sub(lambda match: self._expand_variable(match, key), given)
            case list():
                return [self.expand(item, f"{key}.{index}") for index, item in enumerate(given)]
            case dict():
                prefix = f"{key}." if key else ""
                return {name: self.expand(item, prefix + name) for name, item in given.items()}
            case _:
                return given

    def _expand_variable(self, match: re.Match[str], key: str) -> str:
        name, written = match[1], match[0]
        if name not in self._env:
            unset = f"the environment variable {name} is not set; export it before the start"
            self.errors.append((key, unset))
        return self._remember(self._env.get(name, written), written)

    def _remember(self, found: str, written: str) -> str:
        if len(found) >= MIN_MASKED_CHARS:
            self._filled[found] = written
        return found
