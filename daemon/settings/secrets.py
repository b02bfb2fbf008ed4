"""The secret store HOME/secrets.toml, readable by its owner only; secrets in use stay out of logs
and of other processes.
"""

import ctypes
import logging
import os
import re
import stat
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, local
from typing import TYPE_CHECKING

import tomli_w
from pydantic import BaseModel

from daemon.addons import missing_package_error
from daemon.core import value
from daemon.core.errors import ConfigError, SecretRefused, UsageError
from daemon.settings.dotted_keys import suggest
from daemon.settings.load import decode_text
from daemon.settings.paths import lock_folder, write_private_file
from daemon.settings.redaction import MIN_LENGTH, Redactor
from daemon.settings.validation_errors import find_credentials, is_secret_key

if TYPE_CHECKING:
    from types import ModuleType

log = logging.getLogger(__name__)
NAME = re.compile(r"[A-Za-z0-9_.-]+")
HOST = re.compile(r"([a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
PORT = re.compile(r"(?<=[^:]):[0-9]{1,5}$")
ENTRY_KEYS = {"value", "hosts", "keyring"}
PR_SET_DUMPABLE = 4
MAX_VALUE_CHARS = 64 * 1024
HEADER_OR_VARIABLE = re.compile(r"(^|[._])(headers|env)\.[^.]+$")
SECRET_NAME = re.compile(
    r"auth|cookie|credential|dsn|key|pass|pwd|secret|signature|token", re.IGNORECASE
)


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
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077:
                    raise ConfigError(
                        f"{self.path}: others can read it (mode {mode:o}), expected 600. Run: "
                        f"chmod 600 {self.path}"
                    )
                found = tomllib.loads(decode_text(file.read()))
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
        return {
            name: self._read_keyring(name) if entry.keyring else entry.value
            for name, entry in self.list_entries().items()
        }

    def get_for_host(self, name: str, host: str) -> str:
        """The value, to be sent to this `host` or `host:port`. What is bound to a host may go to
        each of its ports.

        Raises SecretRefused for an unknown name and for a host that it is not bound to;
        ConfigError.
        """
        entries = self.list_entries()
        entry = entries.get(name)
        if entry is None:
            raise SecretRefused(
                f"there is no secret named {name!r}{suggest(name, entries)}. The owner can add it:"
                f" aidaemon secret set {name}"
            )
        plain = normalize_host(host)
        if plain not in entry.hosts and PORT.sub("", plain) not in entry.hosts:
            bound = f"only to {', '.join(entry.hosts)}" if entry.hosts else "to no host"
            raise SecretRefused(
                f"the secret {name!r} may be sent {bound}, not to {host}; nothing was sent"
            )
        return self._read_keyring(name) if entry.keyring else entry.value

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
        with lock_folder(self.path.parent):
            entries = self.list_entries()
            if keyring:
                with self._open_keyring() as (backend, service):
                    backend.set_password(service, name, value)
            else:
                self._delete_from_keyring(entries.get(name))
            entries[name] = SecretEntry(name, "" if keyring else value, bound, keyring)
            self._write(entries)

    def check_value(self, name: str, value: str) -> None:
        """Raises UsageError for what cannot be kept under this name, and never shows it."""
        if not value.strip():
            raise UsageError("the value is empty; nothing was kept")
        if len(value) > MAX_VALUE_CHARS:
            raise UsageError(
                f"the value is longer than {MAX_VALUE_CHARS} characters; nothing was kept"
            )
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise UsageError(
                "the value is no UTF-8 text; encode it (base64, say); nothing was kept"
            )
        if len(value) >= MIN_LENGTH and any(value in one for one in (*self.list_entries(), name)):
            raise UsageError(  # names are shown
                "a name must not give the value away; choose another name; nothing was kept"
            )

    def is_kept_for(self, name: str, host: str) -> bool:
        """There is one of this name, for this host alone. Raises ConfigError."""
        entry = self.list_entries().get(name)
        return entry is not None and entry.hosts == (check_host(host),)

    def check_free(self, name: str, host: str) -> None:
        """Raises UsageError where the secret of this name is for others: who asks for it for one
        host must not get it for another.
        """
        entry = self.list_entries().get(name)
        if entry and entry.hosts != (check_host(host),):
            raise UsageError(f"the secret {name!r} is kept for something else; use another name")

    def keep_for(self, name: str, value: str, host: str) -> str | None:
        """Keep this value, a new one perhaps, for this host; the former one, None for none. Raises
        UsageError, ConfigError.
        """
        self.check_value(name, value)
        self.check_free(name, host)
        entry = self.list_entries().get(name)
        former = self.read_values()[name] if entry else None
        self.put(name, value, (host,), keyring=bool(entry and entry.keyring))
        return former

    def restore(self, name: str, former: str | None, host: str) -> None:
        """As it was before `keep_for`. Raises ConfigError."""
        if former is None:
            self.delete(name)
        else:
            self.keep_for(name, former, host)

    def delete(self, name: str) -> bool:
        """Forget it; False when there is no such secret. Raises ConfigError."""
        if not self.path.parent.exists():
            return False
        with lock_folder(self.path.parent):
            entries = self.list_entries()
            if entry := entries.pop(name, None):
                self._delete_from_keyring(entry)
                self._write(entries)
        return entry is not None

    def _write(self, entries: Mapping[str, SecretEntry]) -> None:
        tables: dict[str, object] = {}
        for name, entry in entries.items():
            held = {"keyring": True} if entry.keyring else {"value": entry.value}
            plain = not (entry.hosts or entry.keyring)
            tables[name] = entry.value if plain else {**held, "hosts": list(entry.hosts)}
        write_private_file(self.path, tomli_w.dumps(tables))

    def _read_keyring(self, name: str) -> str:
        with self._open_keyring() as (backend, service):
            found: str | None = backend.get_password(service, name)
        if found is None:
            raise ConfigError(
                f"{self.path}: {name} is said to be in the keyring, but it is not there; "
                f"expected: aidaemon secret set {name} --keyring"
            )
        return found

    def _delete_from_keyring(self, entry: SecretEntry | None) -> None:
        if entry and entry.keyring:
            with self._open_keyring() as (backend, service):
                backend.delete_password(service, entry.name)

    @contextmanager
    def _open_keyring(self) -> Iterator[tuple["ModuleType", str]]:
        """The desktop's keyring, and the name that this HOME goes by there."""
        try:
            import keyring  # lazy: an optional package
            from keyring.errors import (  # lazy: an optional package
                KeyringError,
                PasswordDeleteError,
            )
        except ModuleNotFoundError as error:
            raise missing_package_error("the keyring", error) from error
        try:
            yield keyring, f"aidaemon {self.path.parent}"
        except PasswordDeleteError:
            return  # it is not there
        except KeyringError as error:
            words = str(error).partition(". ")[0].strip() or type(error).__name__
            raise ConfigError(
                f"the keyring cannot be used here: {words}. Servers have none as a rule: leave "
                "--keyring out, and the secret is "
                "kept in secrets.toml, which only you can read"
            ) from error

    def _parse_entry(self, name: str, raw: object) -> SecretEntry:
        table = {"value": raw} if isinstance(raw, str) else raw if isinstance(raw, dict) else {}
        value, hosts = table.get("value", ""), table.get("hosts", [])
        keyring = table.get("keyring", False)
        in_order = isinstance(value, str) and isinstance(hosts, list) and isinstance(keyring, bool)
        if not in_order or not table.keys() <= ENTRY_KEYS or ("value" in table) == keyring:
            raise ConfigError(
                f'{self.path}: {name}: expected {name} = "value", or a table [{name}] with '
                'value = "..." and hosts = ["..."]'
                " (a name with a dot in it stands in quotes)"
            )
        try:
            bound = tuple(check_host(host if isinstance(host, str) else "") for host in hosts)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {name}.hosts: {error}") from error
        return SecretEntry(name, value, bound, keyring)


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


class RedactingFormatter(logging.Formatter):
    """Another formatter's lines, tracebacks and all, without secrets."""

    def __init__(self, inner: logging.Formatter, redactor: Redactor) -> None:
        super().__init__()
        self.inner, self.redactor = inner, redactor

    def format(self, record: logging.LogRecord) -> str:
        """The whole of what is written."""
        return self.redactor.redact_text(self.inner.format(record))


def redact_logs(redactor: Redactor) -> None:
    """From now on, in every place where this process logs to."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(RedactingFormatter(handler.formatter or logging.Formatter(), redactor))


def disable_core_dumps() -> None:
    """No other process of the same user can read this one's memory or environment, and no crash
    leaves them on disk.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


@dataclass(slots=True)
class ActiveSecrets:
    """Names by value, of the config and the store, which is read again when it has changed; what
    was a secret once stays one until the next start.
    """

    secrets: SecretStore
    names: Mapping[str, str] = field(repr=False)
    _stamp: tuple[int, int, int] | None = None
    _path: str = field(init=False)
    _merging: Lock = field(default_factory=Lock)
    _reads: local = field(default_factory=local)

    def __post_init__(self) -> None:
        self._path = str(self.secrets.path)

    def add(self, names: Mapping[str, str]) -> None:
        """Of a config that was read again."""
        self._merge(names)

    def __call__(self) -> Mapping[str, str]:
        """The same mapping as long as nothing changed. Each thread that sees a change reads it: no
        one goes on with the names of before, and no lock is held while something may be logged.
        """
        try:
            found = os.stat(self._path)  # noqa: PTH116  asked for every text: Path takes twice as long
        except OSError:
            return self.names
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._stamp != stamp and not getattr(self._reads, "now", False):
            self._reads.now = True  # what is logged meanwhile is redacted, too
            try:
                self._merge({value: name for name, value in self.secrets.read_values().items()})
            except ConfigError as error:
                log.warning("secrets that were added since the start are not known: %s", error)
            finally:
                self._stamp, self._reads.now = stamp, False
        return self.names

    def _merge(self, names: Mapping[str, str]) -> None:
        with self._merging:
            self.names = {**self.names, **names}


def find_config_secrets(config: BaseModel | None) -> dict[str, str]:
    """The config's own secrets: the dotted key of each by its value. Of a header the word behind
    `Bearer`; headers and variables count only by a name such as TOKEN.
    """
    found: dict[str, str] = {}
    for key, text in _iter_secret_texts(config, "", secret=False):
        if not HEADER_OR_VARIABLE.search(key):
            found[text.strip()] = key
        elif text.strip() and SECRET_NAME.search(key.rsplit(".", 1)[-1]):
            found[text.split()[-1]] = key
    found.pop("", None)
    return found


def _iter_secret_texts(value: object, key: str, *, secret: bool) -> Iterator[tuple[str, str]]:
    """Every text that stands where its key says that it is nobody's business, with the key."""
    inner: list[tuple[object, object, bool]] = []
    match value:
        case str() if secret or is_secret_key(key):
            yield key, value
        case str() if "://" in value:
            yield from ((key, found) for found in find_credentials(value))
        case BaseModel():
            fields = type(value).model_fields.items()
            inner = [(name, getattr(value, name), secret or not info.repr) for name, info in fields]
        case Mapping():
            inner = [(name, item, secret) for name, item in value.items()]
        case list() | tuple():
            inner = [(index, item, secret) for index, item in enumerate(value)]
    for name, item, is_secret in inner:
        yield from _iter_secret_texts(item, f"{key}.{name}" if key else f"{name}", secret=is_secret)
