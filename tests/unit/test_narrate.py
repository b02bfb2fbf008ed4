"""What a watcher is told of a turn (B5)."""

import re
from dataclasses import asdict
from datetime import UTC, datetime
from typing import get_args

import pytest

from daemon.client.view_types import LiveEvent, UsageView
from daemon.client.views import EventFormatter
from daemon.core.event_bus import DraftDropped, LiveItem, Quarantined, TextDelta, ToolOutputChunk
from daemon.core.events import (
    Alarm,
    Answer,
    ApprovalAnswered,
    ApprovalAsked,
    BudgetExtended,
    BudgetRaised,
    CallJudged,
    ChildReturned,
    ChildSpawned,
    Classified,
    Coached,
    Consulted,
    Consulting,
    Event,
    HistoryCompressed,
    IterationRefunded,
    Limits,
    ModelAsked,
    ModelFailed,
    ModelReplied,
    ModelRetried,
    Outcome,
    RecordedEvent,
    Steered,
    Stop,
    Suspended,
    Todo,
    TodosSet,
    ToolFinished,
    ToolRetried,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    UserSaid,
    Verified,
)
from daemon.core.messages import MessageQueued, ToolCall, Usage
from daemon.core.trust import Decision, Effect, Label
from daemon.core.turn_spec import Intent

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
TWO_CALLS = (
    ToolCall("call_0", "shell", '{"command": "ls"}'),
    ToolCall("call_0", "read_file", '{"path": "a"}'),
)


def said(label: Label = Label.TRUSTED) -> UserSaid:
    return UserSaid("hi", "owner", "in1", label, 0.5, Limits())


def asked(iteration: int = 1) -> ModelAsked:
    return ModelAsked(iteration, "fake", "m-1", "ph", "th", ("shell",), (), NOON, 7, 100, None)


def replied(
    text: str = "", calls: tuple[ToolCall, ...] = (), usage: Usage | None = None
) -> ModelReplied:
    return ModelReplied(
        text,
        calls,
        usage or Usage(10, 5, 2, 0.25),
        "fake",
        "m-1",
        "tool_calls" if calls else "stop",
        0.5,
    )


def finished(
    call_id: str, outcome: Outcome = Outcome.OK, label: Label = Label.TRUSTED
) -> ToolFinished:
    return ToolFinished(
        call_id, "shell", outcome, "out", Effect.READ, 0.3, label=label, exit_code=0
    )


def spawned() -> ChildSpawned:
    return ChildSpawned(
        "1.0", "c1", "sub-1-x", "in2", "scout", "look", "owner", Label.TRUSTED, Limits(), 1
    )


def told(*events: Event) -> list[LiveEvent]:
    narrator = EventFormatter()
    numbered = (RecordedEvent(seq, NOON, event) for seq, event in enumerate(events, start=1))
    return [live for recorded in numbered for live in narrator.format(recorded)]


def draft(item: LiveItem) -> LiveEvent:
    (live,) = EventFormatter().format(item)
    return live


def test_a_turn_with_two_calls_is_told_by_b5s_names_in_order() -> None:
    events = told(
        said(),
        asked(),
        replied("let me look", TWO_CALLS),
        CallJudged("3.0", "shell", Effect.READ, Decision.ALLOW, "read"),
        ToolStarted("3.0", "shell", Effect.READ),
        finished("3.0"),
        finished("3.1"),
        asked(2),
        replied("done"),
        TurnEnded(Stop.DONE, "the model answered", "done"),
    )
    assert [(event.name, event.seq) for event in events] == [
        ("cycle.start", 2),
        ("model.response", 3),
        ("tool_call", 3),
        ("tool_call", 3),
        ("tool.started", 5),
        ("tool_result", 6),
        ("tool_result", 7),
        ("tool.results", 7),
        ("cycle.start", 8),
        ("model.response", 9),
        ("run.terminated_by", 10),
        ("run.completed", 10),
    ]


def test_a_response_says_its_iteration_length_finish_reason_and_usage() -> None:
    _, response, first, second = told(asked(4), replied("let me look", TWO_CALLS))
    assert response.data == {
        "iteration": 4,
        "text": "let me look",
        "text_length": 11,
        "tool_calls": 2,
        "finish_reason": "tool_calls",
        "usage": asdict(UsageView(10, 5, 2, 0.25)),
    }
    assert first.data == {"call_id": "2.0", "tool": "shell", "arguments": '{"command": "ls"}'}
    assert second.data["call_id"] == "2.1"


def test_the_results_are_announced_together_only_when_the_last_is_in() -> None:
    names = [
        event.name
        for event in told(asked(), replied("", TWO_CALLS), finished("2.1"), finished("2.0"))
    ]
    assert names[-3:] == ["tool_result", "tool_result", "tool.results"]
    last = told(asked(3), replied("", TWO_CALLS), finished("2.1"), finished("2.0"))[-1]
    assert last.data == {"iteration": 3, "count": 2}


def test_the_end_sums_up_iterations_usage_and_label() -> None:
    end = told(
        said(),
        asked(),
        replied("", TWO_CALLS[:1]),
        finished("3.0", label=Label.UNTRUSTED),
        asked(2),
        replied("all done"),
        TurnEnded(Stop.DONE, "answered", "all done"),
    )[-1]
    assert (end.name, end.data) == (
        "run.completed",
        {
            "reply": "all done",
            "text_length": 8,
            "stop_reason": "done",
            "iterations": 1,
            "usage": asdict(UsageView(20, 10, 4, 0.5)),
            "label": "untrusted",
        },
    )


def test_one_unknown_price_makes_the_sum_unknown_never_cheaper() -> None:
    usage = told(
        asked(), replied("", TWO_CALLS, Usage(1, 1)), replied("x"), TurnEnded(Stop.DONE, "", "x")
    )[-1].data["usage"]
    assert usage == asdict(UsageView(11, 6, 2, None))


def test_what_one_event_is_told_as_counts_down_to_its_last() -> None:
    events = told(replied("", TWO_CALLS))
    assert [(event.seq, event.rest) for event in events] == [(1, 2), (1, 1), (1, 0)]


BEFORE: tuple[Event, ...] = (
    replied("", TWO_CALLS),
    ApprovalAsked("budget.1", "budget", "{}", "h", Effect.WRITE, "t", NOON),
    ChildSpawned(
        "agent.0", "c1", "sub-1-x", "in2", "scout", "look", "owner", Label.TRUSTED, Limits(), 1
    ),
)


@pytest.mark.parametrize(
    ("event", "name", "data"),
    [
        (Steered("and b", "owner", "in2", Label.TRUSTED, 0.5), "steered", {"text": "and b"}),
        (Coached("stall", "look again"), "coached", {"kind": "stall", "text": "look again"}),
        (
            BudgetExtended("1.0", "more files", 20),
            "budget.extended",
            {"reason": "more files", "max_iterations": 20},
        ),
        (Suspended(("1.0",)), "run.suspended", {"waiting_for": ["1.0"]}),
        (TurnResumed("restart"), "run.resumed", {"why": "restart"}),
        (
            ModelRetried("fake", "m-1", "rate_limit", "slow down", 2.0, "fake", "m-2"),
            "model.retry",
            {"error": "rate_limit", "message": "slow down", "wait_s": 2.0, "next_model": "m-2"},
        ),
        (
            ToolRetried("1.0", 2, "reset", 0.5),
            "tool.retry",
            {"call_id": "1.0", "error": "reset", "wait_s": 0.5},
        ),
        (
            ApprovalAsked("1.0", "shell", "{}", "hash", Effect.DESTRUCTIVE, "secret", NOON),
            "approval.asked",
            {
                "call_id": "1.0",
                "tool": "shell",
                "arguments": "{}",
                "effect": "destructive",
                "expires": NOON.isoformat(),
            }
            | {"preview": ""},
        ),
        (
            ApprovalAnswered("1.0", Answer.DENY, "owner", "not now"),
            "approval.answered",
            {"call_id": "1.0", "answer": "deny", "by": "owner", "reason": "not now"},
        ),
        (Classified(Intent.COMPLEX), "intent", {"intent": "complex"}),
        (
            TodosSet("1.0", (Todo("look", "doing"),)),
            "todos",
            {"items": [{"text": "look", "state": "doing"}]},
        ),
        (
            Verified("claims", False, "nothing was sent", "(Not sent.)"),
            "verified",
            {
                "check": "claims",
                "passed": False,
                "feedback": "nothing was sent",
                "note": "(Not sent.)",
            },
        ),
        (
            HistoryCompressed("rolling-window", 900, 300, 2, summary="so far"),
            "history.compressed",
            {
                "strategy": "rolling-window",
                "summary": "so far",
                "tokens_before": 900,
                "tokens_after": 300,
            },
        ),
        (
            Consulted("judge", "PASS", Usage(7, 1, 0, 0.5), "fake", "m-2"),
            "model.consulted",
            {
                "purpose": "judge",
                "model": "m-2",
                "error": "",
                "usage": asdict(UsageView(7, 1, 0, 0.5)),
            },
        ),
        (
            spawned(),
            "agent.started",
            {
                "key": "1.0",
                "turn": "c1",
                "session": "sub-1-x",
                "agent": "scout",
                "task": "look",
                "background": False,
            },
        ),
        (
            ChildReturned("agent.0", "c1", "done", "found", Label.TRUSTED),
            "agent.ended",
            {"key": "agent.0", "turn": "c1", "stop_reason": "done", "text": "found"},
        ),
        (
            BudgetRaised("budget.1", Limits(max_usd=4.0)),
            "budget.raised",
            {
                "question": "budget.1",
                "max_input_tokens": None,
                "max_usd": 4.0,
                "day_tokens": 0,
                "day_usd": 0.0,
            },
        ),
        (IterationRefunded(("1.0",)), "cycle.refunded", {"call_ids": ["1.0"]}),
        (
            Alarm("budget_exhausted", "look into it"),
            "alarm",
            {"kind": "budget_exhausted", "text": "look into it"},
        ),
    ],
)
def test_each_thing_that_happens_to_a_turn_has_its_name_and_data(
    event: Event, name: str, data: dict[str, object]
) -> None:
    *_, shown = told(*BEFORE, event)
    assert shown == LiveEvent(name, data, len(BEFORE) + 1)


def test_an_approval_is_told_without_what_an_answer_must_match() -> None:
    *_, shown = told(
        replied("", TWO_CALLS),
        ApprovalAsked("1.0", "shell", "{}", "args-hash", Effect.WRITE, "token-hash", NOON),
    )
    assert "hash" not in repr(shown)


def test_a_result_that_is_no_success_is_an_error_whatever_its_outcome() -> None:
    for outcome in Outcome:
        result = told(asked(), replied("", TWO_CALLS), finished("2.0", outcome))[-1]
        assert (result.data["outcome"], result.data["is_error"]) == (
            outcome.value,
            outcome is not Outcome.OK,
        )


def test_a_quarantined_turn_ends_for_its_watchers_too() -> None:
    narrator = EventFormatter()
    narrator.format(RecordedEvent(1, NOON, said()))
    why, end = narrator.format(Quarantined("crashed three times"))
    assert why.data == {"reason": "quarantined", "detail": "crashed three times", "ok": False}
    assert (end.name, end.data["stop_reason"], end.seq) == ("run.completed", "quarantined", None)


def test_no_kind_of_event_is_unknown_to_the_narrator() -> None:
    silent: tuple[Event, ...] = (
        said(),
        replied("", TWO_CALLS),
        CallJudged("2.0", "shell", Effect.READ, Decision.ALLOW, ""),
        ModelFailed("auth", "no key"),
        Consulting("judge", "fake", "m-2", 10, 0.1),
    )
    assert {event.seq for event in told(*silent)} == {2}
    assert len(get_args(Event)) == 30


def test_what_consulted_models_used_is_in_the_sum_and_a_refunded_iteration_is_not() -> None:
    """E4, F2"""
    end = told(
        replied("", TWO_CALLS[:1]),
        finished("1.0"),
        IterationRefunded(("1.0",)),
        Consulted("judge", "PASS", Usage(7, 1, 0, 0.5), "fake", "m-2"),
        TurnEnded(Stop.DONE, "", "x"),
    )[-1]
    assert (end.data["iterations"], end.data["usage"]) == (0, asdict(UsageView(17, 6, 2, 0.75)))


def test_every_name_is_documented_with_exactly_the_data_it_carries() -> None:
    """B5: `LiveEvent` is what writers of clients read."""
    seen: dict[str, set[str]] = {}
    shown = [
        draft(item) for item in (TextDelta("a"), DraftDropped(), ToolOutputChunk("1.0", "line"))
    ]
    for event in (*told(*ONE_OF_EACH), *shown):
        seen.setdefault(event.name, set()).update(event.data)
    documented = {
        name: {word for word in re.split(r"[,\s]+", fields) if word}
        for name, fields in re.findall(
            r"([a-z_]+(?:\.[a-z_]+)?) \{([a-z_, \n]*)\}", LiveEvent.__doc__ or ""
        )
    }
    assert documented == seen


ONE_OF_EACH: tuple[Event, ...] = (
    said(),
    Classified(Intent.COMPLEX),
    Steered("and b", "owner", "in2", Label.TRUSTED, 0.5),
    TurnResumed("restart"),
    asked(),
    ModelRetried("fake", "m-1", "rate_limit", "slow down", 2.0, "fake", "m-2"),
    replied("", TWO_CALLS[:1]),
    Consulted("judge", "PASS", Usage(1, 1), "fake", "m-2"),
    ApprovalAsked("7.0", "shell", "{}", "h", Effect.WRITE, "t", NOON),
    ApprovalAnswered("7.0", Answer.DENY, "owner"),
    Suspended(("7.0",)),
    ToolStarted("7.0", "shell", Effect.READ),
    ToolRetried("7.0", 2, "reset", 0.5),
    finished("7.0"),
    BudgetExtended("7.0", "more", 20),
    ApprovalAsked("budget.1", "budget", "{}", "h", Effect.WRITE, "t", NOON),
    BudgetRaised("budget.1", Limits()),
    IterationRefunded(("7.0",)),
    Coached("stall", "look again"),
    TodosSet("7.0", ()),
    HistoryCompressed("rolling-window", 9, 3, 2),
    Verified("claims", True),
    spawned(),
    BEFORE[-1],
    ChildReturned("agent.0", "c1", "done", "found", Label.TRUSTED),
    Alarm("budget_exhausted", "look"),
    MessageQueued("1.0", "mail", "email", "ann@example.com", "{}", NOON),
    TurnEnded(Stop.DONE, "", "x"),
)


def test_drafts_have_no_number_to_resume_from() -> None:
    assert draft(TextDelta("Hel")) == LiveEvent("model.delta", {"text": "Hel"})
    assert draft(DraftDropped()) == LiveEvent("model.reset", {})
    assert draft(ToolOutputChunk("3.0", "line")) == LiveEvent(
        "tool.output", {"call_id": "3.0", "text": "line"}
    )
