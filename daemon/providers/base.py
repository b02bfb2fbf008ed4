"""The seam between the house and a language model: one method."""

from collections.abc import Callable
from typing import Protocol

from daemon.core.messages import ModelReply, ModelRequest

OnText = Callable[[str], None]


class Provider(Protocol):
    """One service that answers model calls. Adapters are two pure functions around one call: to_wire, from_wire."""

    @property
    def name(self) -> str:
        """Its name in events and messages to the user: the kind, with the host where there are several."""
        ...

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The whole reply; with `on_text` its text is shown piece by piece as it comes. Raises ProviderError.

        Cancelling stops the call.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...
