"""The gate: one pure function over one table (DESIGN 6). Every tool call of every kind of turn goes through it."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Literal

from daemon.core.label import Decision, Effect, Label
from daemon.tools.base import ToolMeta

Approvals = Literal["risk", "always"]
ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY


class Taint(IntEnum):
    """How far a request may be trusted; more is worse."""

    NONE = 0
    READ_OUTSIDE_TEXT = 1
    FROM_OUTSIDE = 2


TABLE: Mapping[Taint, Mapping[Effect, Decision]] = {
    Taint.NONE: {
        Effect.READ: ALLOW,
        Effect.FETCH: ALLOW,
        Effect.WRITE: ALLOW,
        Effect.EGRESS: ASK,
        Effect.DESTRUCTIVE: ASK,
    },
    Taint.READ_OUTSIDE_TEXT: {
        Effect.READ: ALLOW,
        Effect.FETCH: ASK,
        Effect.WRITE: ASK,
        Effect.EGRESS: ASK,
        Effect.DESTRUCTIVE: ASK,
    },
    Taint.FROM_OUTSIDE: {
        Effect.READ: ALLOW,
        Effect.FETCH: ASK,
        Effect.WRITE: ASK,
        Effect.EGRESS: ASK,
        Effect.DESTRUCTIVE: ASK,
    },
}

WHY: Mapping[Taint, str] = {
    Taint.NONE: "",
    Taint.READ_OUTSIDE_TEXT: " after this conversation has read text from outside",
    Taint.FROM_OUTSIDE: " for a conversation that came from outside",
}

DOES: Mapping[Effect, str] = {
    Effect.READ: "only reads",
    Effect.FETCH: "fetches from outside",
    Effect.WRITE: "writes in the workspace or the memory",
    Effect.EGRESS: "sends something out",
    Effect.DESTRUCTIVE: "may change or delete anything",
}


def judge(
    *,
    label: Label,
    session_label: Label,
    meta: ToolMeta | None,
    granted: bool,
    approvals: Approvals,
    protected: bool = False,
    safe: bool = False,
) -> tuple[Decision, str]:
    """Whether a call may run, and why. `meta` is None for a tool that does not exist; `safe` is a command of the safe grammar."""
    if meta is None:
        return DENY, "there is no tool of that name"
    taint = taint_of(label, session_label)
    decision, reason = TABLE[taint][meta.effect], f"it {DOES[meta.effect]}{WHY[taint]}"
    if decision is ASK and safe and taint is Taint.NONE:
        decision, reason = ALLOW, "the command is one of those that need no approval"
    if decision is ASK and granted:
        decision, reason = ALLOW, "a standing permission allows exactly this call"
    return _tightened(decision, reason, meta.effect, approvals, protected)


def taint_of(label: Label, session_label: Label) -> Taint:
    """A session from outside stays so whatever it reads; a trusted one is tainted by what it has read."""
    if session_label is Label.UNTRUSTED:
        return Taint.FROM_OUTSIDE
    return Taint.READ_OUTSIDE_TEXT if label is Label.UNTRUSTED else Taint.NONE


def _tightened(
    decision: Decision, reason: str, effect: Effect, approvals: Approvals, protected: bool
) -> tuple[Decision, str]:
    if decision is not ALLOW:
        return decision, reason
    if protected:
        return ASK, "the path is protected"
    if approvals == "always" and effect not in (Effect.READ, Effect.FETCH):
        return ASK, 'every effect needs an approval (tools.approvals = "always")'
    return decision, reason
