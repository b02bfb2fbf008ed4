"""The claim check (F6, on by default by E10): what a reply says was done, held against what the tools did.

At first sight, before anything was changed for them, the unseen tables gave:
UNSEEN 18 of 20 false claims found, 1 false alarm among 22 innocent replies; UNSEEN_AGAIN 20 of 22 found, 1 false alarm among 24;
UNSEEN_LAST 18 of 20 found, 1 false alarm among 22.
"""

import time

import pytest

from daemon.agent.claim_check import find_false_claims, render_correction, render_note
from daemon.agent.claims.own_words import own_words
from daemon.agent.claims.words import Kind
from daemon.core.trust import Effect
from tests.unit import claim_cases
from tests.unit.claim_cases import Case, Ledger, did, ran

UNSEEN = (*claim_cases.UNSEEN, *claim_cases.UNSEEN_AGAIN, *claim_cases.UNSEEN_LAST)
TABLES = (*claim_cases.FALSE, *claim_cases.TRUE, *claim_cases.INNOCENT, *claim_cases.NEWS, *UNSEEN)
INNOCENT = [case for case in TABLES if not case.false]
GUILTY = [case for case in TABLES if case.false]


def kinds(reply: str, ledger: Ledger = ()) -> set[Kind]:
    return {claim.kind for claim in find_false_claims(reply, ledger)}


def name(case: Case) -> str:
    return case.reply[:60].replace("\n", " ")


@pytest.mark.parametrize("case", INNOCENT, ids=name)
def test_an_innocent_or_proven_reply_raises_no_alarm_f6(case: Case) -> None:
    assert find_false_claims(case.reply, case.ledger) == ()


@pytest.mark.parametrize("case", GUILTY, ids=name)
def test_a_claim_that_no_result_bears_out_is_found_f6(case: Case) -> None:
    assert kinds(case.reply, case.ledger) == set(case.false)


def test_the_tables_are_large_and_half_innocent() -> None:
    assert len(GUILTY) >= 90
    assert len(INNOCENT) >= 90


def test_a_claim_carries_the_words_that_were_said() -> None:
    claims = find_false_claims("Sure. I have sent the **contract** to Eva. Anything else?", ())
    assert [claim.words for claim in claims] == ["I have sent the contract to Eva."]


def test_each_kind_is_named_once_however_often_it_is_claimed() -> None:
    claims = find_false_claims(
        "I sent the mail to Anna. I sent the mail to Bob. I deleted the draft file.", ()
    )
    assert [claim.kind for claim in claims] == [Kind.SENT, Kind.DELETED]


@pytest.mark.parametrize(
    ("tool", "effect", "proven"),
    [
        ("crm__touch", Effect.DESTRUCTIVE, {Kind.SENT, Kind.DELETED, Kind.SAVED}),
        ("crm__touch", Effect.EGRESS, {Kind.SENT, Kind.DELETED, Kind.SAVED}),
        ("crm__touch", Effect.WRITE, {Kind.DELETED, Kind.SAVED}),
        ("crm__touch", Effect.FETCH, set()),
        ("crm__touch", Effect.READ, set()),
        ("send_email", Effect.READ, {Kind.SENT}),
        ("read_mail", Effect.READ, set()),
        ("search_sent_mail", Effect.READ, set()),
        ("send_email", Effect.EGRESS, {Kind.SENT}),
        ("write_file", Effect.WRITE, {Kind.SAVED}),
        ("disk__delete_file", Effect.DESTRUCTIVE, {Kind.DELETED}),
        ("email", Effect.EGRESS, {Kind.SENT, Kind.DELETED, Kind.SAVED}),
    ],
)
def test_the_effect_and_the_name_of_a_tool_say_what_its_result_may_stand_for_f6(
    tool: str, effect: Effect, proven: set[Kind]
) -> None:
    reply = "I sent the mail. I deleted old.txt. I saved the notes to new.txt."
    assert {Kind.SENT, Kind.DELETED, Kind.SAVED} - kinds(reply, did(tool, effect)) == proven


def test_a_todo_list_that_was_written_shows_what_is_on_it_and_tells_no_news() -> None:
    todo = did("todo", Effect.READ, text="1. buy milk")
    assert kinds("I've added it to your todo list.", todo) == set()
    assert kinds("Your flight has been cancelled.", todo) == {Kind.CANCELLED}


def test_one_of_several_results_is_enough() -> None:
    ledger = (*claim_cases.LOOKED, *claim_cases.NOT_SENT, *claim_cases.SENT)
    assert kinds("I sent the mail.", ledger) == set()


@pytest.mark.parametrize("command", ["ls -la", "cat notes.txt", "git status", "grep -n x a.py"])
def test_a_command_that_only_looks_proves_no_deed_but_that_it_was_run(command: str) -> None:
    assert kinds("I ran the command and deleted old.txt.", ran(command)) == {Kind.DELETED}


@pytest.mark.parametrize(
    "command", ["ls > list.txt", "cat a | mail bob", "grep x a && rm a", "echo $(rm a)", "./do-it"]
)
def test_a_command_that_may_have_done_it_has_done_it(command: str) -> None:
    assert kinds("I deleted old.txt and sent the mail.", ran(command)) == set()


def test_a_failed_command_was_run_but_did_nothing_else() -> None:
    assert kinds("I ran the tests and all tests pass.", ran("pytest", 1)) == {Kind.PASSED}
    assert kinds("I ran the script.", ran("./x", 2)) == set()


def test_a_shell_call_with_unreadable_arguments_counts_as_one_that_does_things() -> None:
    for arguments in ("{not json", "[1]", "", '{"argv": ["rm", "a"]}'):
        assert (
            kinds(
                "I deleted old.txt.",
                did("shell", Effect.DESTRUCTIVE, exit_code=0, arguments=arguments),
            )
            == set()
        )
    looked = did("shell", Effect.DESTRUCTIVE, exit_code=0, arguments='{"argv": ["ls", "a"]}')
    assert kinds("I deleted old.txt.", looked) == {Kind.DELETED}


def test_tests_that_were_read_of_in_a_log_may_be_said_to_pass() -> None:
    assert (
        kinds("All tests pass.", did("read_file", Effect.READ, text="== 12 passed in 2 s =="))
        == set()
    )
    assert kinds("All tests pass.", did("read_file", Effect.READ, text="def test_x(): ...")) == {
        Kind.PASSED
    }


def test_what_was_read_may_be_reported_in_the_passive() -> None:
    report = "Your flight has been cancelled."
    assert kinds(report, claim_cases.LOOKED) == set()
    assert kinds(f"Done! {report}", claim_cases.LOOKED) == {Kind.CANCELLED}
    assert kinds(report) == {Kind.CANCELLED}


def test_own_words_leave_out_code_citations_letters_and_samples() -> None:
    reply = 'Mine.\n```\ncode\n```\n> cited\nHere is a draft:\n\nsample\n\n---\nMine again, with `code` and "words".'
    text = own_words(reply)
    assert "Mine." in text
    assert "Mine again, with  item  and  item ." in text
    assert not {"code", "cited", "sample", "words"} & set(text.replace(".", " ").split())


def test_what_stands_after_a_sample_is_the_assistants_own_again() -> None:
    assert kinds("Here is the draft:\n\nI sent the parcel.\n\n---\nI sent the mail to Anna.") == {
        Kind.SENT
    }


def test_the_correction_quotes_the_words_and_leaves_two_ways_f6() -> None:
    text = render_correction(find_false_claims("I sent the mail to Anna. I deleted old.txt.", ()))
    assert (
        '"I sent the mail to Anna.": no tool result of this turn shows that anything was sent.'
        in text
    )
    assert (
        '"I deleted old.txt.": no tool result of this turn shows that anything was deleted.' in text
    )
    assert "do it now with a tool" in text
    assert "not done" in text


def test_the_honest_line_says_what_no_result_shows_f6() -> None:
    claims = find_false_claims("I sent the mail to Anna. I deleted old.txt.", ())
    assert (
        render_note(claims[:1])
        == "(Note: no tool result of this turn shows that anything was sent.)"
    )
    assert (
        render_note(claims)
        == "(Note: no tool result of this turn shows that anything was sent or that anything was deleted.)"
    )


def test_neither_the_correction_nor_an_honest_line_is_itself_a_claim() -> None:
    for reply in (
        "I sent the mail to Anna.",
        "All tests pass.",
        "I've noted that you like tea.",
        "I booked it.",
    ):
        claims = find_false_claims(reply, ())
        assert claims
        assert find_false_claims(render_note(claims), ()) == ()


ODD = (
    "",
    " ",
    "\n" * 20_000,
    "sent " * 3000,
    "hi Anna,\n" * 2000,
    "I read it and saved it and " * 400,
    "`" * 9000,
)


@pytest.mark.parametrize("reply", ODD)
def test_a_long_or_odd_reply_is_looked_at_in_good_time(reply: str) -> None:
    find_false_claims("I sent it.", ())
    begun = time.perf_counter()
    find_false_claims(reply, ())
    assert time.perf_counter() - begun < 2
