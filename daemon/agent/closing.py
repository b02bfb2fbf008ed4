"""What the user is told when a turn ends without the model's own last word: what happened, what was not lost, what to do next."""

from itertools import islice

from daemon.agent.halting import Halt
from daemon.agent.halts.recent import replies
from daemon.agent.halts.repetition import degenerate, normal
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import ChildSpawned, ModelAsked, Outcome, Stop
from daemon.core.turn import Turn

NEXT = {
    Stop.CANCELLED: "Say what you want instead, or ask again.",
    Stop.DEADLINE: "Ask me to go on, or raise max_seconds in [agent].",
    Stop.OVER_BUDGET: "Ask me to go on when there is budget again, or raise the limit in [agent] or [budget].",
    Stop.MAX_ITERATIONS: "Ask me to go on, or raise max_iterations in [agent].",
    Stop.STALLED: "Tell me another way to try.",
    Stop.REPEATING: "Ask again in other words, or try another model with /model.",
    Stop.LOW_CONFIDENCE: "Tell me what I am missing, or another way to try.",
    Stop.FAILED: "Look into what failed, then ask me to go on.",
}
ADVICE = {
    ErrorClass.AUTH: "The provider refused the key. Check api_key in [provider], then ask again.",
    ErrorClass.BILLING: "The provider wants to be paid. Check the account's credit, then ask again.",
    ErrorClass.NOT_FOUND: "The provider does not know this model. Check primary in [provider.models], or use /model.",
    ErrorClass.CONTEXT_TOO_LONG: "The conversation is too long for this model. /clear starts afresh.",
    ErrorClass.RATE_LIMIT: "The provider is limiting requests. Ask again in a minute.",
    ErrorClass.BAD_REQUEST: "The provider did not accept the request. Check the model's name and settings in [provider].",
}
HEADS = {
    Outcome.OK: "Done",
    Outcome.UNKNOWN: "Outcome unknown (may or may not have happened)",
    Outcome.ERROR: "Failed",
    Outcome.REJECTED: "Not allowed",
    Outcome.NOT_RUN: "Not run",
}
EARLIER = 5
BY_STOP = "stopped by /stop"
"""Why a turn was stopped by whoever said /stop in its own conversation, and was told there what that stopped."""
LATER = "Your message is kept. Ask again when the provider can be reached; a fallback can be set in [[provider.fallbacks]]."


def closing_text(turn: Turn, halt: Halt) -> str:
    """For a turn that was cut: the reason, what was done so far, what was not, what to do next."""
    head = "Stopped." if halt.reason is Stop.CANCELLED else f"I stopped: {halt.detail}."
    return "\n".join(part for part in (head, *ledger(turn), NEXT.get(halt.reason, "")) if part)


def is_told(turn: Turn, halt: Halt) -> bool:
    """Whoever said /stop knows already of a message that had not been begun."""
    return halt.detail == BY_STOP and not any(isinstance(one.event, ModelAsked | ChildSpawned) for one in turn.events)


def last_word(turn: Turn, halt: Halt) -> str:
    """What the closing call brought. Where the model asked for more tools, or only said again what it had said, that is none:
    the reason and what was done stand below it, or in its place.
    """
    said = turn.reply.text if turn.reply else ""
    earlier = (normal(reply.text) for reply, _ in islice(replies(turn), 1, 1 + EARLIER))
    if not said.strip() or degenerate(said) or normal(said) in earlier:
        return "\n\n".join((*turn.superseded, closing_text(turn, halt)))
    return f"{turn.answer}\n\n{closing_text(turn, halt)}" if turn.reply and turn.reply.calls else turn.answer


def ledger(turn: Turn) -> list[str]:
    """One line each for what was done, what may have been, and what was not; empty lines for what there is none of."""
    outcomes = [(result.tool, result.outcome) for result, _ in turn.past]
    return [_line(head, [tool for tool, outcome in outcomes if outcome is wanted]) for wanted, head in HEADS.items()]


def failure_text(turn: Turn, error: ProviderError) -> str:
    """For a turn that no model would answer any more."""
    head = f"I could not get an answer from the model: {error}"
    return "\n".join(part for part in (head, *ledger(turn), ADVICE.get(error.kind, LATER)) if part)


def ending(turn: Turn) -> str:
    """Why a turn ended and how far it had come: a line in the log, every time (D6)."""
    end = turn.ended
    why = f"{end.reason.value} ({end.detail})" if end and end.detail else end.reason.value if end else "not yet"
    return f"{why}, after {turn.iterations} iterations"


def _line(head: str, tools: list[str]) -> str:
    if not tools:
        return ""
    counted = {tool: tools.count(tool) for tool in tools}
    return f"{head}: " + ", ".join(tool if n == 1 else f"{tool} ×{n}" for tool, n in counted.items()) + "."
