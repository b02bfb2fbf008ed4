"""How much a message is worth remembering (A1)."""

from collections.abc import Callable

import pytest

from daemon.core.messages import MessageRole, score_importance

SAID = {
    0.3: (
        "remember",
        "don't forget",
        "dont forget",
        "keep in mind",
        "note that",
        "important",
        "always",
        "never",
    ),
    0.2: (
        "decide",
        "decided",
        "we'll go with",
        "let's go with",
        "agreed",
        "chose",
        "actually",
        "no, not that",
        "instead",
    ),
}
PAIRS = [(weight, words) for weight, said in SAID.items() for words in said]


@pytest.mark.parametrize(("weight", "words"), PAIRS)
@pytest.mark.parametrize(
    "written", [str.lower, str.upper, str.title], ids=["lower", "upper", "title"]
)
def test_a1_each_cue_is_heard_however_it_is_written(
    weight: float, words: str, written: Callable[[str], str]
) -> None:
    assert score_importance(
        MessageRole.USER, written(f"the tea, {words} milk first")
    ) == pytest.approx(0.5 + weight)


def test_a1_a_stem_inside_another_word_is_no_cue() -> None:
    assert (
        score_importance(MessageRole.USER, "the decimal nevertheless unforgettable wrongly") == 0.5
    )


def test_a1_thanks_alone_are_worth_little_and_a_tools_words_less_than_a_persons() -> None:
    assert score_importance(MessageRole.USER, "Thanks!") == 0.2
    assert score_importance(MessageRole.TOOL, "a plain result") == 0.3
    assert score_importance(MessageRole.USER, "remember: always choose tea instead") == 1.0


def test_a1_long_texts_and_code_are_worth_a_little_more() -> None:
    assert score_importance(MessageRole.USER, "a" * 501) == 0.6
    assert score_importance(MessageRole.ASSISTANT, "```\nx = 1\n```") == 0.6


def test_a1_no_cue_crosses_the_end_of_a_sentence() -> None:
    plain = score_importance(MessageRole.USER, "a blue door")
    assert score_importance(MessageRole.USER, "I took a note. That is a blue door") == plain
    assert score_importance(MessageRole.USER, "Note that it is a blue door") > plain
