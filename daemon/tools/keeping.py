"""What tools need of the journal: small texts, kept under a kind and a name."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Looking(Protocol):
    """Reading what is kept."""

    def all_kept(self, kind: str) -> dict[str, str]:
        """Everything of this kind, by name, in order of the names."""
        ...


class Noting(Looking, Protocol):
    """Writing, as one atomic unit."""

    def keep(self, kind: str, name: str, value: str) -> None:
        """Keep this text under this name, instead of what was there."""
        ...

    def drop(self, kind: str, name: str) -> bool:
        """Keep it no more; False when nothing was there."""
        ...


class Keeping(Protocol):
    """The journal, as far as tools see it."""

    async def write(self, work: Callable[[Noting], T]) -> T:
        """Run as one atomic unit; on disk when this returns. Raises StoreUnavailable."""
        ...

    async def read(self, look: Callable[[Looking], T]) -> T:
        """Run over what is committed."""
        ...
