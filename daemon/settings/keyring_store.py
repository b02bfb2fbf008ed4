"""Secrets in the desktop's keyring, with the `keyring` extra."""

import keyring
from keyring.errors import KeyringError, PasswordDeleteError

from daemon.core import value
from daemon.core.errors import ConfigError


@value
class KeyringStore:
    """What this HOME has there: `service` is the name that it goes by."""

    service: str

    def get(self, name: str) -> str | None:
        """The value; None when there is none."""
        try:
            return keyring.get_password(self.service, name)
        except KeyringError as error:
            raise self._unavailable_error(error) from error

    def put(self, name: str, value: str) -> None:
        """Keep it."""
        try:
            keyring.set_password(self.service, name, value)
        except KeyringError as error:
            raise self._unavailable_error(error) from error

    def delete(self, name: str) -> None:
        """Forget it."""
        try:
            keyring.delete_password(self.service, name)
        except PasswordDeleteError:
            return
        except KeyringError as error:
            raise self._unavailable_error(error) from error

    def _unavailable_error(self, error: KeyringError) -> ConfigError:
        words = str(error).partition(". ")[0].strip() or type(error).__name__
        return ConfigError(
            f"the keyring cannot be used here: {words}. Servers have none as a rule: leave "
            "--keyring out, and the secret is "
            "kept in secrets.toml, which only you can read"
        )
