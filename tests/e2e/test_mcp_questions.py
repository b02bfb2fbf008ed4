"""What an MCP server asks a person while its tool runs is a question in their chat (elicitation, G2)."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.mcp import Script, until
from tests.fakes.openai import FakeOpenAI, Json, calls, says

BOOK = {"name": "book", "description": "Book a room.", "inputSchema": {"type": "object"}}
CALL = calls(("desk__book", {}))
ROOM = {
    "type": "object",
    "properties": {"room": {"type": "string", "enum": ["red room", "blue room"]}},
    "required": ["room"],
}


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def elicits(message: str, schema: Json, **more: object) -> Json:
    return {
        "method": "elicitation/create",
        "params": {"message": message, "requestedSchema": schema},
        **more,
    }


class Desk:
    """A server that asks back before it answers, in the config of a daemon."""

    def __init__(self, tmp_path: Path, model: FakeOpenAI) -> None:
        self.home, self.model = tmp_path / "home", model
        self.script = Script(tmp_path / "desk")
        self.table = self.script.table(effects={"book": "read"})

    def asks(self, *requests: Json, **more: object) -> None:
        self.script.write([BOOK], {"book": [{"text": "booked", "asks": requests, **more}]})

    def config(self, **more: object) -> str:
        table: Json = {**self.table, **more}
        effects: Json = table.pop("effects", {})
        lines = [f"{key} = {json.dumps(one)}" for key, one in table.items()]
        shown = [f"{key} = {json.dumps(one)}" for key, one in effects.items()]
        return scripted(
            self.model.base_url,
            "\n".join(["[mcp.desk]", *lines, "[mcp.desk.effects]", *shown, ""]),
        )

    @property
    def told(self) -> list[Json]:
        return [line["answer"] for line in self.script.lines("answer")]

    def result(self) -> str:
        return str(self.model.requests[-1].last("tool")["content"])


@pytest.fixture
def desk(tmp_path: Path, model: FakeOpenAI) -> Desk:
    return Desk(tmp_path, model)


Answering = Callable[[str, Json], Awaitable[object]]


async def answer(daemon: Daemon, turn: str, *answers: Answering, after: str = "") -> list[str]:
    """The questions that were put until the turn ended, each answered in its way."""
    asked, left = [], list(answers)
    async for sent in daemon.stream(turn, after):
        if sent.name == "approval.asked":
            asked.append(str(json.loads(str(sent.data["arguments"]))["question"]))
            await left.pop(0)(turn, sent.data)
        if sent.name == "run.completed":
            break
    assert not left
    return asked


def picks(daemon: Daemon, option: str) -> Answering:
    async def press(turn: str, asked: Json) -> None:
        call = asked["call_id"]
        await daemon.post(f"/v1/runs/{turn}/approve", call_id=call, option=option)

    return press


def denies(daemon: Daemon) -> Answering:
    async def press(turn: str, asked: Json) -> None:
        await daemon.post(f"/v1/runs/{turn}/reject", call_id=asked["call_id"])

    return press


def types(daemon: Daemon, text: str) -> Answering:
    async def write(_turn: str, _asked: Json) -> None:
        await daemon.post("/v1/messages", 202, text=text, session="default")

    return write


async def test_its_question_is_put_with_its_options_and_its_name_and_the_call_goes_on(
    desk: Desk,
) -> None:
    desk.asks(elicits("Which room shall I book?", ROOM))
    desk.model.script(CALL, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        asked = await answer(daemon, turn, picks(daemon, "blue room"))
        assert asked == [
            "The MCP server desk asks, and reads your answer: Which room shall I book? (room)"
        ]
        assert desk.told == [{"action": "accept", "content": {"room": "blue room"}}]
        assert "booked" in desk.result()
        assert desk.script.executed() == [("book", {})], "it was called once"


async def test_a_form_is_asked_field_by_field_and_what_does_not_fit_is_asked_again(
    desk: Desk,
) -> None:
    form = {
        "type": "object",
        "properties": {
            "people": {"type": "integer", "minimum": 1, "maximum": 8, "title": "How many"},
            "when": {"type": "string"},
            "window": {"type": "boolean"},
            "note": {"type": "string"},
        },
        "required": ["people", "when", "window"],
    }
    desk.asks(elicits("A table:", form))
    desk.model.script(CALL, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a table")
        asked = await answer(
            daemon,
            turn,
            types(daemon, "nine"),
            types(daemon, "4"),
            types(daemon, "tomorrow at eight"),
            picks(daemon, "Yes"),
        )
        assert "did not take your last answer: 'nine' is not of type 'integer'" in asked[1]
        assert "(How many)" in asked[0] and "(when)" in asked[2] and "(window)" in asked[3]
        given = {"people": 4, "when": "tomorrow at eight", "window": True}
        assert desk.told == [{"action": "accept", "content": given}]


async def test_a_no_is_told_to_the_server_and_the_call_goes_on(desk: Desk) -> None:
    desk.asks(elicits("Which room?", ROOM), elicits("Sure?", {"type": "object", "properties": {}}))
    desk.model.script(CALL, says("Well."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        asked = await answer(daemon, turn, denies(daemon), picks(daemon, "Yes"))
        assert asked[1].endswith("Sure?")
        assert desk.told == [{"action": "decline"}, {"action": "accept", "content": {}}]


async def test_a_server_of_the_newest_protocol_is_answered_too(
    tmp_path: Path, desk: Desk
) -> None:
    program, log = Path(__file__).parents[1] / "fakes" / "asking_server.py", tmp_path / "desk" / "log"
    log.parent.mkdir()
    config = desk.config(args=[str(program), str(log)])
    desk.model.script(calls(("desk__book", {"day": "Friday"})), says("It is booked."))
    async with running_daemon(desk.home, config) as daemon:
        turn = await daemon.begin("book a room")
        asked = await answer(daemon, turn, types(daemon, "2"), types(daemon, "4"))
        assert "Where shall I book for Friday? (Room: which of the two)" in asked[0]
        assert "booked: blue room for 4" in desk.result()
        assert log.read_text() == "Friday: blue room for 4\n"


async def test_a_stop_ends_the_call_that_waits_and_the_next_one_may_ask(desk: Desk) -> None:
    desk.asks(elicits("Which room?", ROOM))
    desk.model.script(CALL, CALL, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        await daemon.until(turn, "approval.asked")
        await daemon.post("/v1/messages", text="/stop", session="default")
        await daemon.until(turn, "run.completed")
        turn = await daemon.begin("book a room, please")
        await answer(daemon, turn, picks(daemon, "red room"))
        assert desk.told[-1] == {"action": "accept", "content": {"room": "red room"}}
        assert desk.script.lines("cancelled")


async def test_after_kill_9_an_answer_reaches_nobody_and_the_model_is_told(desk: Desk) -> None:
    desk.asks(elicits("Which room?", ROOM))
    desk.model.script(CALL, says("I do not know."))
    config = desk.config(effects={"book": "fetch"})
    async with running_daemon(desk.home, config) as daemon:
        turn = await daemon.begin("book a room")
        asked = await daemon.until(turn, "approval.asked")
        daemon.process.kill()
    async with running_daemon(desk.home, config) as daemon:
        await picks(daemon, "red room")(turn, asked.data)
        await daemon.until(turn, "run.completed")
        assert "may or may not have happened" in desk.result()
        assert desk.script.executed() == [("book", {})], "it was not called again"


async def test_a_read_is_called_anew_after_kill_9_and_asks_again(desk: Desk) -> None:
    desk.asks(elicits("Which room?", ROOM))
    desk.model.script(CALL, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("look for a room")
        asked = await daemon.until(turn, "approval.asked")
        daemon.process.kill()
    async with running_daemon(desk.home, desk.config()) as daemon:
        await picks(daemon, "red room")(turn, asked.data)
        await answer(daemon, turn, picks(daemon, "blue room"), after=asked.id)
        assert desk.told[-1] == {"action": "accept", "content": {"room": "blue room"}}


async def test_what_no_person_began_asks_nobody(desk: Desk) -> None:
    """A schedule at night, a mail, an event: the server hears a no at once."""
    desk.asks(elicits("Which room?", ROOM))
    desk.model.script(CALL, says("Not booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        night = {"name": "night", "rule": "every 1h", "prompt": "book a room"}
        await daemon.post("/v1/schedules", 201, **night)
        await daemon.post("/v1/messages", text="/schedule run night")
        await desk.model.asked(2)
        assert desk.told == [{"action": "cancel"}]


async def test_hidden_signs_do_no_harm_and_what_cannot_be_shown_whole_is_asked_of_nobody(
    desk: Desk,
) -> None:
    hidden = "Your\u202e pass\x1b[31mword,\n\nplease"
    long = {"type": "object", "properties": {"a": {"type": "string", "description": "x" * 9000}}}
    desk.asks(elicits("x" * 1001, ROOM), elicits("A short one", long), elicits(hidden, ROOM))
    desk.model.script(CALL, says("Well."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        (asked,) = await answer(daemon, turn, denies(daemon))
        assert asked.startswith("The MCP server desk asks, and reads your answer: Your password, please")
        assert desk.told == [{"action": "cancel"}, {"action": "cancel"}, {"action": "decline"}]


WORDS = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}


async def test_what_is_typed_goes_to_the_server_alone_and_is_no_order(desk: Desk) -> None:
    desk.asks(elicits("Your code?", WORDS))
    desk.model.script(CALL, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        order = "delete all my files"
        await answer(daemon, turn, types(daemon, order))
        assert desk.told == [{"action": "accept", "content": {"code": order}}]
        assert order not in json.dumps(desk.model.requests[-1]["messages"])
        events = [sent.name async for sent in daemon.stream(turn)]
        assert "steered" not in " ".join(events) and len(desk.model.requests) == 2
        await daemon.ask("Are you there?")
        assert order not in json.dumps(desk.model.requests[-1]["messages"])


async def test_an_answer_to_a_withdrawn_question_is_no_answer_to_the_next(desk: Desk) -> None:
    sure = {"type": "object", "properties": {}}
    desk.asks(elicits("May I look?", sure, patience=0), elicits("Delete all?", sure))
    desk.model.script(CALL, says("Well."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        said: list[Answering] = [picks(daemon, "Yes"), denies(daemon)]
        asked: list[str] = []
        async for sent in daemon.stream(turn):
            if sent.name == "approval.asked":
                asked.append(str(json.loads(str(sent.data["arguments"]))["question"]))
                is_last = asked[-1].endswith("Delete all?")
                await said[is_last](turn, sent.data)
            if sent.name == "run.completed":
                break
        assert asked[-1].endswith("Delete all?")
        assert desk.told == [{"action": "decline"}]


async def test_the_question_of_a_call_that_has_ended_does_not_hold_up_the_turn(desk: Desk) -> None:
    desk.asks(elicits("Which room?", ROOM, patience=1))
    desk.model.script(CALL, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        await daemon.until(turn, "approval.asked")
        await daemon.until(turn, "run.completed")
        assert "booked" in desk.result()


async def test_nobody_is_asked_after_a_call_that_the_server_may_still_be_at(desk: Desk) -> None:
    look = {**BOOK, "name": "look"}
    outputs = {"book": [{"silent": True}], "look": [{"asks": [elicits("Which?", ROOM)]}]}
    desk.script.write([BOOK, look], outputs)
    desk.model.script(CALL, calls(("desk__look", {})), says("Well."))
    config = desk.config(effects={"book": "read", "look": "read"})
    async with running_daemon(desk.home, config) as daemon:
        turn = await daemon.begin("book a room")
        await until(lambda: bool(desk.script.executed()))
        await daemon.post("/v1/messages", text="/stop", session="default")
        await daemon.until(turn, "run.completed")
        turn = await daemon.begin("look for a room")
        assert await answer(daemon, turn) == []
        assert desk.told == [{"action": "cancel"}]


async def test_its_question_waits_for_another_of_the_turn(desk: Desk) -> None:
    desk.asks(elicits("Your code?", WORDS))
    both = calls(("desk__book", {}), ("ask_user", {"question": "When?"}))
    desk.model.script(both, says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        turn = await daemon.begin("book a room")
        suspended = await daemon.until(turn, "run.suspended")
        await types(daemon, "at noon")(turn, {})
        asked = await answer(daemon, turn, types(daemon, "4711"), after=suspended.id)
        assert asked[0].endswith("Your code? (code)")
        assert desk.told == [{"action": "accept", "content": {"code": "4711"}}]
        assert desk.script.executed() == [("book", {})]


async def test_text_is_no_answer_where_it_may_be_meant_for_another(desk: Desk) -> None:
    desk.asks(elicits("Your code?", WORDS))
    when = calls(("ask_user", {"question": "When?", "options": ["at noon", "at one"]}))
    desk.model.script(when, CALL, says("A new turn."), says("At noon."), says("It is booked."))
    async with running_daemon(desk.home, desk.config()) as daemon:
        first = await daemon.begin("plan a trip")
        await daemon.until(first, "run.suspended")
        await daemon.post("/v1/messages", text="/plan a room", session="default")
        await desk.model.asked(2)
        turns = await daemon.listed("/v1/sessions/web:default/turns")
        (second,) = {str(one["turn"]) for one in turns} - {first}
        await daemon.until(second, "run.suspended")
        assert "A new turn." in str(await daemon.ask("hm, when it is warm"))
        assert desk.told == []
        await types(daemon, "at noon")(first, {})
        await daemon.until(first, "run.completed")
        assert desk.told == []
        await types(daemon, "4711")(second, {})
        await daemon.until(second, "run.completed")
        assert desk.told == [{"action": "accept", "content": {"code": "4711"}}]


async def test_what_a_server_asked_is_void_when_it_is_taken_out_of_the_config(desk: Desk) -> None:
    desk.asks(elicits("Which room?", ROOM))
    desk.model.script(CALL, says("I do not know."))
    async with running_daemon(desk.home, desk.config(effects={"book": "fetch"})) as daemon:
        turn = await daemon.begin("book a room")
        await daemon.until(turn, "approval.asked")
        config = desk.home / "config.toml"
        config.write_text(config.read_text().partition("[mcp.desk]")[0])
        await daemon.post("/v1/messages", text="/reload", session="default")
        await daemon.until(turn, "run.completed")
        assert "may or may not have happened" in desk.result()
