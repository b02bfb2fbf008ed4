"""The gate: judge() over trust.md's table. The laws are tried on every case there is, which is more than a sample of them."""

from dataclasses import replace
from itertools import product

import pytest

from daemon.core.trust import Approval, Decision, Effect
from daemon.tools.policy.facts import OTHERS_READ, PolicyInput, Provenance, Taint
from daemon.tools.policy.judges import REASONS, judge
from daemon.tools.policy.rules import Verdict

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
SEVERITY = {ALLOW: 0, ASK: 1, DENY: 2}
TAINTED, OUTSIDE = Taint.READ_OUTSIDE_TEXT, Taint.FROM_OUTSIDE
APPROVALS: tuple[Approval, ...] = ("risk", "always", "each", "never")
YES_NO = (True, False)
STANDINGS = [
    Provenance(strange, unread)
    for strange in ("", "x@evil.example")
    for unread in ("", "http://evil.example/?q=secret")
]
RULINGS: tuple[Verdict | None, ...] = (None, (ASK, "rule 1 says so"), (DENY, "rule 2 says so"))
FACTS = product(Effect, Taint, STANDINGS, YES_NO, YES_NO, YES_NO, APPROVALS, RULINGS, YES_NO)
ALL = [
    PolicyInput(
        effect=effect, taint=taint, provenance=standing, safe=safe,
        has_grant=granted, is_protected=protected, approvals=approvals, ruling=ruling, askable=askable,
    )
    for effect, taint, standing, safe, granted, protected, approvals, ruling, askable in FACTS
]  # fmt: skip


def said(case: PolicyInput) -> Decision:
    decision, reason = judge(case)
    assert reason
    return decision


def plain(effect: Effect, taint: Taint, standing: Provenance = STANDINGS[-1]) -> PolicyInput:
    return PolicyInput(effect=effect, taint=taint, provenance=standing)


@pytest.mark.parametrize(
    ("taint", "strange", "owned"),
    [
        (Taint.NONE, (ALLOW, ALLOW, ALLOW, ASK, ASK), (ALLOW, ALLOW, ALLOW, ALLOW, ASK)),
        (Taint.READ_OWN, (ALLOW, ASK, ALLOW, ASK, ASK), (ALLOW, ALLOW, ALLOW, ALLOW, ASK)),
        (TAINTED, (ALLOW, ASK, ASK, ASK, ASK), (ALLOW, ALLOW, ALLOW, ALLOW, ASK)),
        (OUTSIDE, (ALLOW, ASK, ASK, ASK, ASK), (ALLOW, ASK, ASK, ASK, ASK)),
    ],
)
def test_the_table_is_that_of_the_design(
    taint: Taint, strange: tuple[Decision, ...], owned: tuple[Decision, ...]
) -> None:
    """READ, FETCH, WRITE, EGRESS, DESTRUCTIVE: with arguments that nobody said, and with the owner's own."""
    assert tuple(said(plain(effect, taint)) for effect in Effect) == strange
    assert tuple(said(plain(effect, taint, Provenance())) for effect in Effect) == owned


def test_what_was_read_may_be_fetched_and_no_more() -> None:
    read = Provenance(not_owned="http://news.example/a")
    assert [said(plain(effect, TAINTED, read)) for effect in Effect] == [
        ALLOW,
        ALLOW,
        ASK,
        ASK,
        ASK,
    ]


def test_every_case_has_a_decision_and_a_reason() -> None:
    for case in ALL:
        assert said(case) in Decision


def test_F3_more_taint_never_allows_more() -> None:
    for case in ALL:
        clean = SEVERITY[said(replace(case, taint=Taint.NONE))]
        material = SEVERITY[said(replace(case, taint=Taint.READ_OWN))]
        tainted = SEVERITY[said(replace(case, taint=TAINTED))]
        outside = SEVERITY[said(replace(case, taint=OUTSIDE))]
        assert clean <= material <= tainted <= outside


def test_arguments_of_strangers_never_allow_more() -> None:
    for case in ALL:
        assert SEVERITY[said(replace(case, provenance=Provenance()))] <= SEVERITY[said(case)]


def test_a_grant_never_makes_it_stricter() -> None:
    for case in ALL:
        assert (
            SEVERITY[said(replace(case, has_grant=True))]
            <= SEVERITY[said(replace(case, has_grant=False))]
        )


def test_F5_a_rule_only_ever_makes_it_stricter_and_no_grant_undoes_it() -> None:
    for case in ALL:
        without = SEVERITY[said(replace(case, ruling=None))]
        assert SEVERITY[said(case)] >= without
        if case.ruling:
            assert SEVERITY[said(replace(case, has_grant=True))] >= SEVERITY[case.ruling[0]]


def test_B8_a_protected_path_is_never_simply_allowed() -> None:
    assert ALLOW not in {said(case) for case in ALL if case.is_protected}


def test_where_there_is_nobody_to_ask_a_question_is_a_no() -> None:
    for case in ALL:
        if not case.askable:
            asked = said(replace(case, askable=True))
            assert said(case) is (DENY if asked is ASK else asked)


def test_B8_approvals_always_asks_before_every_effect_and_not_before_reading() -> None:
    for case in ALL:
        if case.approvals == "always" and not case.ruling and case.askable:
            effect = case.effect
            if effect in (Effect.WRITE, Effect.EGRESS, Effect.DESTRUCTIVE):
                assert said(case) is ASK
            if effect is Effect.READ and not case.is_protected:
                assert said(case) is ALLOW


def test_b8_a_tool_that_asks_each_time_asks_before_reading_too_whatever_was_allowed_before() -> None:
    for case in ALL:
        if case.approvals == "each" and not case.ruling and case.askable:
            assert said(case) is ASK


def test_b8_a_tool_that_never_asks_does_so_only_where_no_stranger_has_a_say() -> None:
    """And a rule, a protected path, a plan that is waited for hold as before."""
    for case in ALL:
        if case.approvals == "never":
            usual = said(replace(case, approvals="risk"))
            kept = case.taint in (TAINTED, OUTSIDE) or case.is_protected or case.ruling
            assert said(case) is (usual if kept else ALLOW)
            shared = replace(case, unordered=OTHERS_READ)
            assert said(shared) is said(replace(shared, approvals="risk"))


def test_a_harmless_command_is_spared_only_where_nothing_of_a_strangers_was_read() -> None:
    for case in ALL:
        destructive = case.effect is Effect.DESTRUCTIVE
        spared = case.has_grant or case.approvals == "never"
        if destructive and not spared and said(case) is ALLOW:
            assert case.safe
            assert case.taint in (Taint.NONE, Taint.READ_OWN)


def test_A15_the_reason_tells_a_person_why_they_are_asked() -> None:
    _, reason = judge(plain(Effect.EGRESS, TAINTED, Provenance(not_owned="eve@evil.example")))
    assert reason == (
        "it sends something out after this conversation has read text from outside, and you did not say 'eve@evil.example'"
    )


def test_a_reason_shows_what_a_stranger_wrote_without_letting_it_play_tricks() -> None:
    _, reason = judge(plain(Effect.EGRESS, TAINTED, Provenance(not_owned="a\u202eb\n" + "x" * 200)))
    assert reason.isprintable()
    assert len(reason) < 250


def test_A15_a_question_says_why_where_that_is_more_than_what_the_tool_does() -> None:
    plain_one = judge(plain(Effect.DESTRUCTIVE, TAINTED))[1]
    about = judge(plain(Effect.EGRESS, Taint.NONE, Provenance(not_owned="eve@evil.example")))[1]
    ruled = judge(
        PolicyInput(
            effect=Effect.READ,
            taint=Taint.NONE,
            ruling=(ASK, "rule 1 says so"),
        )
    )[1]
    assert tuple(one in REASONS.values() for one in (plain_one, about, ruled)) == (
        True,
        False,
        False,
    )


def test_the_strictest_judge_has_the_last_word_and_of_equals_the_first() -> None:
    case = replace(plain(Effect.READ, Taint.NONE), is_protected=True, approvals="always")
    assert judge(case) == (ASK, "the path is protected")
    assert judge(replace(case, ruling=(DENY, "rule 2 says so"))) == (DENY, "rule 2 says so")
    asked = replace(case, effect=Effect.DESTRUCTIVE)
    assert judge(asked)[1] == REASONS[Taint.NONE, Effect.DESTRUCTIVE]
    assert judge(replace(asked, has_grant=True)) == (ASK, "the path is protected")
