"""Replies in their provider's own form that the provider does not take back."""

from dataclasses import dataclass, field, replace

from daemon.core.messages import Message, ModelRequest

MOST = 10_000


@dataclass(slots=True)
class Refused:
    """After a change of the account's key, thoughts can be void; that must not be the end of a conversation."""

    _known: set[int] = field(default_factory=set)

    def without(self, request: ModelRequest) -> ModelRequest:
        """The request, with nothing in it that has been refused before."""
        if not self._known:
            return request
        return replace(request, messages=tuple(self._told(message) for message in request.messages))

    def learn(self, request: ModelRequest, provider: str, model: str) -> bool:
        """All that this request gave back is refused from now on; False if that is nothing."""
        if len(self._known) > MOST:
            self._known.clear()
        natives = [message.native for message in request.messages if message.native]
        found = {hash(native.blocks) for native in natives if (native.provider, native.model) == (provider, model)}
        news = bool(found - self._known)
        self._known |= found
        return news

    def _told(self, message: Message) -> Message:
        known = message.native is not None and hash(message.native.blocks) in self._known
        return replace(message, native=None) if known else message
