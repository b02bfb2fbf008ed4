"""Results of tool calls (B7), readable for the model and safe to store."""

import json
import re

from daemon.core.events import Outcome, ToolFinished
from daemon.core.messages import MessageRole, score_importance
from daemon.core.redaction import drop_lone_surrogates
from daemon.core.trust import Effect, Label
from daemon.core.turn import CallState
from daemon.tools.base import ToolError, ToolMeta, ToolOutput

MAX_CHARS = 4000
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
UNKNOWN = (
    "The outcome of {tool} is unknown: it may or may not have happened;"
    " it was not run again. Tell the user."
)
FROM_OUTSIDE = (Effect.FETCH, Effect.EGRESS)


def to_printable(text: str) -> str:
    """Remove control characters, terminal escapes and lone surrogates."""
    text = ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return drop_lone_surrogates(UNPRINTABLE.sub("", text))


def truncate_middle(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning, the number of omitted characters, the end."""
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
    error_class: str = "",
    limit: int = MAX_CHARS,
) -> ToolFinished:
    """A result that no tool gave. A call that the gate has not judged counts as destructive."""
    text = to_printable(truncate_middle(text, limit))
    judged = state.judged.effect if state.judged else Effect.DESTRUCTIVE
    return ToolFinished(
        state.call_id,
        state.call.name,
        outcome,
        text,
        effect or judged,
        score_importance(MessageRole.TOOL, text),
        error_class=error_class,
    )


def make_rejection(state: CallState, reason: str, error_class: str = "Rejected") -> ToolFinished:
    """The refusal of a person or the gate: data for the model, not an exception."""
    text = json.dumps({"rejected": True, "reason": reason}, ensure_ascii=False)
    return make_result(state, Outcome.REJECTED, text, error_class=error_class)


def make_unknown(state: CallState) -> ToolFinished:
    """The call was cut off, so its effect may or may not have happened (promise 3)."""
    text = UNKNOWN.format(tool=state.call.name)
    return make_result(state, Outcome.UNKNOWN, text, error_class="UnknownOutcome")


def failure_output(error: Exception, meta: ToolMeta) -> ToolOutput:
    """The text of an exception. From a tool that reads outside text it is outside text too."""
    message = str(error) if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"
    outside = meta.returns_outside_text or meta.effect in FROM_OUTSIDE
    label = Label.UNTRUSTED if outside else Label.TRUSTED
    return ToolOutput(message, is_error=True, label=label)
