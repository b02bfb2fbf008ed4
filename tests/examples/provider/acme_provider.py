"""A model provider as an add-on: it answers from its config, and asks for a tool when told to."""

from pydantic import BaseModel

from daemon.core.messages import MessageRole, ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers.base import TextCallback


class Acme:
    """Says the greeting; `double N` calls the tool `double`."""

    class Config(BaseModel):
        """Keys of [provider] beside the common ones."""

        greeting: str
        shout: bool = False

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def name(self) -> str:
        return "acme"

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        last = request.messages[-1]
        word, _, number = last.text.partition(" ")
        usage = Usage(1, 1, usd=0.001)
        if last.role is MessageRole.USER and word == "double":
            call = ToolCall("call_0", "double", f'{{"number": {int(number)}}}')
            return ModelReply("", (call,), usage=usage, provider=self.name, model=model)
        text = f"{self._config.greeting} {last.text}"
        text = text.upper() if self._config.shout else text
        if on_text:
            on_text(text)
        return ModelReply(text, usage=usage, provider=self.name, model=model)

    async def aclose(self) -> None:
        pass
