"""aidaemon model list|pull|rm, and the fetch that `chat` does by itself."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.parsing import Actions
from daemon.core.errors import AidaemonError
from daemon.settings.paths import Paths

if TYPE_CHECKING:
    from rich.progress import Progress

    from daemon.ops.models import EmbeddedModel, FetchObserver

STEP = 0.05


ACTIONS: Actions = {
    "list": ("each model: file, size, memory, licence, hash, source, and whether it is here", {}),
    "add": (
        "add a model to the list: a GGUF file at any HTTPS address, pinned by its hash",
        {
            "NAME": "your name for it, as [provider.models] primary",
            "URL": "its address",
            "HASH": "its SHA-256: no other file is accepted",
            "--licence TEXT": {"default": "", "help": "what its licence is"},
        },
    ),
    "pull": (
        "fetch it, or verify it if it is here; goes on where an earlier try stopped",
        {"[NAME]": "see `aidaemon model list` (default: the default model)"},
    ),
    "rm": ("delete its file", {"NAME": ""}),
}

USES = {"memory": "finds what was said", "voice": "writes down voice messages"}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it."""
    from daemon.ops.extra_models import EXTRA_MODELS  # lazy: brings urllib
    from daemon.ops.models import (
        DEFAULT_MODEL,
        models_dir,
        remove_model,
    )  # lazy: brings urllib
    from daemon.ops.own_models import add_model, find_model, load_catalogue  # lazy: with it
    from daemon.providers.local.engine import find_needed_memory  # lazy: brings the provider

    folder = models_dir()
    match args.action:
        case "list":
            for model in (*load_catalogue(folder), *EXTRA_MODELS.values()):
                where = model.path(folder) if model.is_present(folder) else "not here"
                print(f"{_about(model)}, {where}")
                needed = (
                    f"needs {find_needed_memory(model.size) / (1 << 30):.2g} GiB of free memory"
                )
                needed = USES.get(model.name, needed)
                print(f"  {needed}; sha256 {model.sha256}")
                print(f"  from {model.sources[0].name}")
        case "add":
            model = add_model(folder, args.name, args.url, args.hash, args.licence)
            print(f"added {_about(model)}; fetch it with: aidaemon model pull {model.name}")
        case "pull":
            model = find_model(args.name or DEFAULT_MODEL, any_use=True)
            print(_fetch(model, folder))
        case _:
            if not remove_model(find_model(args.name, any_use=True), folder):
                raise AidaemonError(f"{args.name} is not in {folder}; nothing was deleted")
            print(f"deleted {args.name} from {folder}", file=sys.stderr)
    return 0


def ensure_model(name: str) -> Path:
    """The file of this embedded model, for `chat`: fetched without asking when it is not here.
    Raises AidaemonError: no such model, no runtime or too little memory for it, or no source that
    gives it.
    """
    from daemon.ops.models import models_dir  # lazy: brings urllib
    from daemon.ops.own_models import find_model  # lazy: with it
    from daemon.providers.local.engine import (
        check_memory,
        check_runtime,
        get_free_memory,
    )  # lazy: brings urllib

    model, folder = find_model(name), models_dir()
    if model.is_present(folder):
        return model.path(folder)
    check_runtime()
    check_memory(get_free_memory(), model.size)
    print(
        f"The embedded model is fetched once: {_about(model)}. It is kept in {folder}.",
        file=sys.stderr,
    )
    return _fetch(model, folder)


def _about(model: "EmbeddedModel") -> str:
    return f"{model.name}, {model.size / 1e9:.2f} GB, licence {model.licence}"


def _fetch(model: "EmbeddedModel", folder: Path) -> Path:
    from daemon.ops.models import fetch_model  # lazy: brings urllib

    with show_progress(model.size) as watcher:
        return fetch_model(model, folder, watcher)


@contextmanager
def show_progress(size: int) -> Iterator["FetchObserver"]:
    """Someone to show a fetch of this size to: a bar on a terminal, plain lines elsewhere; on
    stderr.
    """
    if not sys.stderr.isatty():
        yield _FetchProgress(size)
        return
    from rich.console import Console  # lazy: for a terminal only
    from rich.progress import (  # lazy: for a terminal only
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        bar.add_task("", total=size)
        yield _FetchProgress(size, bar)


@dataclass(slots=True)
class _FetchProgress:
    """A bar, or one line for each twentieth where there is no terminal to draw on."""

    size: int
    bar: "Progress | None" = None
    printed: float = 0.0

    def say(self, text: str) -> None:
        if self.bar:
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def advance(self, done: int) -> None:
        share = done / self.size
        if self.bar:
            self.bar.update(self.bar.task_ids[0], completed=done)
        elif share - self.printed >= STEP or share == 1.0 > self.printed:
            self.printed = share
            self.say(f"{share:4.0%}  {done / 1e6:,.0f} of {self.size / 1e6:,.0f} MB")
