"""Last known good (A8): the config that worked is kept; it replaces a new one that does not."""

from pathlib import Path
from typing import Generic

from daemon.core import value
from daemon.core.errors import ConfigError, ErrorClass
from daemon.settings.load import C, LoadedConfig, Parse
from daemon.settings.paths import write_private_file
from daemon.settings.toml_file import read_text

CONFIG_ERRORS = frozenset({ErrorClass.AUTH, ErrorClass.NOT_FOUND})


@value
class LastGood:
    """The text of the last config that answered a model call, as its file had it."""

    path: Path

    def save(self, text: str) -> None:
        """Keep the text of the running config, which has just had a successful model call."""
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
class ConfigChoice(Generic[C]):
    """The config to run on; `notice` tells the owner when it is not the one in the file."""

    loaded: LoadedConfig[C]
    notice: str = ""


def choose_config(path: Path, lastgood: LastGood, parse: Parse[C]) -> ConfigChoice[C]:
    """The file if it loads, else the last good one. Raises ConfigError when neither loads."""
    try:
        return ConfigChoice(parse(read_text(path), path))
    except ConfigError as fault:
        return load_last_good(path, str(fault), lastgood, parse)


def load_last_good(path: Path, fault: str, lastgood: LastGood, parse: Parse[C]) -> ConfigChoice[C]:
    """The last good config, with a notice of the file's fault. Raises ConfigError without one."""
    text = lastgood.read()
    if text is None:
        raise ConfigError(fault)
    try:
        loaded = parse(text, lastgood.path)
    except ConfigError as second:
        message = f"{fault}\nThe last good config does not load either:\n{second}"
        raise ConfigError(message) from second
    return ConfigChoice(
        loaded,
        f"{path} is not in use. Its fault:\n{fault}\n"
        f"The daemon runs on the last good config instead ({lastgood.path}). Nothing was changed: "
        "correct the file (aidaemon config check shows what is wrong) and start again.",
    )


def should_fall_back(running: str, lastgood: str | None, first_call_error: ErrorClass) -> bool:
    """Whether an edit since the config last worked made the first model call of a start fail."""
    return lastgood not in (None, running) and first_call_error in CONFIG_ERRORS
