"""Going in circles is noticed whatever the arguments are; an answer that repeats itself is marked (A11, D7)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.daemon_process import Daemon, running_daemon, scripted
from tests.fakes.openai import FakeOpenAI, Json, Step, by, calls, says

WORDS = "I look at the next one now, because each of them may hold what is asked for. " * 5
STOP = '[agent]\non_stall = "%s"\n'


@pytest.fixture
async def model() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as fake:
        yield fake


def looking(model: FakeOpenAI, text: str = "") -> None:
    """Always another file; what stands there is the same each time."""

    def step(body: Json) -> Step:
        return calls(("read_file", {"path": f"f{len(model.requests)}"}), text=text)

    model.otherwise(by(step))


def write(home: Path) -> None:
    (home / "workspace").mkdir(parents=True)
    for number in range(30):
        (home / "workspace" / f"f{number}").write_text("No key is here.")


async def ask(daemon: Daemon) -> Json:
    return await daemon.ask("find the key")


async def test_d7_three_identical_results_of_different_calls_are_told_to_the_model_then_stop_it(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    looking(model)
    write(tmp_path / "home")
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        run = await ask(daemon)
    told = "has now given the same result 3 times running, whatever it was asked"
    seen = [str(one.body["messages"]).count(told) for one in model.requests]
    assert seen.index(1) == 3, "the model hears of it in its fourth call"
    assert run["stop_reason"] == "stalled" and run["iterations"] < 10
    assert "gave the same result 3 times running" in run["reply"]


async def test_a11_the_same_long_reply_beside_equal_results_is_no_progress_after_the_third(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    looking(model, WORDS)
    write(tmp_path / "home")
    async with running_daemon(
        tmp_path / "home", scripted(model.base_url, STOP % "stop")
    ) as daemon:
        run = await ask(daemon)
    assert (run["stop_reason"], run["iterations"]) == ("stalled", 3)


async def test_a11_one_sentence_sixty_times_in_an_answer_is_marked(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    poem = "Roses are red. Violets are blue. Sugar is sweet, and the winter is long in the north."
    model.script(says("The key is under the mat. " * 60), says(poem))
    async with running_daemon(tmp_path / "home", scripted(model.base_url)) as daemon:
        run, other = await ask(daemon), await ask(daemon)
    assert run["reply"].endswith(
        '(One passage is repeated over and over here: "the key is under the mat.".)'
    )
    assert other["reply"] == poem
