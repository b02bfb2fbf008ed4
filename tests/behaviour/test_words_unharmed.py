"""What a file, an answer or an address says is left as it is: no line of ours in a file's text, no image in
code taken apart, no answer twice, no address taken for a longer one (F3).
"""

import asyncio
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.core.messages import ToolSpec
from daemon.core.trust import Effect, Label
from daemon.tools.base import Arguments, Tool, ToolContext, ToolMeta, ToolOutput
from tests.fakes.house import living
from tests.fakes.openai import FakeOpenAI, calls, says

IMAGE = "![a chart](http://pictures.example/chart.png)"
IN_CODE = f"Write it so:\n\n```markdown\n{IMAGE}\n```\n\nor in a line: `{IMAGE}`."
LISTED = "pages: http://wiki.example/a and http://wiki.example/ab"


def outside(name: str, text: str, *critical: str, effect: Effect = Effect.READ) -> Tool:
    """A tool that gives a stranger's text."""

    async def run(arguments: Arguments, context: ToolContext) -> ToolOutput:
        return ToolOutput(text, label=Label.UNTRUSTED)

    properties = {key: {"type": "string"} for key in critical}
    meta = ToolMeta(effect, critical=critical, returns_outside_text=True, volatile=True)
    return Tool(ToolSpec(name, name, {"type": "object", "properties": properties}), meta, run)


TOOLS = Overrides(
    tools=[
        outside("look_outside", "the page says hello"),
        outside("open_page", LISTED, "url", effect=Effect.FETCH),
    ]
)


async def test_a_file_that_the_owner_lays_down_leaves_the_chat_theirs(tmp_path: Path) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model, trusted=False) as it:
        (it.house.files.workspace.root / "note.txt").write_text("The train leaves at eight.")
        model.script(calls(("read_file", {"path": "note.txt"})), says("At eight."))
        run = await it.ask("when does the train leave? read note.txt")
        assert model.requests[-1].last("tool")["content"] == "The train leaves at eight."
        assert run.label == "trusted"
        assert "in the workspace" not in await it.command("/status")


@pytest.mark.parametrize(
    ("answer", "shown"),
    [(IN_CODE, IN_CODE), (f"So. {IMAGE}", f"So. {IMAGE.replace('![', '[image: ')}")],
)
async def test_an_image_is_defused_outside_code_only_and_the_model_reads_its_answer_once(
    tmp_path: Path, answer: str, shown: str
) -> None:
    async with FakeOpenAI() as model, living(tmp_path, model, parts=TOOLS) as it:
        model.script(calls(("look_outside", {})), says(answer), says("Fine."))
        assert (await it.ask("how do I write an image?")).reply == shown
        await it.ask("thanks")
        said = str(model.requests[-1]["messages"])
        assert said.count("[a chart]") + said.count("[image: a chart]") == answer.count("a chart")


@pytest.mark.parametrize("first", ["http://wiki.example/ab", "http://wiki.example/a"])
async def test_an_address_that_was_read_is_opened_whatever_longer_or_shorter_one_was_before(
    tmp_path: Path, first: str
) -> None:
    then = "http://wiki.example/a" if first.endswith("b") else "http://wiki.example/ab"
    async with FakeOpenAI() as model, living(tmp_path, model, parts=TOOLS) as it:
        model.script(
            calls(("open_page", {"url": first})), calls(("open_page", {"url": then})), says("Read.")
        )
        async with asyncio.timeout(20):  # a question would wait for an answer
            run = await it.ask(f"read {first} and what it links to")
        assert [one.result for one in run.calls] == [LISTED, LISTED]
