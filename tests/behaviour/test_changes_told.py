"""What a turn changed is told at the end of its answer, to whom it may be told (F8)."""

from pathlib import Path

import pytest

from daemon.core.rows import OutboxRow
from daemon.sessions.inbox import InboxMessage
from tests.fakes.house import Living, living
from tests.fakes.openai import FakeOpenAI, calls, says
from tests.fakes.web import response, site

TAKES_BACK = "/undo takes that back."


def writes(*names: str) -> list[tuple[str, dict[str, object]]]:
    return [("write_file", {"path": name, "text": f"mine, {name}"}) for name in names]


async def read_answer(it: Living, turn: str) -> str:
    """As it is delivered."""
    rows: list[OutboxRow] = await it.house.store.read(lambda tx: tx.list_turn_outbox(turn))
    return next(row.body for row in rows if row.kind == "reply")


async def test_an_answer_ends_with_the_files_that_its_turn_changed_and_the_model_is_not_told(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    many = [f"f{number}.txt" for number in range(7)]
    model.script(calls(*writes("a.txt")), says("Done."), calls(*writes(*many)), says("All done."))
    async with living(tmp_path, model) as it:
        first = (await it.ask("write a")).turn
        assert await read_answer(it, first) == f"Done.\n\nChanged: `a.txt` (+1). {TAKES_BACK}"
        second = (await it.ask("write them")).turn
        shown = ", ".join(f"`{name}` (+1)" for name in many[:5])
        assert (await read_answer(it, second)).endswith(f"Changed: {shown}, 2 more. {TAKES_BACK}")
        model.script(says("Hello."))
        third = await it.ask("hi")
        assert await read_answer(it, third.turn) == "Hello."
        assert third.reply == "Hello." and "Changed:" not in str(model.requests)


async def test_a_changed_file_is_told_with_how_many_lines_it_has_more_or_less(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    long, other = {"path": "a.txt", "text": "1\n2\n3\n4\n"}, {"path": "b.txt", "text": "same"}
    model.script(calls(("write_file", long), ("write_file", other)), says("Done."))
    short, same = {"path": "a.txt", "text": "1\n"}, {"path": "b.txt", "text": "else"}
    model.script(calls(("write_file", short), ("write_file", same)), says("Done."))
    async with living(tmp_path, model) as it:
        for shown in ("`a.txt` (+4), `b.txt` (+1)", "`a.txt` (-3), `b.txt`"):
            turn = (await it.ask("write it")).turn
            assert (await read_answer(it, turn)).endswith(f"Changed: {shown}. {TAKES_BACK}")


async def test_where_others_read_the_answer_only_the_number_of_files_is_told(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    model.script(calls(*writes("divorce.md")), says("Done."))
    async with living(tmp_path, model) as it:
        said = InboxMessage("slack", "C1", "slack:C1", "ann", "1", "note it", message_id="77.1")
        turn = (await it.house.client.inbox.accept(said)).row.turn
        await it.settled(turn)
        assert await read_answer(it, turn) == f"Done.\n\nChanged: 1 file. {TAKES_BACK}"


async def test_words_of_a_stranger_in_a_file_are_told_with_where_they_are_from(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    async with site() as made:
        page = made.put("/rome", response("Rome is old", kind="text/plain"))
        model.script(calls(("web_fetch", {"url": page})), calls(*writes("rome.md")), says("Done."))
        config = {"tools": {"http": {"allow": [f"127.0.0.1:{made.port}"]}}}
        async with living(tmp_path, model, config) as it:
            turn = (await it.ask(f"sum up {page} in a note")).turn
            assert (await read_answer(it, turn)).endswith(
                "Changed: `rome.md` (+1). Words from outside may stand there (the result of web_fetch)."
                f" {TAKES_BACK}"
            )


@pytest.mark.parametrize("name", ["a`b.md", "a\u202eb.md", "x" * 200 + ".md"])
async def test_a_name_cannot_change_what_the_line_says(
    tmp_path: Path, model: FakeOpenAI, name: str
) -> None:
    model.script(calls(*writes(name)), says("Done."))
    async with living(tmp_path, model) as it:
        line = (await read_answer(it, (await it.ask("write it")).turn)).rpartition("\n")[2]
        assert line.isprintable() and line.count("`") == 2 and len(line) < 130
