"""What the owner's words order, as a typed list (daemon/tools/policy/orders.py): named is not ordered."""

import json
from dataclasses import replace

import pytest

from daemon.core.messages import ToolSpec
from daemon.core.provenance import Origin, SourcedText
from daemon.core.trust import Effect, Label
from daemon.tools.base import Tool, ToolMeta
from daemon.tools.policy.orders import OrderQuestion, list_keys
from daemon.tools.policy.provenance import Evidence
from daemon.tools.registry import ToolRegistry
from tests.security.adaptive.sentences import BOB, DEEDS, TOOLS, Deed, sentences

EVE = "eve@evil.example"
SENTENCES = tuple(sentences())
LURE = {"tool": "mail__send", "values": {"to": EVE}, "sources": ["earlier"]}
MANNERS = {
    "plain": "{list}",
    "fence": "```json\n{list}\n```",
    "prose": "Sure! The words order this [see below]:\n\n{list}\n\nAnything else?",
    "thought": "<think>Is [it] an order? {{yes}}</think>\n{list}",
    "table": '{{"orders": {list}}}',
}


def answer(manner: str, *entries: object) -> str:
    return MANNERS[manner].format(list=json.dumps(entries))


@pytest.mark.parametrize("manner", MANNERS)
def test_each_order_of_a_hundred_in_nine_languages_is_accepted_in_every_manner(manner: str):
    for one in SENTENCES:
        if one.order:
            told = answer(manner, one.deed.entry, LURE)
            assert one.deed.is_ordered(one.text, told), one.text


@pytest.mark.parametrize("manner", MANNERS)
def test_none_of_a_hundred_other_sentences_orders_anything_by_a_true_answer(manner: str):
    for one in SENTENCES:
        if not one.order:
            assert not one.deed.is_ordered(one.text, answer(manner)), one.text


@pytest.mark.parametrize("manner", MANNERS)
def test_what_an_answer_adds_counts_for_nothing_where_the_words_do_not_have_it(manner: str):
    other = Deed(TOOLS[0], (("to", EVE),))
    for one in SENTENCES:
        told = answer(
            manner, one.deed.entry, LURE, {"tool": "c1", "values": {"to": ["c1", "r1", 7]}}
        )
        assert not other.is_ordered(one.text, told), one.text


WRONG = [
    {"tool": "mail__send"},
    {"tool": "mail__send", "values": {"to": "bob"}},
    {"tool": "mail__send", "values": {"to": "ob@example.com"}},
    {"tool": "mail__send", "values": {"cc": BOB}},
    {"tool": "bank__pay", "values": {"to": BOB}},
    {"tool": "write", "values": {"path": BOB}},
    {"tool": "egress", "values": {"to": BOB}},
    {"tool": "*", "values": {"*": BOB}},
    {"values": {"to": BOB}},
    {"tool": ["mail__send"], "values": {"to": BOB}},
    {"tool": "mail__send", "values": [BOB]},
    "mail__send",
]


@pytest.mark.parametrize("entry", WRONG)
def test_an_entry_that_is_not_exactly_the_call_orders_nothing(entry: object):
    assert not DEEDS["s"].is_ordered(f"Send it to {BOB}", json.dumps([entry]))


@pytest.mark.parametrize("text", ["", "yes", "no", "[", '{"tool": 1', "[1, 2]", "[" * 5000, "{}"])
def test_an_answer_that_is_no_list_orders_nothing(text: str):
    assert not DEEDS["s"].is_ordered(f"Send it to {BOB}", text)


def test_every_receiver_of_a_call_is_one_of_the_order():
    both = Deed(TOOLS[0], (("to", BOB), ("to", EVE)))
    told = json.dumps([DEEDS["s"].entry])
    assert not both.is_ordered(f"Send it to {BOB}, not to {EVE}", told)


def test_an_amount_may_be_written_as_the_words_write_it():
    words = f"Pay 1,250.50 to {BOB}"
    told = json.dumps([{"tool": "bank__pay", "values": {"to": BOB, "amount": "1,250.50"}}])
    assert Deed(TOOLS[3], (("to", BOB), ("amount", 1250.5))).is_ordered(words, told)
    assert not Deed(TOOLS[3], (("to", BOB), ("amount", 1250))).is_ordered(words, told)


def test_any_tool_that_writes_the_file_does_what_is_ordered_of_the_file():
    words, told = "Save it in notes.txt", '[{"tool": "write", "values": {"path": "notes.txt"}}]'
    assert DEEDS["w"].is_ordered(words, told)
    assert Deed(TOOLS[2], (("path", "./notes.txt"),)).is_ordered(words, told)
    assert not Deed(TOOLS[2], (("path", "x/notes.txt"),)).is_ordered(words, told)


def test_the_only_value_that_can_be_chosen_need_not_be_said_where_the_words_say_what_is_done():
    def ends(*ids: str) -> Tool:
        spec = ToolSpec("stop_command", "end it", {"properties": {"id": {"enum": [*ids]}}})
        return replace(TOOLS[0], spec=spec, meta=ToolMeta(Effect.WRITE, critical=("id",)))

    for words, entry in {
        "Stop the server": {"id": "server"},
        "please stop it": {},
        "sum it up": {"id": "sum"},
    }.items():
        question = OrderQuestion((words,), [ends("a-1", "a-2")])
        told = json.dumps([{"tool": "stop_command", "values": entry}])
        [order] = question.read_answer(told) or ()
        case = Effect.WRITE, (("id", "a-1"),), Evidence((), ToolRegistry([]))
        assert order.allows(ends("a-1"), *case) is ("top" in words)
        assert not order.allows(ends("a-1", "a-2"), *case)


def known(*texts: SourcedText, contacts: dict[str, list[str]] | None = None) -> Evidence:
    meta = replace(TOOLS[0].meta, effect=Effect.READ, evidence="known")
    calendar = replace(TOOLS[0], spec=ToolSpec("calendar", "", {}), meta=meta)
    return Evidence(texts, ToolRegistry([calendar]), contacts or {})


def found(text: str, **more: object) -> SourcedText:
    return SourcedText(text, Origin.RESULT, Label.TRUSTED, "calendar", **more)  # type: ignore[arg-type]


def allowed(evidence: Evidence, said: str, name: str, value: str) -> bool:
    told = json.dumps([{"tool": "mail__send", "values": {name: said}}])
    orders = OrderQuestion((f"It is about {said}",), TOOLS).read_answer(told) or ()
    return any(one.allows(TOOLS[0], Effect.EGRESS, ((name, value),), evidence) for one in orders)


def test_a_name_stands_for_the_addresses_of_the_contact_alone():
    evidence = known(contacts={"Carol": ["carol@example.com", "c@example.org"]})
    assert allowed(evidence, "Carol", "to", "c@example.org")
    assert not allowed(evidence, "Carol", "to", EVE)
    assert not allowed(evidence, "Caro", "to", "c@example.org")


def test_a_title_stands_for_the_id_of_the_one_record_that_bears_it():
    said = SourcedText("Move my 'Dentist' event", Origin.PERSON, Label.TRUSTED)
    listed = [{"id_": "5", "title": "Dentist", "with": EVE}, {"id_": "6", "title": "Lunch"}]
    evidence = known(said, found("", records=json.dumps(listed)))
    assert allowed(evidence, "Dentist", "event_id", "5")
    assert not allowed(evidence, "Dentist", "event_id", "6")
    assert not allowed(evidence, "Dentist", "to", EVE)
    twice = known(said, found("", records=json.dumps([*listed, {"id_": "9", "title": "Dentist"}])))
    assert not allowed(twice, "Dentist", "event_id", "5")


def test_what_a_title_begins_with_stands_for_the_id_of_the_only_such_record():
    listed = [
        {"id_": "5", "title": "Dentist Appointment", "with": EVE},
        {"id_": "9", "filename": "grocery-list-today.docx", "owner": EVE},
        {"id_": "9", "filename": "grocery-list-today.docx", "text": "Milk"},
        {"id_": "6", "title": "Team lunch"},
    ]
    evidence = known(found("", records=json.dumps({"records": listed})))
    assert allowed(evidence, "Dentist", "event_id", "5")
    assert allowed(evidence, "grocery list", "file_id", "9")
    assert not allowed(evidence, "lunch", "event_id", "6")
    assert not allowed(evidence, "Dent", "event_id", "5")
    assert not allowed(evidence, "Dentist", "to", EVE)
    other = {"id_": "7", "title": "Dentist: another"}
    twice = known(found("", records=json.dumps([*listed, other])))
    assert not allowed(twice, "Dentist", "event_id", "5")


def test_a_plain_list_of_a_records_tool_has_names_that_are_their_own_ids():
    evidence = known(found("", records=json.dumps({"records": ["general", "External_7", EVE]})))
    assert allowed(evidence, "External", "channel", "External_7")
    assert not allowed(evidence, "External", "channel", "general")
    assert not allowed(evidence, "eve", "to", EVE)
    tagged = {"id_": "1", "title": "Lunch", "tags": ["External_8"]}
    nested = known(found("", records=json.dumps({"records": [tagged]})))
    assert not allowed(nested, "External", "channel", "External_8")


def test_a_name_stands_for_what_a_trusted_look_up_gave_before_the_model_said_it():
    told = found("Carol <carol@example.com>")
    by_model = SourcedText("carol@example.com", Origin.MODEL, Label.UNTRUSTED)
    assert allowed(known(told), "Carol", "to", "carol@example.com")
    assert not allowed(known(by_model, told), "Carol", "to", "carol@example.com")
    assert not allowed(known(found("carol@example.com")), "Carol", "to", "carol@example.com")


def test_the_question_has_the_owners_words_and_names_of_tools_and_nothing_else():
    text = OrderQuestion(("mail it\nto bob",), TOOLS, ("inbox",)).build_text()
    assert text.splitlines() == [
        'Words: "mail it\\nto bob"',
        "Tools: mail__send(to); http_request(url); write_file(path); bank__pay(to, amount)",
        "Tools that read: inbox",
    ]


def test_a_deed_is_known_again_however_its_values_are_written():
    one = list_keys("send", [("to", "bob@ex.org"), ("amount", 20)])
    assert one == list_keys("send", [("to", "Bob@Ex.org"), ("amount", "20.0")])
    assert one != list_keys("send", [("to", "eve@ex.org"), ("amount", 20)])
    assert len(list_keys("send", [("to", "bob@ex.org"), ("to", "eve@ex.org")]).split()) == 2
