"""The gate: judge() over DESIGN 6's table."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


CASES = st.builds(
    Case,
    label=st.sampled_from(Label),
    session_label=st.sampled_from(Label),
    effect=st.sampled_from([*Effect, None]),
    granted=st.booleans(),
    approvals=st.sampled_from(["risk", "always"]),
    protected=st.booleans(),
    safe=st.booleans(),
)


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


@given(CASES)
def test_every_case_has_a_decision_and_a_reason(case: Case) -> None:
    assert case.judged() in Decision


@given(CASES)
def test_more_taint_never_allows_more(case: Case) -> None:
    clean = SEVERITY[case.judged(label=TRUSTED, session_label=TRUSTED)]
    tainted = SEVERITY[case.judged(label=UNTRUSTED, session_label=TRUSTED)]
    outside = SEVERITY[case.judged(label=UNTRUSTED, session_label=UNTRUSTED)]
    assert clean <= tainted <= outside


@given(CASES)
def test_an_unknown_tool_is_denied_whatever_else_holds(case: Case) -> None:
    if case.effect is None:
        assert case.judged() is DENY


@given(CASES)
def test_a_grant_never_makes_it_stricter_and_never_undoes_a_denial(case: Case) -> None:
    without = Case(case.label, case.session_label, case.effect, False, case.approvals, case.protected, case.safe).judged()
    with_one = Case(case.label, case.session_label, case.effect, True, case.approvals, case.protected, case.safe).judged()
    assert SEVERITY[with_one] <= SEVERITY[without]
    assert (with_one is DENY) == (without is DENY)


@given(CASES)
def test_a_protected_path_is_never_simply_allowed(case: Case) -> None:
    if case.protected:
        assert case.judged() is not ALLOW


@given(CASES)
def test_approvals_always_asks_before_every_effect_and_not_before_reading(case: Case) -> None:
    """B8."""
    if case.approvals == "always" and case.effect in (Effect.WRITE, Effect.EGRESS, Effect.DESTRUCTIVE):
        assert case.judged() is ASK


@given(CASES)
def test_a_harmless_command_is_spared_only_in_a_clean_trusted_turn(case: Case) -> None:
    clean = case.label is TRUSTED and case.session_label is TRUSTED
    if case.effect is Effect.DESTRUCTIVE and not case.granted and case.judged() is ALLOW:
        assert case.safe
        assert clean


def test_the_reason_tells_a_person_why_they_are_asked() -> None:
    _, reason = judge(
        label=UNTRUSTED, session_label=TRUSTED, meta=ToolMeta(Effect.WRITE), granted=False, approvals="risk"
    )
    assert reason == "it writes in the workspace or the memory after this conversation has read text from outside"
