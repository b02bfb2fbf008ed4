"""A question to a person about exactly one call."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from secrets import token_hex

from daemon.core import value
from daemon.core.events import Answer, ApprovalAsked
from daemon.core.trust import Label
from daemon.core.turn import CallState
from daemon.tools.arguments import args_hash, canonical_json
from daemon.tools.base import Tool
from daemon.tools.policy.grants import grantable_paths
from daemon.tools.policy.table import is_generic

ARGUMENTS_CHANGED = "the call is not the one that was allowed; ask again"


def new_token() -> str:
    """128 bits of chance: whoever answers must have been shown it."""
    return token_hex(16)


def hash_token(token: str) -> str:
    """What is kept of a token."""
    return sha256(token.encode()).hexdigest()


@value(kw_only=True)
class ApprovalQuestions:
    """How questions are put, and how long they stand: longer for a session from outside, where the owner may be elsewhere."""

    new_token: Callable[[], str]
    minutes: float = 5
    untrusted_hours: float = 24

    def ask(
        self,
        state: CallState,
        tool: Tool,
        arguments: Mapping[str, object],
        session_label: Label,
        now: datetime,
    ) -> ApprovalAsked:
        """The question about this call with these arguments."""
        trusted = session_label is Label.TRUSTED
        stands = (
            timedelta(minutes=self.minutes) if trusted else timedelta(hours=self.untrusted_hours)
        )
        bound, hashed = args_hash(tool.name, arguments), hash_token(self.new_token())
        effect = state.judged.effect if state.judged else tool.meta.effect
        return ApprovalAsked(
            state.call_id, tool.name, canonical_json(arguments), bound, effect, hashed, now + stands,
            preview=_preview(state, tool, arguments), paths=grantable_paths(tool.meta, arguments),
        )  # fmt: skip


def _preview(state: CallState, tool: Tool, arguments: Mapping[str, object]) -> str:
    """What the tool has to show of it, and why it is asked where that is more than what it does."""
    reason = state.judged.reason if state.judged else ""
    why = "" if is_generic(reason) else f"asked because {reason}"
    return "\n".join(part for part in (tool.preview(arguments), why) if part)


def refusal_reason(state: CallState) -> str:
    """What the model is told of a no."""
    answered = state.answered
    if answered is None or answered.answer is Answer.EXPIRED:
        return "nobody answered in time"
    return answered.reason or f"{answered.by or 'the user'} said no"


def is_bound_to(state: CallState, arguments: Mapping[str, object]) -> bool:
    """The yes was to exactly these arguments: what runs is what was shown, whatever became of the journal in between (A6)."""
    return state.asked is not None and state.asked.args_hash == args_hash(
        state.call.name, arguments
    )
