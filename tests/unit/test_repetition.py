"""The same words again and again are noticed; refrains, lists, tables and code are not (A11)."""

from collections.abc import Sequence

import pytest

from daemon.agent.termination.loop_detection import (
    check_loops,
    find_repeated_passage,
    find_repeated_reply,
)
from daemon.core.events import Stop
from tests.fakes.turns import Deed, Story, did, failed, under

NEXT = "Let me check the next file."
Spoken = Sequence[tuple[str, Sequence[Deed]]]
HEALTHY: dict[str, Spoken] = {
    "nothing said": [("", [did("read", n, f"text {n}")]) for n in range(5)],
    "nothing said, nothing done": [("", [])] * 5,
    "a short phrase beside different calls": [(NEXT, [did("read", n, f"text {n}")]) for n in range(8)],
    "a short phrase beside new results": [(NEXT, [did("poll", "job", f"{n} %")]) for n in range(8)],
    "a short phrase beside different failures": [(NEXT, [failed("read", n)]) for n in range(4)],
    "twice the same": [("I am done.", []), ("I am done.", [])],
    "different words": [("I am done.", []), ("It is done.", []), ("All is done.", [])],
    "not running": [
        ("Done.", []),
        ("Done.", []),
        ("Wait, one more.", []),
        ("Done.", []),
        ("Done.", []),
    ],
}
REPEATED: dict[str, Spoken] = {
    "no calls": [("I am done.", [])] * 3,
    "other case, spaces, numbers": [
        ("Step 1 is  done.", []),
        ("step 2 is done.", []),
        ("STEP 13\nis done.", []),
    ],
    "a call at first, then only words": [(NEXT, [did("read", "a")]), (NEXT, []), (NEXT, [])],
    "after other words": [("Hello.", []), *[("Done.", [])] * 3],
}


def told(spoken: Spoken) -> Story:
    story = Story()
    for text, deeds in spoken:
        story.does(*deeds, text=text)
    return story


@pytest.mark.parametrize("spoken", HEALTHY.values(), ids=HEALTHY.keys())
def test_a11_replies_that_go_with_new_work_are_no_repetition(spoken: Spoken) -> None:
    assert under(check_loops, on_stall="stop")(told(spoken).turn) is None


@pytest.mark.parametrize("spoken", REPEATED.values(), ids=REPEATED.keys())
def test_a11_the_same_reply_three_times_running_with_nothing_new_is_a_repetition(
    spoken: Spoken,
) -> None:
    assert find_repeated_reply(told(spoken[:-1]).turn) == ""
    halt = under(check_loops, on_stall="stop")(told(spoken).turn)
    assert halt and (halt.reason, halt.coach) == (Stop.REPEATING, "")


def test_a11_the_same_reply_with_the_same_call_and_outcome_is_first_of_all_a_circle() -> None:
    turn = told([(NEXT, [did("read", "a")])] * 3).turn
    assert find_repeated_reply(turn) and not find_repeated_reply(told([(NEXT, [])] * 2).turn)
    halt = under(check_loops, on_stall="stop")(turn)
    assert halt and (halt.reason, halt.coach) == (Stop.STALLED, "")


def test_a11_a_nudge_between_does_not_hide_a_repetition() -> None:
    story = (
        Story()
        .says("Done.")
        .coached("nudge")
        .says("Done.")
        .coached("nudge")
        .says("Done.")
        .coached("nudge")
    )
    assert find_repeated_reply(story.turn) == "done."


def test_a11_the_user_asking_again_may_be_told_the_same() -> None:
    story = (
        Story()
        .says("Not yet.")
        .steered("and now?")
        .says("Not yet.")
        .steered("and now?")
        .says("Not yet.")
    )
    assert find_repeated_reply(story.turn) == ""


def test_a11_a_repetition_is_coached_first_and_stopped_when_it_goes_on_even_without_a_call() -> (
    None
):
    check, story = under(check_loops, on_stall="coach"), Story().says(*["Done."] * 3)
    halt = check(story.turn)
    assert (
        halt
        and "same reply 3 times running" in halt.coach
        and halt.coachable
        and '"done."' in halt.detail
    )
    assert check(story.coached("repeating").turn) is None, "the model has not answered yet"
    halt = check(story.says("Done.").turn)
    assert halt and (halt.reason, halt.coach) == (Stop.REPEATING, "")


def test_a11_new_words_after_coaching_go_on() -> None:
    assert (
        under(check_loops, on_stall="coach")(
            Story().says(*["Done."] * 3).coached("repeating").says("I read it now.").turn
        )
        is None
    )


def test_a11_a_coaching_for_a_stall_is_not_followed_by_another_at_once() -> None:
    story = told([(NEXT, [did("read", "a")])] * 3).coached("stalled")
    assert under(check_loops, on_stall="coach")(story.turn) is None


SENTENCE = "I will now look at the configuration file again. "
ORDER = [0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1]
PARAGRAPH = "First I read the file. Then I compare it with the copy. It differs in the second line, which is odd. "
DEGENERATE = {
    "one sentence": SENTENCE * 8,
    "one line": "The answer is in the file\n" * 10,
    "a paragraph of three sentences": PARAGRAPH * 8,
    "after a beginning": "I looked at the folder and found two files in it. " + SENTENCE * 12,
    "without full stops": "I try it once more and " * 12,
    "one word": "again " * 40,
    "two sentences in any order": "".join(
        (SENTENCE, "It is not what I expected to see there. ")[n] for n in ORDER
    ),
    "another script": "".join(
        ("我再看一下这个配置文件的内容是否正确。", "结果和我想的完全不一样。")[n] for n in ORDER
    ),
}
FINE = {
    "a short answer": "No.",
    "seven times": SENTENCE * 7 + "Here it is.",
    "less than most of it": SENTENCE * 8 + "It says that the port is taken by another program. " + " ".join(
        f"Line {n} names the {word} and what became of it in the meantime."
        for n, word in enumerate(["server", "client", "printer", "door", "lamp", "radio", "clock"])
    ),
    "a list": "\n".join(["- [ ] Water the plants in the living room"] * 20),
    "a numbered list": "\n".join(f"{n}. Water the plants in the living room" for n in range(20)),
    "a table": "\n".join(["| Monday | nothing planned for this day |"] * 20),
    "a table without edges": "\n".join(["Monday | nothing planned for this day"] * 20),
    "code": "```\n" + "print('the same line again')\n" * 20 + "```",
    "code that is cut off": "Here:\n```python\n" + "print('the same line again')\n" * 20,
    "indented code": "\n".join(["    print('the same line again')"] * 20),
    "a table with a word before it": "Here is the week:\n" + "\n".join(["| day | free |"] * 20),
    "a short answer of status words": "ok\n" * 30,
    "a poem with a refrain": "\n".join(
        line
        for verse in ("The sun is low", "The wind is slow", "The rivers flow", "The lanterns glow")
        for line in (f"{verse} above the hill,", "and all the world is standing still,", f"{verse} and ever will.")
    ),
    "plain prose": "The museum opens at ten. It closes at six, but on Thursdays it stays open until nine. A ticket costs "
    "twelve euros; children pay half. The tram stops in front of it. On Mondays it is closed.",
}  # fmt: skip


@pytest.mark.parametrize("text", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_a11_a_reply_that_repeats_one_passage_over_and_over_is_noticed(text: str) -> None:
    assert find_repeated_passage(text)
    halt = under(check_loops, on_stall="coach")(Story().does(did("read"), text=text).turn)
    assert halt and (halt.reason, "repeated one passage" in halt.coach) == (Stop.REPEATING, True)


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_a11_lists_tables_code_and_refrains_are_no_repetition(text: str) -> None:
    assert find_repeated_passage(text) == ""
    assert under(check_loops, on_stall="stop")(Story().does(did("read"), text=text).turn) is None


def test_a11_a_passage_is_shown_short_in_the_reason() -> None:
    halt = under(check_loops, on_stall="stop")(
        Story().says(PARAGRAPH.replace(". ", " and ") * 9).turn
    )
    assert halt and len(halt.detail) < 140
