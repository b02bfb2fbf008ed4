"""Models that the owner adds: `models.toml` beside the files, each pinned by its hash."""

import http.client
import re
import tomllib
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.core.errors import AidaemonError, ConfigError, UsageError
from daemon.ops.extra_models import EXTRA_MODELS
from daemon.ops.models import CATALOGUE, EmbeddedModel, WebFile, models_dir
from daemon.settings.load import read_text

LIST, TIMEOUT_S = "models.toml", 10.0
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class OwnModel(BaseModel):
    """One table of models.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(gt=0)
    licence: str = "not known"


def load_catalogue(folder: Path) -> tuple[EmbeddedModel, ...]:
    """Ours, then the owner's. Raises ConfigError for a file that cannot be read."""
    return (*CATALOGUE, *(_make(name, one) for name, one in _load(folder).items()))


def find_model(name: str, *, any_use: bool = False) -> EmbeddedModel:
    """The model of that name, for chats; `any_use`: or for another use. Raises
    UsageError that names those there are, ConfigError.
    """
    models = (*load_catalogue(models_dir()), *(EXTRA_MODELS.values() if any_use else ()))
    by_name = {model.name: model for model in models}
    if name not in by_name:
        raise UsageError(f"there is no embedded model {name!r}; there is: {', '.join(by_name)}")
    return by_name[name]


def find_model_file(name: str) -> Path:
    """The file of an embedded model, for the provider that loads it. Raises ConfigError with the
    command that fetches it.
    """
    model, folder = find_model(name), models_dir()
    if not model.is_present(folder):
        raise ConfigError(
            f"the embedded model {name} is not in {folder}; fetch it with: aidaemon model "
            f"pull {name}"
        )
    return model.path(folder)


def add_model(folder: Path, name: str, url: str, sha256: str, licence: str) -> EmbeddedModel:
    """Put it into the list; nothing of it is fetched but its size. Raises UsageError and
    AidaemonError: nothing was added.
    """
    with suppress(ValueError):
        place = urlsplit(url)
        safe = place.scheme == "https" or (place.scheme == "http" and place.hostname in LOOPBACK)
        url = url if safe and place.hostname and url.isprintable() and " " not in url else ""
    if not url.startswith("http"):
        raise UsageError("URL: expected an address that begins with https://")
    if not NAME.fullmatch(name) or any(
        one.name == name for one in (*EXTRA_MODELS.values(), *load_catalogue(folder))
    ):
        raise UsageError(
            f"NAME: found {name!r}, expected a new name of small letters, digits, '.', '_' and '-'"
        )
    known = _load(folder)
    try:
        given = {"url": url, "sha256": sha256.lower(), "size": _ask_size(url)}
        one = OwnModel.model_validate(given | ({"licence": licence} if licence else {}))
    except ValidationError as error:
        raise UsageError(f"HASH: found {sha256!r}, expected 64 hexadecimal digits") from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = folder / f".{LIST}.new"
    tables = {key: value.model_dump() for key, value in {**known, name: one}.items()}
    new.write_text(tomli_w.dumps(tables))
    new.replace(folder / LIST)
    return _make(name, one)


def _load(folder: Path) -> dict[str, OwnModel]:
    path = folder / LIST
    try:
        tables = tomllib.loads(read_text(path))
        return {name: OwnModel.model_validate(table) for name, table in tables.items()}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path}: {place}: {first['msg']}") from error


def _make(name: str, one: OwnModel) -> EmbeddedModel:
    source = WebFile(one.url)
    return EmbeddedModel(name, f"{name}.gguf", one.size, one.sha256, one.licence, (source,))


def _ask_size(url: str) -> int:
    request = urllib.request.Request(url, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise AidaemonError(f"{url} does not answer: {error}; nothing was added") from error
    if not size:
        raise AidaemonError(f"{url} does not say how large it is; nothing was added")
    return size
