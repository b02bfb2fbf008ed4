"""The judges of a call: the table of effects, the owner's rules, protected paths, and `approvals`.
The strictest has the last word; of equals, the first (trust.md).
"""

from collections.abc import Callable, Mapping
from typing import Literal

from daemon.core.trust import Decision, Effect
from daemon.tools.calls import READ_EFFECTS
from daemon.tools.policy.facts import OTHERS_READ, PolicyInput, Taint
from daemon.tools.policy.rules import EFFECT_TEXT, STRICTNESS, Verdict

ALLOW, ASK, DENY = Decision
QUOTE_CHARS = 80
REASONS = {
    (taint, effect): f"it {does}{taint}" for taint in Taint for effect, does in EFFECT_TEXT.items()
}
TableRule = Literal["yes", "if read", "if owned", "if safe", "ask"]
# What is read is never an order, whoever's it is: from there on an effect also needs an order of
# the owner's (`unordered`).
# By effect: READ, FETCH, WRITE, EGRESS, DESTRUCTIVE. `if read`: every address was read or is the
# owner's; `if owned`: every argument that decides where the effect goes is the owner's; `if safe`:
# a command of the safe grammar.
ROWS: Mapping[Taint, tuple[TableRule, ...]] = {
    Taint.NONE: ("yes", "yes", "yes", "if owned", "if safe"),
    Taint.READ_OWN: ("yes", "if read", "yes", "if owned", "if safe"),
    Taint.READ_OUTSIDE_TEXT: ("yes", "if read", "if owned", "if owned", "ask"),
    Taint.FROM_OUTSIDE: ("yes", "ask", "ask", "ask", "ask"),
}
TABLE = {taint: dict(zip(Effect, row, strict=True)) for taint, row in ROWS.items()}

Judge = Callable[[PolicyInput], Verdict]


def judge_by_table(case: PolicyInput) -> Verdict:
    """By what the call does and what was read before. A standing permission answers it."""
    does, provenance = REASONS[case.taint, case.effect], case.provenance
    decision, reason = ASK, does
    match TABLE[case.taint][case.effect]:
        case "if owned" if provenance.not_owned:
            reason = f"{does}, and you did not say {quote(provenance.not_owned)}"
        case _ if case.unordered:
            reason = f"{does}, and {case.unordered}"
        case "if read" if case.excess:
            reason = f"{does}, and {case.excess}"
        case "if read" if provenance.not_read:
            reason = f"{does}, and nothing that was read holds {quote(provenance.not_read)}"
        case "yes":
            decision = ALLOW
        case "if read":
            decision, reason = ALLOW, "the address is yours, or stands in what was read"
        case "if owned":
            decision, reason = ALLOW, "where it goes was said by you"
        case "if safe" if case.safe:
            decision, reason = ALLOW, "the command is one of those that need no approval"
    if decision is ASK and case.has_grant:
        decision, reason = ALLOW, "a standing permission allows this call"
    is_clean = case.taint in (Taint.NONE, Taint.READ_OWN) and case.unordered != OTHERS_READ
    if decision is ASK and case.approvals == "never" and is_clean:
        decision, reason = ALLOW, 'tools.approvals says "never" for this tool'
    return decision, reason


def judge_by_approvals(case: PolicyInput) -> Verdict | None:
    """With `approvals = "always"`, and after a question that nobody answered (H1): all that does
    something, or tells something private; each call of a tool that stands there by its name (B8).
    """
    if case.approvals == "each":
        return ASK, 'every call of this tool needs an approval (tools.approvals says "always")'
    if case.approvals in ("risk", "never"):
        return None
    tells = case.effect is Effect.FETCH and case.private
    if case.effect in READ_EFFECTS and not tells:
        return None
    always = 'every effect needs an approval (tools.approvals = "always")'
    is_open = case.approvals == "unanswered"
    return ASK, "nobody answered what I asked before" if is_open else always


def judge_by_plan(case: PolicyInput) -> Verdict | None:
    """No standing permission answers this."""
    if case.plan == "proposed":
        is_clean = case.taint in (Taint.NONE, Taint.READ_OWN)
        return (ASK, "it is a plan") if is_clean else (DENY, f"no plan is taken{case.taint}")
    waits = case.plan and case.effect is not Effect.READ
    return (DENY, "propose a plan first") if waits else None


JUDGES: tuple[Callable[[PolicyInput], Verdict | None], ...] = (
    judge_by_table,
    lambda case: case.ruling,  # of the owner's own rules, which nothing else undoes
    lambda case: (ASK, "the path is protected") if case.is_protected else None,
    judge_by_approvals,
    judge_by_plan,
)


def judge(case: PolicyInput) -> Verdict:
    """Whether the call may run, and why. Where there is nobody to ask, a question is a no."""
    verdicts = [found for one in JUDGES if (found := one(case))]
    decision, reason = max(verdicts, key=lambda verdict: STRICTNESS.index(verdict[0]))
    if decision is ASK and not case.askable:
        return DENY, f"{reason}, and there is nobody to ask"
    return decision, reason


def quote(text: str) -> str:
    """A value in a reason, short and with nothing invisible."""
    text = text if len(text) <= QUOTE_CHARS else text[: QUOTE_CHARS - 1] + "…"
    return repr(text) if text.isprintable() else ascii(text)
