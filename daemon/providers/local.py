"""The embedded model: a provider that needs no network and no key. One slot, calls in order, tools by constrained steps."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.core.errors import ConfigError, ErrorClass, ProviderError, UsageError
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers.base import OnText
from daemon.providers.local_engine import CONTEXT, Engine, OpenEngine, check_runtime, open_llama
from daemon.providers.local_prompt import Line, conversation, fitted, opening, schema
from daemon.providers.local_step import REPLY, ReplyDecoder, arguments_text, parse_step, reply_text

NAME = "local"
STEP_ID = "step"
USUAL_TOKENS = 512
MOST_TOKENS = 1024
CUT_BLOCK = 1024
PARTING_S = 5.0
SECOND_TRY = 0.6
TOO_LONG = "exceed_context_size_error"

Locate = Callable[[str], Path]


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Delta(_Wire):
    content: str | None = None


class _Choice(_Wire):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Details(_Wire):
    cached_tokens: int = 0


class _Usage(_Wire):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details = _Details()


class _Fault(_Wire):
    message: str = ""
    type: str = ""


class _Chunk(_Wire):
    choices: list[_Choice] = Field(default_factory=list)
    usage: _Usage | None = None
    error: _Fault | None = None


@dataclass(slots=True)
class _Answer:
    """One run of the engine, as it comes in. Fed in the worker's thread, read in the loop's after the end."""

    loop: asyncio.AbstractEventLoop
    seen: Callable[[str], None]
    stopped: bool = False
    raw: str = ""
    finish: str = ""
    usage: _Usage = field(default_factory=_Usage)
    fault: _Fault | None = None
    decoder: ReplyDecoder = field(default_factory=ReplyDecoder)

    def take(self, chunk: object) -> bool:
        """One piece; True ends the run. An exception in here would be lost in the engine."""
        if self.stopped or self.loop.is_closed():
            return True
        try:
            self._read(_Chunk.model_validate(chunk))
        except ValidationError as exc:
            self.fault = _Fault(message=f"a piece of the answer is not understood: {exc}")
        return self.fault is not None

    def _read(self, chunk: _Chunk) -> None:
        shown = ""
        self.fault, self.usage = chunk.error, chunk.usage or self.usage
        for choice in chunk.choices:
            self.finish = choice.finish_reason or self.finish
            self.raw += choice.delta.content or ""
            shown += self.decoder.feed(choice.delta.content or "")
        self.loop.call_soon_threadsafe(self.seen, shown)


class Local:
    """Loads its model at the first call, in a worker thread. `silence_s` is the longest time without a sign of life.

    Raises ConfigError at once when the `local` extra is not installed.
    """

    def __init__(self, *, locate: Locate, silence_s: float = 120.0, open_engine: OpenEngine | None = None) -> None:
        if open_engine is None:
            check_runtime()
        self._locate = locate
        self._silence_s = silence_s
        self._open = open_engine or open_llama
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-model")
        self._slot = asyncio.Lock()
        self._loaded: tuple[Path, Engine] | None = None
        self._running: _Answer | None = None

    @property
    def name(self) -> str:
        """Its name in events and messages to the user."""
        return NAME

    async def complete(self, model: str, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """One step: a reply, or one tool call. Raises ProviderError. Cancelling stops the run within a prompt batch."""
        path = self._path(model)
        async with self._slot:
            engine = await self._engine(path)
            answer = await self._answer(engine, request, on_text)
        return _reply(answer, model)

    async def aclose(self) -> None:
        """Stop what runs and let go of the model."""
        if self._running:
            self._running.stopped = True
        unloaded = asyncio.wrap_future(self._worker.submit(self._unload))
        self._worker.shutdown(wait=False)
        await asyncio.wait((unloaded,), timeout=PARTING_S)

    def _path(self, model: str) -> Path:
        try:
            return self._locate(model)
        except (ConfigError, UsageError) as exc:
            raise ProviderError(ErrorClass.NOT_FOUND, str(exc)) from exc

    async def _engine(self, path: Path) -> Engine:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._silence_s):
                return await loop.run_in_executor(self._worker, self._load, path)
        except TimeoutError as exc:
            raise ProviderError(ErrorClass.TIMEOUT, f"the embedded model was not loaded in {self._silence_s:.0f} s") from exc

    def _load(self, path: Path) -> Engine:
        if self._loaded is None or self._loaded[0] != path:
            self._unload()
            self._loaded = path, self._open(path)
        return self._loaded[1]

    def _unload(self) -> None:
        self._loaded = None

    async def _answer(self, engine: Engine, request: ModelRequest, on_text: OnText | None) -> _Answer:
        """The engine counts tokens exactly where we guess: when it finds the prompt too long, a shorter one is tried once."""
        most = min(request.max_tokens or USUAL_TOKENS, MOST_TOKENS)
        first, rest = opening(request), conversation(request)
        room = CONTEXT - most - sum(line.tokens for line in first)
        for share in (1.0, SECOND_TRY):
            lines = fitted(rest, int(room * share), CUT_BLOCK)
            if lines is None:
                break
            answer = await self._run(engine, _body((*first, *lines), request, most), on_text)
            if answer.fault is None:
                return answer
            if answer.fault.type != TOO_LONG:
                raise ProviderError(ErrorClass.SERVER, f"the embedded model failed: {answer.fault.message}")
        raise ProviderError(
            ErrorClass.CONTEXT_TOO_LONG, f"the message does not fit the embedded model, which reads {CONTEXT} tokens"
        )

    async def _run(self, engine: Engine, body: dict[str, object], on_text: OnText | None) -> _Answer:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._silence_s) as limit:

                def seen(text: str) -> None:
                    if answer.stopped:
                        return
                    limit.reschedule(loop.time() + self._silence_s)
                    if on_text and text:
                        on_text(text)

                answer = self._running = _Answer(loop, seen)
                try:
                    await loop.run_in_executor(self._worker, engine.stream, body, answer.take)
                finally:
                    answer.stopped = True
        except TimeoutError as exc:
            raise ProviderError(ErrorClass.TIMEOUT, f"the embedded model was silent for {self._silence_s:.0f} s") from exc
        except ValueError as exc:
            raise ProviderError(ErrorClass.BAD_REQUEST, f"the embedded model cannot be asked this: {exc}") from exc
        return answer


def _body(lines: tuple[Line, ...], request: ModelRequest, most: int) -> dict[str, object]:
    return {
        "messages": [line.wire for line in lines],
        "temperature": 0,
        "seed": request.seed or 0,
        "max_tokens": most,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "step", "schema": schema(request)}},
    }


def _reply(answer: _Answer, model: str) -> ModelReply:
    """What the step means. A reply that ran out of tokens is given as far as it came; a tool call is not."""
    usage = Usage(
        input_tokens=answer.usage.prompt_tokens,
        output_tokens=answer.usage.completion_tokens,
        cached_tokens=answer.usage.prompt_tokens_details.cached_tokens,
        usd=0.0,
    )
    if answer.finish == "length" and answer.decoder.opened:
        return ModelReply(answer.decoder.text, usage=usage, provider=NAME, model=model, finish=answer.finish)
    step = parse_step(answer.raw)
    if step.tool == REPLY:
        return ModelReply(reply_text(step), usage=usage, provider=NAME, model=model, finish=answer.finish)
    call = ToolCall(STEP_ID, step.tool, arguments_text(step))
    return ModelReply("", (call,), usage=usage, provider=NAME, model=model, finish=answer.finish)
