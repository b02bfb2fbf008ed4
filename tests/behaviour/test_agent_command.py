"""/agent lists the agents and chooses the one of this chat (B1)."""

from pathlib import Path

from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI


def write(home: Path, name: str, text: str = "") -> None:
    (home / "agents").mkdir(exist_ok=True)
    (home / "agents" / f"{name}.toml").write_text(f'[identity]\nname = "{name}"\n{text}')


async def test_the_agents_are_listed_with_the_chosen_one_marked_and_the_wrong_one_explained(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    write(tmp_path, "coder", 'description = "writes code"\n')
    write(tmp_path, "critic", "[iteration]\nmax_cycles = 0\n")
    async with living(tmp_path, model) as it:
        await it.command("/agent coder")
        lines = (await it.command("/agent")).splitlines()
        assert lines[:2] == ["- default", "* coder: writes code"]
        assert (
            lines[2].startswith("- critic: cannot be used: ")
            and "iteration.max_cycles: found 0" in lines[2]
        )
        assert "Agent: coder" in (await it.command("/status")).splitlines()


async def test_an_agent_that_cannot_be_used_is_refused_and_nothing_changes(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    write(tmp_path, "critic", "[iteration]\nmax_cycles = 0\n")
    async with living(tmp_path, model) as it:
        told = await it.command("/agent critc")
        assert told.startswith(
            "Still agent default: there is no agent 'critc'; there are: default, critic"
        )
        assert "iteration.max_cycles: found 0" in await it.command("/agent critic")
        assert (await it.command("/agent")).startswith("* default")


async def test_the_choice_is_of_one_chat_and_outlives_a_restart(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    write(tmp_path, "coder", 'instructions = "CODER"\n')
    async with living(tmp_path, model) as it:
        await it.command("/agent coder")
    async with living(tmp_path, model) as it:
        await it.ask("hi")
        await it.ask("hi", "web:other")
        assert ["CODER" in request["messages"][0]["content"] for request in model.requests] == [
            True,
            False,
        ]


async def test_a_warning_of_the_spec_is_told_when_it_is_chosen(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """C3"""
    write(tmp_path, "coder", '[loop]\ncriterion = "regex"\nvalue = "("\n')
    async with living(tmp_path, model) as it:
        assert "loop.value: '(' is no regular expression" in await it.command("/agent coder")


async def test_a_chosen_agent_whose_file_is_gone_is_still_listed(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    write(tmp_path, "coder")
    async with living(tmp_path, model) as it:
        await it.command("/agent coder")
        (tmp_path / "agents" / "coder.toml").unlink()
        assert "* coder: cannot be used: there is no agent 'coder'" in await it.command("/agent")
        run = await it.ask("hi")
        assert run.stop_reason == "failed" and "there is no agent 'coder'" in (run.reply or "")


async def test_a_tool_that_there_is_not_is_told_when_its_agent_is_chosen(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """B1, D3"""
    write(tmp_path, "coder", '[tools]\ncritical = ["shel"]\n')
    async with living(tmp_path, model) as it:
        assert (
            "tools.critical.0: there is no tool 'shel'; did you mean 'shell'?"
            in await it.command("/agent coder")
        )
