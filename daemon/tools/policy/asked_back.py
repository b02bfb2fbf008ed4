"""What calls that run need to know of a person: one question after the other (G2)."""

from dataclasses import dataclass, field

from daemon.core.events import ApprovalAsked
from daemon.core.turn import CallState, Turn
from daemon.tools.base import PersonQuestion, Tool, make_key
from daemon.tools.calls import as_user_question


@dataclass(slots=True)
class QuestionsBack:
    """Those that wait for another question of their turn, by the key of their call."""

    held: dict[str, PersonQuestion] = field(default_factory=dict)

    def holds(self, turn: Turn, state: CallState) -> bool:
        """The call has a question that nobody was asked yet."""
        return make_key(turn, state.call_id) in self.held

    def must_wait(self, turn: Turn, state: CallState) -> bool:
        """It is not its turn to be asked."""
        return bool(turn.waiting) and self.holds(turn, state)

    def make_event(
        self, turn: Turn, asked: ApprovalAsked, question: PersonQuestion | None = None
    ) -> ApprovalAsked | None:
        """The call's question, new or held; None for none, and where it has to wait."""
        key = make_key(turn, asked.call_id)
        if question and turn.waiting:
            self.held[key] = question
            return None
        question = question or self.held.pop(key, None)
        return as_user_question(asked, question) if question else None

    def abandon(self, turn: Turn, state: CallState, tool: Tool | None) -> None:
        """Nobody will answer the call."""
        key = make_key(turn, state.call_id)
        self.held.pop(key, None)
        if tool and tool.abandon and state.starts:
            tool.abandon(key)
