"""Who may answer a question, how it is shown, and what may be said to it (DESIGN 6 Approvals; A6 of the reference)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.commands.permit_words import Approval, Misspoken, approval, denial
from daemon.core.asking import LONGEST, Bounds, may_say, permission
from daemon.core.escaping import MOST, shown, shown_lines
from daemon.core.label import Effect, Label
from daemon.core.outcomes import YES, Answer
from daemon.core.roles import Person, Role
from daemon.core.rows import ApprovalRow

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ASKED = ApprovalRow(
    "t1", "3.0", "slack:c", "send", '{"to": "x"}', "hash", Effect.EGRESS, Label.TRUSTED, "token", NOW, NOW + timedelta(minutes=5)
)
TRUSTED, UNTRUSTED = Label.TRUSTED, Label.UNTRUSTED
roles, effects, labels, answers = (st.sampled_from(kind) for kind in (Role, Effect, Label, Answer))
UNCLEAR = (
    "maybe", "once 5 times", "5 times", "always 0 times", "always 91 days", "always 5", "always 5 moons", "always paths",
    "always soon", "show 2 now", "session 1001 times", "always 0 minutes", "2 maybe",
)  # fmt: skip


@given(role=roles, effect=effects, label=labels, answer=answers, begun=st.sampled_from(["ann", "bob"]))
def test_C9_only_an_owner_says_yes_to_what_came_from_outside(
    role: Role, effect: Effect, label: Label, answer: Answer, begun: str
) -> None:
    asked = replace(ASKED, effect=effect, label=label)
    said = may_say(asked, answer, Person("ann", role), begun_by=begun, session_label=UNTRUSTED)
    assert not said or role is Role.OWNER or answer is Answer.DENY
    assert not said or role in (Role.OWNER, Role.ADMIN)


@given(role=roles, effect=effects, label=labels, answer=answers, begun=st.sampled_from(["ann", "bob"]), session=labels)
def test_C9_only_an_owner_says_yes_to_a_dangerous_effect(
    role: Role, effect: Effect, label: Label, answer: Answer, begun: str, session: Label
) -> None:
    asked = replace(ASKED, effect=effect, label=label)
    said = may_say(asked, answer, Person("ann", role), begun_by=begun, session_label=session)
    if effect in (Effect.EGRESS, Effect.DESTRUCTIVE) and answer in YES:
        assert said == (role is Role.OWNER)


def test_C9_who_asked_for_it_may_take_it_back_and_others_of_the_chat_may_not() -> None:
    editor = Person("ann", Role.EDITOR)
    assert may_say(ASKED, Answer.DENY, editor, begun_by="ann", session_label=TRUSTED)
    assert not may_say(ASKED, Answer.DENY, editor, begun_by="bob", session_label=TRUSTED)
    assert not may_say(ASKED, Answer.DENY, editor, begun_by="ann", session_label=UNTRUSTED)


@given(
    answer=answers, uses=st.none() | st.integers(1, 9), days=st.none() | st.integers(0, 999), paths=st.sampled_from(["", "a/*"])
)
def test_a_standing_permission_always_has_an_end(answer: Answer, uses: int | None, days: int | None, paths: str) -> None:
    bounds = Bounds(uses, None if days is None else timedelta(days=days), paths)
    grant = permission(ASKED, answer, bounds, name="g1", where="", by="owner", now=NOW)
    assert (grant is not None) == (answer in (Answer.SESSION, Answer.ALWAYS))
    assert grant is None or (grant.expires is not None and grant.expires <= NOW + LONGEST)
    assert grant is None or bool(grant.paths) != bool(grant.args_hash)


def test_the_house_s_own_questions_are_asked_anew_each_time() -> None:
    budget = replace(ASKED, call_id="budget.1")
    assert permission(budget, Answer.ALWAYS, Bounds(), name="g1", where="", by="owner", now=NOW) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", Approval()),
        ("2", Approval("2")),
        ("all session", Approval("all", Answer.SESSION)),
        ("session 5 times", Approval("", Answer.SESSION, Bounds(5))),
        ("2 always for 30 minutes", Approval("2", Answer.ALWAYS, Bounds(lasts=timedelta(minutes=30)))),
        ("always 5x, 2h paths reports/*", Approval("", Answer.ALWAYS, Bounds(5, timedelta(hours=2), "reports/*"))),
        ("show 2", Approval("2", look=True)),
        ("show", Approval(look=True)),
    ],
)
def test_A15_what_is_said_behind_approve(words: str, said: Approval) -> None:
    assert approval(words) == said


@pytest.mark.parametrize("words", UNCLEAR)
def test_A15_what_is_not_understood_answers_nothing(words: str) -> None:
    with pytest.raises(Misspoken):
        approval(words)


def test_A15_a_number_behind_deny_is_a_question_only_where_the_list_has_it() -> None:
    assert denial("3 too late", 3) == ("3", "too late")
    assert denial("3 files are enough", 2) == ("", "3 files are enough")
    assert denial("all", 0) == ("all", "") and denial("", 2) == ("", "")


@given(text=st.text(max_size=700))
def test_A6_nothing_hides_in_what_is_shown(text: str) -> None:
    plain = shown(text, 0)
    assert plain.text.isprintable() and "\n" not in plain.text and not plain.cut
    head = shown(text)
    assert plain.text.startswith(head.text) and head.missing == max(len(plain.text) - MOST, 0)
    assert head.warnings == plain.warnings


@given(text=st.text(max_size=200))
def test_A6_lines_of_their_own_stand_apart_and_nothing_hides_in_them(text: str) -> None:
    lines = shown_lines(text, 0).text.split("\n") if text else []
    assert all(line.startswith("    ") and line.isprintable() for line in lines)


def test_A6_a_false_host_is_named_beside_what_a_machine_would_look_up() -> None:
    told = str(shown('{"url": "https://раypal.com/pay"}'))
    assert "раypal.com (xn--ypal-43d9g.com)" in told
    assert "xn--" in str(shown("https://аррӏе.com")) and "xn--" in str(shown("see https://user@ёлка.рф/a"))
    assert shown("https://paypal.com and Москва").warnings == ()


def test_A6_a_false_host_beyond_the_cut_is_warned_of() -> None:
    told = shown("x" * 1000 + " https://раypal.com")
    assert told.cut and "раypal" not in told.text and told.warnings
    assert "more characters" in str(told)
