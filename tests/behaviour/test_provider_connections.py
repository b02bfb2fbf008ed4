"""How connections to a model's server are used: again, many at once, and however oddly the server streams."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from daemon.core.clock import SystemClock
from daemon.core.messages import Message, MessageRole, ModelRequest
from daemon.providers.openai import OpenAI
from tests.fakes.openai import Exchange, FakeOpenAI, raw, says

ASK = ModelRequest((Message(MessageRole.USER, "hi"),))


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
async def provider(fake: FakeOpenAI) -> AsyncIterator[OpenAI]:
    provider = OpenAI(base_url=fake.base_url, timeout_s=1.0, clock=SystemClock())
    yield provider
    await provider.aclose()


async def test_a_server_that_streams_unasked_or_never_is_understood(
    provider: OpenAI, fake: FakeOpenAI
) -> None:
    chunk = json.dumps(
        {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}
    ).encode()
    whole = json.dumps(
        {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    ).encode()
    fake.script(raw(b"data: " + chunk + b"\n\ndata: [DONE]\n\n"), raw(whole))
    shown: list[str] = []
    assert (await provider.complete("m", ASK)).text == "ok"
    assert (await provider.complete("m", ASK, shown.append)).text == "ok"
    assert shown == ["ok"]


async def test_an_answer_that_takes_long_but_keeps_coming_is_no_timeout(
    provider: OpenAI, fake: FakeOpenAI
) -> None:
    pieces = [json.dumps({"choices": [{"delta": {"content": str(n)}}]}).encode() for n in range(6)]

    async def slowly(x: Exchange) -> web.StreamResponse:
        response = await x.open()
        for piece in pieces:
            await asyncio.sleep(0.25)
            await response.write(b"data: " + piece + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    fake.script(slowly)
    shown: list[str] = []
    assert (await provider.complete("m", ASK, shown.append)).text == "012345"
    assert shown == list("012345")


async def test_pieces_that_come_quickly_are_shown_together(
    provider: OpenAI, fake: FakeOpenAI
) -> None:
    pieces = [json.dumps({"choices": [{"delta": {"content": str(n)}}]}).encode() for n in range(9)]

    async def quickly(x: Exchange) -> web.StreamResponse:
        response = await x.open()
        for piece in pieces:
            await response.write(b"data: " + piece + b"\n\n")
            await asyncio.sleep(0)
        await response.write(b"data: [DONE]\n\n")
        return response

    fake.script(quickly)
    shown: list[str] = []
    assert (await provider.complete("m", ASK, shown.append)).text == "012345678"
    assert len(shown) <= 3


async def test_a_connection_is_used_again(provider: OpenAI, fake: FakeOpenAI) -> None:
    ports: list[int] = []

    async def noted(x: Exchange) -> web.StreamResponse:
        assert x.request.transport
        ports.append(x.request.transport.get_extra_info("peername")[1])
        return await says("ok")(x)

    fake.otherwise(noted)
    for show in (None, lambda _: None, None, lambda _: None):
        await provider.complete("m", ASK, show)
    assert len(set(ports)) == 1


async def test_a_connection_is_used_again_when_the_stream_ends_late(
    provider: OpenAI, fake: FakeOpenAI
) -> None:
    ports: list[int] = []
    chunk = json.dumps(
        {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}
    ).encode()

    async def lingers(x: Exchange) -> web.StreamResponse:
        assert x.request.transport
        ports.append(x.request.transport.get_extra_info("peername")[1])
        response = await x.open()
        await response.write(b"data: " + chunk + b"\n\ndata: [DONE]\n\n")
        return response if len(ports) > 2 else await asyncio.sleep(0.1, response)

    fake.otherwise(lingers)
    for _ in range(3):
        await provider.complete("m", ASK, print)
    assert len(set(ports)) == 1


async def test_a_stream_that_stays_open_does_not_hold_the_reply_back(
    provider: OpenAI, fake: FakeOpenAI
) -> None:
    chunk = json.dumps(
        {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}
    ).encode()

    async def stays(x: Exchange) -> web.StreamResponse:
        response = await x.open()
        await response.write(b"data: " + chunk + b"\n\ndata: [DONE]\n\n")
        return await x.hang()

    fake.script(stays)
    reply = await asyncio.wait_for(provider.complete("m", ASK, print), 10)
    assert reply.text == "ok"


async def test_a_hundred_calls_are_under_way_at_once(provider: OpenAI, fake: FakeOpenAI) -> None:
    """The client's pool does not hold calls back."""
    together = asyncio.Barrier(100)

    async def meets(x: Exchange) -> web.StreamResponse:
        await together.wait()
        return await says("ok")(x)

    fake.otherwise(meets)
    replies = await asyncio.wait_for(
        asyncio.gather(*(provider.complete("m", ASK) for _ in range(100))), 20
    )
    assert {reply.text for reply in replies} == {"ok"}


async def test_a_long_history_is_sent_whole(provider: OpenAI, fake: FakeOpenAI) -> None:
    await provider.complete("m", ModelRequest((Message(MessageRole.USER, "ö" * 1_500_000),)))
    assert len(fake.requests[0]["messages"][0]["content"]) == 1_500_000
