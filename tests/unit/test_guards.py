"""A sentence becomes a typed rule, or is refused; a rule only ever makes the gate stricter (F5)."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from daemon.commands.rule_text import ParsedRule, describe_rule, parse_model_rule, parse_rule
from daemon.core.messages import ToolSpec
from daemon.core.rows import RuleRow
from daemon.core.trust import Decision, Effect
from daemon.tools.base import Tool, ToolContext, ToolMeta, ToolOutput
from daemon.tools.policy.facts import PolicyInput, Provenance, Taint
from daemon.tools.policy.judges import judge
from daemon.tools.policy.rules import STRICTNESS, RuleMatcher, RuleSet
from daemon.tools.registry import ToolRegistry
from daemon.tools.stemming import list_stems, stem
from tests.unit.guard_cases import CALLS, FREE_TEXT, REFUSED, UNDERSTOOD, Call

WORDS = some.sampled_from(
    [
        "mail",
        "file",
        "money",
        "delete",
        "x@example.com",
        "reports/a",
        "13",
        "event",
        "command",
        "ls",
    ]
)
VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(max_size=20)
    | WORDS,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(WORDS | some.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = some.dictionaries(WORDS | some.text(max_size=8), VALUES, max_size=4)
NAMES = some.lists(WORDS, min_size=1, max_size=3).map("_".join)
DEEDS = some.tuples(
    NAMES,
    some.sampled_from(Effect).map(str),
    some.lists(WORDS, max_size=4).map(" ".join),
    ARGUMENTS,
)
SENTENCES = some.sampled_from([sentence for sentence, *_ in UNDERSTOOD])
GUARDS = SENTENCES.map(lambda sentence: understood(sentence).guard)
CASES = some.builds(
    PolicyInput,
    effect=some.sampled_from(Effect),
    taint=some.sampled_from(Taint),
    has_grant=some.booleans(),
    safe=some.booleans(),
    is_protected=some.booleans(),
    approvals=some.sampled_from(["risk", "always", "each", "never"]),
    askable=some.booleans(),
)


def understood(sentence: str) -> ParsedRule:
    read = parse_rule(sentence)
    assert isinstance(read, ParsedRule), f"{sentence}: {read}"
    return read


async def run(arguments: object, context: ToolContext) -> ToolOutput:
    raise NotImplementedError


def tool(call: Call) -> Tool:
    name, effect, description, _ = call
    return Tool(ToolSpec(name, description, {}), ToolMeta(Effect(effect)), run)


@pytest.mark.parametrize("case", UNDERSTOOD, ids=lambda case: case[0])
def test_F5_a_sentence_is_read_as_this_rule(
    case: tuple[str, str, tuple[str, ...], str, tuple[str, object] | None],
):
    sentence, action, effects, about, more = case
    guard = understood(sentence).guard
    assert (guard.action.value, set(map(Effect, effects)) <= guard.effects) == (action, True)
    assert about in guard.about if about else guard.about == ()
    assert more is None or getattr(guard, more[0]) == more[1]


@pytest.mark.parametrize(("sentence", "why"), REFUSED)
def test_F5_what_is_no_rule_is_refused_with_the_reason_and_the_forms_there_are(
    sentence: str, why: str
):
    read = parse_rule(sentence)
    assert isinstance(read, str)
    assert why in read and "never delete mail" in read


@pytest.mark.parametrize(("sentence", "call", "wanted"), CALLS)
def test_F5_what_becomes_of_a_call(sentence: str, call: Call, wanted: str | None):
    said = understood(sentence).guard.decide(tool(call), call[3])
    assert (said.value if said else None) == wanted


def test_F5_the_tables_are_long_enough():
    assert len(UNDERSTOOD) >= 36 and len(CALLS) >= 40


def test_F5_a_rule_may_hold_for_one_chat():
    assert (
        understood("never delete mail in this chat").here
        and understood("never delete mail here without asking").here
    )
    assert not understood("never delete mail").here and not understood("ask about=mail").here


@pytest.mark.parametrize("sentence", FREE_TEXT)
def test_F5_free_text_needs_a_model(sentence: str):
    read = parse_rule(sentence)
    assert isinstance(read, str) and "never delete mail" in read


def test_F5_a_rule_that_a_model_read_is_the_typed_rule():
    read = parse_model_rule(
        'Here: {"action": "ask", "effects": ["egress"], "verbs": ["deploy"], "about": ["slack"],'
        ' "above": null, "here": true}'
    )
    wanted = RuleMatcher(
        action=Decision.ASK, effects=frozenset({Effect.EGRESS}), verbs=("deploy",), about=("slack",)
    )
    assert read == ParsedRule(wanted, here=True)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot.",
        "[]",
        '{"action": "allow", "verbs": ["send"]}',
        '{"action": "ask"}',
        '{"action": "deny", "verbs": ["send"], "until": "noon"}',
        '{"problem": "it has an exception"}',
    ],
)
def test_F5_a_reply_that_is_no_rule_makes_none(reply: str):
    assert isinstance(parse_model_rule(reply), str)


def test_F5_a_rule_is_told_in_words_before_it_is_confirmed():
    assert describe_rule(understood("ask effect=egress about=money amount=50").guard).startswith(
        "ask before every call that"
    )
    assert "at or under reports/" in describe_rule(understood("never write to reports/").guard)


@given(SENTENCES)
def test_F5_a_rule_is_the_same_after_it_was_kept(sentence: str):
    guard = understood(sentence).guard
    assert (
        RuleMatcher.model_validate(
            json.loads(json.dumps(guard.model_dump(mode="json", exclude_defaults=True)))
        )
        == guard
    )


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"action": "allow me"},
        {"action": "ask", "until": "noon"},
        {"action": "ask", "about": "mail"},
    ],
)
def test_F5_what_is_no_rule_of_this_version_is_not_taken_for_one(kept: dict[str, object]):
    with pytest.raises(ValueError):
        RuleMatcher.model_validate(kept)


@given(some.text(max_size=80))
def test_F5_no_text_breaks_the_reader(text: str):
    assert isinstance(parse_rule(text), ParsedRule | str)


@given(GUARDS, DEEDS)
def test_F5_a_rule_says_ask_or_deny_or_nothing(guard: RuleMatcher, one: Call):
    assert guard.decide(tool(one), one[3]) in (None, Decision.ASK, Decision.DENY)


@given(some.lists(GUARDS, max_size=4), GUARDS, DEEDS, CASES)
def test_F5_adding_a_rule_never_allows_more(
    guards: list[RuleMatcher], another: RuleMatcher, one: Call, case: PolicyInput
):
    def decided(rules: list[RuleMatcher]) -> int:
        held = RuleSet(ToolRegistry([]))
        for at, rule in enumerate(rules):
            held.put(RuleRow(at, "said", rule.model_dump_json(), "", "", confirmed=True))
        ruling = held.ruling("", "", tool(one), one[3])
        whole = replace(case, provenance=Provenance("x", "y"), ruling=ruling)
        return STRICTNESS.index(judge(whole)[0])

    assert decided([*guards, another]) >= decided(guards)


@pytest.mark.parametrize(
    ("name", "word"),
    [("deleteEmails", "mail"), ("delete_e_mail", "mail"), ("GMail", "mail"), ("mails", "mail"), ("sendmail", "mail"),
     ("copies", "copy"), ("HTTPServer", "server"), ("deleting", "delete"), ("meetings", "meeting"), ("sent", "send")],
)  # fmt: skip
def test_words_are_found_in_names_of_every_style(name: str, word: str):
    assert stem(word) in list_stems(name)


@pytest.mark.parametrize(
    ("name", "word"), [("profile", "file"), ("mailbox", "box"), ("red", "r"), ("status", "statu")]
)
def test_only_whole_words_count(name: str, word: str):
    assert stem(word) not in list_stems(name) or stem(word) == stem(name)


def test_F5_an_address_that_a_model_read_is_looked_for_by_its_host():
    read = parse_model_rule(
        '{"action": "deny", "effects": ["fetch"], "values": ["https://www.example.com/login"]}'
    )
    fetch = Tool(ToolSpec("web_fetch", "", {}), ToolMeta(effect=Effect.FETCH), run)
    assert isinstance(read, ParsedRule)
    assert read.guard.decide(fetch, {"url": "http://example.com/"}) is Decision.DENY
