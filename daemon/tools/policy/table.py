"""What became of the arguments of a call that were looked at.

The gate: one pure function over one table (DESIGN 6). Every tool call of every kind of turn goes through it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, IntEnum
from typing import Literal

from daemon.core import value
from daemon.core.trust import Decision, Effect, Label
from daemon.tools.base import ToolMeta


@value
class Provenance:
    """What became of a call's arguments. `strange` is the first value that is not the owner's, `unread` the first that was not
    read before either; "" where there is none.
    """

    not_owned: str = ""
    not_read: str = ""

    @property
    def is_owned(self) -> bool:
        """All that decides where the effect goes is the owner's."""
        return not self.not_owned

    @property
    def is_read(self) -> bool:
        """Every address is the owner's, or stands in something that was read: it carries nothing out."""
        return not self.not_read


Approvals = Literal["risk", "always"]
Verdict = tuple[Decision, str]
ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
QUOTE_CHARS = 80
ALL_OWNED = Provenance()


class Taint(IntEnum):
    """How far a request may be trusted; more is worse."""

    NONE = 0
    READ_OUTSIDE_TEXT = 1
    FROM_OUTSIDE = 2


class TableRule(Enum):
    """What the table says: yes; yes if every address was read or is the owner's; yes if all that decides where the effect goes
    is the owner's; yes for a command of the safe grammar; ask.
    """

    YES = "yes"
    IF_READ = "if read"
    IF_OWNED = "if owned"
    IF_SAFE = "if safe"
    ASK = "ask"


TABLE: Mapping[Taint, Mapping[Effect, TableRule]] = {
    Taint.NONE: {
        Effect.READ: TableRule.YES,
        Effect.FETCH: TableRule.YES,
        Effect.WRITE: TableRule.YES,
        Effect.EGRESS: TableRule.IF_OWNED,
        Effect.DESTRUCTIVE: TableRule.IF_SAFE,
    },
    Taint.READ_OUTSIDE_TEXT: {
        Effect.READ: TableRule.YES,
        Effect.FETCH: TableRule.IF_READ,
        Effect.WRITE: TableRule.IF_OWNED,
        Effect.EGRESS: TableRule.IF_OWNED,
        Effect.DESTRUCTIVE: TableRule.ASK,
    },
    Taint.FROM_OUTSIDE: {
        Effect.READ: TableRule.YES,
        Effect.FETCH: TableRule.ASK,
        Effect.WRITE: TableRule.ASK,
        Effect.EGRESS: TableRule.ASK,
        Effect.DESTRUCTIVE: TableRule.ASK,
    },
}

TAINT_TEXT: Mapping[Taint, str] = {
    Taint.NONE: "",
    Taint.READ_OUTSIDE_TEXT: " after this conversation has read text from outside",
    Taint.FROM_OUTSIDE: " for a conversation that came from outside",
}

EFFECT_TEXT: Mapping[Effect, str] = {
    Effect.READ: "only reads",
    Effect.FETCH: "fetches from outside",
    Effect.WRITE: "writes in the workspace or the memory",
    Effect.EGRESS: "sends something out",
    Effect.DESTRUCTIVE: "may change or delete anything",
}


@value(kw_only=True)
class PolicyInput:
    """One call as the gate sees it. `meta` is None for a tool that does not exist; `safe` is a command of the safe grammar.

    `standing` tells on what its arguments stand, `ruling` what a pinned rule says; `askable`: there is somebody to ask.
    """

    meta: ToolMeta | None
    label: Label
    session_label: Label
    provenance: Provenance = ALL_OWNED
    safe: bool = False
    has_grant: bool = False
    is_protected: bool = False
    approvals: Approvals = "risk"
    ruling: Verdict | None = None
    askable: bool = True

    @property
    def taint(self) -> Taint:
        """A session from outside stays so whatever it reads; a trusted one is tainted by what it has read."""
        if self.session_label is Label.UNTRUSTED:
            return Taint.FROM_OUTSIDE
        return Taint.READ_OUTSIDE_TEXT if self.label is Label.UNTRUSTED else Taint.NONE

    @property
    def rule(self) -> TableRule:
        """What the table says to it; to a tool that nobody knows: ask at least."""
        return TABLE[self.taint][self.meta.effect] if self.meta else TableRule.ASK


Judge = Callable[[PolicyInput], Verdict]


def judge(case: PolicyInput) -> Verdict:
    """Whether the call may run, and why."""
    if case.meta is None:
        return DENY, "there is no tool of that name"
    decision, reason = _apply_table(case, case.meta)
    if decision is ASK and case.has_grant:
        decision, reason = ALLOW, "a standing permission allows this call"
    decision, reason = _tighten(case, case.meta, decision, reason)
    if decision is ASK and not case.askable:
        return DENY, f"{reason}, and there is nobody to ask"
    return decision, reason


def with_grant(case: PolicyInput) -> PolicyInput:
    """The same call, where a standing permission holds."""
    return replace(case, has_grant=True)


def _apply_table(case: PolicyInput, meta: ToolMeta) -> Verdict:
    cell, standing = case.rule, case.provenance
    does = _describe_effect(meta.effect, case.taint)
    match cell:
        case TableRule.YES:
            return ALLOW, does
        case TableRule.IF_READ if standing.is_read:
            return ALLOW, "the address is yours, or stands in what was read"
        case TableRule.IF_OWNED if standing.is_owned:
            return ALLOW, "where it goes was said by you"
        case TableRule.IF_SAFE if case.safe:
            return ALLOW, "the command is one of those that need no approval"
        case TableRule.IF_READ:
            return ASK, f"{does}, and nothing that was read holds {_quote(standing.not_read)}"
        case TableRule.IF_OWNED:
            return ASK, f"{does}, and you did not say {_quote(standing.not_owned)}"
        case _:
            return ASK, does


def is_generic(reason: str) -> bool:
    """It tells no more than what the tool does, and that text from outside was read."""
    return not reason or reason in GENERIC_REASONS


def _describe_effect(effect: Effect, taint: Taint) -> str:
    return f"it {EFFECT_TEXT[effect]}{TAINT_TEXT[taint]}"


def _tighten(case: PolicyInput, meta: ToolMeta, decision: Decision, reason: str) -> Verdict:
    """A rule, a protected path and approvals = "always" only ever make it stricter."""
    if case.ruling and STRICTNESS[case.ruling[0]] > STRICTNESS[decision]:
        return case.ruling
    if decision is not ALLOW:
        return decision, reason
    if case.is_protected:
        return ASK, "the path is protected"
    if case.approvals == "always" and meta.effect not in (Effect.READ, Effect.FETCH):
        return ASK, 'every effect needs an approval (tools.approvals = "always")'
    return decision, reason


STRICTNESS: Mapping[Decision, int] = {ALLOW: 0, ASK: 1, DENY: 2}


GENERIC_REASONS = frozenset(_describe_effect(effect, taint) for effect in Effect for taint in Taint)


def _quote(value: str) -> str:
    text = value if len(value) <= QUOTE_CHARS else value[: QUOTE_CHARS - 1] + "…"
    return ascii(text) if not text.isprintable() else repr(text)
