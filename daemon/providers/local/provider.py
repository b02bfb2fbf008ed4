"""The embedded model as a provider: no network, no key; one call at a time, tools by JSON steps."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from daemon.core.errors import ConfigError, ErrorClass, ProviderError, UsageError
from daemon.core.messages import UNFINISHED, ModelReply, ModelRequest, ToolCall, Usage
from daemon.providers.base import Json, TextCallback
from daemon.providers.errors import CallFailed
from daemon.providers.local.engine import (
    CONTEXT,
    EngineOpener,
    LocalEngine,
    ModelProcess,
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
    compact_json,
    fit_lines,
    parse_reply,
    parse_step,
)
from daemon.providers.openai import ChatReplyBuilder

STEP_ID = "step"
DEFAULT_TOKENS = 512
MAX_TOKENS = 1024
CUT_BLOCK = 1024
CLOSE_TIMEOUT_S = 5.0
RETRY_SHARE = 0.6
DIED = "the process of the embedded model ended; it is started again for the next call"


@dataclass(slots=True)
class _Run:
    """One run of the engine, as it comes in. Fed in the worker's thread, read in the loop's after
    the end.
    """

    loop: asyncio.AbstractEventLoop
    on_progress: Callable[[str], None]
    stopped: bool = False
    builder: ChatReplyBuilder = field(default_factory=ChatReplyBuilder)
    decoder: ReplyDecoder = field(default_factory=ReplyDecoder)
    error: CallFailed | None = None

    def feed(self, chunk: Json) -> bool:
        """One piece; True ends the run. An exception in here would be lost in the engine."""
        if self.stopped or self.loop.is_closed():
            return True
        try:
            shown = self.decoder.feed(self.builder.read(chunk))
            self.loop.call_soon_threadsafe(self.on_progress, shown)
        except CallFailed as error:
            self.error = error
        except TypeError as error:
            detail = f"a piece of the answer is not understood: {error}"
            self.error = CallFailed(ErrorClass.MALFORMED, detail)
        return self.error is not None


class Local:
    """Loads its model at the first call, in a worker thread. `silence_s` is the longest time
    without a sign of life.

    Raises ConfigError at once when the `local` extra is not installed.
    """

    name = "local"

    def __init__(
        self,
        *,
        locate: Callable[[str], Path],
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
        self._engines: dict[Path, LocalEngine] = {}  # one at most
        self._running: _Run | None = None

    async def complete(
        self, model: str, request: ModelRequest, on_text: TextCallback | None = None
    ) -> ModelReply:
        """One step: a reply, or one tool call. Raises ProviderError. Cancelling stops the run
        within a prompt batch.
        """
        try:
            path = self._locate(model)
        except (ConfigError, UsageError) as exc:
            raise ProviderError(ErrorClass.NOT_FOUND, str(exc)) from exc
        async with self._slot:
            loading = asyncio.get_running_loop().run_in_executor(self._worker, self._load, path)
            try:
                async with asyncio.timeout(self._silence_s):
                    engine = await loading
            except TimeoutError as exc:
                late = f"the embedded model was not loaded in {self._silence_s:.0f} s"
                raise ProviderError(ErrorClass.TIMEOUT, late) from exc
            reply = _make_reply(await self._run_fitted(engine, request, on_text))
            if reply is None and request.tools_allowed:  # a call without end: it may still answer
                only_reply = replace(request, tools_allowed=False)
                reply = _make_reply(await self._run_fitted(engine, only_reply, on_text))
        if reply is None:
            broken = f"the embedded model wrote no whole step in {MAX_TOKENS} tokens"
            raise ProviderError(ErrorClass.MALFORMED, broken)
        return replace(reply, provider=self.name, model=model)

    async def aclose(self) -> None:
        """Stop what runs and let go of the model."""
        if self._running:
            self._running.stopped = True
        self._unload()
        unloaded = asyncio.wrap_future(self._worker.submit(self._engines.clear))
        self._worker.shutdown(wait=False)
        await asyncio.wait((unloaded,), timeout=CLOSE_TIMEOUT_S)

    def _load(self, path: Path) -> LocalEngine:
        if path not in self._engines:
            self._unload()
            self._engines[path] = self._open(path)
        return self._engines[path]

    def _unload(self) -> None:
        """A run that is under way then breaks off."""
        while self._engines:
            _, engine = self._engines.popitem()
            if isinstance(engine, ModelProcess):
                engine.end()

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
            sent = _make_body((*first, *lines), request, most)
            answer = await self._run_once(engine, sent, on_text)
            if answer.error is None:
                return answer
            if answer.error.kind is not ErrorClass.CONTEXT_TOO_LONG:
                failed = f"the embedded model failed: {answer.error}"
                raise ProviderError(ErrorClass.SERVER, failed)
        raise ProviderError(
            ErrorClass.CONTEXT_TOO_LONG,
            f"the message does not fit the embedded model, which reads {CONTEXT} tokens",
        )

    async def _run_once(
        self, engine: LocalEngine, body: Json, on_text: TextCallback | None
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
                    await loop.run_in_executor(self._worker, engine, body, answer.feed)
                finally:
                    answer.stopped = True
        except TimeoutError as exc:
            self._unload()
            raise ProviderError(
                ErrorClass.TIMEOUT, f"the embedded model was silent for {self._silence_s:.0f} s"
            ) from exc
        except EOFError as exc:
            self._unload()
            raise ProviderError(ErrorClass.SERVER, DIED) from exc
        except ValueError as exc:
            raise ProviderError(
                ErrorClass.BAD_REQUEST, f"the embedded model cannot be asked this: {exc}"
            ) from exc
        return answer


def _make_body(lines: tuple[PromptLine, ...], request: ModelRequest, most: int) -> Json:
    schema = {"name": "step", "schema": build_schema(request)}
    return {
        "messages": [{"role": line.role, "content": line.content} for line in lines],
        "temperature": 0,
        "seed": request.seed or 0,
        "max_tokens": most,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }


def _make_reply(answer: _Run) -> ModelReply | None:
    """What the step means. A reply that ran out of tokens is given as far as it came; a tool call
    that did is None.
    """
    builder, decoder = answer.builder, answer.decoder
    reply = ModelReply("", usage=Usage(*builder.counts, usd=0.0), finish=builder.finish)
    if builder.finish == "length" and decoder.is_reply:
        return replace(reply, text=decoder.text)
    if builder.finish == "length":
        return None
    tool, args = parse_step("".join(builder.text))
    if tool == REPLY:
        text, is_plan = parse_reply(args)
        return replace(reply, text=text, finish=UNFINISHED if is_plan else builder.finish)
    return replace(reply, calls=(ToolCall(STEP_ID, tool, compact_json(args)),))
