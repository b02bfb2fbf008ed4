"""OpenTelemetry spans of turns that have ended, by the conventions for generative AI: what was
called, how long it took and what it used up, never what was said. Behind the extra `otel`.

A span is read off the journal's events, so no step of a turn waits for it; what cannot be sent is
lost, and nothing else is.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Protocol

from daemon import VERSION
from daemon.core import value
from daemon.core.errors import ConfigError, StoreUnavailable
from daemon.core.event_bus import EventBus
from daemon.core.events import (
    Consulted,
    Consulting,
    Event,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    RecordedEvent,
    ToolFinished,
    ToolStarted,
)
from daemon.core.rows import TurnRow
from daemon.core.trust import Outcome, Stop
from daemon.store.codec import UnreadableEvent
from daemon.store.journal import Store, Tx

log = logging.getLogger(__name__)
BATCH, CLOSE_S, SEND_S = 100, 5.0, 10.0
PROVIDERS = {"gemini": "gcp.gemini", "local": "aidaemon.local", "responses": "openai"}
WELL = (Stop.DONE, Stop.CONDITION)
Attribute = str | int | float | Sequence[str]
MISSING = "telemetry.endpoint: needs the extra otel: pip install 'aidaemon[otel]'"


@value
class WorkSpan:
    """A piece of a turn's work. `key` names it for good: a turn's is the turn's id."""

    name: str
    key: str
    parent: str
    began: datetime
    ended: datetime
    attributes: Mapping[str, Attribute]
    error: str = ""
    is_call: bool = False


@value
class EndedTurn:
    """A turn, with the one that it worked for, and the one at the top of those."""

    row: TurnRow
    parent: str
    top: str
    events: Sequence[RecordedEvent]


def list_spans(turn: EndedTurn) -> Iterator[WorkSpan]:
    """One for the turn, and one for each call of a model or a tool in it."""
    row, open_at = turn.row, dict[str, tuple[datetime, Event]]()
    used: dict[str, Attribute] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": row.agent,
        "gen_ai.conversation.id": row.session,
        "gen_ai.usage.input_tokens": row.input_tokens,
        "gen_ai.usage.output_tokens": row.output_tokens,
        "aidaemon.turn.id": row.id,
        "aidaemon.iterations": row.iterations,
        "aidaemon.stop_reason": str(row.stop_reason or ""),
    }
    if row.usd is not None:
        used["aidaemon.usd"] = row.usd
    error = "" if row.stop_reason in WELL else str(row.stop_reason or row.state)
    ended = row.ended_at or row.started_at
    yield WorkSpan(
        f"invoke_agent {row.agent}", row.id, turn.parent, row.started_at, ended, used, error
    )
    for entry in turn.events:
        match entry.event:
            case ModelAsked() | Consulting():
                open_at["model"] = entry.at, entry.event
            case ToolStarted(call_id=call_id):
                open_at.setdefault(call_id, (entry.at, entry.event))
            case ModelReplied() | ModelFailed() | Consulted():
                began, asked = open_at.pop("model", (entry.at, None))
                if isinstance(asked, ModelAsked | Consulting):
                    yield _make_model_span(row.id, entry, began, asked)
            case ToolFinished(call_id=call_id):
                began, _ = open_at.pop(call_id, (entry.at, None))
                yield _make_tool_span(row.id, entry, began, entry.event)


def _make_model_span(
    turn: str, entry: RecordedEvent, began: datetime, asked: ModelAsked | Consulting
) -> WorkSpan:
    kind, _, host = asked.provider.partition(":")
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDERS.get(kind, kind),
        "gen_ai.request.model": asked.model,
    }
    if host:
        attributes["server.address"] = host
    error, came = "", entry.event
    if isinstance(came, ModelFailed):
        error = came.error
    elif isinstance(came, ModelReplied | Consulted):
        error = "no_answer" if isinstance(came, Consulted) and came.error else ""
        attributes["gen_ai.response.model"] = came.model or asked.model
        attributes["gen_ai.usage.input_tokens"] = came.usage.input_tokens
        attributes["gen_ai.usage.output_tokens"] = came.usage.output_tokens
        attributes["gen_ai.usage.cache_read.input_tokens"] = came.usage.cached_tokens
        if isinstance(came, ModelReplied):
            attributes["gen_ai.response.finish_reasons"] = [came.finish]
    key = f"{turn}/{entry.seq}"
    return WorkSpan(
        f"chat {asked.model}", key, turn, began, entry.at, attributes, error, is_call=True
    )


def _make_tool_span(
    turn: str, entry: RecordedEvent, began: datetime, result: ToolFinished
) -> WorkSpan:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": result.tool,
        "gen_ai.tool.call.id": result.call_id,
        "gen_ai.tool.type": "function",
        "aidaemon.outcome": result.outcome.value,
    }
    failed = result.outcome is not Outcome.OK
    error = (result.error_class or result.outcome.value) if failed else ""
    key = f"{turn}/{entry.seq}"
    return WorkSpan(f"execute_tool {result.tool}", key, turn, began, entry.at, attributes, error)


class SpanSender(Protocol):
    """Takes spans in, and sends them in its own time."""

    def send(self, spans: Sequence[WorkSpan], top: str) -> None:
        """Those of one turn, in the trace of the turn at its top."""
        ...

    def close(self) -> None:
        """Send what waits still."""
        ...


def make_id(key: str, size: int) -> int:
    """The same for the same key, so that agents find the trace of who set them to work."""
    return int.from_bytes(blake2b(key.encode(), digest_size=size).digest(), "big") or 1


def make_sender(endpoint: str, headers: Mapping[str, str]) -> SpanSender:
    """Raises ConfigError without the extra."""
    try:
        from daemon.services.otel import OtelSender  # lazy: the extra otel, 200 ms
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return OtelSender(endpoint, dict(headers), VERSION, SEND_S)


@dataclass
class TurnTracer:
    """Follows the turns that end from now on."""

    store: Store
    sender: SpanSender
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _after: int = 0

    async def start(self) -> None:
        """What has ended before is not told."""
        self._after = await self.store.read(lambda tx: tx.count_ended())

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.ended.wait()
            self.ended.clear()
            await self.look()

    async def look(self) -> None:
        """Send what has ended since the last look."""
        while True:
            try:
                number, turns = await self.store.read(self._read)
            except StoreUnavailable as error:
                log.debug("no spans: %s", error)
                return
            for turn in turns:
                self.sender.send(list(list_spans(turn)), turn.top)
            if number == self._after:
                return
            self._after = number

    def _read(self, tx: Tx) -> tuple[int, list[EndedTurn]]:
        found, turns = tx.list_ended(self._after, BATCH), list[EndedTurn]()
        for _, name in found:
            row, top = tx.get_turn(name), name
            while above := tx.get_child(top):
                top = above.parent
            try:
                if row:
                    turns.append(EndedTurn(row, row.parent, top, tx.list_events(name)))
            except UnreadableEvent as error:
                log.debug("no spans of turn %s: %s", name, error)
        return (found[-1][0] if found else self._after), turns


@asynccontextmanager
async def trace_turns(
    endpoint: str, headers: Mapping[str, str], store: Store, bus: EventBus
) -> AsyncIterator[None]:
    """Send the spans of the turns that end while this is open, where there is an endpoint. Raises
    ConfigError.
    """
    if not endpoint:
        yield
        return
    tracer = TurnTracer(store, await asyncio.to_thread(make_sender, endpoint, headers))
    await tracer.start()
    bus.end_listeners.append(tracer.ended.set)
    following = asyncio.create_task(tracer.run(), name="spans")
    try:
        yield
    finally:
        bus.end_listeners.remove(tracer.ended.set)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await tracer.look()
        try:
            async with asyncio.timeout(CLOSE_S):
                await asyncio.to_thread(tracer.sender.close)
        except TimeoutError:
            log.warning("the last spans were not sent in %g s", CLOSE_S)
