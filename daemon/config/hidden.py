"""Every secret that is in use: what the store holds, and what the config holds in keys whose values are nobody's business."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from daemon.config.load import load
from daemon.config.paths import Paths
from daemon.config.secrets import Secrets
from daemon.core.errors import ConfigError
from daemon.core.faults import credentials_in, is_hidden
from daemon.core.redaction import Redactor

log = logging.getLogger(__name__)
NAMED = re.compile(r"(^|[._])(headers|env)\.[^.]+$")
TELLING = re.compile(r"auth|cookie|credential|dsn|key|pass|pwd|secret|signature|token", re.IGNORECASE)

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class InUse:
    """Names by value. The store is read again when it has changed; what was a secret once stays one until the next start."""

    secrets: Secrets
    configured: Mapping[str, str] = field(repr=False)
    _stamp: Stamp | None = None
    _names: Mapping[str, str] | None = field(default=None, repr=False)

    def __call__(self) -> Mapping[str, str]:
        """The same mapping as long as nothing changed."""
        stamp = _stamp(self.secrets.path)
        if self._names is None or stamp != self._stamp:
            self._stamp, self._names = stamp, {**self.configured, **(self._names or {})}  # first, for what is read is told of
            self._names = {**self._names, **self._stored()}
        return self._names

    def _stored(self) -> dict[str, str]:
        try:
            return {value: name for name, value in self.secrets.read().items()}
        except ConfigError as error:
            log.warning("secrets that were added since the start are not known: %s", error)
            return {}


def redactor(paths: Paths, config: BaseModel | None = None) -> Redactor:
    """What takes these secrets out of texts; without a config, the one in the file, if it can be used."""
    return Redactor(InUse(Secrets(paths.secrets), hidden(_loaded(paths) if config is None else config)))


def hidden(config: BaseModel | None) -> dict[str, str]:
    """The config's own secrets: the dotted key of each by its value."""
    return {word: key for key, value in _texts(config, "", secret=False) for word in _secret_words(key, value.strip())}


def _loaded(paths: Paths) -> BaseModel | None:
    try:
        return load(paths.config, env=os.environ, secrets=Secrets(paths.secrets).read()).config
    except (ConfigError, OSError):
        return None


def _texts(value: object, key: str, *, secret: bool) -> Iterator[tuple[str, str]]:
    """Every text that stands where its key says that it is nobody's business, with the key."""
    match value:
        case str() if secret or is_hidden(key):
            yield key, value
        case str() if "://" in value:
            yield from ((key, found) for found in credentials_in(value))
        case BaseModel():
            for name, info in type(value).model_fields.items():
                yield from _texts(getattr(value, name), _below(key, name), secret=secret or not info.repr)
        case Mapping():
            for name, inner in value.items():
                yield from _texts(inner, _below(key, str(name)), secret=secret)
        case list() | tuple():
            for index, inner in enumerate(value):
                yield from _texts(inner, _below(key, str(index)), secret=secret)


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _secret_words(key: str, value: str) -> Iterator[str]:
    """Of a header the word behind `Bearer`; most headers, and most variables of a program, are no secrets at all."""
    if value and not NAMED.search(key):
        yield value
    elif value and TELLING.search(key.rsplit(".", 1)[-1]):
        yield value.split()[-1]


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
