"""How long the command of a loop's criterion may take (C3)."""

from pathlib import Path

from daemon.app.daemon import Overrides
from daemon.core.rows import LoopStage
from tests.behaviour.test_loops import begin, house, looping, notices, over
from tests.fakes.openai import FakeOpenAI, says


async def test_c3_a_command_that_takes_too_long_is_killed_and_the_loop_goes_on(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Sixty seconds, unless a test sets fewer."""
    assert Overrides().command_s == 60
    model.script(says("one"), says("two"))
    config = looping("test_pass", "sleep 300", most=2)
    async with house(tmp_path, model, config, Overrides(command_s=0.3)) as it:
        loop = await over(it, await begin(it))
        assert (loop.stage, loop.attempt) == (LoopStage.COMPLETED, 2)
        assert any("took longer than 0.3 s and was killed" in line for line in await notices(it))
