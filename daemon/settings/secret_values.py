"""Secrets in use, of the store and the config; logs and memory of the process kept private."""

import ctypes
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from daemon.core.errors import ConfigError
from daemon.core.redaction import Redactor
from daemon.settings.secrets import SecretStore
from daemon.settings.validation_errors import find_credentials, is_secret_key

PR_SET_DUMPABLE = 4


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


log = logging.getLogger(__name__)
HEADER_OR_VARIABLE = re.compile(r"(^|[._])(headers|env)\.[^.]+$")
SECRET_NAME = re.compile(
    r"auth|cookie|credential|dsn|key|pass|pwd|secret|signature|token", re.IGNORECASE
)

FileStamp = tuple[int, int, int]


@dataclass(slots=True)
class ActiveSecrets:
    """Names by value. The store is read again when it has changed; what was a secret once stays one
    until the next start.
    """

    secrets: SecretStore
    configured: Mapping[str, str] = field(repr=False)
    _stamp: FileStamp | None = None
    _names: Mapping[str, str] | None = field(default=None, repr=False)

    def __call__(self) -> Mapping[str, str]:
        """The same mapping as long as nothing changed."""
        stamp = _file_stamp(self.secrets.path)
        if self._names is None or stamp != self._stamp:
            self._stamp, self._names = (
                stamp,
                {**self.configured, **(self._names or {})},
            )  # first, for what is read is told of
            self._names = {**self._names, **self._read_stored()}
        return self._names

    def _read_stored(self) -> dict[str, str]:
        try:
            return {value: name for name, value in self.secrets.read_values().items()}
        except ConfigError as error:
            log.warning("secrets that were added since the start are not known: %s", error)
            return {}


def find_config_secrets(config: BaseModel | None) -> dict[str, str]:
    """The config's own secrets: the dotted key of each by its value."""
    return {
        word: key
        for key, value in _iter_secret_texts(config, "", secret=False)
        for word in _extract_secrets(key, value.strip())
    }


def _iter_secret_texts(value: object, key: str, *, secret: bool) -> Iterator[tuple[str, str]]:
    """Every text that stands where its key says that it is nobody's business, with the key."""
    match value:
        case str() if secret or is_secret_key(key):
            yield key, value
        case str() if "://" in value:
            yield from ((key, found) for found in find_credentials(value))
        case BaseModel():
            for name, info in type(value).model_fields.items():
                yield from _iter_secret_texts(
                    getattr(value, name), _join_key(key, name), secret=secret or not info.repr
                )
        case Mapping():
            for name, inner in value.items():
                yield from _iter_secret_texts(inner, _join_key(key, str(name)), secret=secret)
        case list() | tuple():
            for index, inner in enumerate(value):
                yield from _iter_secret_texts(inner, _join_key(key, str(index)), secret=secret)


def _join_key(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _extract_secrets(key: str, value: str) -> Iterator[str]:
    """Of a header the word behind `Bearer`; most headers, and most variables of a program, are no
    secrets at all.
    """
    if value and not HEADER_OR_VARIABLE.search(key):
        yield value
    elif value and SECRET_NAME.search(key.rsplit(".", 1)[-1]):
        yield value.split()[-1]


def _file_stamp(path: Path) -> FileStamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
