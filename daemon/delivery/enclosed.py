"""A file on its way to a conversation: what the outbox says of it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from channels.base import Refused
from daemon.core.rows import UNSENT
from daemon.delivery.letters import FILE
from daemon.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Enclosed:
    """The file as it was when it was handed over, the name it is to have, and what is said with it."""

    path: Path
    name: str
    caption: str


class _Body(BaseModel):
    path: str
    name: str
    caption: str = ""


async def sweep(store: Store, root: Path) -> None:
    """Take away copies that no delivery waits for any more, those of a daemon that died before it could say so."""
    waiting = await store.read(lambda tx: [row.body for state in UNSENT for row in tx.outbox(state) if row.kind == FILE])
    await asyncio.to_thread(_sweep, root, frozenset(_path(body) for body in waiting))


async def let_go(body: str, root: Path) -> None:
    """The copy is needed no more. One that cannot be taken away now is when the next daemon starts."""
    path = Path(_path(body))
    if path.is_relative_to(root):
        with suppress(OSError):
            await asyncio.to_thread(path.unlink, missing_ok=True)


def _sweep(root: Path, kept: frozenset[str]) -> None:
    for copy in root.glob("*"):
        if str(copy) not in kept:
            copy.unlink(missing_ok=True)


def _path(body: str) -> str:
    try:
        return _Body.model_validate_json(body).path
    except ValidationError:
        return ""


def enclosed(body: str, root: Path) -> Enclosed:
    """What a delivery of a file holds. Raises Refused where the copy is gone, or was never under `root`."""
    try:
        told = _Body.model_validate_json(body)
    except ValidationError as error:
        raise Refused("the delivery does not say which file") from error
    path = Path(told.path)
    if not path.is_relative_to(root) or not path.is_file():
        raise Refused(f"the copy of {told.name} is gone")
    return Enclosed(path, told.name, told.caption or told.name)
