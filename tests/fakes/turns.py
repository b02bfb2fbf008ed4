"""Turns as stories: real events, folded one after the other, with nobody to write them down."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from daemon.agent.termination.conditions import Halt
from daemon.core.events import (
    Coached,
    Event,
    Limits,
    ModelReplied,
    Outcome,
    RecordedEvent,
    Steered,
    ToolFinished,
    UserSaid,
)
from daemon.core.messages import ToolCall, Usage
from daemon.core.trust import Effect, Label
from daemon.core.turn import Turn
from daemon.core.turn_spec import TurnSpec

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Deed:
    """A call and what came of it. `again` says which earlier call's result is shown again."""

    tool: str
    arguments: str = "{}"
    outcome: Outcome = Outcome.OK
    text: str = "fine"
    error_class: str = ""
    effect: Effect = Effect.READ
    again: str = ""


def did(tool: str, about: object = "", gave: str = "fine", effect: Effect = Effect.READ) -> Deed:
    """It worked."""
    return Deed(tool, json.dumps({"about": about}), text=gave, effect=effect)


def failed(
    tool: str, about: object = "", error: str = "ToolError", gave: str = "it failed"
) -> Deed:
    """It did not."""
    return Deed(tool, json.dumps({"about": about}), Outcome.ERROR, gave, error)


def refused(
    tool: str, about: object = "", reason: str = "no", effect: Effect = Effect.EGRESS
) -> Deed:
    """The gate or a person said no."""
    text = json.dumps({"rejected": True, "reason": reason})
    return Deed(tool, json.dumps({"about": about}), Outcome.REJECTED, text, "Rejected", effect)


def skipped(tool: str, about: object = "") -> Deed:
    """It was not run at all."""
    return Deed(tool, json.dumps({"about": about}), Outcome.NOT_RUN, "Not run: stopped.", "NotRun")


class Nowhere:
    """A journal that keeps nothing."""

    async def append(self, turn_id: str, recorded: Sequence[RecordedEvent]) -> None:
        return


def _begun() -> Turn:
    turn = Turn("t1", "terminal:test", Nowhere())
    turn.record(UserSaid("go", "me", "in1", Label.TRUSTED, 0.5, Limits()), NOON)
    return turn


@dataclass(slots=True)
class Story:
    """What happened in a turn, told step by step."""

    turn: Turn = field(default_factory=_begun)

    def does(self, *deeds: Deed, text: str = "") -> Self:
        """One iteration: a reply with these calls, and their results."""
        wanted = tuple(
            ToolCall(f"call_{at}", deed.tool, deed.arguments) for at, deed in enumerate(deeds)
        )
        self.tell(
            ModelReplied(text, wanted, Usage(), "p", "m", "tool_calls" if deeds else "stop", 0.5)
        )
        for state, deed in zip(self.turn.calls, deeds, strict=True):
            result = ToolFinished(
                state.call_id, deed.tool, deed.outcome, deed.text, deed.effect, 0.3,
                error_class=deed.error_class, repeat_of=deed.again,
            )  # fmt: skip
            self.tell(result)
        return self

    def says(self, *texts: str) -> Self:
        """Replies without calls."""
        for text in texts:
            self.does(text=text)
        return self

    def coached(self, kind: str) -> Self:
        """The house says something."""
        return self.tell(Coached(kind, "look again"))

    def steered(self, text: str = "go on") -> Self:
        """The user says something mid-turn."""
        return self.tell(Steered(text, "me", "in2", Label.TRUSTED, 0.5))

    def tell(self, event: Event) -> Self:
        """Any event."""
        self.turn.record(event, NOON)
        return self

    @property
    def last_call(self) -> str:
        """The id of the latest call."""
        return self.turn.settled_calls[-1][0].call_id


def story(*iterations: Sequence[Deed] | Deed) -> Story:
    """A turn of these iterations."""
    told = Story()
    for deeds in iterations:
        told.does(*([deeds] if isinstance(deeds, Deed) else deeds))
    return told


def under(check: Callable[[Turn], Halt | None], **spec: object) -> Callable[[Turn], Halt | None]:
    """The condition, in a turn whose spec says so."""

    def look(turn: Turn) -> Halt | None:
        turn.spec = TurnSpec(**spec)  # pyrefly: ignore[bad-argument-type]
        return check(turn)

    return look
