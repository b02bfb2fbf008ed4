"""Adapters of services, made for a test and closed after it; and what a failing call says."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from daemon.core.clock import SystemClock
from daemon.core.errors import ProviderError
from daemon.core.messages import ModelReply, ModelRequest
from daemon.providers.base import ReplyBuilder, encode_body
from daemon.providers.config import SERVICES
from daemon.providers.http import HttpProvider

A = TypeVar("A", bound=HttpProvider)


@asynccontextmanager
async def made(kind: type[A], base_url: str, key: str) -> AsyncIterator[Callable[..., A]]:
    """Makes them: `base_url` is where they ask unless they are told otherwise."""
    adapters: list[A] = []

    def make(elsewhere: str = "", timeout_s: float = 30.0) -> A:
        adapters.append(
            kind(
                base_url=elsewhere or base_url,
                api_key=key,
                timeout_s=timeout_s,
                clock=SystemClock(),
            )
        )
        return adapters[-1]

    yield make
    for adapter in adapters:
        await adapter.aclose()


def prepare(
    kind: type[HttpProvider],
    model: str,
    request: ModelRequest,
    stream: bool = False,
    base_url: str = "",
) -> tuple[bytes, ReplyBuilder]:
    """The body of a call, and what reads its answer."""
    adapter = kind(base_url=base_url or SERVICES[kind.kind].url, clock=SystemClock())
    _, fields, builder = adapter.prepare(model, request, stream)
    return encode_body(fields), builder


def parse_reply(builder: ReplyBuilder, body: bytes, request: ModelRequest) -> ModelReply:
    """A reply that came in one piece."""
    builder.feed(body)
    return builder.build(request)


async def failure(call: Awaitable[object]) -> ProviderError:
    """The error with which the call ends."""
    with pytest.raises(ProviderError) as raised:
        await call
    return raised.value
