"""A server's form as questions to a person, and what they say as its values (G2)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from mcp.types import ElicitRequestFormParams, ElicitRequestURLParams

from daemon.tools.mcp.client import RunningCall, RunningCalls
from daemon.tools.mcp.questions import FormReply, make_question, read_form
from daemon.tools.mcp.transports.http import Connection

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
