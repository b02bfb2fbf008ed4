"""The secret store HOME/secrets.toml, readable by its owner only."""

import fcntl
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from daemon.addons import missing_package_error
from daemon.core import value
from daemon.core.errors import ConfigError, SecretRefused
from daemon.settings.paths import write_private_file

NAME = re.compile(r"[A-Za-z0-9_.-]+")
HOST = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
PORT = re.compile(r"(?<=[^:]):[0-9]{1,5}$")
if TYPE_CHECKING:
    from daemon.settings.keyring_store import KeyringStore

ENTRY_KEYS = {"value", "hosts", "keyring"}


@value
class SecretEntry:
    """A secret: `hosts` are those that tools may send it to, none by default. Its value may lie in
    the keyring instead.
    """

    name: str
    value: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    keyring: bool = False


@value
class SecretStore:
    """What stands in the file at `path`. Values never appear in messages. It is read anew each
    time: an edit holds at once.
    """

    path: Path

    def list_entries(self) -> dict[str, SecretEntry]:
        """All of them, those of the keyring without their values; none when there is no file.

        Raises ConfigError for a file that others can read, or that is not of the right form.
        """
        try:
            with self.path.open("rb") as file:
                self._check_mode(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
                found = tomllib.load(file)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f'{self.path}: is not TOML; expected lines like NAME = "value"'
            ) from error
        return {name: self._parse_entry(name, raw) for name, raw in found.items()}

    def read_values(self) -> dict[str, str]:
        """All values by name. Raises ConfigError."""
        return {name: self._resolve_value(entry) for name, entry in self.list_entries().items()}

    def get_for_host(self, name: str, host: str) -> str:
        """The value, to be sent to this `host` or `host:port`. What is bound to a host may go to
        each of its ports.

        Raises SecretRefused for a name that nobody knows and for a host that it is not bound to,
        ConfigError.
        """
        entries = self.list_entries()
        entry = entries.get(name)
        if entry is None:
            near = get_close_matches(name, entries, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SecretRefused(
                f"there is no secret named {name!r}{hint}. The owner can add it: aidaemon "
                f"secret set {name}"
            )
        plain = normalize_host(host)
        if plain not in entry.hosts and PORT.sub("", plain) not in entry.hosts:
            bound = f"only to {', '.join(entry.hosts)}" if entry.hosts else "to no host"
            raise SecretRefused(
                f"the secret {name!r} may be sent {bound}, not to {host}; nothing was sent"
            )
        return self._resolve_value(entry)

    def put(
        self, name: str, value: str, hosts: Sequence[str] = (), *, keyring: bool = False
    ) -> None:
        """Keep this value under this name, for these hosts; the file is replaced whole, mode 0600.
        Raises ConfigError.
        """
        if not NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is no name for a secret; expected letters, digits, '_', '-', '.'"
            )
        bound = tuple(dict.fromkeys(check_host(host) for host in hosts))
        with self._lock():
            kept = self.list_entries()
            if keyring:
                self._open_keyring().put(name, value)
            elif name in kept and kept[name].keyring:
                self._open_keyring().delete(name)
            self._write({**kept, name: SecretEntry(name, "" if keyring else value, bound, keyring)})

    def delete(self, name: str) -> bool:
        """Forget it; False when there is no such secret. Raises ConfigError."""
        if not self.path.parent.exists():
            return False
        with self._lock():
            kept = self.list_entries()
            entry = kept.pop(name, None)
            if entry is None:
                return False
            if entry.keyring:
                self._open_keyring().delete(name)
            self._write(kept)
        return True

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Two who change it at once would undo each other's change."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, entries: Mapping[str, SecretEntry]) -> None:
        write_private_file(
            self.path,
            tomli_w.dumps({name: _entry_to_toml(entry) for name, entry in entries.items()}),
        )

    def _resolve_value(self, entry: SecretEntry) -> str:
        if not entry.keyring:
            return entry.value
        value = self._open_keyring().get(entry.name)
        if value is None:
            raise ConfigError(
                f"{self.path}: {entry.name} is said to be in the keyring, but it is not there; "
                f"expected: aidaemon secret set {entry.name} --keyring"
            )
        return value

    def _open_keyring(self) -> "KeyringStore":
        try:
            from daemon.settings.keyring_store import KeyringStore  # lazy: an optional package
        except ModuleNotFoundError as error:
            raise missing_package_error("the keyring", error) from error
        return KeyringStore(f"aidaemon {self.path.parent}")

    def _parse_entry(self, name: str, raw: object) -> SecretEntry:
        if isinstance(raw, str):
            return SecretEntry(name, raw)
        table = raw if isinstance(raw, dict) else {}
        value, hosts, keyring = (
            table.get("value", ""),
            table.get("hosts", []),
            table.get("keyring", False),
        )
        in_order = isinstance(value, str) and isinstance(hosts, list) and isinstance(keyring, bool)
        if not in_order or not table.keys() <= ENTRY_KEYS or ("value" in table) == keyring:
            raise ConfigError(
                f'{self.path}: {name}: expected {name} = "value", or a table [{name}] with '
                'value = "..." and hosts = ["..."]'
                " (a name with a dot in it stands in quotes)"
            )
        return SecretEntry(
            name, value, tuple(self._parse_host(name, host) for host in hosts), keyring
        )

    def _parse_host(self, name: str, host: object) -> str:
        try:
            return check_host(host if isinstance(host, str) else "")
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {name}.hosts: {error}") from error

    def _check_mode(self, mode: int) -> None:
        if mode & 0o077:
            raise ConfigError(
                f"{self.path}: others can read it (mode {mode:o}), expected 600. Run: chmod "
                f"600 {self.path}"
            )


def check_host(host: str) -> str:
    """A host as it is kept. Raises ConfigError for an address, a pattern, anything that is not one
    host.
    """
    plain = normalize_host(host)
    if not HOST.fullmatch(plain):
        raise ConfigError(
            f"{host!r} is no host; expected one like api.example.com or api.example.com:8443, "
            "without patterns"
        )
    return plain


def normalize_host(host: str) -> str:
    """In one way of writing: small letters, no dot at the end, an IPv6 address in brackets."""
    if host.count(":") > 1 and not host.startswith("["):
        host = f"[{host}]"
    return host.lower().removesuffix(".")


def _entry_to_toml(entry: SecretEntry) -> object:
    if not (entry.hosts or entry.keyring):
        return entry.value
    held = {"keyring": True} if entry.keyring else {"value": entry.value}
    return {**held, "hosts": list(entry.hosts)}
