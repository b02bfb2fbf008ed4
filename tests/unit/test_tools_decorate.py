"""A new tool is one decorated function: what the model sees of it, what the house fills in."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from daemon.core.events import Event
from daemon.core.trust import Effect
from daemon.core.turn import Turn
from daemon.tools.base import BadArguments, Tool, ToolContext, ToolMeta, ToolOutput
from daemon.tools.signature import bind, tool
from tests.fakes.tools import ListJournal, SteadyClock


class Place(BaseModel):
    """Somewhere."""

    name: str
    title: str = ""


class Engine:
    """A part of the house."""

    def __init__(self, power: int) -> None:
        self.power = power


def context() -> ToolContext:
    turn = Turn("t1", "terminal:test", ListJournal())

    async def note(event: Event) -> None:
        turn.record(event, SteadyClock().now())

    async def check(url: str) -> None: ...

    async def stay() -> None: ...

    return ToolContext(
        "terminal:test", turn, "1.0", True, SteadyClock(), lambda text: None, note, check, stay
    )


@tool(effect=Effect.EGRESS, retries=1, timeout_s=7, critical=("to",), paths=("copy",))
async def travel(
    engine: Engine,
    ctx: ToolContext,
    _session_id: str,
    _untrusted_source: bool,
    to: Place,
    how: Literal["fast", "slow"] = "slow",
    stops: list[str] | None = None,
    days: Annotated[int, Field(ge=1, description="how long")] = 1,
    copy: bool = False,
) -> str:
    """Go somewhere,
    by some means.

    What stands here is for people who read the code.
    """
    return f"{engine.power} {ctx.call_id} {_session_id} {_untrusted_source} {to.name} {how} {stops} {days} {copy}"


def bound() -> Tool:
    return bind([travel], {Engine: Engine(5)})[0]


def test_the_model_sees_the_first_paragraph_and_its_own_parameters_only() -> None:
    spec = bound().spec
    assert (spec.name, spec.description) == ("travel", "Go somewhere, by some means.")
    properties = spec.parameters["properties"]
    assert isinstance(properties, dict)
    assert properties == {
        "to": {"$ref": "#/$defs/Place"},
        "how": {"enum": ["fast", "slow"], "type": "string", "default": "slow"},
        "stops": {"type": "array", "items": {"type": "string"}},
        "days": {"type": "integer", "minimum": 1, "description": "how long", "default": 1},
        "copy": {"type": "boolean"},
    }
    assert spec.parameters["required"] == ["to"]
    assert spec.parameters["$defs"] == {
        "Place": {
            "description": "Somewhere.",
            "type": "object",
            "properties": {"name": {"type": "string"}, "title": {"type": "string"}},
            "required": ["name"],
        }
    }


def test_the_metadata_is_what_was_declared() -> None:
    assert bound().meta == ToolMeta(Effect.EGRESS, False, False, 1, 7, ("to",), paths=("copy",))


async def test_the_function_gets_its_parts_its_context_and_the_injected_values() -> None:
    """A10."""
    output = await bound().run({"to": {"name": "Rome"}, "days": "3", "copy": True}, context())
    assert output == ToolOutput("5 1.0 terminal:test True Rome slow None 3 True")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "to: Field required"),
        ({"to": {"name": "x"}, "how": "late"}, "how: Input should be 'fast' or 'slow'"),
        ({"to": {"name": "x"}, "days": 0}, "days: Input should be greater than or equal to 1"),
        ({"to": {}}, "to.name: Field required"),
        ({"to": {"name": "x"}, "engine": 1}, "engine: Extra inputs are not permitted"),
        ({"to": {"name": "x"}, "_session_id": "y"}, "_session_id: Extra inputs are not permitted"),
    ],
)
def test_bad_arguments_say_what_was_expected(arguments: dict[str, object], fault: str) -> None:
    check = bound().check
    assert check
    with pytest.raises(BadArguments) as caught:
        check(arguments)
    assert fault in str(caught.value)
    assert "Expected: travel(to: Place, how?: " in str(caught.value)


def test_a_missing_part_is_told_at_once() -> None:
    with pytest.raises(LookupError, match="tool travel needs a Engine"):
        bind([travel], {})


@tool(effect=Effect.READ)
async def untyped(thing) -> str:  # type: ignore[no-untyped-def]
    """Nobody knows what thing is."""
    return str(thing)


@tool(effect=Effect.READ)
async def overreaching(_secret: str) -> str:
    """Wants what is not given."""
    return _secret


@tool(effect=Effect.READ)
async def silent() -> str:
    return "x"


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        (untyped, "parameter thing needs a type"),
        (overreaching, "_secret is not one of the injected parameters"),
        (silent, "needs a docstring"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_at_start(
    definition: object, fault: str
) -> None:
    with pytest.raises(TypeError, match=fault):
        bind([definition], {})  # pyrefly: ignore[bad-argument-type]


def test_a_tool_says_what_it_does_or_counts_as_destructive() -> None:
    assert ToolMeta().effect is Effect.DESTRUCTIVE


@tool(effect=Effect.READ)
async def plain(
    text: str, words: list[str], rows: list[list[int]], much: float = 0.5, none: int = 0, on: bool = True,
    maybe: list[str] | None = None, name: str | None = "x",
) -> str:  # fmt: skip
    """Nothing but plain arguments."""
    return f"{text} {words} {rows} {much} {none} {on} {maybe} {name}"


@tool(effect=Effect.READ)
async def bounded(days: Annotated[int, Field(ge=1, description="how long")] = 1) -> str:
    """A plain argument of which more is told."""
    return f"{days}"


def test_the_schema_of_plain_arguments_is_what_pydantic_says_of_them() -> None:
    shown = {one.name: one.spec.parameters for one in bind([plain, bounded], {})}
    assert shown["plain"] == {
        "properties": {
            "text": {"type": "string"},
            "words": {"items": {"type": "string"}, "type": "array"},
            "rows": {"items": {"items": {"type": "integer"}, "type": "array"}, "type": "array"},
            "much": {"default": 0.5, "type": "number"},
            "none": {"type": "integer"},
            "on": {"default": True, "type": "boolean"},
            "maybe": {"items": {"type": "string"}, "type": "array"},
            "name": {"default": "x", "type": "string"},
        },
        "required": ["text", "words", "rows"],
        "type": "object",
    }
    told = {"default": 1, "description": "how long", "minimum": 1, "type": "integer"}
    assert shown["bounded"] == {"properties": {"days": told}, "type": "object"}
