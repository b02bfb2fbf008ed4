"""The dispatcher: one result for every call, written down before and after, asked about where the gate says so."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Literal, cast

import pytest

from daemon.core.errors import Fenced, StoreUnavailable
from daemon.core.event_bus import ToolOutputChunk as Printed
from daemon.core.events import (
    Answer,
    ApprovalAsked,
    BudgetExtended,
    CallJudged,
    Event,
    Limits,
    Outcome,
    ToolFinished,
    ToolRetried,
    ToolStarted,
)
from daemon.core.trust import Decision, Effect, Label, ToolApprovals
from daemon.tools.base import RetryableToolError, ToolContext, ToolError, ToolOutput
from daemon.tools.basic import request_more_iterations
from daemon.tools.calls import args_hash
from daemon.tools.signature import ToolDefinition, tool
from tests.fakes.tools import NOON, Bench, ListJournal

DEADLINE = 5


@dataclass
class Diary:
    """What the tools of a test did, in order."""

    lines: list[str] = field(default_factory=list)
    failures: int = 0


@tool(effect=Effect.READ, parallel=True, idempotent=True, retries=2)
async def look(diary: Diary, at: str = "here") -> str:
    """Look at something."""
    diary.lines.append(f"look {at}")
    if diary.failures:
        diary.failures -= 1
        raise RetryableToolError("busy, try again")
    return f"saw {at}"


@tool(effect=Effect.WRITE)
async def note(diary: Diary, text: str) -> str:
    """Write something down."""
    diary.lines.append(f"note {text}")
    return "noted"


@tool(effect=Effect.DESTRUCTIVE, retries=3)
async def smash(diary: Diary, what: str) -> str:
    """Break something."""
    diary.lines.append(f"smash {what}")
    if diary.failures:
        raise RetryableToolError("it bounced")
    return f"broke {what}"


@tool(effect=Effect.READ)
async def fail(kind: str) -> str:
    """Fail in some way."""
    kinds_of: dict[str, Exception] = {
        "tool": ToolError("it is closed; open it first"),
        "other": ZeroDivisionError("division by zero"),
        "disk": StoreUnavailable("the disk is full"),
        "fenced": Fenced(),
    }
    raise kinds_of[kind]


@tool(effect=Effect.READ, timeout_s=0.05)
async def hang() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return "never"


@tool(effect=Effect.READ)
async def shout(text: str, times: int) -> ToolOutput:
    """Print a lot."""
    return ToolOutput(text * times)


@tool(effect=Effect.FETCH, parallel=True)
async def fetch(url: str) -> ToolOutput:
    """Fetch a page."""
    return ToolOutput("words of a stranger", label=Label.UNTRUSTED)


@tool(effect=Effect.READ)
async def who(_session_id: str, _untrusted_source: bool, word: str = "") -> str:
    """Say who asks."""
    return f"{_session_id} {_untrusted_source} {word}"


ALL: tuple[ToolDefinition, ...] = (
    look,
    note,
    smash,
    fail,
    hang,
    shout,
    fetch,
    who,
    request_more_iterations,
)


def bench(
    *,
    label: Label = Label.TRUSTED,
    session_label: Label = Label.TRUSTED,
    approvals: Literal["risk", "always"] = "risk",
    granted: tuple[str, ...] = (),
    limits: Limits | None = None,
    max_output_chars: int = 4000,
) -> tuple[Bench, Diary]:
    diary = Diary()
    made = Bench(
        ALL, {Diary: diary}, label=label, session_label=session_label, approvals=ToolApprovals(approvals), granted=granted,
        limits=limits or Limits(), max_output_chars=max_output_chars,
    )  # fmt: skip
    return made, diary


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


# -- the plain way -------------------------------------------------------------


async def test_a_call_that_is_allowed_is_judged_started_run_and_finished() -> None:
    rig, diary = bench()
    result = await rig.one("look", '{"at": "the sky"}')
    assert (result.outcome, result.text, result.effect, result.importance) == (
        Outcome.OK,
        "saw the sky",
        Effect.READ,
        0.3,
    )
    assert kinds([one.event for one in rig.turn.events])[-3:] == [
        "CallJudged",
        "ToolStarted",
        "ToolFinished",
    ]
    assert diary.lines == ["look the sky"]


async def test_an_effect_is_written_down_before_and_after_and_mere_reading_is_left_to_the_next_commit() -> (
    None
):
    """A flush is what a step costs most; what is simply read again after a crash is worth none of its own."""
    rig, _ = bench()
    await rig.run(("look", "{}"))
    assert rig.journal.commits == []
    await rig.run(("note", '{"text": "milk"}'))
    assert [kinds([one.event for one in commit])[-1] for commit in rig.journal.commits] == [
        "ToolStarted",
        "ToolFinished",
    ]


async def test_whoever_watches_sees_a_reading_tool_that_takes_its_time() -> None:
    rig, _ = bench()

    @tool(effect=Effect.READ)
    async def linger(context: ToolContext) -> str:
        """Run until the start is on disk."""
        await cast(ListJournal, context.turn.sink).reached.wait()
        return "seen"

    slow = Bench([linger], journal=rig.journal)
    async with asyncio.timeout(DEADLINE):
        assert (await slow.one("linger")).text == "seen"
    assert kinds(rig.journal.events)[-1] == "ToolStarted"


async def test_the_start_is_on_disk_before_the_tool_runs() -> None:
    """Write down, then act (architecture.md)."""
    seen: list[list[str]] = []
    rig, _ = bench()

    @tool(effect=Effect.WRITE)
    async def peek(context: ToolContext) -> str:
        """Look into the journal."""
        seen.append(kinds(cast(ListJournal, context.turn.sink).events))
        return "ok"

    spying = Bench([peek], journal=rig.journal)
    await spying.one("peek")
    assert seen[0][-1] == "ToolStarted"
    assert kinds(rig.journal.events)[-1] == "ToolFinished"


async def test_results_come_in_the_order_of_the_calls_whatever_finishes_first() -> None:
    rig, _ = bench()
    await rig.run(("look", '{"at": "1"}'), ("note", '{"text": "2"}'), ("look", '{"at": "3"}'))
    assert [message.text for message in rig.turn.messages[-3:]] == ["saw 1", "noted", "saw 3"]


async def test_an_empty_text_means_no_arguments() -> None:
    rig, _ = bench()
    assert (await rig.one("look", "")).text == "saw here"


# -- faults: one result each (B7) ----------------------------------------------


@pytest.mark.parametrize(
    "arguments", ['{"at": ', "look there", "[1]", '"x"', "null", "{'at': 1}", "[" * 100_000]
)
async def test_arguments_that_are_not_a_json_object_give_one_result_that_shows_what_was_wrong(
    arguments: str,
) -> None:
    rig, diary = bench()
    result = await rig.one("look", arguments)
    assert (result.outcome, result.error_class) == (Outcome.ERROR, "BadArguments")
    assert "Send one JSON object." in result.text
    assert arguments[:10] in result.text or "'" in arguments
    assert diary.lines == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("{}", "what: Field required"),
        ('{"what": ["x"]}', "valid string"),
        ('{"what": "x", "how": 1}', "how: Extra inputs"),
    ],
)
async def test_wrong_arguments_say_what_was_expected_and_ask_nobody(
    arguments: str, fault: str
) -> None:
    rig, _ = bench()
    result = await rig.one("smash", arguments)
    assert (result.outcome, result.error_class) == (Outcome.ERROR, "BadArguments")
    assert fault in result.text
    assert "Expected: smash(what: str)" in result.text
    assert not rig.recorded(ApprovalAsked)


async def test_an_unknown_tool_is_answered_with_the_nearest_name() -> None:
    rig, _ = bench()
    result = await rig.one("lokk")
    assert result.outcome is Outcome.ERROR
    assert result.text == "no tool named lokk; nearest: look. find_tools lists others."


async def test_an_unknown_tool_is_denied_to_text_from_outside() -> None:
    rig, _ = bench(session_label=Label.UNTRUSTED)
    result = await rig.one("lokk")
    assert result.outcome is Outcome.REJECTED
    assert json.loads(result.text)["rejected"] is True
    judged = cast(CallJudged, rig.recorded(CallJudged)[0])
    assert (judged.decision, judged.effect) == (Decision.DENY, Effect.DESTRUCTIVE)


@pytest.mark.parametrize(
    ("kind", "text", "error_class"),
    [
        ("tool", "it is closed; open it first", "ToolError"),
        ("other", "ZeroDivisionError: division by zero", "ZeroDivisionError"),
    ],
)
async def test_a_tool_that_raises_gives_an_error_result(
    kind: str, text: str, error_class: str
) -> None:
    rig, _ = bench()
    result = await rig.one("fail", json.dumps({"kind": kind}))
    assert (result.outcome, result.text, result.error_class) == (Outcome.ERROR, text, error_class)
    assert rig.turn.messages[-1].is_error


async def test_a_tool_that_hangs_is_cut_off() -> None:
    rig, _ = bench()
    result = await asyncio.wait_for(rig.one("hang"), DEADLINE)
    assert (result.outcome, result.text, result.error_class) == (
        Outcome.ERROR,
        "timed out after 0.05 s",
        "TimedOut",
    )


async def test_a_result_of_100_mb_keeps_its_beginning_and_its_end() -> None:
    rig, _ = bench(max_output_chars=1000)
    result = await rig.one("shout", json.dumps({"text": "0123456789", "times": 10_000_000}))
    assert len(result.text) <= 1000
    assert result.text.startswith("0123456789")
    assert result.text.endswith("0123456789")
    assert "characters left out" in result.text


async def test_control_characters_escapes_and_broken_characters_are_made_harmless() -> None:
    rig, _ = bench()
    text = "a\x00b\x1b[31mred\x1b[0m\x1b]0;title\x07 \ud800 \r\nend\x9b"
    result = await rig.one("shout", json.dumps({"text": text, "times": 1}))
    assert result.text == "abred \ufffd \nend"


async def test_the_loop_goes_on_after_any_mixture_of_faults() -> None:
    rig, _ = bench()
    results = await rig.run(
        ("look", "{"),
        ("nothing", "{}"),
        ("fail", '{"kind": "other"}'),
        ("hang", "{}"),
        ("look", "{}"),
    )
    assert [result.outcome if result else None for result in results] == [Outcome.ERROR] * 4 + [
        Outcome.OK
    ]
    assert not rig.turn.pending


# -- A10 -----------------------------------------------------------------------


async def test_arguments_with_an_underscore_are_stripped_and_filled_in_by_the_daemon() -> None:
    """A10."""
    rig, _ = bench(label=Label.UNTRUSTED)
    result = await rig.one(
        "who", '{"_session_id": "evil", "_untrusted_source": false, "_x": 1, "word": "hi"}'
    )
    assert result.text == "terminal:test True hi"


# -- parallel (E5) -------------------------------------------------------------


async def test_twelve_reading_calls_run_eight_at_a_time_and_keep_their_order() -> None:
    """E5: peak concurrency exactly 8, seen at a barrier that opens only when eight have come."""
    full, running, peak = asyncio.Event(), 0, 0

    @tool(effect=Effect.READ, parallel=True)
    async def gather(number: int) -> str:
        """Meet the others."""
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == 8:
            full.set()
        await full.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return str(number)

    rig = Bench([gather])
    async with asyncio.timeout(DEADLINE):
        results = await rig.run(
            *(("gather", json.dumps({"number": number})) for number in range(12))
        )
    assert peak == 8
    assert [result.text if result else "" for result in results] == [
        str(number) for number in range(12)
    ]
    assert [message.text for message in rig.turn.messages[-12:]] == [
        str(number) for number in range(12)
    ]
    await rig.turn.commit()
    assert len([event for event in rig.journal.events if isinstance(event, ToolStarted)]) == 12


async def test_a_call_that_is_not_parallel_runs_alone() -> None:
    running, peak = 0, 0

    @tool(effect=Effect.READ)
    async def single() -> str:
        """Be alone."""
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    await Bench([single]).run(*[("single", "{}")] * 3)
    assert peak == 1


async def test_writes_to_different_paths_may_run_together_and_overlapping_ones_may_not() -> None:
    order: list[str] = []
    both = asyncio.Barrier(2)

    @tool(effect=Effect.WRITE, parallel=True, paths=("path",))
    async def put(path: str, alone: bool = False) -> str:
        """Put something somewhere."""
        order.append(f"+{path}")
        if not alone:
            await both.wait()
        order.append(f"-{path}")
        return "ok"

    rig = Bench([put])
    calls = [
        {"path": "a/x"},
        {"path": "b"},
        {"path": "b/c", "alone": True},
        {"path": "b", "alone": True},
    ]
    async with asyncio.timeout(DEADLINE):
        await rig.run(*(("put", json.dumps(call)) for call in calls))
    assert order[:2] == ["+a/x", "+b"]
    assert order[4:] == ["+b/c", "-b/c", "+b", "-b"]


# -- approvals (B8) ------------------------------------------------------------


async def test_a_risky_call_waits_for_a_person_and_its_neighbours_do_not_wait_for_it() -> None:
    rig, diary = bench()
    first, second = await rig.run(("smash", '{"what": "vase"}'), ("look", "{}"))
    assert first is None
    assert second and second.text == "saw here"
    assert diary.lines == ["look here"]
    assert rig.turn.pending[0].is_waiting
    assert "ApprovalAsked" in kinds(rig.journal.events)


async def test_the_question_is_bound_to_the_exact_arguments_and_expires() -> None:
    rig, _ = bench()
    await rig.run(("smash", '{"what":  "vase", "_session_id": "x"}'))
    asked = cast(ApprovalAsked, rig.recorded(ApprovalAsked)[0])
    assert asked.arguments == '{"what": "vase"}'
    assert (
        asked.args_hash
        == args_hash("smash", {"what": "vase"})
        != args_hash("smash", {"what": "cup"})
    )
    await rig.run(("smash", '{"what": "vase"}'))
    other = cast(ApprovalAsked, rig.recorded(ApprovalAsked)[1])
    assert len(asked.token_hash) == 64 and asked.token_hash != other.token_hash
    assert (asked.expires - NOON).total_seconds() == 300


async def test_a_question_for_a_session_from_outside_stands_for_a_day() -> None:
    rig, _ = bench(session_label=Label.UNTRUSTED)
    await rig.run(("note", '{"text": "hi"}'))
    assert (
        cast(ApprovalAsked, rig.recorded(ApprovalAsked)[0]).expires - NOON
    ).total_seconds() == 24 * 3600


async def test_after_a_yes_the_call_runs_once() -> None:
    rig, diary = bench()
    await rig.run(("smash", '{"what": "vase"}'))
    rig.answer(rig.turn.pending[0].call_id)
    await rig.again()
    await rig.again()
    assert diary.lines == ["smash vase"]
    assert len(rig.recorded(CallJudged)) == 1


@pytest.mark.parametrize(
    ("answer", "said", "reason"),
    [
        (Answer.DENY, "not that one", "not that one"),
        (Answer.DENY, "", "owner said no"),
        (Answer.EXPIRED, "", "nobody answered in time"),
    ],
)
async def test_a_no_is_a_result_with_its_reason(answer: Answer, said: str, reason: str) -> None:
    rig, diary = bench()
    await rig.run(("smash", '{"what": "vase"}'))
    rig.answer(rig.turn.pending[0].call_id, answer, said)
    await rig.again()
    result = rig.results[0]
    assert result and result.outcome is Outcome.REJECTED
    assert json.loads(result.text) == {"rejected": True, "reason": reason}
    assert diary.lines == []


async def test_two_gated_calls_of_one_reply_wait_each_on_their_own() -> None:
    """B8."""
    rig, diary = bench()
    await rig.run(("smash", '{"what": "vase"}'), ("smash", '{"what": "cup"}'))
    second = rig.turn.pending[1].call_id
    rig.answer(second)
    await rig.again()
    assert diary.lines == ["smash cup"]
    assert [state.call_id for state in rig.turn.pending] == [rig.turn.calls[0].call_id]
    assert len(rig.recorded(ApprovalAsked)) == 2


async def test_a_question_is_not_put_again_after_a_restart() -> None:
    """Crash matrix 15."""
    rig, _ = bench()
    await rig.run(("smash", '{"what": "vase"}'))
    assert kinds(rig.journal.events)[-2:] == ["CallJudged", "ApprovalAsked"]
    rig.restart()
    await rig.again()
    assert len(rig.recorded(ApprovalAsked)) == 1
    assert rig.turn.pending[0].is_waiting


async def test_a_standing_permission_spares_the_question() -> None:
    rig, diary = bench(granted=("smash",))
    await rig.run(("smash", '{"what": "vase"}'))
    assert diary.lines == ["smash vase"]


async def test_approvals_always_asks_before_a_plain_write() -> None:
    rig, _ = bench(approvals="always")
    assert await rig.run(("note", '{"text": "hi"}'), ("look", "{}")) != [None, None]
    assert [state.call.name for state in rig.turn.pending] == ["note"]


async def test_what_a_fetched_page_says_makes_the_next_write_a_question() -> None:
    """trust.md: a turn's label joins everything it has read."""
    rig, diary = bench()
    await rig.run(("fetch", '{"url": "http://x/"}'))
    assert rig.turn.label is Label.UNTRUSTED
    await rig.run(("note", '{"text": "as the page says"}'))
    assert diary.lines == []
    assert rig.turn.pending[0].is_waiting


# -- retries (E6) --------------------------------------------------------------


async def test_a_passing_trouble_of_a_reading_tool_is_tried_again_off_budget() -> None:
    """E6."""
    rig, diary = bench()
    diary.failures = 2
    result = await rig.one("look")
    assert result.text == "saw here"
    assert rig.naps.taken == [0.5, 1.0]
    assert [cast(ToolRetried, event).wait_s for event in rig.recorded(ToolRetried)] == [0.5, 1.0]


async def test_retries_come_to_an_end() -> None:
    rig, diary = bench()
    diary.failures = 9
    result = await rig.one("look")
    assert (result.outcome, result.text, len(diary.lines)) == (Outcome.ERROR, "busy, try again", 3)


async def test_a_tool_with_an_effect_is_never_tried_again_by_itself() -> None:
    rig, diary = bench(granted=("smash",))
    diary.failures = 1
    result = await rig.one("smash", '{"what": "vase"}')
    assert (result.text, diary.lines) == ("it bounced", ["smash vase"])


# -- crashes, stops, disks -----------------------------------------------------


async def crashed(rig: Bench, *call: str) -> None:
    """The process dies between the start of the call and its result."""
    rig.asks((call[0], call[1]))
    state = rig.turn.pending[0]
    rig.turn.record(ToolStarted(state.call_id, call[0], Effect.DESTRUCTIVE), NOON)
    await rig.turn.commit()
    rig.restart()
    await rig.again()


async def test_an_effect_that_was_cut_by_a_crash_is_unknown_and_not_run_again() -> None:
    """Crash matrix 7 and 8."""
    rig, diary = bench(granted=("smash",))
    await crashed(rig, "smash", '{"what": "vase"}')
    result = rig.results[0]
    assert result and result.outcome is Outcome.UNKNOWN
    assert "may or may not have happened; it was not run again. Tell the user." in result.text
    assert diary.lines == []


async def test_a_reading_call_that_was_cut_by_a_crash_runs_again() -> None:
    rig, _ = bench()
    await crashed(rig, "look", "{}")
    assert rig.results[0] and rig.results[0].text == "saw here"
    assert [cast(ToolStarted, event).attempt for event in rig.recorded(ToolStarted)] == [1, 2]


async def test_a_cut_call_of_a_tool_that_is_gone_is_unknown_too() -> None:
    rig, _ = bench()
    await crashed(rig, "vanished", "{}")
    assert rig.results[0] and rig.results[0].outcome is Outcome.UNKNOWN


async def test_no_tool_runs_when_its_start_cannot_be_written_and_nothing_is_called_unknown() -> (
    None
):
    """Crash matrix 20."""
    rig, diary = bench()
    rig.asks(("note", '{"text": "hi"}'))
    await rig.turn.commit()
    rig.turn.record(
        CallJudged(rig.turn.pending[0].call_id, "note", Effect.WRITE, Decision.ALLOW, "ok"), NOON
    )
    await rig.turn.commit()
    rig.journal.broken = 1
    with pytest.raises(StoreUnavailable):
        await rig.again()
    assert diary.lines == []
    await rig.turn.commit()
    assert rig.results[0] and (rig.results[0].outcome, rig.results[0].text) == (
        Outcome.NOT_RUN,
        "Not run: the disk is full",
    )


async def test_the_disk_failing_under_parallel_calls_is_told_as_that() -> None:
    rig, _ = bench()

    @tool(effect=Effect.WRITE, parallel=True)
    async def spoil() -> str:
        """Break the disk."""
        rig.journal.broken = 9
        return "ok"

    other = Bench([spoil], journal=rig.journal)
    with pytest.raises(StoreUnavailable):
        await other.run(("spoil", "{}"), ("spoil", "{}"))


@pytest.mark.parametrize(("kind", "error"), [("disk", StoreUnavailable), ("fenced", Fenced)])
async def test_a_journal_that_fails_inside_a_tool_stops_the_turn_and_is_not_the_models_to_read(
    kind: str, error: type[Exception]
) -> None:
    rig, _ = bench()
    with pytest.raises(error):
        await rig.one("fail", json.dumps({"kind": kind}))


async def test_a_stop_while_the_start_is_being_written_leaves_the_call_not_run_and_the_journal_whole() -> (
    None
):
    rig, diary = bench()
    await rig.turn.commit()
    rig.asks(("note", '{"text": "hi"}'))
    rig.turn.record(
        CallJudged(rig.turn.pending[0].call_id, "note", Effect.WRITE, Decision.ALLOW, "ok"), NOON
    )
    await rig.turn.commit()
    rig.journal.slow, rig.journal.reached = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(rig.again())
    await rig.journal.reached.wait()
    running.cancel()
    rig.journal.slow.set()
    await asyncio.wait([running])
    assert running.cancelled()
    await rig.turn.commit()
    assert diary.lines == []
    assert rig.results[0] and rig.results[0].outcome is Outcome.NOT_RUN
    seqs = [one.seq for commit in rig.journal.commits for one in commit]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_a_cut_turn_gets_a_result_for_every_call() -> None:
    """Started effect: unknown; started read and what never began: not run."""
    begun = asyncio.Event()

    @tool(effect=Effect.WRITE)
    async def drag() -> str:
        """Take for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    rig = Bench([drag, look], {Diary: Diary()})
    rig.asks(("drag", "{}"), ("look", "{}"))
    running = asyncio.create_task(rig.again())
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    rig.dispatcher.settle_cut(rig.turn, "the user said stop")
    await rig.turn.commit()
    assert [result.outcome if result else None for result in rig.results] == [
        Outcome.UNKNOWN,
        Outcome.NOT_RUN,
    ]
    assert rig.results[1] and rig.results[1].text == "Not run: the user said stop."


async def test_a_stop_passes_through_parallel_calls() -> None:
    begun = asyncio.Barrier(3)

    @tool(effect=Effect.READ, parallel=True)
    async def drag() -> str:
        """Take for ever."""
        await begun.wait()
        await asyncio.Event().wait()
        return "never"

    rig = Bench([drag])
    rig.asks(("drag", "{}"), ("drag", "{}"))
    running = asyncio.create_task(rig.again())
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    rig.dispatcher.settle_cut(rig.turn, "stopped")
    assert [result.outcome if result else None for result in rig.results] == [Outcome.NOT_RUN] * 2


# -- A6 ------------------------------------------------------------------------


async def test_more_iterations_come_in_tens_up_to_the_cap() -> None:
    """A6: two calls in one reply each add 10, never above 25; then it answers with an error."""
    rig, _ = bench(limits=Limits(max_iterations=10, max_iterations_cap=25))
    call = ("request_more_iterations", '{"reason": "long task"}')
    first, second = await rig.run(call, call)
    assert first and second and (first.outcome, second.outcome) == (Outcome.OK, Outcome.OK)
    assert [
        cast(BudgetExtended, event).max_iterations for event in rig.recorded(BudgetExtended)
    ] == [20, 25]
    assert rig.turn.max_iterations == 25
    third = await rig.one(*call)
    assert third.outcome is Outcome.ERROR
    assert "limit of 25" in third.text
    assert rig.turn.max_iterations == 25


async def test_the_extension_is_written_with_its_result() -> None:
    rig, _ = bench()
    await rig.one("request_more_iterations", '{"reason": "long task"}')
    await rig.turn.commit()
    assert kinds([one.event for one in rig.journal.commits[-1]])[-2:] == [
        "BudgetExtended",
        "ToolFinished",
    ]


@pytest.mark.parametrize("arguments", ["{}", '{"reason": ""}', '{"reason": "  "}'])
async def test_a_reason_is_required(arguments: str) -> None:
    rig, _ = bench()
    assert (await rig.one("request_more_iterations", arguments)).outcome is Outcome.ERROR
    assert rig.turn.max_iterations == 10


# -- watching ------------------------------------------------------------------


async def test_watchers_see_what_a_tool_prints() -> None:
    @tool(effect=Effect.READ)
    async def talk(context: ToolContext) -> str:
        """Print while working."""
        context.on_output("half way")
        return "done"

    rig = Bench([talk])
    with rig.live.subscribe("t1") as seen:
        await rig.one("talk")
        assert await seen.get() == Printed(rig.turn.calls[0].call_id, "half way")


async def test_every_result_says_how_long_it_took() -> None:
    rig, _ = bench()
    finished = cast(ToolFinished, (await rig.one("hang")))
    assert 0.04 < finished.seconds < DEADLINE
