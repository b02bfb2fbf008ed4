"""The embedded provider around an engine that plays a part: order, streaming, cancelling, errors."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from daemon.core.errors import ConfigError, ErrorClass, ProviderError
from daemon.core.messages import Message, MessageRole, ModelRequest, ToolCall, ToolSpec, Usage
from daemon.providers.local.engine import ChunkCallback, LocalEngine
from daemon.providers.local.provider import Local

HI = ModelRequest((Message(MessageRole.USER, "hi"),))
SHELL = ToolSpec(
    "shell", "Run.", {"properties": {"command": {"type": "string"}}, "required": ["command"]}
)
USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 40},
}

Play = Callable[[Mapping[str, object], ChunkCallback], object]


def says(text: str, finish: str = "stop") -> Play:
    """An answer, a character at a time, after a sign of progress."""

    def play(_: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        on_chunk(
            {
                "choices": [{"delta": {"role": "assistant", "content": None}}],
                "prompt_progress": {"total": 9},
            }
        )
        for letter in text:
            on_chunk({"choices": [{"delta": {"content": letter}, "finish_reason": None}]})
        on_chunk({"choices": [{"delta": {}, "finish_reason": finish}]})
        on_chunk({"choices": [], "usage": USAGE})

    return play


def replies(text: str) -> Play:
    return says(json.dumps({"tool": "reply", "args": {"text": text, "kind": "answer"}}))


def complains(kind: str) -> Play:
    return lambda _, on_chunk: on_chunk({"error": {"type": kind, "message": "no", "code": 400}})


class Scripted:
    """An engine that plays its parts in order and keeps what it was asked."""

    def __init__(self, *parts: Play) -> None:
        self.parts = list(parts)
        self.bodies: list[Mapping[str, object]] = []

    def open(self, path: Path) -> LocalEngine:
        assert path == Path("model.gguf")
        return self.stream

    def stream(self, body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        self.bodies.append(body)
        self.parts.pop(0)(body, on_chunk)


@asynccontextmanager
async def local(engine: Scripted, silence_s: float = 30.0) -> AsyncIterator[Local]:
    provider = Local(locate=Path, open_engine=engine.open, silence_s=silence_s)
    try:
        yield provider
    finally:
        await provider.aclose()


async def test_a_reply_is_shown_as_it_comes_and_costs_nothing():
    pieces: list[str] = []
    async with local(Scripted(replies('It is "9:14"\n😀.'))) as provider:
        reply = await provider.complete("model.gguf", HI, pieces.append)
    assert reply.text == "".join(pieces) == 'It is "9:14"\n😀.'
    assert (reply.calls, reply.provider, reply.finish) == ((), "local", "stop")
    assert reply.usage == Usage(input_tokens=50, output_tokens=7, cached_tokens=40, usd=0.0)


async def test_a_step_with_a_tool_is_one_call_and_shows_nothing():
    pieces: list[str] = []
    async with local(Scripted(says('{"tool": "shell", "args": {"command": "ls"}}'))) as provider:
        reply = await provider.complete(
            "model.gguf", ModelRequest(HI.messages, (SHELL,)), pieces.append
        )
    assert reply.calls == (ToolCall("step", "shell", '{"command":"ls"}'),)
    assert pieces == []


async def test_a_reply_that_only_tells_what_it_will_do_is_unfinished():
    step = {"tool": "reply", "args": {"text": "I will look.", "kind": "plan"}}
    async with local(Scripted(says(json.dumps(step)), replies("Done."))) as provider:
        plan = await provider.complete("model.gguf", HI)
        answer = await provider.complete("model.gguf", HI)
    assert (plan.text, plan.finish) == ("I will look.", "unfinished")
    assert (answer.text, answer.finish) == ("Done.", "stop")


async def test_a_call_without_end_is_given_up_and_the_model_answers_in_words():
    endless = '{"tool":"shell","args":{"command":"curl | curl | curl'
    engine = Scripted(says(endless, "length"), replies("Paris."))
    async with local(engine) as provider:
        reply = await provider.complete("model.gguf", ModelRequest(HI.messages, (SHELL,)))
    assert (reply.text, reply.calls) == ("Paris.", ())
    assert "shell" not in json.dumps(engine.bodies[1]["response_format"])


async def test_a_reply_cut_short_is_given_and_a_cut_call_is_malformed():
    cut_reply, cut_call = (
        '{"tool":"reply","args":{"text":"It was a dark',
        '{"tool":"shell","args":{"command":"ls',
    )
    parts = (says(cut_reply, "length"), *[says(cut_call, "length")] * 2)
    async with local(Scripted(*parts)) as provider:
        reply = await provider.complete("model.gguf", HI)
        assert (reply.text, reply.finish) == ("It was a dark", "length")
        with pytest.raises(ProviderError) as failed:
            await provider.complete("model.gguf", HI)
    assert failed.value.kind is ErrorClass.MALFORMED


async def test_a_model_that_is_not_here_says_how_to_fetch_it():
    def nowhere(_: str) -> Path:
        raise ConfigError("fetch it with: aidaemon model pull")

    provider = Local(locate=nowhere)
    with pytest.raises(ProviderError, match="aidaemon model pull") as failed:
        await provider.complete("qwen", HI)
    await provider.aclose()
    assert failed.value.kind is ErrorClass.NOT_FOUND


async def test_a_prompt_that_the_engine_finds_too_long_is_tried_once_shorter():
    history = tuple(Message(MessageRole.USER, f"{number} " + "x" * 3000) for number in range(7))
    engine = Scripted(complains("exceed_context_size_error"), replies("ok"))
    async with local(engine) as provider:
        await provider.complete("model.gguf", ModelRequest(history))
    first, second = (json.dumps(body["messages"]) for body in engine.bodies)
    assert len(second) < len(first)
    assert "6 xxx" in second


async def test_a_message_that_fits_in_no_way_is_too_long_and_never_sent():
    engine = Scripted()
    async with local(engine) as provider:
        with pytest.raises(ProviderError) as failed:
            await provider.complete(
                "model.gguf", ModelRequest((Message(MessageRole.USER, "x" * 40_000),))
            )
    assert failed.value.kind is ErrorClass.CONTEXT_TOO_LONG
    assert engine.bodies == []


async def test_what_else_the_engine_complains_of_is_a_server_error():
    async with local(Scripted(complains("oom"))) as provider:
        with pytest.raises(ProviderError, match="no") as failed:
            await provider.complete("model.gguf", HI)
    assert failed.value.kind is ErrorClass.SERVER


async def test_a_body_that_the_engine_cannot_take_is_a_bad_request():
    def refuses(_: Mapping[str, object], __: ChunkCallback) -> None:
        raise ValueError("JSON schema error")

    async with local(Scripted(refuses)) as provider:
        with pytest.raises(ProviderError, match="JSON schema error") as failed:
            await provider.complete("model.gguf", HI)
    assert failed.value.kind is ErrorClass.BAD_REQUEST


async def test_a_piece_that_is_not_understood_ends_the_run_with_an_error():
    async with local(Scripted(lambda _, on_chunk: on_chunk({"choices": 7}))) as provider:
        with pytest.raises(ProviderError, match="not understood"):
            await provider.complete("model.gguf", HI)


async def test_an_engine_that_falls_silent_times_out():
    woken = threading.Event()
    async with local(Scripted(lambda _, __: woken.wait(60)), silence_s=0.05) as provider:
        with pytest.raises(ProviderError, match="silent") as failed:
            await provider.complete("model.gguf", HI)
        woken.set()
    assert failed.value.kind is ErrorClass.TIMEOUT


async def test_cancelling_lets_the_caller_go_at_once_and_stops_the_engine_at_its_next_piece():
    started, ended, go_on = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def endless(_: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(60)
        while not on_chunk({"choices": [{"delta": {"content": "x"}}]}):
            pass
        ended.set()

    async with local(Scripted(endless, replies("next"))) as provider:
        task = asyncio.create_task(provider.complete("model.gguf", HI))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert (await provider.complete("model.gguf", HI)).text == "next"
        assert ended.is_set()


async def test_calls_are_answered_one_at_a_time_in_the_order_they_came():
    running, most = 0, 0

    def counted(text: str) -> Play:
        def play(body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
            nonlocal running, most
            running, most = running + 1, max(most, running + 1)
            replies(text)(body, on_chunk)
            running -= 1

        return play

    async with local(Scripted(*map(counted, "abcde"))) as provider:
        answers = await asyncio.gather(*(provider.complete("model.gguf", HI) for _ in range(5)))
    assert [answer.text for answer in answers] == list("abcde")
    assert most == 1


async def test_waiting_for_its_turn_is_not_silence():
    def slow(body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        never = threading.Event()
        for _ in range(20):
            on_chunk({"choices": []})
            never.wait(0.1)
        replies("first")(body, on_chunk)

    async with local(Scripted(slow, replies("second")), silence_s=1.0) as provider:
        answers = await asyncio.gather(
            provider.complete("model.gguf", HI), provider.complete("model.gguf", HI)
        )
    assert [answer.text for answer in answers] == ["first", "second"]


async def test_a_cancelled_call_that_waits_for_its_turn_is_never_run():
    started, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(60)
        replies("first")(body, on_chunk)

    engine = Scripted(slow)
    async with local(engine) as provider:
        first = asyncio.create_task(provider.complete("model.gguf", HI))
        await started.wait()
        second = asyncio.create_task(provider.complete("model.gguf", HI))
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        go_on.set()
        assert (await first).text == "first"
    assert len(engine.bodies) == 1


async def test_closing_stops_what_runs():
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(_: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        loop.call_soon_threadsafe(started.set)
        while not on_chunk({"choices": [{"delta": {"content": "x"}}]}):
            pass

    provider = Local(locate=Path, open_engine=Scripted(endless).open)
    task = asyncio.create_task(provider.complete("model.gguf", HI))
    await started.wait()
    await provider.aclose()
    with pytest.raises(ProviderError):
        await task
