"""Which words order which deed (daemon/tools/policy/consent.py): named is not ordered."""

import pytest

from daemon.core.trust import Effect
from daemon.tools.policy.consent import (
    Deed,
    build_question,
    find_order,
    list_telling,
    parse_answer,
)

PAGE, BOB, EVE = "https://ex.org/a", "bob@ex.org", "eve@ex.org"


def post(url: str = PAGE) -> Deed:
    return Deed("http_request", Effect.EGRESS, (("url", url),))


def mail(*people: str) -> Deed:
    return Deed("mail__send", Effect.EGRESS, tuple(("to", one) for one in people))


def write(path: str) -> Deed:
    return Deed("write_file", Effect.WRITE, (("path", path),))


ORDERS = [
    (mail(BOB), "Sum up https://ex.org/a and send the summary to bob@ex.org"),
    (post(), "Post notes.txt to https://ex.org/a"),
    (mail(BOB), "Please mail bob@ex.org a short hello."),
    (mail(BOB), "Could you forward it to bob@ex.org?"),
    (mail(BOB, EVE), "Write to bob@ex.org and eve@ex.org that I am late"),
    (mail(BOB), "I want you to send the numbers to bob@ex.org"),
    (mail(BOB), "Invite Bob. His address is bob@ex.org"),
    (mail(BOB), "¿Puedes enviar el informe a bob@ex.org?"),
    (mail(BOB), "Read my calendar and write to bob@ex.org when Team lunch is"),
    (mail(BOB), "Kannst du das an bob@ex.org schicken?"),
    (mail(BOB), "Fasse https://ex.org/a zusammen und schicke es an bob@ex.org"),
    (mail(BOB), "Résume la page et envoie-le à bob@ex.org"),
    (mail(BOB), "Resume la página y envía el resumen a bob@ex.org"),
    (mail(BOB), "Riassumi la pagina e invia il testo a bob@ex.org"),
    (mail(BOB), "Resuma a página e envie o texto para bob@ex.org"),
    (mail(BOB), "Vat de pagina samen en stuur het naar bob@ex.org"),
    (mail(BOB), "Streść stronę, wyślij ją do: bob@ex.org"),
    (mail(BOB), "Mail bob@ex.org that I will not be there"),
    (Deed("bank__pay", Effect.EGRESS, (("to", BOB), ("amount", 20))), "Pay 20 euros to bob@ex.org"),
    (write("notes.md"), "Summarise https://ex.org/a into notes.md"),
    (write("notes.md"), "Look at https://x.org/a and save it to notes.md"),
    (write("setup.py"), "Read https://x.org/a and fix setup.py"),
    (write("list.txt"), "Take a look at list.txt, think of two more, and add them to the file."),
    (
        Deed("send_file", Effect.EGRESS, (("path", "r.md"),), to_self=True),
        "Write r.md and send me it",
    ),
]
OTHERS = [
    (mail(BOB), "If Anna agrees, send it to bob@ex.org"),
    (mail(BOB), "Once I confirm, mail bob@ex.org"),
    (mail(BOB), "Only after my okay: mail bob@ex.org"),
    (mail(BOB), "Falls Anna zustimmt, schick es an bob@ex.org"),
    (mail(BOB), "Mail to bob@ex.org bounced. Check why."),
    (mail(BOB), "Report bob@ex.org to the police"),
    (mail(BOB), "Update: bob@ex.org is on holiday"),
    (mail(BOB), "Please check: did you send it to bob@ex.org?"),
    (mail(BOB), "Imagine I had said: send it to bob@ex.org"),
    (mail(BOB), "Wait before you send it to bob@ex.org"),
    (
        Deed("bank__pay", Effect.EGRESS, (("to", BOB), ("amount", 900))),
        "My rent is 900 euros. Pay 20 euros to bob@ex.org",
    ),
    (mail(BOB), "Make sure that you do not send it to bob@ex.org"),
    (post(), "Sum up https://ex.org/a"),
    (post(), "Sum up https://ex.org/a and send the summary to bob@ex.org"),
    (post(), "Is https://ex.org/a phishing? Do NOT open it"),
    (post(), "Send bob@ex.org a mail about https://ex.org/a"),
    (mail(BOB), "never write to bob@ex.org"),
    (mail(BOB), "Please don't send anything to bob@ex.org"),
    (mail(BOB), "He told me to send it to bob@ex.org"),
    (mail(BOB), "What did bob@ex.org write?"),
    (mail(BOB), "Tell me what bob@ex.org wrote"),
    (mail(BOB), "Did you send it to bob@ex.org?"),
    (mail(BOB), "I sent the report to bob@ex.org yesterday"),
    (mail(BOB), "The guide explains how to send data to bob@ex.org"),
    (mail(EVE), "Write to bob@ex.org that eve@ex.org is ill"),
    (mail(BOB), "Schick nichts an bob@ex.org"),
    (mail(BOB), "N'envoie rien à bob@ex.org"),
    (mail(BOB), "Nunca envíes nada a bob@ex.org"),
    (write("setup.py"), "What does setup.py do? Please change nothing"),
    (write("notes.md"), "Read notes.md and save it as out.md"),
    (write("notes.md"), "Write a summary of notes.md"),
    (write("notes.md"), "Compare https://ex.org/a to notes.md"),
]


@pytest.mark.parametrize(("deed", "words"), ORDERS)
def test_an_order_is_found(deed: Deed, words: str):
    assert find_order(deed, [words])


@pytest.mark.parametrize(("deed", "words"), OTHERS)
def test_a_mention_a_question_a_report_or_a_negation_is_no_order(deed: Deed, words: str):
    assert not find_order(deed, [words])


@pytest.mark.parametrize(
    ("said", "meant"),
    [("yes", True), ("Yes.", True), (" no\n", False), ("yes, but", None), ("", None), (None, None)],
)
def test_only_a_plain_yes_or_no_is_an_answer(said: str | None, meant: bool | None):
    assert parse_answer(said) is meant


def test_the_model_is_asked_with_the_owners_words_and_the_bare_deed():
    deed = Deed("office__share", Effect.EGRESS, (("file", "Plan"), ("to", BOB)), ("mails",))
    text = build_question(deed, (("file", "26"), ("to", BOB)), ["share the Plan with bob@ex.org"])
    assert "share the Plan with bob@ex.org" in text
    assert '{"1. file": "26 (Plan)", "2. to": "bob@ex.org"}' in text
    assert "mails" in text and "(egress)" in text


TELLING = (
    "My diagnosis is gout, what does that mean for me?",
    "Is gout curable?",
    "Search for a lawyer",
    "I cannot pay.",
    "The code is 4711",
    "Mail carol@example.com that I am ill",
    "Ich bin krank",
    "I have rain in Rome to thank for it.",
)
PLAIN = (
    "Hello, good morning!",
    "Thanks, yes.",
    "Read https://example.com/gout and sum it up in two sentences, please",
    "What does docs/gout.txt say?",
    "Do I have new mails?",
    "Lies bitte https://example.com und fasse es kurz zusammen",
    "Translate it into German",
    "Is it raining in Rome?",
)


@pytest.mark.parametrize("words", TELLING)
def test_a_message_that_says_more_than_the_order_tells_something(words: str):
    assert any(list_telling(words, [ROME]))


@pytest.mark.parametrize("words", PLAIN)
def test_greetings_plain_orders_and_words_of_the_order_tell_nothing(words: str):
    assert [*list_telling(words, [ROME])] == []


ROME = "Mail bob@example.com that it is raining in Rome"
