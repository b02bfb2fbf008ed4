"""Between the agent and its models: no secret goes to a model, and none that a model or a server wrote comes back (A6)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from daemon.agent.models import Chain
from daemon.core.errors import ProviderError
from daemon.core.events import ModelRetried
from daemon.core.messages import Message, ModelReply, ModelRequest
from daemon.core.redaction import Redactor, Stream
from daemon.providers.base import OnText
from daemon.providers.chain import Route


@dataclass(slots=True)
class _Draft:
    """A reply as it is shown while it comes; a secret that comes in pieces is held back until it is known for one."""

    redactor: Redactor
    on_text: OnText
    on_reset: Callable[[], None] | None
    stream: Stream

    def show(self, text: str) -> None:
        self._tell(self.stream.feed(text))

    def drop(self) -> None:
        self.stream = self.redactor.stream()
        if self.on_reset:
            self.on_reset()

    def finish(self) -> None:
        self._tell(self.stream.flush())

    def _tell(self, text: str) -> None:
        if text:
            self.on_text(text)


@dataclass(frozen=True, slots=True)
class Discreet:
    """A chain whose every word is clean: what is sent, drafts, replies, errors and notices."""

    chain: Chain
    redactor: Redactor

    async def complete(
        self,
        routes: Sequence[Route],
        request: ModelRequest,
        *,
        on_text: OnText | None = None,
        on_reset: Callable[[], None] | None = None,
        on_retry: Callable[[ModelRetried], Awaitable[None]],
    ) -> ModelReply:
        """The reply of the first route that answers. Raises ProviderError."""
        draft = _Draft(self.redactor, on_text, on_reset, self.redactor.stream()) if on_text else None

        async def retried(event: ModelRetried) -> None:
            await on_retry(self.redactor.value(event))

        try:
            reply = await self.chain.complete(
                routes, self._sent(request),
                on_text=draft.show if draft else None,
                on_reset=draft.drop if draft else on_reset,
                on_retry=retried,
            )  # fmt: skip
        except ProviderError as error:
            raise self._told(error) from error
        if draft:
            draft.finish()
        return self._received(reply)

    def _sent(self, request: ModelRequest) -> ModelRequest:
        """One look at the whole: as a rule there is nothing in it."""
        if self.redactor.is_clean(_words(request)):
            return request
        messages = tuple(self._message(message) for message in request.messages)
        return replace(request, messages=messages, tools=self.redactor.value(request.tools))

    def _message(self, message: Message) -> Message:
        cleaned = self.redactor.value(message)
        return message if cleaned is message else replace(cleaned, native=None)

    def _received(self, reply: ModelReply) -> ModelReply:
        cleaned = self.redactor.value(reply)
        return reply if cleaned is reply else replace(cleaned, native=None)

    def _told(self, error: ProviderError) -> ProviderError:
        told = self.redactor.text(str(error))
        return ProviderError(error.kind, told, retry_after=error.retry_after, status=error.status)


def _words(request: ModelRequest) -> list[str]:
    words = [tool.description for tool in request.tools]
    words += [message.text for message in request.messages]
    words += [call.arguments for message in request.messages for call in message.calls]
    words += [message.native.blocks for message in request.messages if message.native]
    return words
