"""The secret store: HOME/secrets.toml, names and values, for the owner's eyes alone."""

import os
import re
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from daemon.config.private import write_private
from daemon.core.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What stands in the file at `path`. Values never appear in messages."""

    path: Path

    def read(self) -> dict[str, str]:
        """All of them; none when there is no file. Raises ConfigError for a file that others can read, or that is not TOML."""
        try:
            with self.path.open("rb") as file:
                self._check_mode(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
                entries = tomllib.load(file)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f'{self.path}: is not TOML; expected lines like NAME = "value"') from error
        wrong = next((name for name, value in entries.items() if not isinstance(value, str)), None)
        if wrong is not None:
            raise ConfigError(f'{self.path}: {wrong}: found no text, expected {wrong} = "value"')
        return {name: str(value) for name, value in entries.items()}

    def put(self, name: str, value: str) -> None:
        """Keep this value under this name; the file is replaced whole, mode 0600."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name for a secret; expected letters, digits, '_', '-', '.'")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.path, tomli_w.dumps({**self.read(), name: value}))

    def _check_mode(self, mode: int) -> None:
        if mode & 0o077:
            raise ConfigError(f"{self.path}: others can read it (mode {mode:o}), expected 600. Run: chmod 600 {self.path}")
