"""Who may answer a question, how it is shown, and what may be said to it (trust.md Approvals; A6 of the reference)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.commands.approvals import ApproveArguments, parse_approve, parse_deny
from daemon.core.errors import UsageError
from daemon.core.rows import (
    MAX_GRANT_TERM,
    ApprovalRow,
    GrantBounds,
    grant_from_answer,
    may_answer_question,
)
from daemon.core.trust import APPROVALS, Answer, Effect, Label, Person, Role
from daemon.services.approvals import MAX_CHARS, make_lines_visible, make_visible

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ASKED = ApprovalRow(
    "t1",
    "3.0",
    "slack:c",
    "send",
    '{"to": "x"}',
    "hash",
    Effect.EGRESS,
    Label.TRUSTED,
    "token",
    NOW,
    NOW + timedelta(minutes=5),
)
TRUSTED, UNTRUSTED = Label.TRUSTED, Label.UNTRUSTED
roles, effects, labels, answers = (st.sampled_from(kind) for kind in (Role, Effect, Label, Answer))
UNCLEAR = (
    "maybe", "once 5 times", "5 times", "always 0 times", "always 91 days", "always 5", "always 5 moons", "always paths",
    "always soon", "show 2 now", "session 1001 times", "always 0 minutes", "2 maybe",
)  # fmt: skip


@given(
    role=roles, effect=effects, label=labels, answer=answers, begun=st.sampled_from(["ann", "bob"])
)
def test_C9_only_an_owner_says_yes_to_what_came_from_outside(
    role: Role, effect: Effect, label: Label, answer: Answer, begun: str
) -> None:
    asked = replace(ASKED, effect=effect, label=label)
    said = may_answer_question(
        asked, answer, Person("ann", role), begun_by=begun, session_label=UNTRUSTED
    )
    assert not said or role is Role.OWNER or answer is Answer.DENY
    assert not said or role in (Role.OWNER, Role.ADMIN)


@given(
    role=roles,
    effect=effects,
    label=labels,
    answer=answers,
    begun=st.sampled_from(["ann", "bob"]),
    session=labels,
)
def test_C9_only_an_owner_says_yes_to_a_dangerous_effect(
    role: Role, effect: Effect, label: Label, answer: Answer, begun: str, session: Label
) -> None:
    asked = replace(ASKED, effect=effect, label=label)
    said = may_answer_question(
        asked, answer, Person("ann", role), begun_by=begun, session_label=session
    )
    if effect is not Effect.WRITE and answer in APPROVALS:
        assert said == (role is Role.OWNER)
    asked = replace(asked, owners=True)  # whatever its effect
    said = may_answer_question(
        asked, answer, Person("ann", role), begun_by=begun, session_label=session
    )
    assert not said or role is Role.OWNER or answer not in APPROVALS


def test_C9_who_asked_for_it_may_take_it_back_and_others_of_the_chat_may_not() -> None:
    editor = Person("ann", Role.EDITOR)
    assert may_answer_question(ASKED, Answer.DENY, editor, begun_by="ann", session_label=TRUSTED)
    assert not may_answer_question(
        ASKED, Answer.DENY, editor, begun_by="bob", session_label=TRUSTED
    )
    assert not may_answer_question(
        ASKED, Answer.DENY, editor, begun_by="ann", session_label=UNTRUSTED
    )


@given(
    answer=answers,
    uses=st.none() | st.integers(1, 9),
    days=st.none() | st.integers(0, 999),
    paths=st.sampled_from(["", "a/*"]),
)
def test_a_standing_permission_always_has_an_end(
    answer: Answer, uses: int | None, days: int | None, paths: str
) -> None:
    bounds = GrantBounds(uses, None if days is None else timedelta(days=days), paths)
    grant = grant_from_answer(ASKED, answer, bounds, name="g1", where="", by="owner", now=NOW)
    assert (grant is not None) == (answer in (Answer.SESSION, Answer.ALWAYS))
    assert grant is None or (grant.expires is not None and grant.expires <= NOW + MAX_GRANT_TERM)
    assert grant is None or bool(grant.paths) != bool(grant.args_hash)


def test_the_daemons_own_questions_are_asked_anew_each_time() -> None:
    budget = replace(ASKED, call_id="budget.1")
    assert (
        grant_from_answer(
            budget, Answer.ALWAYS, GrantBounds(), name="g1", where="", by="owner", now=NOW
        )
        is None
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", ApproveArguments()),
        ("2", ApproveArguments("2")),
        ("all session", ApproveArguments("all", Answer.SESSION)),
        ("session 5 times", ApproveArguments("", Answer.SESSION, GrantBounds(5))),
        (
            "2 always for 30 minutes",
            ApproveArguments("2", Answer.ALWAYS, GrantBounds(duration=timedelta(minutes=30))),
        ),
        (
            "always 5x, 2h paths reports/*",
            ApproveArguments("", Answer.ALWAYS, GrantBounds(5, timedelta(hours=2), "reports/*")),
        ),
        ("show 2", ApproveArguments("2", show=True)),
        ("show", ApproveArguments(show=True)),
    ],
)
def test_A15_what_is_said_behind_approve(words: str, said: ApproveArguments) -> None:
    assert parse_approve(words) == said


@pytest.mark.parametrize("words", UNCLEAR)
def test_A15_what_is_not_understood_answers_nothing(words: str) -> None:
    with pytest.raises(UsageError):
        parse_approve(words)


def test_A15_a_number_behind_deny_is_a_question_only_where_the_list_has_it() -> None:
    def read(argument: str, listed: int) -> tuple[str, str]:
        given = parse_deny(argument, listed)
        assert given.answer is Answer.DENY
        return given.which, given.reason

    assert read("3 too late", 3) == ("3", "too late")
    assert read("3 files are enough", 2) == ("", "3 files are enough")
    assert read("all", 0) == ("all", "") and read("", 2) == ("", "")


def without_warnings(text: str) -> str:
    return text.partition("\n! ")[0]


@given(text=st.text(max_size=700))
def test_A6_nothing_hides_in_what_is_shown(text: str) -> None:
    plain, head = make_visible(text, 0), make_visible(text)
    whole, warnings = without_warnings(plain), plain.partition("\n! ")[2]
    assert whole.isprintable() and "\n" not in whole
    missing = max(len(whole) - MAX_CHARS, 0)
    cut = f"{whole[:MAX_CHARS]}… and {missing:,} more characters" if missing else whole
    assert without_warnings(head) == cut and head.partition("\n! ")[2] == warnings


@given(text=st.text(max_size=200))
def test_A6_lines_of_their_own_stand_apart_and_nothing_hides_in_them(text: str) -> None:
    lines = without_warnings(make_lines_visible(text, 0)).split("\n") if text else []
    assert all(line.startswith("    ") and line.isprintable() for line in lines)


def test_A6_a_false_host_is_named_beside_what_a_machine_would_look_up() -> None:
    told = make_visible('{"url": "https://раypal.com/pay"}')
    assert "раypal.com (xn--ypal-43d9g.com)" in told
    assert "xn--" in make_visible("https://аррӏе.com")
    assert "xn--" in make_visible("see https://user@ёлка.рф/a")
    assert "!" not in make_visible("https://paypal.com and Москва")


def test_A6_a_false_host_beyond_the_cut_is_warned_of() -> None:
    told = make_visible("x" * 1000 + " https://раypal.com")
    assert "раypal" not in without_warnings(told) and "\n! " in told
    assert "more characters" in told
