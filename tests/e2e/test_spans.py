"""OpenTelemetry spans of turns, sent to a collector on loopback by the real process (extra `otel`)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.fakes.command_line import aidaemon
from tests.fakes.daemon_process import running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, fails, says

SECRET_WORDS = "the code of the safe is 4711"


@dataclass
class Collector:
    """What was sent to it: the spans by name, and the headers."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    raw: bytes = b""

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.raw += body
        self.headers.append(request.headers.get("x-key", ""))
        asked = ExportTraceServiceRequest.FromString(body)
        for of_resource in asked.resource_spans:
            for scope in of_resource.scope_spans:
                self.spans += scope.spans
        return web.Response(body=b"", content_type="application/x-protobuf")

    def find(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    async def until(self, name: str, count: int) -> list[Any]:
        async with asyncio.timeout(30):
            while len(found := self.find(name)) < count:
                await asyncio.sleep(0.05)
        return found


@asynccontextmanager
async def collecting(tmp_path: Path, model: FakeOpenAI) -> AsyncIterator[tuple[Collector, Any]]:
    """A daemon that sends its spans to a collector."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    async with TestServer(app) as server:
        collector.url = str(server.make_url("/v1/traces"))
        more = f'[telemetry]\nendpoint = "{collector.url}"\nheaders = {{ x-key = "abc" }}\n'
        async with running_daemon(tmp_path / "home", scripted(model.base_url, more)) as daemon:
            yield collector, daemon


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def read(span: Any) -> dict[str, object]:
    return {
        one.key: one.value.string_value
        or one.value.int_value
        or [part.string_value for part in one.value.array_value.values]
        for one in span.attributes
    }


async def test_a_turn_its_model_calls_and_its_tools_are_spans_of_one_trace(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """By the names of the conventions, in their time, and without a word that was said."""
    model.script(calls(("write_file", {"path": "note.txt", "text": SECRET_WORDS})), says("So."))
    async with collecting(tmp_path, model) as (collector, daemon):
        run = await daemon.ask(f"note that {SECRET_WORDS}")
        [turn] = await collector.until("invoke_agent default", 1)
        chats = await collector.until("chat fake", 2)
        [tool] = await collector.until("execute_tool write_file", 1)
    told = read(turn)
    assert (told["gen_ai.operation.name"], told["aidaemon.turn.id"]) == (
        "invoke_agent",
        run["turn"],
    )
    assert told["gen_ai.conversation.id"] == run["session"]
    assert told["gen_ai.usage.input_tokens"] == 20
    first = read(chats[0])
    assert (first["gen_ai.operation.name"], first["gen_ai.provider.name"]) == ("chat", "openai")
    assert first["gen_ai.request.model"] == first["gen_ai.response.model"] == "fake"
    assert first["gen_ai.usage.input_tokens"] == 10 and first["server.address"]
    assert first["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert read(tool)["gen_ai.tool.name"] == "write_file"
    for span in (*chats, tool):
        assert (span.trace_id, span.parent_span_id) == (turn.trace_id, turn.span_id)
        assert turn.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= turn.end_time_unix_nano
    assert {*collector.headers} == {"abc"}
    assert b"4711" not in collector.raw and b"note.txt" not in collector.raw


async def test_a_sub_agents_spans_stand_in_its_parents_trace_below_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    def choose(body: Json) -> Step:
        said = [str(one["content"]) for one in body["messages"] if one["role"] == "user"]
        results = [one for one in body["messages"] if one["role"] == "tool"]
        if "errand" in said[0] or results:
            return says("So.")
        return calls(("spawn_agent", {"task": "errand: look"}))

    model.otherwise(by(choose))
    async with collecting(tmp_path, model) as (collector, daemon):
        run = await daemon.ask("have it looked at")
        turns = await collector.until("invoke_agent default", 2)
    [above] = [one for one in turns if read(one)["aidaemon.turn.id"] == run["turn"]]
    [below] = [one for one in turns if one is not above]
    assert (below.trace_id, below.parent_span_id) == (above.trace_id, above.span_id)
    assert above.parent_span_id == b""


async def test_what_failed_is_marked_with_the_kind_of_its_error(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(("read_file", {"path": "gone.txt"})), fails(402))
    async with collecting(tmp_path, model) as (collector, daemon):
        await daemon.ask("read it")
        [turn] = await collector.until("invoke_agent default", 1)
        chats = await collector.until("chat fake", 2)
        [tool] = await collector.until("execute_tool read_file", 1)
    assert read(turn)["error.type"] == "failed" and turn.status.code == 2
    assert [read(one).get("error.type") for one in chats] == [None, "billing"]
    assert read(tool)["error.type"] and tool.status.code == 2


async def test_what_ends_last_is_sent_before_the_daemon_stops(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("So."))
    async with collecting(tmp_path, model) as (collector, daemon):
        await daemon.ask("hello there, what is new?")
        await daemon.terminate()
        assert len(collector.find("invoke_agent default")) == 1


async def test_a_collector_that_is_gone_costs_nothing_and_no_endpoint_sends_nothing(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.otherwise(says("So."))
    gone = '[telemetry]\nendpoint = "http://127.0.0.1:9/v1/traces"\n'
    async with running_daemon(tmp_path / "home", scripted(model.base_url, gone)) as daemon:
        for text in ("one?", "two?"):
            assert (await daemon.ask(text))["reply"] == "So."


def test_an_endpoint_that_is_no_address_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[telemetry]\nendpoint = "localhost:4318"\n')
    done = aidaemon("config", "check", home=tmp_path)
    assert done.returncode == 2 and "telemetry.endpoint: found" in done.stderr
