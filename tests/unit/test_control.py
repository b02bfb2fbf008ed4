"""What reaches a running turn from outside."""

import asyncio
from time import monotonic

from daemon.agent.turn_control import TurnControl
from daemon.core.clock import run_to_completion


async def test_a_stop_leaves_what_runs_at_once() -> None:
    control = TurnControl(monotonic)
    control.start_clock(0.0)
    asyncio.get_running_loop().call_soon(control.cancel, "stop")
    async with control.time_limit(60):
        await asyncio.Event().wait()
    assert control.cancel_reason == "stop"


async def test_a_stop_that_came_before_is_heard_at_the_first_wait() -> None:
    control = TurnControl(monotonic)
    control.cancel("stop")
    async with asyncio.timeout(5):
        async with control.time_limit(60):
            await asyncio.Event().wait()


async def test_time_before_a_restart_counts_and_standing_still_does_not() -> None:
    times = iter([100.0, 103.0, 200.0, 201.0])
    control = TurnControl(lambda: next(times))
    control.start_clock(5.0)
    control.stop_clock()
    assert control.active_seconds == 8.0
    control.start_clock(control.active_seconds)
    assert control.active_seconds == 9.0


async def test_a_commit_under_way_is_finished_before_a_cancellation_is_heard() -> None:
    done: list[str] = []
    release, begun = asyncio.Event(), asyncio.Event()

    async def commit() -> None:
        begun.set()
        await release.wait()
        done.append("written")

    task = asyncio.create_task(run_to_completion(commit()))
    await begun.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(release.set)
    await asyncio.wait((task,))
    assert (task.cancelled(), done) == (True, ["written"])


async def test_a_turn_waits_for_texts_that_are_being_written_down() -> None:
    control = TurnControl(monotonic)
    with control.reserve_steer():
        waiting = asyncio.create_task(control.has_steers())
        done, _ = await asyncio.wait((waiting,), timeout=0.05)
        assert not done
    assert await waiting is False
