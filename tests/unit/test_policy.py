"""The gate: judge() over DESIGN 6's table. The laws are tried on every case there is, which is more than a sample of them."""

from dataclasses import dataclass, replace
from itertools import product

import pytest

from daemon.core.label import Decision, Effect, Label
from daemon.tools.base import ToolMeta
from daemon.tools.policy import Approvals, judge

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
SEVERITY = {ALLOW: 0, ASK: 1, DENY: 2}
TRUSTED, UNTRUSTED = Label.TRUSTED, Label.UNTRUSTED


@dataclass(frozen=True)
class Case:
    label: Label
    session_label: Label
    effect: Effect | None
    granted: bool
    approvals: Approvals
    protected: bool
    safe: bool

    def judged(self, **other: Label) -> Decision:
        decision, reason = judge(
            label=other.get("label", self.label), session_label=other.get("session_label", self.session_label),
            meta=ToolMeta(self.effect) if self.effect else None, granted=self.granted, approvals=self.approvals,
            protected=self.protected, safe=self.safe,
        )  # fmt: skip
        assert reason
        return decision


APPROVALS: tuple[Approvals, ...] = ("risk", "always")
YES_NO = (True, False)
ALL = [Case(*one) for one in product(Label, Label, [*Effect, None], YES_NO, APPROVALS, YES_NO, YES_NO)]


@pytest.mark.parametrize(
    ("session_label", "label", "expected"),
    [
        (TRUSTED, TRUSTED, {"read": ALLOW, "fetch": ALLOW, "write": ALLOW, "egress": ASK, "destructive": ASK}),
        (TRUSTED, UNTRUSTED, {"read": ALLOW, "fetch": ASK, "write": ASK, "egress": ASK, "destructive": ASK}),
        (UNTRUSTED, TRUSTED, {"read": ALLOW, "fetch": ASK, "write": ASK, "egress": ASK, "destructive": ASK}),
        (UNTRUSTED, UNTRUSTED, {"read": ALLOW, "fetch": ASK, "write": ASK, "egress": ASK, "destructive": ASK}),
    ],
)
def test_the_table_is_that_of_the_design(session_label: Label, label: Label, expected: dict[str, Decision]) -> None:
    found = {effect.value: Case(label, session_label, effect, False, "risk", False, False).judged() for effect in Effect}
    assert found == expected


def test_every_case_has_a_decision_and_a_reason() -> None:
    for case in ALL:
        assert case.judged() in Decision


def test_more_taint_never_allows_more() -> None:
    for case in ALL:
        clean = SEVERITY[case.judged(label=TRUSTED, session_label=TRUSTED)]
        tainted = SEVERITY[case.judged(label=UNTRUSTED, session_label=TRUSTED)]
        outside = SEVERITY[case.judged(label=UNTRUSTED, session_label=UNTRUSTED)]
        assert clean <= tainted <= outside


def test_an_unknown_tool_is_denied_whatever_else_holds() -> None:
    for case in ALL:
        if case.effect is None:
            assert case.judged() is DENY


def test_a_grant_never_makes_it_stricter_and_never_undoes_a_denial() -> None:
    for case in ALL:
        without, with_one = replace(case, granted=False).judged(), replace(case, granted=True).judged()
        assert SEVERITY[with_one] <= SEVERITY[without]
        assert (with_one is DENY) == (without is DENY)


def test_a_protected_path_is_never_simply_allowed() -> None:
    for case in ALL:
        if case.protected:
            assert case.judged() is not ALLOW


def test_approvals_always_asks_before_every_effect_and_not_before_reading() -> None:
    """B8."""
    for case in ALL:
        if case.approvals == "always" and case.effect in (Effect.WRITE, Effect.EGRESS, Effect.DESTRUCTIVE):
            assert case.judged() is ASK
        if case.effect is Effect.READ and not case.protected:
            assert case.judged() is ALLOW


def test_a_harmless_command_is_spared_only_in_a_clean_trusted_turn() -> None:
    for case in ALL:
        clean = case.label is TRUSTED and case.session_label is TRUSTED
        if case.effect is Effect.DESTRUCTIVE and not case.granted and case.judged() is ALLOW:
            assert case.safe
            assert clean


def test_the_reason_tells_a_person_why_they_are_asked() -> None:
    _, reason = judge(
        label=UNTRUSTED, session_label=TRUSTED, meta=ToolMeta(Effect.WRITE), granted=False, approvals="risk"
    )
    assert reason == "it writes in the workspace or the memory after this conversation has read text from outside"
