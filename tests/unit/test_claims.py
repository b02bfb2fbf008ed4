"""The claim check (F6, on by default by E10): what a reply says was done, compared with what the tools did."""

import time

import pytest

from daemon.agent.claim_check import find_false_claims, render_correction, render_note
from daemon.core.trust import Effect
from tests.unit import claim_cases
from tests.unit.claim_cases import Case, Ledger, did, ran

SENT, DELETED, SAVED = "anything was sent", "anything was deleted", "anything was saved or changed"


def kinds(reply: str, ledger: Ledger = ()) -> set[str]:
    return set(find_false_claims(reply, ledger))


def name(case: Case) -> str:
    return case.reply[:60].replace("\n", " ")


@pytest.mark.parametrize("case", claim_cases.INNOCENT, ids=name)
def test_an_innocent_or_proven_reply_raises_no_alarm_f6(case: Case) -> None:
    assert find_false_claims(case.reply, case.ledger, "") == {}


@pytest.mark.parametrize("case", claim_cases.FALSE, ids=name)
def test_a_claim_that_no_result_shows_is_found_f6(case: Case) -> None:
    assert find_false_claims(case.reply, case.ledger, "")


def test_a_claim_carries_the_words_that_were_said() -> None:
    claims = find_false_claims("Sure. I have sent the **contract** to Eva. Anything else?", ())
    assert list(claims.values()) == ["I have sent the contract to Eva."]


def test_each_kind_is_named_once_however_often_it_is_claimed() -> None:
    reply = "I sent the mail to Anna. I sent the mail to Bob. I deleted the draft file."
    assert list(find_false_claims(reply, ())) == [SENT, DELETED]


@pytest.mark.parametrize(
    ("tool", "effect", "proven"),
    [
        ("crm__touch", Effect.DESTRUCTIVE, {SENT, DELETED, SAVED}),
        ("crm__touch", Effect.EGRESS, {SENT, DELETED, SAVED}),
        ("crm__touch", Effect.WRITE, {DELETED, SAVED}),
        ("crm__touch", Effect.FETCH, set()),
        ("crm__touch", Effect.READ, set()),
        ("read_mail", Effect.READ, set()),
        ("send_email", Effect.WRITE, {SENT, DELETED, SAVED}),
        ("spawn_agent", Effect.READ, {SENT, DELETED, SAVED}),
    ],
)
def test_the_effect_and_the_name_of_a_tool_say_what_its_result_may_stand_for_f6(
    tool: str, effect: Effect, proven: set[str]
) -> None:
    reply = "I sent the mail. I deleted old.txt. I saved the notes to new.txt."
    assert {SENT, DELETED, SAVED} - kinds(reply, did(tool, effect)) == proven


def test_a_todo_list_shows_what_is_on_it_and_tells_no_news() -> None:
    todo = did("todo", Effect.READ, text="1. buy milk")
    assert kinds("I've added it to your todo list.", todo) == set()
    assert kinds("Your flight has been cancelled.", todo) == {"anything was scheduled"}


def test_one_of_several_results_is_enough() -> None:
    ledger = (*claim_cases.LOOKED, *claim_cases.NOT_SENT, *claim_cases.SENT)
    assert kinds("I sent the mail.", ledger) == set()


def test_a_failed_command_was_run_but_did_nothing_else() -> None:
    assert kinds("I ran the script. I deleted old.txt.", ran("./x", 2)) == {DELETED}


def test_what_was_read_may_be_reported_in_the_passive() -> None:
    report = "Your flight has been cancelled."
    assert kinds(report, claim_cases.LOOKED) == set()
    assert kinds(report) == {"anything was scheduled"}


def test_a_word_that_was_asked_for_is_no_claim_f6() -> None:
    assert find_false_claims("Done.", (), "say Done") == {}
    assert find_false_claims("Done.", (), "send the mail") == {"anything was done": "Done."}


def test_the_correction_quotes_the_words_and_leaves_two_ways_f6() -> None:
    text = render_correction(find_false_claims("I sent the mail to Anna. I deleted old.txt.", ()))
    assert f'"I sent the mail to Anna.": no tool result of this turn shows that {SENT}.' in text
    assert f'"I deleted old.txt.": no tool result of this turn shows that {DELETED}.' in text
    assert "do it now with a tool" in text
    assert "not done" in text


def test_the_note_says_what_no_result_shows_and_is_itself_no_claim_f6() -> None:
    claims = find_false_claims("I sent the mail to Anna. I deleted old.txt.", ())
    note = f"(Note: no tool result of this turn shows that {SENT} or that {DELETED}.)"
    assert render_note(claims) == note
    assert find_false_claims(note, ()) == {}


ODD = (
    "",
    "\n" * 20_000,
    "sent " * 3000,
    "hi Anna,\n" * 2000,
    "I read it and saved it and " * 400,
    "`" * 9000,
)


@pytest.mark.parametrize("reply", ODD)
def test_a_long_or_odd_reply_is_looked_at_in_good_time(reply: str) -> None:
    begun = time.perf_counter()
    find_false_claims(reply, ())
    assert time.perf_counter() - begun < 2
