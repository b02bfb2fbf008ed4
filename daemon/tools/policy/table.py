"""The policy table: one pure function decides every tool call of every kind of turn (trust.md)."""

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Literal

from daemon.core import value
from daemon.core.trust import Decision, Effect, Label
from daemon.tools.base import ToolMeta

Approvals = Literal["risk", "always"]
Verdict = tuple[Decision, str]
ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
STRICTNESS: Mapping[Decision, int] = {ALLOW: 0, ASK: 1, DENY: 2}
QUOTE_CHARS = 80


class Taint(IntEnum):
    """How far a request is from trusted; more is worse."""

    NONE = 0
    READ_OUTSIDE_TEXT = 1
    FROM_OUTSIDE = 2


class TableRule(Enum):
    """YES; yes if every address was read or is the owner's; yes if every argument that decides
    where the effect goes is the owner's; yes for a command of the safe grammar; ASK.
    """

    YES = "yes"
    IF_READ = "if read"
    IF_OWNED = "if owned"
    IF_SAFE = "if safe"
    ASK = "ask"


def _make_row(*rules: str) -> Mapping[Effect, TableRule]:
    return dict(zip(Effect, map(TableRule, rules), strict=True))


TABLE: Mapping[Taint, Mapping[Effect, TableRule]] = {
    # READ, FETCH, WRITE, EGRESS, DESTRUCTIVE
    Taint.NONE: _make_row("yes", "yes", "yes", "if owned", "if safe"),
    Taint.READ_OUTSIDE_TEXT: _make_row("yes", "if read", "if owned", "if owned", "ask"),
    Taint.FROM_OUTSIDE: _make_row("yes", "ask", "ask", "ask", "ask"),
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


@value
class Provenance:
    """The first argument value that is not the owner's, and the first that was not read before; ""
    for none.
    """

    not_owned: str = ""
    not_read: str = ""


@value(kw_only=True)
class PolicyInput:
    """One call as the gate sees it. `meta` is None for an unknown tool; `safe` is a command of the
    safe grammar; `ruling` is the verdict of a pinned rule; `askable`: there is somebody to ask.
    """

    meta: ToolMeta | None
    label: Label
    session_label: Label
    provenance: Provenance = Provenance()
    safe: bool = False
    has_grant: bool = False
    is_protected: bool = False
    approvals: Approvals = "risk"
    ruling: Verdict | None = None
    askable: bool = True

    @property
    def taint(self) -> Taint:
        """A session from outside stays so; a trusted one is tainted by what it reads."""
        if self.session_label is Label.UNTRUSTED:
            return Taint.FROM_OUTSIDE
        return Taint.READ_OUTSIDE_TEXT if self.label is Label.UNTRUSTED else Taint.NONE

    @property
    def rule(self) -> TableRule:
        """The table's rule; ASK for an unknown tool."""
        return TABLE[self.taint][self.meta.effect] if self.meta else TableRule.ASK


Judge = Callable[[PolicyInput], Verdict]


def judge(case: PolicyInput) -> Verdict:
    """Whether the call may run, and why. Rules, protected paths and `approvals` only tighten."""
    if case.meta is None:
        return DENY, "there is no tool of that name"
    decision, reason = _apply_table(case, case.meta.effect)
    if decision is ASK and case.has_grant:
        decision, reason = ALLOW, "a standing permission allows this call"
    if case.ruling and STRICTNESS[case.ruling[0]] > STRICTNESS[decision]:
        decision, reason = case.ruling
    elif decision is ALLOW and case.is_protected:
        decision, reason = ASK, "the path is protected"
    elif (
        decision is ALLOW
        and case.approvals == "always"
        and case.meta.effect not in (Effect.READ, Effect.FETCH)
    ):
        decision, reason = ASK, 'every effect needs an approval (tools.approvals = "always")'
    if decision is ASK and not case.askable:
        return DENY, f"{reason}, and there is nobody to ask"
    return decision, reason


def _apply_table(case: PolicyInput, effect: Effect) -> Verdict:
    provenance, does = case.provenance, _describe_effect(effect, case.taint)
    match case.rule:
        case TableRule.YES:
            return ALLOW, does
        case TableRule.IF_READ if not provenance.not_read:
            return ALLOW, "the address is yours, or stands in what was read"
        case TableRule.IF_OWNED if not provenance.not_owned:
            return ALLOW, "where it goes was said by you"
        case TableRule.IF_SAFE if case.safe:
            return ALLOW, "the command is one of those that need no approval"
        case TableRule.IF_READ:
            return ASK, f"{does}, and nothing that was read holds {_quote(provenance.not_read)}"
        case TableRule.IF_OWNED:
            return ASK, f"{does}, and you did not say {_quote(provenance.not_owned)}"
        case _:
            return ASK, does


def _describe_effect(effect: Effect, taint: Taint) -> str:
    return f"it {EFFECT_TEXT[effect]}{TAINT_TEXT[taint]}"


GENERIC_REASONS = {"", *(_describe_effect(effect, taint) for effect in Effect for taint in Taint)}


def _quote(text: str) -> str:
    text = text if len(text) <= QUOTE_CHARS else text[: QUOTE_CHARS - 1] + "…"
    return repr(text) if text.isprintable() else ascii(text)
