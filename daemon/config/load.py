"""A config file becomes a Config, or a list of everything that is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from daemon.config.expand import Expander
from daemon.config.model import Config
from daemon.core.faults import explain
from daemon.core.toml import ENDLESS, endless, read, refusal, table


@dataclass(frozen=True, slots=True)
class Loaded:
    """A config that is in order. `text` is the TOML as read, nothing expanded: what is kept as last good (A8)."""

    config: Config = field(repr=False)
    text: str = field(repr=False)
    path: Path


def load(path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]) -> Loaded:
    """The file as a Config; an absent file means the embedded defaults. Raises ConfigError with a line for every fault."""
    return parse(read(path), path, env=env, secrets=secrets)


def parse(text: str, path: Path, *, env: Mapping[str, str], secrets: Mapping[str, str]) -> Loaded:
    """A config from its text; `path` is only named in messages. Raises ConfigError with a line for every fault."""
    raw = table(text, path)
    expander = Expander(env, secrets)
    expanded = expander.expand(raw)
    faults, config = list(expander.faults), Config()
    try:
        config = Config.model_validate(expanded)
        faults += [(key, ENDLESS) for key in endless(config.model_dump())]
    except ValidationError as error:
        unset = {key for key, _ in faults}
        found = explain(error, Config, raw)
        faults += [(key, expander.as_written(words)) for key, words in found if key not in unset]
    if faults:
        raise refusal(path, faults)
    return Loaded(config, text, path)
