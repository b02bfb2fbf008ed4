"""The real embedded model, fetched by our own `model pull` when it is not here yet (1.1 GB), run in this process."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic, process_time

import pytest
import pytest_asyncio

from daemon.agent.context.builder import COMPACT_TOOLS
from daemon.cli.model import ensure_model
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.messages import Message, MessageRole, ModelReply, ModelRequest, ToolSpec
from daemon.ops.models import DEFAULT_MODEL
from daemon.ops.own_models import find_model_file
from daemon.providers.local.engine import ChunkCallback, LocalEngine, ModelProcess, open_llama
from daemon.providers.local.provider import Local
from tests.e2e.embedded_tasks import TASKS, TOOLS, Task, Trace, result_of
from tests.full_form import FULL

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

Report = Callable[[str], None]
MOST_STEPS = 5
CHOSEN = tuple(task for task in TASKS if FULL or task.brief)
REMEMBER = "remember that my dog is called Rex"


def said(text: str) -> Message:
    return Message(MessageRole.USER, text)


def ask(
    *messages: Message, tools: tuple[ToolSpec, ...] = TOOLS, max_tokens: int | None = None
) -> ModelRequest:
    return ModelRequest(messages, tools, max_tokens=max_tokens)


def chat(*messages: Message, max_tokens: int | None = None) -> ModelRequest:
    """No tool may be used. In the full form there is none; else they stand in what is read first, which is so the same for all
    tests of this file: to read another one costs the model half a minute.
    """
    if FULL:
        return ask(*messages, tools=(), max_tokens=max_tokens)
    return ModelRequest(messages, TOOLS, tools_allowed=False, max_tokens=max_tokens)


async def work(local: Local, task: Task) -> Trace:
    trace = Trace([said(task.says)])
    for _ in range(MOST_STEPS):
        began = monotonic()
        reply = await local.complete(DEFAULT_MODEL, ask(*trace.messages))
        trace.seconds.append(monotonic() - began)
        trace.replies.append(reply)
        trace.messages.append(Message(MessageRole.ASSISTANT, reply.text, reply.calls))
        if not reply.calls:
            break
        trace.calls.extend(reply.calls)
        trace.messages.append(
            Message(
                MessageRole.TOOL, result_of(reply.calls[0]), provider_id=reply.calls[0].provider_id
            )
        )
    return trace


@dataclass
class Watched:
    """The real engine, with a word when it begins and when it has let go of its thread."""

    loop: asyncio.AbstractEventLoop
    engine: LocalEngine | None = None
    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    words: int = 0

    def open(self, path: Path) -> LocalEngine:
        self.engine = open_llama(path)
        return self.stream

    def stream(self, body: Mapping[str, object], on_chunk: ChunkCallback) -> None:
        assert self.engine
        self.loop.call_soon_threadsafe(self.began.set)
        self.engine(dict(body), partial(self._count, on_chunk))
        self.loop.call_soon_threadsafe(self.ended.set)

    def _count(self, on_chunk: ChunkCallback, chunk: dict[str, object]) -> bool:
        self.words += 1
        return on_chunk(chunk)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def watching() -> AsyncIterator[tuple[Local, Watched]]:
    """The model on one core: beside other workers, two of its threads mostly wait for each other. It is loaded once for all."""
    await asyncio.to_thread(ensure_model, DEFAULT_MODEL)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    engine = Watched(asyncio.get_running_loop())
    provider = Local(locate=find_model_file, open_engine=engine.open)
    yield provider, engine
    await provider.aclose()
    os.sched_setaffinity(0, cores)


@pytest.fixture(scope="module")
def local(watching: tuple[Local, Watched]) -> Local:
    return watching[0]


@dataclass
class Worked:
    """All tasks, done once for all tests that look at them, and the reply to one word more after REMEMBER."""

    traces: dict[str, Trace]
    after: ModelReply


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worked(local: Local) -> Worked:
    traces, after = dict[str, Trace](), None
    for task in CHOSEN:
        traces[task.says] = trace = await work(local, task)
        if task.says == REMEMBER:
            after = await local.complete(DEFAULT_MODEL, ask(*trace.messages, said("thanks!")))
    assert after
    return Worked(traces, after)


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Report:
    def tell(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return tell


@pytest.fixture
def watched(watching: tuple[Local, Watched]) -> tuple[Local, Watched]:
    """Nothing has begun or ended yet."""
    watching[1].began.clear()
    watching[1].ended.clear()
    return watching


async def test_its_process_may_be_killed_and_the_next_call_loads_it_again(
    watched: tuple[Local, Watched],
):
    """The first of all: what the new process reads then, the other tests find read."""
    local, engine = watched
    story = chat(said("tell me a long story about a ship"))
    task = asyncio.create_task(local.complete(DEFAULT_MODEL, story))
    await engine.began.wait()
    assert isinstance(engine.engine, ModelProcess)
    os.kill(engine.engine.pid, signal.SIGKILL)
    with pytest.raises(ProviderError, match="the process of the embedded model ended") as failed:
        await task
    assert failed.value.kind is ErrorClass.SERVER
    assert (await local.complete(DEFAULT_MODEL, chat(said("say hello")))).text


async def test_three_of_four_small_tasks_are_done_with_the_right_tools(
    worked: Worked, report: Report
):
    traces = [worked.traces[task.says] for task in CHOSEN]
    for task, trace in zip(CHOSEN, traces, strict=True):
        verdict = "right" if trace.right(task) else "WRONG"
        steps = " ".join(f"{call.name}{call.arguments}" for call in trace.calls)
        report(
            f"{verdict} {sum(trace.seconds):5.1f} s  {task.says}: {steps} -> {trace.replies[-1].text!r}"
        )
    right = sum(trace.right(task) for task, trace in zip(CHOSEN, traces, strict=True))
    seconds = sorted(second for trace in traces for second in trace.seconds)
    report(
        f"{right} of {len(CHOSEN)} right; a step takes {seconds[0]:.1f} to {seconds[-1]:.1f} s, half of them under "
        f"{seconds[len(seconds) // 2]:.1f} s"
    )
    assert right >= 0.75 * len(CHOSEN)


async def test_a_later_step_reads_only_what_is_new(worked: Worked, report: Report):
    trace = worked.traces["what is in notes.txt?"]
    first, second = trace.replies[0].usage, trace.replies[1].usage
    report(f"first step {first}, second step {second}")
    assert second.cached_tokens >= first.input_tokens
    assert second.input_tokens - second.cached_tokens < 60
    assert second.usd == 0.0


async def test_a_second_turn_finds_the_first_one_read(worked: Worked):
    before = worked.traces[REMEMBER].replies[-1].usage
    assert worked.after.usage.cached_tokens >= before.input_tokens


async def test_what_it_writes_as_arguments_is_json_that_fits_the_tool(worked: Worked):
    calls = [call for trace in worked.traces.values() for call in trace.calls]
    written = [call for call in calls if call.name == "write_file"]
    assert written
    assert all(set(json.loads(call.arguments)) == {"path", "text"} for call in written)
    assert {"write_file", "read_file"} <= set(COMPACT_TOOLS)


async def test_calls_queue_in_order(local: Local):
    order: list[int] = []

    async def one(number: int) -> None:
        await local.complete(DEFAULT_MODEL, ask(said(f"say {number}"), max_tokens=24))
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(one(number))
    assert order == [0, 1, 2]


async def test_without_leave_to_use_tools_it_answers(local: Local):
    request = ModelRequest((said("what time is it?"),), TOOLS, tools_allowed=False)
    reply = await local.complete(DEFAULT_MODEL, request)
    assert reply.text
    assert not reply.calls


async def test_the_pieces_shown_make_up_the_reply(local: Local):
    pieces: list[str] = []
    reply = await local.complete(
        DEFAULT_MODEL,
        chat(said('say exactly this: he said "hé" 😀 and left'), max_tokens=40),
        pieces.append,
    )
    assert "".join(pieces) == reply.text
    assert len(pieces) > 3
    assert "{" not in reply.text


async def test_a_reply_that_runs_out_of_tokens_is_given_as_far_as_it_came(local: Local):
    reply = await local.complete(
        DEFAULT_MODEL, chat(said("say hello and tell me about the sea"), max_tokens=16)
    )
    assert reply.finish == "length"
    assert reply.text


async def seconds_until_stopped(task: "asyncio.Task[ModelReply]", ended: asyncio.Event) -> float:
    """The caller is let go at once; the engine hears of it at its next word or batch."""
    began = monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 60)
    return monotonic() - began


async def test_cancelling_is_heard_while_it_writes(watched: tuple[Local, Watched], report: Report):
    local, engine = watched
    writing = asyncio.Event()
    story = chat(said("tell me a long story about a ship"))
    task = asyncio.create_task(local.complete(DEFAULT_MODEL, story, lambda _: writing.set()))
    await writing.wait()
    words = engine.words
    seconds = await seconds_until_stopped(task, engine.ended)
    report(f"cancelled while it wrote: the engine stopped after {seconds:.2f} s")
    assert engine.words - words < 20  # of a thousand; some are written before it is told


async def test_cancelling_is_heard_while_it_reads_a_long_prompt(
    watched: tuple[Local, Watched], report: Report
):
    local, engine = watched
    task = asyncio.create_task(
        local.complete(
            DEFAULT_MODEL, ask(said("what is the last word of: " + "one two three " * 500))
        )
    )
    await engine.began.wait()
    seconds = await seconds_until_stopped(task, engine.ended)
    report(f"cancelled while it read: the engine stopped after {seconds:.2f} s")


async def test_the_event_loop_stays_free_while_it_generates(local: Local, report: Report):
    lags: list[float] = []
    loop = asyncio.get_running_loop()

    def tick(due: float) -> None:
        lags.append(loop.time() - due)
        if not answered.done():
            loop.call_later(0.01, tick, loop.time() + 0.01)

    cpu, began = process_time(), monotonic()
    counting = chat(said("count from 1 to 30 in words"), max_tokens=16)
    answered = asyncio.ensure_future(local.complete(DEFAULT_MODEL, counting))
    tick(loop.time())
    await answered
    lags.sort()
    typical, worst = lags[len(lags) // 2], lags[-1]
    report(
        f"event loop lag: typical {typical * 1000:.1f} ms, worst {worst * 1000:.1f} ms, "
        f"{(process_time() - cpu) / (monotonic() - began):.1f} cores busy"
    )
    assert typical <= 0.05


async def test_a_conversation_longer_than_its_window_is_cut_and_answered(local: Local):
    history = [
        said("my name is Ada"),
        Message(MessageRole.ASSISTANT, "Hello Ada!"),
        *[said("so" + " " * 3000)] * 15,
    ]
    reply = await local.complete(DEFAULT_MODEL, chat(*history, said("say hello")))
    assert reply.text


async def test_what_the_engine_counts_as_too_long_is_told(local: Local):
    with pytest.raises(ProviderError) as failed:
        await local.complete(DEFAULT_MODEL, ask(said("1234567890" * 1500)))
    assert failed.value.kind is ErrorClass.CONTEXT_TOO_LONG


async def test_a_file_that_is_no_model_is_told(tmp_path: Path):
    (tmp_path / "no.gguf").write_bytes(b"no model")
    with pytest.raises(ProviderError, match=r"no\.gguf cannot be loaded"):
        await asyncio.to_thread(open_llama, tmp_path / "no.gguf")
