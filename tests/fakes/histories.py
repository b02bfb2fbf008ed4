"""Turns as they come to be: folded from events, with no model and no tools."""

from collections.abc import Sequence
from datetime import UTC, datetime

from daemon.agent.context.builder import TurnContext
from daemon.agent.context.history import History, ReadOnlySink
from daemon.agent.models import ModelCaller
from daemon.core.events import (
    Coached,
    Event,
    Limits,
    ModelReplied,
    Outcome,
    Steered,
    Stop,
    ToolFinished,
    TurnEnded,
    UserSaid,
)
from daemon.core.messages import Message, ToolCall, ToolSpec, Usage
from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn
from daemon.core.turn_spec import TurnSpec
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from daemon.tools.registry import ToolRegistry

AT = datetime(2026, 5, 1, tzinfo=UTC)


def begun(text: str = "do it", terms: TurnSpec | None = None, name: str = "now") -> Turn:
    """A turn that somebody has just begun."""
    turn = Turn(id=name, session="web:test", sink=ReadOnlySink())
    tell(
        turn, UserSaid(text, "owner", name, Label.TRUSTED, 0.5, Limits(), terms=terms or TurnSpec())
    )
    return turn


def tell(turn: Turn, *events: Event) -> Turn:
    """These happened in it."""
    for event in events:
        turn.record(event, AT)
    return turn


def says(turn: Turn, text: str) -> Turn:
    """The model answers."""
    return tell(turn, ModelReplied(text, (), Usage(), "fake", "scripted", "stop", 0.5))


def steps(turn: Turn, *results: str, text: str = "", label: Label = Label.TRUSTED) -> Turn:
    """One iteration: a call for each result, and what they gave."""
    wanted = tuple(ToolCall(f"call_{index}", "look", "{}") for index in range(len(results)))
    tell(turn, ModelReplied(text, wanted, Usage(), "fake", "scripted", "tool_calls", 0.5))
    for state, result in zip(list(turn.calls), results, strict=True):
        tell(turn, ToolFinished(state.call_id, "look", Outcome.OK, result, Effect.READ, 0.3, label))
    return turn


def steered(turn: Turn, text: str) -> Turn:
    """Somebody says something meanwhile."""
    return tell(turn, Steered(text, "owner", text, Label.TRUSTED, 0.5))


def coached(turn: Turn, text: str) -> Turn:
    """The house says something meanwhile."""
    return tell(turn, Coached("nudge", text))


def ended(turn: Turn) -> Turn:
    """It is over."""
    return tell(turn, TurnEnded(Stop.DONE, "", turn.answer))


def past_of(*sizes: int) -> History:
    """A conversation of turns with answers of so many characters."""
    past = History()
    for number, size in enumerate(sizes):
        turn = says(
            begun(f"question {number}", name=f"earlier-{number}"),
            f"answer {number} ".ljust(size, "."),
        )
        past.add(ended(turn))
    return past


def scene(past: History) -> TurnContext:
    """Where the next turn stands."""
    return TurnContext(history=past.window)


class Consultant(ModelCaller):
    """Gives these summaries, one after the other; then none. Keeps what it was asked."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = list(words)
        self.asked: list[Sequence[Message]] = []

    async def ask(
        self,
        turn: Turn,
        context: TurnContext,
        purpose: str,
        messages: Sequence[Message],
        *,
        max_tokens: int,
    ) -> str | None:
        self.asked.append(messages)
        return self.words.pop(0) if self.words else None


async def _run_nothing(arguments: object, context: ToolContext) -> ToolOutput:
    raise NotImplementedError


def named_tools(*names: str) -> ToolRegistry:
    """Tools in name only."""
    specs = [ToolSpec(name, f"does {name}", {"type": "object"}) for name in names]
    return ToolRegistry([Tool(spec, ToolMeta(), _run_nothing) for spec in specs])
