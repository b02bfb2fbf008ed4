"""What commands need of the config that runs (A20)."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Keys whose value in the file is another than before: those that hold from now on, and those that need a restart."""

    live: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


class Settings(Protocol):
    """The config that runs, and its file."""

    async def reload(self) -> Reloaded:
        """Take on what the file says now, where that can be done. Raises ConfigError: nothing changed."""
        ...
