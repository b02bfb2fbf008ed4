"""The embedded model as a provider: no network, no key; one call at a time, tools by JSON steps."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.core.errors import ConfigError, ErrorClass, ProviderError, UsageError
from daemon.core.messages import ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers.base import TextCallback
from daemon.providers.local.engine import (
    CONTEXT,
    EngineOpener,
    LocalEngine,
    check_runtime,
    open_llama,
)
from daemon.providers.local.prompt import (
    REPLY,
    PromptLine,
    ReplyDecoder,
    build_conversation,
    build_opening,
    build_schema,
    encode_arguments,
    fit_lines,
    parse_reply_text,
    parse_step,
)

PROVIDER_NAME = "local"
STEP_ID = "step"
DEFAULT_TOKENS = 512
MAX_TOKENS = 1024
CUT_BLOCK = 1024
CLOSE_TIMEOUT_S = 5.0
RETRY_SHARE = 0.6
TOO_LONG_ERROR = "exceed_context_size_error"

FindModel = Callable[[str], Path]


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


class _EngineError(_Wire):
    message: str = ""
    type: str = ""


class _Chunk(_Wire):
    choices: list[_Choice] = Field(default_factory=list)
    usage: _Usage | None = None
    error: _EngineError | None = None


@dataclass(slots=True)
class _Run:
    """One run of the engine, as it comes in. Fed in the worker's thread, read in the loop's after
    the end.
    """

    loop: asyncio.AbstractEventLoop
    on_progress: Callable[[str], None]
    stopped: bool = False
    raw: str = ""
    finish: str = ""
    usage: _Usage = field(default_factory=_Usage)
    fault: _EngineError | None = None
    decoder: ReplyDecoder = field(default_factory=ReplyDecoder)

    def feed(self, chunk: object) -> bool:
        """One piece; True ends the run. An exception in here would be lost in the engine."""
        if self.stopped or self.loop.is_closed():
            return True
        try:
            self._add_chunk(_Chunk.model_validate(chunk))
        except ValidationError as exc:
            self.fault = _EngineError(message=f"a piece of the answer is not understood: {exc}")
        return self.fault is not None

    def _add_chunk(self, chunk: _Chunk) -> None:
        shown = ""
        self.fault, self.usage = chunk.error, chunk.usage or self.usage
        for choice in chunk.choices:
            self.finish = choice.finish_reason or self.finish
            self.raw += choice.delta.content or ""
            shown += self.decoder.feed(choice.delta.content or "")
        self.loop.call_soon_threadsafe(self.on_progress, shown)


class Local:
    """Loads its model at the first call, in a worker thread. `silence_s` is the longest time
    without a sign of life.

    Raises ConfigError at once when the `local` extra is not installed.
    """

    def __init__(
        self,
        *,
        locate: FindModel,
        silence_s: float = 120.0,
        open_engine: EngineOpener | None = None,
    ) -> None:
        if open_engine is None:
            check_runtime()
        self._locate = locate
        self._silence_s = silence_s
        self._open = open_engine or open_llama
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-model")
        self._slot = asyncio.Lock()
        self._engine_in_use: tuple[Path, LocalEngine] | None = None
        self._running: _Run | None = None

    @property
    def name(self) -> str:
        """Its name in events and messages to the user."""
        return PROVIDER_NAME

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """One step: a reply, or one tool call. Raises ProviderError. Cancelling stops the run
        within a prompt batch.
        """
        path = self._find_model(model)
        async with self._slot:
            engine = await self._get_engine(path)
            answer = await self._run_fitted(engine, request, on_text)
        return _make_reply(answer, model)

    async def aclose(self) -> None:
        """Stop what runs and let go of the model."""
        if self._running:
            self._running.stopped = True
        unloaded = asyncio.wrap_future(self._worker.submit(self._unload))
        self._worker.shutdown(wait=False)
        await asyncio.wait((unloaded,), timeout=CLOSE_TIMEOUT_S)

    def _find_model(self, model: str) -> Path:
        try:
            return self._locate(model)
        except (ConfigError, UsageError) as exc:
            raise ProviderError(ErrorClass.NOT_FOUND, str(exc)) from exc

    async def _get_engine(self, path: Path) -> LocalEngine:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._silence_s):
                return await loop.run_in_executor(self._worker, self._load, path)
        except TimeoutError as exc:
            raise ProviderError(
                ErrorClass.TIMEOUT, f"the embedded model was not loaded in {self._silence_s:.0f} s"
            ) from exc

    def _load(self, path: Path) -> LocalEngine:
        if self._engine_in_use is None or self._engine_in_use[0] != path:
            self._unload()
            self._engine_in_use = path, self._open(path)
        return self._engine_in_use[1]

    def _unload(self) -> None:
        self._engine_in_use = None

    async def _run_fitted(
        self, engine: LocalEngine, request: ModelRequest, on_text: TextCallback | None
    ) -> _Run:
        """The engine counts tokens exactly where we guess: when it finds the prompt too long, a
        shorter one is tried once.
        """
        most = min(request.max_tokens or DEFAULT_TOKENS, MAX_TOKENS)
        first, rest = build_opening(request), build_conversation(request)
        room = CONTEXT - most - sum(line.estimate_tokens for line in first)
        for share in (1.0, RETRY_SHARE):
            lines = fit_lines(rest, int(room * share), CUT_BLOCK)
            if lines is None:
                break
            answer = await self._run_once(
                engine, _make_body((*first, *lines), request, most), on_text
            )
            if answer.fault is None:
                return answer
            if answer.fault.type != TOO_LONG_ERROR:
                raise ProviderError(
                    ErrorClass.SERVER, f"the embedded model failed: {answer.fault.message}"
                )
        raise ProviderError(
            ErrorClass.CONTEXT_TOO_LONG,
            f"the message does not fit the embedded model, which reads {CONTEXT} tokens",
        )

    async def _run_once(
        self, engine: LocalEngine, body: dict[str, object], on_text: TextCallback | None
    ) -> _Run:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._silence_s) as limit:

                def seen(text: str) -> None:
                    if answer.stopped:
                        return
                    limit.reschedule(loop.time() + self._silence_s)
                    if on_text and text:
                        on_text(text)

                answer = self._running = _Run(loop, seen)
                try:
                    await loop.run_in_executor(self._worker, engine.stream, body, answer.feed)
                finally:
                    answer.stopped = True
        except TimeoutError as exc:
            raise ProviderError(
                ErrorClass.TIMEOUT, f"the embedded model was silent for {self._silence_s:.0f} s"
            ) from exc
        except ValueError as exc:
            raise ProviderError(
                ErrorClass.BAD_REQUEST, f"the embedded model cannot be asked this: {exc}"
            ) from exc
        return answer


def _make_body(
    lines: tuple[PromptLine, ...], request: ModelRequest, most: int
) -> dict[str, object]:
    return {
        "messages": [line.to_message for line in lines],
        "temperature": 0,
        "seed": request.seed or 0,
        "max_tokens": most,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "step", "schema": build_schema(request)},
        },
    }


def _make_reply(answer: _Run, model: str) -> ModelReply:
    """What the step means. A reply that ran out of tokens is given as far as it came; a tool call
    is not.
    """
    usage = Usage(
        input_tokens=answer.usage.prompt_tokens,
        output_tokens=answer.usage.completion_tokens,
        cached_tokens=answer.usage.prompt_tokens_details.cached_tokens,
        usd=0.0,
    )
    if answer.finish == "length" and answer.decoder.is_reply:
        return ModelReply(
            answer.decoder.text,
            usage=usage,
            provider=PROVIDER_NAME,
            model=model,
            finish=answer.finish,
        )
    step = parse_step(answer.raw)
    if step.tool == REPLY:
        return ModelReply(
            parse_reply_text(step),
            usage=usage,
            provider=PROVIDER_NAME,
            model=model,
            finish=answer.finish,
        )
    call = ToolCall(STEP_ID, step.tool, encode_arguments(step))
    return ModelReply(
        "", (call,), usage=usage, provider=PROVIDER_NAME, model=model, finish=answer.finish
    )
