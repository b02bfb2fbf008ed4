"""The gate: one pure function over one table (DESIGN 6). Every tool call of every kind of turn goes through it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Literal

from daemon.core.label import Decision, Effect, Label
from daemon.tools.base import ToolMeta
from daemon.tools.provenance.standing import Standing

Approvals = Literal["risk", "always"]
Verdict = tuple[Decision, str]
ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
SHOWN = 80
OWNED = Standing()


class Taint(IntEnum):
    """How far a request may be trusted; more is worse."""

    NONE = 0
    READ_OUTSIDE_TEXT = 1
    FROM_OUTSIDE = 2


class Cell(Enum):
    """What the table says: yes; yes if every address was read or is the owner's; yes if all that decides where the effect goes
    is the owner's; yes for a command of the safe grammar; ask.
    """

    YES = "yes"
    IF_READ = "if read"
    IF_OWNED = "if owned"
    IF_SAFE = "if safe"
    ASK = "ask"


TABLE: Mapping[Taint, Mapping[Effect, Cell]] = {
    Taint.NONE: {
        Effect.READ: Cell.YES,
        Effect.FETCH: Cell.YES,
        Effect.WRITE: Cell.YES,
        Effect.EGRESS: Cell.IF_OWNED,
        Effect.DESTRUCTIVE: Cell.IF_SAFE,
    },
    Taint.READ_OUTSIDE_TEXT: {
        Effect.READ: Cell.YES,
        Effect.FETCH: Cell.IF_READ,
        Effect.WRITE: Cell.IF_OWNED,
        Effect.EGRESS: Cell.IF_OWNED,
        Effect.DESTRUCTIVE: Cell.ASK,
    },
    Taint.FROM_OUTSIDE: {
        Effect.READ: Cell.YES,
        Effect.FETCH: Cell.ASK,
        Effect.WRITE: Cell.ASK,
        Effect.EGRESS: Cell.ASK,
        Effect.DESTRUCTIVE: Cell.ASK,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call as the gate sees it. `meta` is None for a tool that does not exist; `safe` is a command of the safe grammar.

    `standing` tells on what its arguments stand, `ruling` what a pinned rule says; `askable`: there is somebody to ask.
    """

    meta: ToolMeta | None
    label: Label
    session_label: Label
    standing: Standing = OWNED
    safe: bool = False
    granted: bool = False
    protected: bool = False
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
    def cell(self) -> Cell:
        """What the table says to it; to a tool that nobody knows: ask at least."""
        return TABLE[self.taint][self.meta.effect] if self.meta else Cell.ASK


Judge = Callable[[Case], Verdict]


def judge(case: Case) -> Verdict:
    """Whether the call may run, and why."""
    if case.meta is None:
        return DENY, "there is no tool of that name"
    decision, reason = _by_table(case, case.meta)
    if decision is ASK and case.granted:
        decision, reason = ALLOW, "a standing permission allows this call"
    decision, reason = _tightened(case, case.meta, decision, reason)
    if decision is ASK and not case.askable:
        return DENY, f"{reason}, and there is nobody to ask"
    return decision, reason


def with_grant(case: Case) -> Case:
    """The same call, where a standing permission holds."""
    return replace(case, granted=True)


def _by_table(case: Case, meta: ToolMeta) -> Verdict:
    cell, standing = case.cell, case.standing
    does = _does(meta.effect, case.taint)
    match cell:
        case Cell.YES:
            return ALLOW, does
        case Cell.IF_READ if standing.read:
            return ALLOW, "the address is yours, or stands in what was read"
        case Cell.IF_OWNED if standing.owned:
            return ALLOW, "where it goes was said by you"
        case Cell.IF_SAFE if case.safe:
            return ALLOW, "the command is one of those that need no approval"
        case Cell.IF_READ:
            return ASK, f"{does}, and nothing that was read holds {_shown(standing.unread)}"
        case Cell.IF_OWNED:
            return ASK, f"{does}, and you did not say {_shown(standing.strange)}"
        case _:
            return ASK, does


def is_plain(reason: str) -> bool:
    """It tells no more than what the tool does, and that text from outside was read."""
    return not reason or reason in PLAIN


def _does(effect: Effect, taint: Taint) -> str:
    return f"it {DOES[effect]}{WHY[taint]}"


def _tightened(case: Case, meta: ToolMeta, decision: Decision, reason: str) -> Verdict:
    """A rule, a protected path and approvals = "always" only ever make it stricter."""
    if case.ruling and STRICTNESS[case.ruling[0]] > STRICTNESS[decision]:
        return case.ruling
    if decision is not ALLOW:
        return decision, reason
    if case.protected:
        return ASK, "the path is protected"
    if case.approvals == "always" and meta.effect not in (Effect.READ, Effect.FETCH):
        return ASK, 'every effect needs an approval (tools.approvals = "always")'
    return decision, reason


STRICTNESS: Mapping[Decision, int] = {ALLOW: 0, ASK: 1, DENY: 2}


PLAIN = frozenset(_does(effect, taint) for effect in Effect for taint in Taint)


def _shown(value: str) -> str:
    text = value if len(value) <= SHOWN else value[: SHOWN - 1] + "…"
    return ascii(text) if not text.isprintable() else repr(text)
