"""What the user is told when a turn ends without the model's own last word: what happened, what was not lost, what to do next."""

from daemon.agent.halting import Halt
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import Outcome, Stop
from daemon.core.turn import Turn

NEXT = {
    Stop.CANCELLED: "Say what you want instead, or ask again.",
    Stop.DEADLINE: "Ask me to go on, or raise max_seconds in [agent].",
    Stop.OVER_BUDGET: "Ask me to go on when there is budget again, or raise the limit in [agent] or [budget].",
    Stop.MAX_ITERATIONS: "Ask me to go on, or raise max_iterations in [agent].",
    Stop.STALLED: "Tell me another way to try.",
}
ADVICE = {
    ErrorClass.AUTH: "The provider refused the key. Check api_key in [provider], then ask again.",
    ErrorClass.BILLING: "The provider wants to be paid. Check the account's credit, then ask again.",
    ErrorClass.NOT_FOUND: "The provider does not know this model. Check primary in [provider.models], or use /model.",
    ErrorClass.CONTEXT_TOO_LONG: "The conversation is too long for this model. /clear starts afresh.",
    ErrorClass.RATE_LIMIT: "The provider is limiting requests. Ask again in a minute.",
    ErrorClass.BAD_REQUEST: "The provider did not accept the request. Check the model's name and settings in [provider].",
}
LATER = "Your message is kept. Ask again when the provider can be reached; a fallback can be set in [[provider.fallbacks]]."


def closing_text(turn: Turn, halt: Halt) -> str:
    """For a turn that was cut: the reason, what was done so far, what was not, what to do next."""
    head = "Stopped." if halt.reason is Stop.CANCELLED else f"I stopped: {halt.detail}."
    return "\n".join(part for part in (head, *ledger(turn), NEXT.get(halt.reason, "")) if part)


def ledger(turn: Turn) -> list[str]:
    """One line each for what was done, what may have been, and what was not run; empty lines for what there is none of."""
    outcomes = [(result.tool, result.outcome) for result, _ in turn.past]
    return [
        _line("Done", [tool for tool, outcome in outcomes if outcome is Outcome.OK]),
        _line("Outcome unknown (may or may not have happened)", [t for t, outcome in outcomes if outcome is Outcome.UNKNOWN]),
        _line("Not run", [tool for tool, outcome in outcomes if outcome is Outcome.NOT_RUN]),
    ]


def failure_text(error: ProviderError) -> str:
    """For a turn that no model would answer."""
    return f"I could not get an answer from the model: {error}\n{ADVICE.get(error.kind, LATER)}"


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
