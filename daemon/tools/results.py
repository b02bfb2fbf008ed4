"""The one result that every call ends in (B7), fit for the model to read and for the journal to keep."""

import json
import re
from datetime import datetime

from daemon.core.events import Outcome, ToolFinished
from daemon.core.messages import MessageRole, score_importance
from daemon.core.redaction import drop_lone_surrogates
from daemon.core.trust import Effect, Label
from daemon.core.turn import CallState, Turn
from daemon.tools.base import ToolError, ToolMeta, ToolOutput

MAX_CHARS = 4000
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
UNKNOWN = "The outcome of {tool} is unknown: it may or may not have happened; it was not run again. Tell the user."
FROM_OUTSIDE = (Effect.FETCH, Effect.EGRESS)


def to_printable(text: str) -> str:
    """Without control characters, terminal escapes and broken characters."""
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return drop_lone_surrogates(UNPRINTABLE.sub("", text))


def truncate_middle(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning and the end, and how much is missing between them."""
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} characters left out ...]\n"
    room = max(limit - len(mark), 0)
    head, tail = room - room // 2, room // 2
    return text[:head] + mark + text[len(text) - tail :]


def make_result(
    state: CallState,
    outcome: Outcome,
    text: str,
    *,
    effect: Effect | None = None,
    label: Label = Label.TRUSTED,
    error_class: str = "",
    limit: int = MAX_CHARS,
    repeat_of: str = "",
) -> ToolFinished:
    """A result that the house makes."""
    shown = to_printable(truncate_middle(text, limit))
    effect = effect or effect_of(state)
    scored = score_importance(MessageRole.TOOL, shown)
    return ToolFinished(
        state.call_id,
        state.call.name,
        outcome,
        shown,
        effect,
        scored,
        label=label,
        error_class=error_class,
        repeat_of=repeat_of,
    )


def effect_of(state: CallState) -> Effect:
    """What the gate took the call for; what it never saw counts as the worst."""
    return state.judged.effect if state.judged else Effect.DESTRUCTIVE


def rejected_result(
    state: CallState, reason: str, *, error_class: str = "Rejected"
) -> ToolFinished:
    """A person or the gate said no: data for the model, not an exception (DESIGN 6)."""
    text = json.dumps({"rejected": True, "reason": reason}, ensure_ascii=False)
    return make_result(state, Outcome.REJECTED, text, error_class=error_class)


def unknown_result(state: CallState) -> ToolFinished:
    """The effect was cut off: nobody can say whether it happened (promise 3)."""
    return make_result(
        state, Outcome.UNKNOWN, UNKNOWN.format(tool=state.call.name), error_class="UnknownOutcome"
    )


def failure_output(error: Exception, meta: ToolMeta) -> ToolOutput:
    """What the model is told of an exception. The words of one that came from outside are outside text."""
    message = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
    label = (
        Label.UNTRUSTED
        if meta.returns_outside_text or meta.effect in FROM_OUTSIDE
        else Label.TRUSTED
    )
    return ToolOutput(message, is_error=True, label=label)


def settle_cut(turn: Turn, why: str, at: datetime) -> None:
    """A turn is cut short: every call without a result gets one, so that history is never left dangling."""
    for state in turn.pending:
        if state.starts and effect_of(state) is not Effect.READ:
            turn.record(unknown_result(state), at)
        else:
            text = f"Not run: {why}."
            turn.record(make_result(state, Outcome.NOT_RUN, text, error_class="NotRun"), at)
