"""What a turn that has ended did, as spans: names, times and what was used up, by the conventions
for generative AI, never what was said.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b

from daemon.core import value
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

PROVIDERS = {"gemini": "gcp.gemini", "local": "aidaemon.local", "responses": "openai"}
WELL = (Stop.DONE, Stop.CONDITION)
Attribute = str | int | float | Sequence[str]


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


def make_id(key: str, size: int) -> int:
    """The same for the same key, so that agents find the trace of who set them to work."""
    return int.from_bytes(blake2b(key.encode(), digest_size=size).digest(), "big") or 1
