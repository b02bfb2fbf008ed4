"""Last known good (A8): the config that worked is kept, and a new one that does not is answered with it."""

from collections.abc import Mapping
from pathlib import Path

from daemon.core import value
from daemon.core.errors import ConfigError, ErrorClass
from daemon.settings.load import LoadedConfig, load_config, parse_config
from daemon.settings.paths import write_private_file

CONFIG_ERRORS = frozenset({ErrorClass.AUTH, ErrorClass.NOT_FOUND})


@value
class LastGood:
    """The text of the last config that answered a model call, as its file had it: nothing expanded."""

    path: Path

    def save(self, text: str) -> None:
        """The *running* config has just had a successful model call: keep its text, if it is not what is kept."""
        if self.read() != text:
            write_private_file(self.path, text)

    def read(self) -> str | None:
        """The text kept; None when no config has worked yet."""
        try:
            return self.path.read_bytes().decode()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error


@value
class ConfigChoice:
    """The config to run on; `notice` tells the owner when it is not the one in the file."""

    loaded: LoadedConfig
    notice: str = ""


def choose_config(
    path: Path, lastgood: LastGood, *, env: Mapping[str, str], secrets: Mapping[str, str]
) -> ConfigChoice:
    """The config file if it loads, else the last good one with a notice. Raises ConfigError when neither will do."""
    try:
        return ConfigChoice(load_config(path, env=env, secrets=secrets))
    except ConfigError as fault:
        return load_last_good(path, str(fault), lastgood, env=env, secrets=secrets)


def load_last_good(
    path: Path,
    fault: str,
    lastgood: LastGood,
    *,
    env: Mapping[str, str],
    secrets: Mapping[str, str],
) -> ConfigChoice:
    """The last good config, with a notice that names what is wrong with the file. Raises ConfigError where there is none."""
    text = lastgood.read()
    if text is None:
        raise ConfigError(fault)
    try:
        loaded = parse_config(text, lastgood.path, env=env, secrets=secrets)
    except ConfigError as second:
        raise ConfigError(
            f"{fault}\nThe last good config does not load either:\n{second}"
        ) from second
    return ConfigChoice(
        loaded,
        f"{path} is not in use. Its fault:\n{fault}\n"
        f"The daemon runs on the last good config instead ({lastgood.path}). "
        "Nothing was changed: mend the file (aidaemon config check tells what is wrong) and start again.",
    )


def should_fall_back(
    running_text: str, lastgood_text: str | None, first_call_error: ErrorClass
) -> bool:
    """The first model call of a start failed: is it the fault of an edit since the config last worked?"""
    edited = lastgood_text is not None and lastgood_text != running_text
    return edited and first_call_error in CONFIG_ERRORS
