"""What the user is told when a turn ends without the model's own last word: what happened, what was not lost, what to do next.

Why turns end, counted by agent; an alarm for one that runs out of its budget again and again (D6).
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from daemon.agent.termination.halt import Halt, iterate_replies
from daemon.agent.termination.loop_detection import find_repeated_passage, normalize_text
from daemon.core.errors import ErrorClass, ProviderError
from daemon.core.events import Alarm, ChildSpawned, ModelAsked, Outcome
from daemon.core.journal import ReadTx, Store
from daemon.core.trust import Stop
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


def render_stop(turn: Turn, halt: Halt) -> str:
    """For a turn that was cut: the reason, what was done so far, what was not, what to do next."""
    head = "Stopped." if halt.reason is Stop.CANCELLED else f"I stopped: {halt.detail}."
    return "\n".join(
        part for part in (head, *render_outcomes(turn), NEXT.get(halt.reason, "")) if part
    )


def user_knows_stop(turn: Turn, halt: Halt) -> bool:
    """Whoever said /stop knows already of a message that had not been begun."""
    return halt.detail == BY_STOP and not any(
        isinstance(one.event, ModelAsked | ChildSpawned) for one in turn.events
    )


def render_final_reply(turn: Turn, halt: Halt) -> str:
    """What the closing call brought. Where the model asked for more tools, or only said again what it had said, that is none:
    the reason and what was done stand below it, or in its place.
    """
    said = turn.reply.text if turn.reply else ""
    earlier = (
        normalize_text(reply.text) for reply, _ in islice(iterate_replies(turn), 1, 1 + EARLIER)
    )
    if not said.strip() or find_repeated_passage(said) or normalize_text(said) in earlier:
        return "\n\n".join((*turn.superseded, render_stop(turn, halt)))
    return (
        f"{turn.answer}\n\n{render_stop(turn, halt)}"
        if turn.reply and turn.reply.calls
        else turn.answer
    )


def render_outcomes(turn: Turn) -> list[str]:
    """One line each for what was done, what may have been, and what was not; empty lines for what there is none of."""
    outcomes = [(result.tool, result.outcome) for result, _ in turn.settled_calls]
    return [
        _line(head, [tool for tool, outcome in outcomes if outcome is wanted])
        for wanted, head in HEADS.items()
    ]


def render_failure(turn: Turn, error: ProviderError) -> str:
    """For a turn that no model would answer any more."""
    head = f"I could not get an answer from the model: {error}"
    return "\n".join(
        part for part in (head, *render_outcomes(turn), ADVICE.get(error.kind, LATER)) if part
    )


def describe_end(turn: Turn) -> str:
    """Why a turn ended and how far it had come: a line in the log, every time (D6)."""
    end = turn.ended
    why = (
        f"{end.reason.value} ({end.detail})"
        if end and end.detail
        else end.reason.value
        if end
        else "not yet"
    )
    return f"{why}, after {turn.iterations} iterations"


def _line(head: str, tools: list[str]) -> str:
    if not tools:
        return ""
    counted = {tool: tools.count(tool) for tool in tools}
    return (
        f"{head}: "
        + ", ".join(tool if n == 1 else f"{tool} ×{n}" for tool, n in counted.items())
        + "."
    )


LATEST = 10
TOO_OFTEN = 3
EXHAUSTED = (Stop.MAX_ITERATIONS, Stop.OVER_BUDGET, Stop.DEADLINE)
ALARM = (
    "The agent {agent} ran out of its budget in {count} of its last {of} turns ({reasons}). Its limits may be too low for what "
    "it is asked, or it goes about it badly: `aidaemon runs` shows them."
)


@dataclass(slots=True)
class StopStats:
    """The latest ends of each agent, kept beside the rows that they come from. One alarm for each time the mark is reached."""

    _ends: dict[str, deque[Stop]] = field(default_factory=dict)

    async def load(self, store: Store, agents: list[str]) -> None:
        """Take up what the journal says; what led to the last alarm leads to no other."""

        def look(tx: ReadTx) -> dict[str, list[Stop]]:
            return {agent: tx.list_recent_stops(agent, LATEST) for agent in agents}

        for agent, stops in (await store.read(look)).items():
            self._ends[agent] = deque(reversed(stops), maxlen=LATEST)

    def record_stop(self, agent: str, reason: Stop) -> Alarm | None:
        """Note it; an alarm when this end is the third in ten that exhausted the budget, or more."""
        ends = self._ends.setdefault(agent, deque(maxlen=LATEST))
        ends.append(reason)
        spent = [end for end in ends if end in EXHAUSTED]
        if reason not in EXHAUSTED or len(spent) < TOO_OFTEN:
            return None
        ends.clear()  # the next alarm needs three more
        reasons = ", ".join(sorted({end.value for end in spent}))
        return Alarm(
            "budget_exhausted",
            ALARM.format(agent=agent, count=len(spent), of=LATEST, reasons=reasons),
        )
