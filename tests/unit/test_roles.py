"""Who may do what: one table, held from all sides (trust.md, C9)."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.core.trust import (
    RIGHTS,
    Answer,
    Effect,
    Label,
    Right,
    Role,
    has_right,
    label_for_role,
    may_answer,
)

DOWNWARDS = (Role.OWNER, Role.ADMIN, Role.EDITOR, Role.VIEWER, Role.GUEST)
ANSWERS = st.sampled_from(list(Answer))


def test_every_role_stands_in_the_table_and_none_has_a_right_that_a_higher_one_lacks():
    assert set(RIGHTS) == set(Role)
    for higher, lower in pairwise(DOWNWARDS):
        assert RIGHTS[lower] < RIGHTS[higher]


@pytest.mark.parametrize(
    ("right", "who"),
    [
        (Right.CONTACT, DOWNWARDS),
        (Right.READ, DOWNWARDS[:4]),
        (Right.TALK, DOWNWARDS[:3]),
        (Right.WORK, DOWNWARDS[:3]),
        (Right.ANSWER, DOWNWARDS[:2]),
        (Right.DANGER, DOWNWARDS[:1]),
        (Right.MANAGE, DOWNWARDS[:1]),
    ],
)
def test_C9_the_table_is_as_written_down(right: Right, who: tuple[Role, ...]):
    assert tuple(role for role in DOWNWARDS if has_right(role, right)) == who


@given(st.sampled_from(list(Effect)), st.sampled_from(list(Label)), ANSWERS, st.booleans())
def test_only_an_owner_says_yes_to_what_is_dangerous_or_for_good(
    effect: Effect, label: Label, answer: Answer, own: bool
):
    allowed = {role for role in Role if may_answer(role, effect, label, answer, own=own)}
    if answer is Answer.EXPIRED:
        assert not allowed
    elif answer is not Answer.DENY:
        grave = (
            effect is not Effect.WRITE  # what is told or shown is not taken back
            or label is Label.UNTRUSTED
            or answer is Answer.ALWAYS
        )
        assert allowed == ({Role.OWNER} if grave else {Role.OWNER, Role.ADMIN})


@given(st.sampled_from(list(Effect)), st.sampled_from(list(Label)))
def test_whoever_may_talk_may_take_back_their_own(effect: Effect, label: Label):
    no = {role for role in Role if may_answer(role, effect, label, Answer.DENY)}
    own = {role for role in Role if may_answer(role, effect, label, Answer.DENY, own=True)}
    assert no == {Role.OWNER, Role.ADMIN}
    assert own == {Role.OWNER, Role.ADMIN, Role.EDITOR}


def test_a_lower_role_may_never_give_an_answer_that_a_higher_one_may_not():
    for effect, label, answer, own in product(Effect, Label, Answer, (False, True)):
        allowed = [may_answer(role, effect, label, answer, own=own) for role in DOWNWARDS]
        assert allowed == sorted(allowed, reverse=True)


def test_a_guests_words_are_not_trusted():
    assert {role for role in Role if label_for_role(role) is Label.TRUSTED} == {
        Role.OWNER,
        Role.ADMIN,
        Role.EDITOR,
    }
