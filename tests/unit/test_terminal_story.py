"""How the events of a run become lines: progress, tool lines, the reply and its correction (E12)."""

from collections.abc import Mapping
from time import monotonic

from daemon.cli.terminal.chat_renderer import ChatRenderer
from daemon.cli.terminal.items import (
    AssistantText,
    CorrectedReply,
    DroppedDraft,
    ErrorLine,
    ScreenItem,
    StatusNote,
    SubagentLine,
    ToolLine,
)
from daemon.client.view_types import LiveEvent


def told(story: ChatRenderer, *events: tuple[str, Mapping[str, object]]) -> list[ScreenItem]:
    return [item for name, data in events for item in story.render(LiveEvent(name, data))]


def ends(reply: str, reason: str = "done") -> tuple[str, Mapping[str, object]]:
    return "run.completed", {"reply": reply, "stop_reason": reason}


def began(
    key: str, turn: str, task: str, agent: str = "scout", background: bool = False
) -> tuple[str, Mapping[str, object]]:
    return "agent.started", {
        "key": key,
        "turn": turn,
        "agent": agent,
        "task": task,
        "background": background,
    }


def given_back(call_id: str, text: str) -> tuple[str, Mapping[str, object]]:
    data = {
        "call_id": call_id,
        "tool": "spawn_agent",
        "outcome": "ok",
        "is_error": False,
        "text": text,
    }
    return "tool_result", data


ASKED = ("cycle.start", {"iteration": 1, "model": "m"})


def test_text_is_seen_while_it_comes_and_told_once_when_it_is_checked() -> None:
    story = ChatRenderer()
    assert (
        told(story, ASKED, ("model.delta", {"text": "Hel"}), ("model.delta", {"text": "lo"})) == []
    )
    assert (story.activity.draft, story.activity.doing) == ("Hello", "writing")
    assert told(story, ("model.response", {"text": "Hello", "tool_calls": 0}), ends("Hello")) == [
        AssistantText("Hello")
    ]
    assert story.activity.draft == story.activity.doing == ""


def test_E12_a_checked_reply_that_differs_stands_as_a_correction_below_the_draft() -> None:
    items = told(
        ChatRenderer(),
        ASKED,
        ("model.response", {"text": "I sent it.", "tool_calls": 0}),
        ends("Nothing was sent."),
    )
    assert items == [DroppedDraft("I sent it."), CorrectedReply("Nothing was sent.")]


def test_E12_a_reply_whose_images_are_defused_is_no_correction_of_the_draft() -> None:
    draft = "So: ![a](http://pictures.example/a.png)"
    reply = "So: [image: a](http://pictures.example/a.png)"
    response = ("model.response", {"text": draft, "tool_calls": 0})
    assert told(ChatRenderer(), ASKED, response, ends(reply)) == [AssistantText(reply)]


def test_E12_an_answer_that_was_sent_back_is_corrected_even_when_the_next_one_comes_whole() -> None:
    response = ("model.response", {"text": "2+2=5", "tool_calls": 0})
    better = ("model.response", {"text": "2+2=4", "tool_calls": 0})
    items = told(
        ChatRenderer(),
        ASKED,
        response,
        ("coached", {"kind": "verify", "text": "no"}),
        ASKED,
        better,
        ends("2+2=4"),
    )
    assert items == [
        DroppedDraft("2+2=5"),
        StatusNote("sent back: a check does not hold"),
        CorrectedReply("2+2=4"),
    ]


def test_a_stopped_turn_leaves_what_was_written_so_far_and_corrects_nothing() -> None:
    items = told(
        ChatRenderer(), ASKED, ("model.delta", {"text": "The first"}), ends("Stopped.", "cancelled")
    )
    assert items == [DroppedDraft("The first"), AssistantText("Stopped.")]


def test_a_dropped_draft_is_gone() -> None:
    story = ChatRenderer()
    told(story, ASKED, ("model.delta", {"text": "half"}), ("model.reset", {}))
    assert story.activity.draft == ""
    assert told(story, ("model.delta", {"text": "whole"}), ends("whole")) == [
        AssistantText("whole")
    ]


def test_a_tool_call_is_one_line_with_its_outcome() -> None:
    call = (
        "tool_call",
        {"call_id": "3.0", "tool": "read_file", "arguments": '{"path": "notes.txt"}'},
    )
    story = ChatRenderer()
    told(story, ASKED, ("model.response", {"text": "", "tool_calls": 1}), call)
    assert told(story, ("tool.started", {"call_id": "3.0", "tool": "read_file"})) == []
    assert story.activity.doing == "running read_file notes.txt …"
    result = {
        "call_id": "3.0",
        "tool": "read_file",
        "outcome": "ok",
        "is_error": False,
        "text": "a\nb\nc\n",
        "exit_code": None,
    }
    assert told(story, ("tool_result", result)) == [ToolLine("read_file notes.txt", "3 lines")]


def test_text_beside_tool_calls_stays_and_more_follows() -> None:
    assert told(
        ChatRenderer(), ASKED, ("model.response", {"text": "Let me look.", "tool_calls": 2})
    ) == [AssistantText("Let me look.", interim=True)]


def test_a_failed_command_says_its_exit_code_and_its_first_line() -> None:
    result = {
        "call_id": "3.0",
        "tool": "shell",
        "outcome": "ok",
        "is_error": False,
        "text": "no such\nfile",
        "exit_code": 2,
    }
    assert told(ChatRenderer(), ("tool_result", result)) == [ToolLine("shell", "exit 2: no such")]


def test_an_unknown_outcome_and_a_call_that_never_ran_say_so() -> None:
    unknown = {"call_id": "3.0", "tool": "shell", "outcome": "unknown", "text": "…"}
    not_run = {"call_id": "3.1", "tool": "shell", "outcome": "not_run", "text": "…"}
    lines = told(ChatRenderer(), ("tool_result", unknown), ("tool_result", not_run))
    assert lines == [
        ToolLine("shell", "outcome unknown: it may or may not have happened"),
        ToolLine("shell", "not run"),
    ]


def test_A7_a_wait_says_how_long_and_why() -> None:
    story = ChatRenderer()
    told(
        story,
        ASKED,
        (
            "model.retry",
            {"error": "rate_limit", "message": "429", "wait_s": 2.0, "next_model": "m"},
        ),
    )
    assert story.activity.doing == "waiting 2 s: rate limited, trying again"
    told(
        story,
        ("model.retry", {"error": "server", "message": "500", "wait_s": 0, "next_model": "other"}),
    )
    assert story.activity.doing == "the server failed, trying other"


def test_a_refusal_is_told_once_with_its_reason() -> None:
    call = ("tool_call", {"call_id": "3.0", "tool": "shell", "arguments": '{"command": "rm x"}'})
    denied = (
        "approval.answered",
        {"call_id": "3.0", "answer": "deny", "by": "me", "reason": "keep it"},
    )
    result = (
        "tool_result",
        {"call_id": "3.0", "tool": "shell", "outcome": "rejected", "text": "{}", "is_error": True},
    )
    assert told(ChatRenderer(), call, denied, result) == [
        StatusNote("not allowed: shell rm x (keep it)")
    ]


def test_the_last_line_a_tool_prints_is_shown_while_it_runs() -> None:
    story = ChatRenderer()
    told(
        story,
        ("tool.started", {"call_id": "3.0", "tool": "shell"}),
        ("tool.output", {"text": "one\n"}),
    )
    told(story, ("tool.output", {"text": "tw"}), ("tool.output", {"text": "o\n"}))
    assert story.activity.output == "two"


def test_a_failed_turn_is_told_as_trouble() -> None:
    assert told(ChatRenderer(), ASKED, ends("I could not get an answer.", "failed")) == [
        ErrorLine("I could not get an answer.")
    ]


def test_a_turn_that_was_set_aside_says_what_became_of_it() -> None:
    terminated = (
        "run.terminated_by",
        {"reason": "quarantined", "detail": "set aside: it crashed three times"},
    )
    assert told(ChatRenderer(), terminated, ends("", "quarantined")) == [
        ErrorLine("set aside: it crashed three times")
    ]


def test_a_turn_cut_by_a_limit_says_which() -> None:
    terminated = (
        "run.terminated_by",
        {"reason": "max_iterations", "detail": "10 of 10 iterations used"},
    )
    assert told(ChatRenderer(), terminated, ends("So far: a", "max_iterations")) == [
        AssistantText("So far: a"),
        StatusNote("stopped: 10 of 10 iterations used"),
    ]


def test_an_answer_before_more_words_of_the_person_stands_and_another_follows() -> None:
    first = ("model.response", {"text": "One.", "tool_calls": 0})
    items = told(
        ChatRenderer(), ASKED, first, ("steered", {"text": "and two?"}), ASKED, ends("Two.")
    )
    assert items == [AssistantText("One.", interim=True), AssistantText("Two.")]


def test_events_nobody_here_knows_are_passed_over() -> None:
    assert told(ChatRenderer(), ("something.new", {"x": 1})) == []


def test_A17_a_sub_agent_is_told_when_it_begins_and_with_its_answer_when_it_ends() -> None:
    story = ChatRenderer()
    both = began("3.0", "c1", "look"), began("3.1", "c2", "count")
    assert told(story, *both) == [SubagentLine("scout", "look"), SubagentLine("scout", "count")]
    assert story.activity.doing == "waiting for 2 agents"
    ended = given_back("3.0", '{"turn": "c1", "stop_reason": "max_iterations"}\nso far: two')
    assert told(story, ended) == [SubagentLine("scout", "look", "max iterations", "so far: two")]
    assert story.activity.doing == "waiting for agent scout"


def test_A17_a_sub_agent_that_never_answered_says_how_that_came() -> None:
    story = ChatRenderer()
    told(story, began("3.0", "c1", "look"))
    cut = {"call_id": "3.0", "tool": "spawn_agent", "outcome": "not_run", "text": "stopped"}
    assert told(story, ("tool_result", cut)) == [SubagentLine("scout", "look", "not run")]


def test_A17_a_background_agent_is_not_over_when_its_call_returns() -> None:
    story = ChatRenderer()
    told(story, began("3.0", "c1", "look", background=True))
    assert story.activity.doing == ""
    assert (
        told(story, given_back("3.0", "started as turn c1; its result will come as a message"))
        == []
    )


def test_B11_the_steps_of_a_composite_are_told_as_they_end() -> None:
    story = ChatRenderer()
    told(story, began("agent.0", "c1", "look"))
    ended = (
        "agent.ended",
        {"key": "agent.0", "turn": "c1", "stop_reason": "done", "text": "found"},
    )
    assert told(story, ended) == [SubagentLine("scout", "look", "done", "found")]


def test_A17_what_a_sub_agent_says_is_not_said_to_the_person() -> None:
    errand = ChatRenderer(monotonic, "scout", "look", False)
    text = LiveEvent("model.response", {"text": "Let me see.", "tool_calls": 1})
    deltas = LiveEvent("model.delta", {"text": "Let me"})
    call = LiveEvent(
        "tool_call", {"call_id": "3.0", "tool": "shell", "arguments": '{"command": "ls"}'}
    )
    started, ended = (
        LiveEvent("tool.started", {"call_id": "3.0", "tool": "shell"}),
        LiveEvent(*ends("All of it.")),
    )
    assert [item for event in (deltas, text, call, started) for item in errand.render(event)] == []
    assert (errand.activity.doing, errand.activity.draft) == ("agent scout: running ls …", "")
    assert errand.render(ended) == [] and errand.activity.doing == ""


def test_A17_a_background_agent_s_end_and_every_agent_s_answered_questions_are_told_under_its_name() -> (
    None
):
    errand = ChatRenderer(monotonic, "scout", "look", True)
    errand.render(
        LiveEvent(
            "tool_call", {"call_id": "3.0", "tool": "shell", "arguments": '{"command": "rm x"}'}
        )
    )
    answered = LiveEvent(
        "approval.answered", {"call_id": "3.0", "answer": "once", "by": "me", "reason": ""}
    )
    assert errand.render(answered) == [StatusNote("agent scout: allowed once: shell rm x")]
    assert errand.render(LiveEvent(*began("4.0", "c2", "deeper", "digger"))) == [
        SubagentLine("digger", "deeper")
    ]
    assert errand.render(LiveEvent(*ends("Found.", "over_budget"))) == [
        SubagentLine("scout", "look", "over budget", "Found.")
    ]


def test_E3_a_plan_is_seen_while_it_is_worked_at_and_each_step_of_it_is_one_line() -> None:
    story = ChatRenderer()
    items = [
        {"text": "read", "state": "done"},
        {"text": "write", "state": "doing"},
        {"text": "check", "state": "open"},
    ]
    call = ("tool_call", {"call_id": "3.0", "tool": "todo", "arguments": "{}"})
    result = {
        "call_id": "3.0",
        "tool": "todo",
        "outcome": "ok",
        "is_error": False,
        "text": "written down",
    }
    lines = told(story, call, ("todos", {"items": items}), ("tool_result", result))
    assert lines == [ToolLine("plan", "1 of 3 done, now: write")]
    assert story.activity.plan == (("read", "done"), ("write", "doing"), ("check", "open"))
    told(story, ends("Done."))
    assert story.activity.plan == ()


def test_E3_a_plan_that_could_not_be_written_down_is_a_failed_call() -> None:
    result = {
        "call_id": "3.0",
        "tool": "todo",
        "outcome": "error",
        "is_error": True,
        "text": "too long",
    }
    call = ("tool_call", {"call_id": "3.0", "tool": "todo", "arguments": "{}"})
    assert told(ChatRenderer(), call, ("tool_result", result)) == [
        ToolLine("todo", "failed: too long")
    ]


def test_E10_E12_an_answer_that_a_check_sent_back_is_a_draft_with_the_reason_below_and_then_corrected() -> (
    None
):
    response, better = (
        {"text": text, "tool_calls": 0} for text in ("I sent it.", "I did not send it.")
    )
    failed = (
        "verified",
        {"check": "contains: x", "passed": False, "feedback": "must contain x", "note": ""},
    )
    items = told(
        ChatRenderer(), ASKED, ("model.response", response), failed, ("coached", {"kind": "verify"}),
        ASKED, ("model.response", better), ends("I did not send it."),
    )  # fmt: skip
    assert items == [
        DroppedDraft("I sent it."),
        StatusNote("sent back: contains: x does not hold"),
        CorrectedReply("I did not send it."),
    ]


def test_E12_a_note_that_a_check_added_below_an_answer_corrects_nothing() -> None:
    response = ("model.response", {"text": "I sent it.", "tool_calls": 0})
    honest = "I sent it.\n\n(Nothing was sent.)"
    assert told(ChatRenderer(), ASKED, response, ends(honest)) == [AssistantText(honest)]


def test_F2_a_budget_that_was_raised_says_to_what_and_one_that_was_not_says_so() -> None:
    arguments = '{"budget": "turn", "of": "usd", "used": 2.0, "limit": 2, "more": 2}'
    asked = (
        "approval.asked",
        {"call_id": "budget.1", "tool": "extend_budget", "arguments": arguments},
    )
    yes, no = (
        ("approval.answered", {"call_id": "budget.1", "answer": answer, "reason": ""})
        for answer in ("once", "deny")
    )
    raised = (
        "budget.raised",
        {"max_usd": 4.0, "max_input_tokens": 9000, "day_tokens": 0, "day_usd": 0.0},
    )
    assert told(ChatRenderer(), asked, yes, raised) == [
        StatusNote("goes on, up to $4 and 9,000 tokens")
    ]
    assert told(ChatRenderer(), asked, no) == [
        StatusNote("The turn's money is used up ($2.00 of $2). Go on with $2 more? no")
    ]
    day = (
        "budget.raised",
        {"max_usd": 4.0, "max_input_tokens": None, "day_tokens": 0, "day_usd": 2.5},
    )
    assert told(ChatRenderer(), day) == [StatusNote("goes on, $2.5 more today")]


def test_E10_an_answer_that_a_person_reviews_is_no_draft_beside_the_question_that_shows_it() -> (
    None
):
    story = ChatRenderer()
    response = ("model.response", {"text": "Four.", "tool_calls": 0})
    asked = (
        "approval.asked",
        {"call_id": "review.3", "tool": "review_answer", "arguments": '{"answer": "Four."}'},
    )
    told(story, ASKED, response, asked)
    assert story.activity.draft == ""
    yes = ("approval.answered", {"call_id": "review.3", "answer": "once", "reason": ""})
    assert told(story, yes, ends("Four.")) == [
        StatusNote("Is this answer all right? yes"),
        AssistantText("Four."),
    ]


def test_B4_a_conversation_that_was_shortened_says_by_how_much() -> None:
    data = {
        "strategy": "rolling-window",
        "summary": "",
        "tokens_before": 30_000,
        "tokens_after": 9_000,
    }
    (line,) = told(ChatRenderer(), ("history.compressed", data))
    assert isinstance(line, StatusNote) and "30,000 → 9,000 tokens" in line.text
