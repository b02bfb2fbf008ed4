"""How the events of a run become lines: progress, tool lines, the reply and its correction (E12)."""

from collections.abc import Mapping

from channels.terminal_items import Correction, Draft, Item, Note, Spoken, Step, Trouble
from daemon.cli.chat_story import Story
from daemon.door.base import LiveEvent


def told(story: Story, *events: tuple[str, Mapping[str, object]]) -> list[Item]:
    return [item for name, data in events for item in story.take(LiveEvent(name, data))]


def ends(reply: str, reason: str = "done") -> tuple[str, Mapping[str, object]]:
    return "run.completed", {"reply": reply, "stop_reason": reason}


ASKED = ("cycle.start", {"iteration": 1, "model": "m"})


def test_text_is_seen_while_it_comes_and_told_once_when_it_is_checked() -> None:
    story = Story()
    assert told(story, ASKED, ("model.delta", {"text": "Hel"}), ("model.delta", {"text": "lo"})) == []
    assert (story.activity.draft, story.activity.doing) == ("Hello", "writing")
    assert told(story, ("model.response", {"text": "Hello", "tool_calls": 0}), ends("Hello")) == [Spoken("Hello")]
    assert story.activity.draft == story.activity.doing == ""


def test_E12_a_checked_reply_that_differs_stands_as_a_correction_below_the_draft() -> None:
    items = told(Story(), ASKED, ("model.response", {"text": "I sent it.", "tool_calls": 0}), ends("Nothing was sent."))
    assert items == [Draft("I sent it."), Correction("Nothing was sent.")]


def test_E12_an_answer_that_was_sent_back_is_corrected_even_when_the_next_one_comes_whole() -> None:
    response = ("model.response", {"text": "2+2=5", "tool_calls": 0})
    better = ("model.response", {"text": "2+2=4", "tool_calls": 0})
    items = told(Story(), ASKED, response, ("coached", {"kind": "verify", "text": "no"}), ASKED, better, ends("2+2=4"))
    assert items == [Draft("2+2=5"), Note("sent back: a check does not hold"), Correction("2+2=4")]


def test_a_stopped_turn_leaves_what_was_written_so_far_and_corrects_nothing() -> None:
    items = told(Story(), ASKED, ("model.delta", {"text": "The first"}), ends("Stopped.", "cancelled"))
    assert items == [Draft("The first"), Spoken("Stopped.")]


def test_a_dropped_draft_is_gone() -> None:
    story = Story()
    told(story, ASKED, ("model.delta", {"text": "half"}), ("model.reset", {}))
    assert story.activity.draft == ""
    assert told(story, ("model.delta", {"text": "whole"}), ends("whole")) == [Spoken("whole")]


def test_a_tool_call_is_one_line_with_its_outcome() -> None:
    call = ("tool_call", {"call_id": "3.0", "tool": "read_file", "arguments": '{"path": "notes.txt"}'})
    story = Story()
    told(story, ASKED, ("model.response", {"text": "", "tool_calls": 1}), call)
    assert told(story, ("tool.started", {"call_id": "3.0", "tool": "read_file"})) == []
    assert story.activity.doing == "running read_file notes.txt …"
    result = {"call_id": "3.0", "tool": "read_file", "outcome": "ok", "is_error": False, "text": "a\nb\nc\n", "exit_code": None}
    assert told(story, ("tool_result", result)) == [Step("read_file notes.txt", "3 lines")]


def test_text_beside_tool_calls_stays_and_more_follows() -> None:
    assert told(Story(), ASKED, ("model.response", {"text": "Let me look.", "tool_calls": 2})) == [
        Spoken("Let me look.", interim=True)
    ]


def test_a_failed_command_says_its_exit_code_and_its_first_line() -> None:
    result = {"call_id": "3.0", "tool": "shell", "outcome": "ok", "is_error": False, "text": "no such\nfile", "exit_code": 2}
    assert told(Story(), ("tool_result", result)) == [Step("shell", "exit 2: no such")]


def test_an_unknown_outcome_and_a_call_that_never_ran_say_so() -> None:
    unknown = {"call_id": "3.0", "tool": "shell", "outcome": "unknown", "text": "…"}
    not_run = {"call_id": "3.1", "tool": "shell", "outcome": "not_run", "text": "…"}
    lines = told(Story(), ("tool_result", unknown), ("tool_result", not_run))
    assert lines == [Step("shell", "outcome unknown: it may or may not have happened"), Step("shell", "not run")]


def test_A7_a_wait_says_how_long_and_why() -> None:
    story = Story()
    told(story, ASKED, ("model.retry", {"error": "rate_limit", "message": "429", "wait_s": 2.0, "next_model": "m"}))
    assert story.activity.doing == "waiting 2 s: rate limited, trying again"
    told(story, ("model.retry", {"error": "server", "message": "500", "wait_s": 0, "next_model": "other"}))
    assert story.activity.doing == "the server failed, trying other"


def test_a_refusal_is_told_once_with_its_reason() -> None:
    call = ("tool_call", {"call_id": "3.0", "tool": "shell", "arguments": '{"command": "rm x"}'})
    denied = ("approval.answered", {"call_id": "3.0", "answer": "deny", "by": "me", "reason": "keep it"})
    result = ("tool_result", {"call_id": "3.0", "tool": "shell", "outcome": "rejected", "text": "{}", "is_error": True})
    assert told(Story(), call, denied, result) == [Note("not allowed: shell rm x (keep it)")]


def test_the_last_line_a_tool_prints_is_shown_while_it_runs() -> None:
    story = Story()
    told(story, ("tool.started", {"call_id": "3.0", "tool": "shell"}), ("tool.output", {"text": "one\n"}))
    told(story, ("tool.output", {"text": "tw"}), ("tool.output", {"text": "o\n"}))
    assert story.activity.output == "two"


def test_a_failed_turn_is_told_as_trouble() -> None:
    assert told(Story(), ASKED, ends("I could not get an answer.", "failed")) == [Trouble("I could not get an answer.")]


def test_a_turn_that_was_set_aside_says_what_became_of_it() -> None:
    terminated = ("run.terminated_by", {"reason": "quarantined", "detail": "set aside: it crashed three times"})
    assert told(Story(), terminated, ends("", "quarantined")) == [Trouble("set aside: it crashed three times")]


def test_a_turn_cut_by_a_limit_says_which() -> None:
    terminated = ("run.terminated_by", {"reason": "max_iterations", "detail": "10 of 10 iterations used"})
    assert told(Story(), terminated, ends("So far: a", "max_iterations")) == [
        Spoken("So far: a"),
        Note("stopped: 10 of 10 iterations used"),
    ]


def test_an_answer_before_more_words_of_the_person_stands_and_another_follows() -> None:
    first = ("model.response", {"text": "One.", "tool_calls": 0})
    items = told(Story(), ASKED, first, ("steered", {"text": "and two?"}), ASKED, ends("Two."))
    assert items == [Spoken("One.", interim=True), Spoken("Two.")]


def test_events_nobody_here_knows_are_passed_over() -> None:
    assert told(Story(), ("something.new", {"x": 1})) == []
