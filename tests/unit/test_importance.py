"""How much a message is worth remembering (A1)."""

from collections.abc import Callable

import pytest

from daemon.core.importance import CORRECTION, DECISION, REMEMBER, Cue, importance
from daemon.core.messages import Role

SAID = {
    REMEMBER: ("remember", "don't forget", "dont forget", "keep in mind", "note that", "important", "always", "never"),
    DECISION: ("decide", "decided", "decision", "we'll go with", "we will go with", "let's go with", "agreed", "chose", "choose"),
    CORRECTION: ("actually", "no, not that", "wrong", "incorrect", "correction", "i meant", "instead"),
}
PAIRS = [(cue, words) for cue, said in SAID.items() for words in said]


@pytest.mark.parametrize(("cue", "words"), PAIRS, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("written", [str.lower, str.upper, str.title], ids=["lower", "upper", "title"])
def test_a1_each_cue_is_heard_however_it_is_written(cue: Cue, words: str, written: Callable[[str], str]) -> None:
    text = written(f"the tea, {words} milk first")
    assert cue.score(text, text.casefold()) == cue.weight
    assert importance(Role.USER, text) >= 0.5 + cue.weight - 1e-9


def test_a1_a_stem_inside_another_word_is_no_cue() -> None:
    assert importance(Role.USER, "the decimal nevertheless unforgettable wrongly") == 0.5


def test_a1_thanks_alone_are_worth_little_and_a_tools_words_less_than_a_persons() -> None:
    assert importance(Role.USER, "Thanks!") == 0.2
    assert importance(Role.TOOL, "a plain result") == 0.3
    assert importance(Role.USER, "remember: always choose tea instead") == 1.0
