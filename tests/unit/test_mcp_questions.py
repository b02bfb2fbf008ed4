"""A server's form as questions to a person, and what they say as its values (G2)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from mcp.types import ElicitRequestFormParams, ElicitRequestURLParams

from daemon.agent.system_questions import QuestionText
from daemon.core.clock import SystemClock
from daemon.core.events import ApprovalAnswered
from daemon.core.trust import Answer
from daemon.store.sqlite import SqliteStore
from daemon.tools.base import ToolOutput
from daemon.tools.mcp.client import ANSWER_S, RunningCall, RunningCalls
from daemon.tools.mcp.open_calls import OpenCall, OpenCalls
from daemon.tools.mcp.questions import FormReply, Unaskable, Unclear, make_question, read_form
from daemon.tools.mcp.transports.http import Connection, PatientStream

COLORS = ["red", "green", "blue"]
TITLED = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]


@pytest.mark.parametrize(
    ("schema", "said", "found", "fault"),
    [
        ({"type": "string"}, " tomorrow ", "tomorrow", ""),
        ({"type": "integer"}, "4", 4, ""),
        ({"type": "number"}, "2,5", 2.5, ""),
        ({"type": "integer"}, "four", "four", "'four' is not of type 'integer'"),
        ({"type": "number", "maximum": 3}, "4", 4, "4 is greater than the maximum of 3"),
        ({"type": "boolean"}, "no", False, ""),
        ({"type": "string", "enum": COLORS}, "GREEN", "green", ""),
        ({"type": "string", "enum": COLORS}, "pink", "pink", "'pink' is not one of"),
        ({"type": "string", "enum": COLORS, "enumNames": ["R", "G", "B"]}, "g", "green", ""),
        ({"type": "string", "oneOf": TITLED}, "red", "#f00", ""),
        ({"type": "integer", "enum": [2, 3, 4]}, "2", 2, ""),
        ({"type": "integer"}, "12345678901234567", 12345678901234567, ""),
        ({"type": "number"}, "0,125", 0.125, ""),
        ({"type": "number"}, "1.2340", 1.234, ""),
        ({"type": "number"}, "nan", "nan", "'nan' is not of type 'number'"),
        ({"type": "number"}, "-Infinity", "-Infinity", "is not of type 'number'"),
        ({"type": "string", "enum": ["a", "A"]}, "A", "A", ""),
        ({"type": "array", "items": {"enum": COLORS}}, "red, Blue", ["red", "blue"], ""),
        ({"type": "array", "items": {"anyOf": TITLED}, "minItems": 1}, "Green", ["#0f0"], ""),
    ],
)
async def test_what_a_person_says_becomes_the_value_that_the_schema_wants(
    schema: Mapping[str, Any], said: str, found: object, fault: str
) -> None:
    (field,) = read_form({"type": "object", "properties": {"one": schema}})
    assert field.read(said) == found
    assert fault in await field.find_fault(found)
    assert bool(fault) == bool(await field.find_fault(found))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer"}, "1,000"),
        ({"type": "number"}, "1.000"),
        ({"type": "string", "enum": ["go", "Go"]}, "GO"),
    ],
)
def test_what_may_mean_two_values_is_asked_again(schema: Mapping[str, Any], said: str) -> None:
    (field,) = read_form({"properties": {"one": schema}})
    with pytest.raises(Unclear):
        field.read(said)


@pytest.mark.parametrize(
    "form",
    [
        {"one": {"enum": ["x" * 200 + "a", "x" * 200 + "b"]}},
        {"one": {"enum": ["a\u200b", "a"]}},
        {"one": {"enum": ["1", 1]}},
        {"one": {"enum": ["x"] * 10_001}},
        {"one": {"enum": [["x"]]}},
        {"one": {"title": "x" * 301}},
        {"one": {"pattern": "x" * 10_001}},
        {str(number): {"type": "string"} for number in range(7)},
    ],
)
def test_a_form_that_cannot_be_put_whole_is_put_to_nobody(form: Mapping[str, Any]) -> None:
    with pytest.raises(Unaskable):
        read_form({"properties": form, "required": list(form)})


def test_the_words_of_an_option_go_before_its_number() -> None:
    asked = QuestionText("Which?", options=("2", "3", "4"))
    assert [asked.find_option(said) for said in ("2", "4", "1")] == ["2", "4", "2"]
    assert QuestionText("Which?", options=("go", "Go")).find_option("GO") == ""


def test_only_what_is_required_is_asked_and_all_where_nothing_is() -> None:
    form = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert [one.name for one in read_form(form)] == ["a", "b"]
    assert [one.name for one in read_form({**form, "required": ["b"]})] == ["b"]
    many = {str(n): {"type": "string"} for n in range(50)}
    assert len(read_form({"properties": many})) == 6
    assert read_form({}) == read_form({"properties": [1]}) == []


def test_few_options_are_buttons_and_many_are_named() -> None:
    few, many = (
        read_form({"properties": {"color": {"enum": [*COLORS, *more]}}})[0]
        for more in ([], ["pink", "grey"])
    )
    assert make_question("desk", "Which?", few, "").options == tuple(COLORS)
    shown = make_question("desk", "Which?", many, "")
    assert shown.options == () and "One of: red, green, blue, pink, grey." in shown.text


FORM = ElicitRequestFormParams(message="Which?", requested_schema={"type": "object"})


async def test_the_time_that_a_person_takes_is_not_the_calls() -> None:
    async with asyncio.timeout(60) as limit:

        async def ask(_message: str, _schema: Mapping[str, Any]) -> FormReply:
            assert limit.when() is None
            return FormReply("accept", {})

        assert (await RunningCall(ask, limit, Connection()).elicit(FORM)).action == "accept"
        assert limit.when() is not None


async def test_nobody_is_asked_where_it_could_be_anybodys_call_or_to_open_an_address() -> None:
    async def ask(_message: str, _schema: Mapping[str, Any]) -> FormReply:
        raise AssertionError("somebody was asked")

    running = RunningCalls(Connection())
    async with asyncio.timeout(60) as limit:
        assert (await running.elicit(None, FORM)).action == "cancel"
        with running.note(ask, limit), running.note(ask, limit):
            assert (await running.elicit(None, FORM)).action == "cancel"
        with running.note(ask, limit):
            url = ElicitRequestURLParams(message="Sign in", url="https://x.example/", elicitation_id="1")
            assert (await running.elicit(None, url)).action == "decline"


async def test_the_limit_of_a_call_goes_on_with_what_was_left_once_nobody_is_asked() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    events = [first, second]

    async def ask(_message: str, _schema: Mapping[str, Any]) -> FormReply:
        await events.pop(0).wait()
        return FormReply("accept", {})

    async with asyncio.timeout(ANSWER_S / 2) as limit:
        call = RunningCall(ask, limit, Connection())
        asked = [asyncio.create_task(call.elicit(FORM)) for _ in events]
        while events:
            await asyncio.sleep(0)
        assert limit.when() is None
        first.set()
        await asked[0]
        assert limit.when() is None, "the second still waits"
        second.set()
        await asked[1]
        ends = limit.when()
        assert ends is not None
        assert ends - asyncio.get_running_loop().time() <= ANSWER_S / 2


async def test_nobody_is_asked_while_an_answer_to_a_call_that_was_given_up_may_come() -> None:
    async def ask(_message: str, _schema: Mapping[str, Any]) -> FormReply:
        return FormReply("accept", {})

    running = RunningCalls(Connection(), unanswered={3})
    async with asyncio.timeout(60) as limit:
        with running.note(ask, limit):
            assert (await running.elicit(None, FORM)).action == "cancel"
            running.unanswered.discard(3)
            assert (await running.elicit(None, FORM)).action == "accept"


async def test_silence_is_not_too_long_while_a_person_is_asked() -> None:
    more = asyncio.Event()

    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"question"
            await more.wait()
            yield b"result"

    wire = Connection()
    parts = aiter(PatientStream(Body(), wire))
    assert await anext(parts) == b"question"
    wire.begin_asking()
    async with wire.limit_silence() as limit:
        assert limit.when() is None
        wire.end_asking()
        assert limit.when() is not None
    more.set()
    assert [part async for part in parts] == [b"result"]
    with pytest.raises(httpx2.ReadTimeout):
        async with wire.limit_silence() as limit:
            limit.reschedule(asyncio.get_running_loop().time())
            await asyncio.Future()


SURE: Mapping[str, Any] = {"type": "object", "properties": {}}
YES = ApprovalAnswered("1.0", Answer.CHOICE, "owner", "Yes")


async def test_the_answer_to_a_withdrawn_question_is_nobodys() -> None:
    opened, replies = OpenCall("desk"), list[FormReply]()
    withdrawn = asyncio.Event()

    async def run() -> ToolOutput:
        first = asyncio.create_task(opened.ask("May I look?", SURE))
        await withdrawn.wait()
        first.cancel()
        await asyncio.wait((first,))
        replies.append(await opened.ask("Delete all?", SURE))
        return ToolOutput("done")

    opened.begin(run())
    assert "May I look?" in str((await opened.wait(None)).question)
    withdrawn.set()
    assert "Delete all?" in str((await opened.wait(YES)).question)
    assert not replies
    assert (await opened.wait(YES)).text == "done"
    assert replies == [FormReply("accept", {})]


async def test_what_was_answered_is_not_asked_again_when_the_same_is_sent_once_more() -> None:
    opened = OpenCall("desk")

    async def run() -> ToolOutput:
        first = await opened.ask("Sure?", SURE)
        opened.begin_again()
        assert await opened.ask("Sure?", SURE) == first
        await opened.ask("Sure?", SURE)  # the server asks the same once more
        return ToolOutput("done")

    opened.begin(run())
    assert (await opened.wait(None)).question
    assert (await opened.wait(YES)).question
    assert (await opened.wait(YES)).text == "done"


async def test_a_call_whose_tool_is_gone_ends(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "journal.db")
    calls, gone, kept = OpenCalls(store, SystemClock()), OpenCall("desk", "a"), OpenCall("desk", "b")
    for name, one in (("turn 1.0", gone), ("turn 1.1", kept)):

        async def run(opened: OpenCall = one) -> ToolOutput:
            await opened.ask("Sure?", SURE)
            return ToolOutput("done")

        one.begin(run())
        assert (await one.wait(None)).question
        calls.keep(name, one)
    calls.end_all_but({"b"})
    await gone.wait_for_end(10)
    assert gone.has_ended and not kept.has_ended
    assert sorted(calls.end_all()) == ["turn 1.0", "turn 1.1"] and len(calls) == 0
    await kept.wait_for_end(10)
    assert kept.has_ended
    await store.aclose()


async def test_a_call_of_a_turn_that_is_set_aside_ends() -> None:
    class Journal:
        async def read(self, _look: object) -> object:
            return SimpleNamespace(ended_at=SystemClock().now()), None

    calls, opened = OpenCalls(cast("Any", Journal()), SystemClock()), OpenCall("desk")

    async def run() -> ToolOutput:
        await opened.ask("Sure?", SURE)
        return ToolOutput("done")

    opened.begin(run())
    assert (await opened.wait(None)).question
    calls.keep("turn 1.0", opened)
    await opened.wait_for_end(10)
    assert opened.has_ended and len(calls) == 0
