"""What the user is told when a turn ends without the model's own last word."""

from collections import Counter
from collections.abc import Iterator, Sequence

from daemon.agent.termination.conditions import Halt
from daemon.agent.termination.loop_detection import find_repeated_passage, normalize_text
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import Outcome
from daemon.core.rows import OF_GOAL
from daemon.core.trust import Stop
from daemon.core.turn import Turn

NEXT = {
    Stop.CANCELLED: "Say what you want instead, or ask again.",
    Stop.DEADLINE: "Ask me to go on, or raise {key}.",
    Stop.OVER_BUDGET: "Ask me to go on when there is budget again, or raise the limit in [agent] "
    "or [budget].",
    Stop.MAX_ITERATIONS: "Ask me to go on, or raise {key}.",
    Stop.STALLED: "Tell me another way to try.",
    Stop.REPEATING: "Ask again in other words, or try another model with /model.",
    Stop.LOW_CONFIDENCE: "Tell me what I am missing, or another way to try.",
    Stop.FAILED: "Look into what failed, then ask me to go on.",
}
ADVICE = {
    ErrorClass.AUTH: "The provider refused the key. Check api_key in [provider], then ask again.",
    ErrorClass.BILLING: "The provider asks for payment. Check the account's credit and ask again.",
    ErrorClass.NOT_FOUND: "The provider knows no such model, or base_url in [provider] is not its"
    " address (it ends in /v1 at most providers). Check base_url, and primary in [provider.models],"
    " or use /model.",
    ErrorClass.CONTEXT_TOO_LONG: "The conversation is too long for this model. /clear starts "
    "afresh.",
    ErrorClass.RATE_LIMIT: "The provider is limiting requests. Ask again in a minute.",
    ErrorClass.FILTERED: "The provider's filter stops this. Say it in other words, or use /model; "
    "/clear starts afresh.",
    ErrorClass.BAD_REQUEST: "The provider did not accept the request. Check the model's name and "
    "settings in [provider].",
}
HEADS = {
    Outcome.OK: "Done",
    Outcome.UNKNOWN: "Outcome unknown (may or may not have happened)",
    Outcome.ERROR: "Failed",
    Outcome.REJECTED: "Not allowed",
    Outcome.NOT_RUN: "Not run",
}
HAPPENED = (Outcome.OK, Outcome.UNKNOWN)
CHECK_FIRST = "A sub-agent was at work: look at what it did before you ask for the same again."
EARLIER = 5
BY_STOP = "stopped by /stop"
"""Why a turn was stopped by whoever said /stop in its own conversation, and was told there what
that stopped.
"""
LATER = (
    "Your message is kept. Ask again when the provider can be reached; a fallback can be set "
    "in [[provider.fallbacks]]."
)


def render_stop(turn: Turn, halt: Halt, subagent_work: Sequence[tuple[str, Outcome]] = ()) -> str:
    """For a turn that was cut: the reason, what was done so far, what was not, what to do next.

    `subagent_work`: what sub-agents did whose result the turn does not have.
    """
    head = "Stopped." if halt.reason is Stop.CANCELLED else f"I stopped: {halt.detail}."
    advice = "" if halt.detail.startswith(OF_GOAL) else NEXT.get(halt.reason, "")
    advice = advice.format(key=_find_key(turn, halt.reason))
    if any(outcome in HAPPENED for _, outcome in subagent_work):
        advice = CHECK_FIRST
    lines = (head, *render_outcomes(turn, subagent_work), advice)
    return "\n".join(filter(None, lines))


def _find_key(turn: Turn, reason: Stop) -> str:
    """The setting that bounds this turn."""
    if reason is Stop.DEADLINE:
        return "timeout_s in [subagents]" if turn.parent else "max_seconds in [agent]"
    if turn.spec.cycles:
        own = f"max_cycles in agents/{turn.spec.agent}.toml"
        return f"{own} (at most max_cycles in [subagents])" if turn.parent else own
    return f"max_iterations in [{'subagents' if turn.parent else 'agent'}]"


def render_final_reply(turn: Turn, stop: str) -> str:
    """What the closing call brought; below it, or in its place if it is no answer, the text `stop`
    (see render_stop).
    """
    said = turn.reply.text if turn.reply else ""
    known = (normalize_text(reply.text) for reply, _ in turn.replies[-1 - EARLIER : -1])
    if not said.strip() or find_repeated_passage(said) or normalize_text(said) in known:
        return "\n\n".join((*turn.superseded, stop))
    return f"{turn.answer}\n\n{stop}" if turn.reply and turn.reply.calls else turn.answer


def render_outcomes(turn: Turn, subagent_work: Sequence[tuple[str, Outcome]] = ()) -> Iterator[str]:
    """One line each for what was done, what may have been, and what was not."""
    outcomes = [
        (result.tool, result.outcome)
        for result, _ in turn.settled_calls
        if result.call_id not in turn.children
        or (
            result.outcome is not Outcome.NOT_RUN
            and (result.tool, result.outcome) not in subagent_work
        )
    ]
    for wanted, head in HEADS.items():
        tools = [tool for tool, outcome in (*outcomes, *subagent_work) if outcome is wanted]
        counted = ", ".join(
            tool if n == 1 else f"{tool} ×{n}" for tool, n in Counter(tools).items()
        )
        if counted:
            yield f"{head}: {counted}."


def render_failure(turn: Turn, error: ProviderError) -> str:
    """For a turn that no model answers any more."""
    head = f"I could not get an answer from the model: {error}"
    return "\n".join((head, *render_outcomes(turn), ADVICE.get(error.kind, LATER)))
