"""A run as it happens, as server-sent events (B5). One daemon serves all of these tests."""

import asyncio

import pytest

from tests.fakes.daemon_process import Daemon, error_of
from tests.fakes.openai import calls, gate, says, trickles
from tests.fakes.sse import Sent
from tests.fakes.wordy_model import Script

B5 = ["cycle.start", "model.response", "tool_call", "tool.started", "tool_result", "tool.results"]

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_events_have_b5s_names_and_end_with_run_completed(
    daemon: Daemon, script: Script
) -> None:
    turn = await daemon.begin(
        script.on("story", calls(("current_time", {}), text="let me see"), says("it is two")),
        "story",
    )
    sent = [
        event
        async for event in daemon.stream(turn)
        if event.name != "model.delta" and event.name != "tool.output"
    ]
    assert [event.name for event in sent] == [
        *B5,
        "cycle.start",
        "model.response",
        "run.terminated_by",
        "run.completed",
    ]
    assert [sent[0].data["iteration"], sent[6].data["iteration"]] == [1, 2]
    assert (sent[1].data["text_length"], sent[1].data["finish_reason"]) == (10, "tool_calls")
    end = sent[-1].data
    assert (end["reply"], end["stop_reason"], end["iterations"], end["label"]) == (
        "it is two",
        "done",
        1,
        "trusted",
    )


async def test_a_reply_is_seen_as_it_is_written(daemon: Daemon, script: Script) -> None:
    go_on = asyncio.Event()
    turn = await daemon.begin(script.on("drafted", gate(go_on, trickles(4, 0.1))), "draft")
    pieces: list[str] = []
    async for sent in daemon.stream(turn):
        if sent.name == "cycle.start":
            go_on.set()
        if sent.name == "model.delta":
            pieces.append(str(sent.data["text"]))
    assert len(pieces) > 1 and "".join(pieces) == "word " * 4


async def test_a_stream_resumed_anywhere_gives_each_event_exactly_once(
    daemon: Daemon, script: Script
) -> None:
    two = calls(("current_time", {}), ("current_time", {}))
    turn = await daemon.begin(script.on("resumed", two, two, says("done")), "resume")
    whole = [sent async for sent in daemon.stream(turn) if sent.id]
    assert len({sent.id for sent in whole}) == len(whole) > 12
    for position, last in enumerate(whole[:-1], start=1):
        rest = [sent async for sent in daemon.stream(turn, last.id) if sent.id]
        assert rest == whole[position:]


async def test_a_connection_cut_mid_run_resumes_live_with_nothing_lost_or_doubled(
    daemon: Daemon, script: Script
) -> None:
    go_on = asyncio.Event()
    turn = await daemon.begin(
        script.on("cut", calls(("current_time", {})), gate(go_on, says("done"))), "cut"
    )
    before: list[Sent] = []
    async for sent in daemon.stream(turn):
        before += [sent] if sent.id else []
        if sent.name == "tool.results":
            break
    go_on.set()
    after = [sent async for sent in daemon.stream(turn, before[-1].id) if sent.id]
    assert before + after == [sent async for sent in daemon.stream(turn) if sent.id]


async def test_after_gives_what_came_later(daemon: Daemon) -> None:
    turn = str((await daemon.ask("hi", "after"))["turn"])
    whole = [sent async for sent in daemon.stream(turn) if sent.id]
    async with daemon.http.get(f"/v1/runs/{turn}/events", params={"after": "2"}) as response:
        text = (await response.read()).decode()
    assert text.count("\nevent: ") + text.startswith("event: ") == len(
        [sent for sent in whole if int(sent.id.split("-")[0]) > 2]
    )


async def test_a_last_event_id_of_no_stream_of_ours_is_refused(daemon: Daemon) -> None:
    turn = str((await daemon.ask("hi", "badid"))["turn"])
    for last in ("x", "-1", "1-", "1-x", "9" * 40):
        async with daemon.http.get(
            f"/v1/runs/{turn}/events", headers={"Last-Event-ID": last}
        ) as response:
            assert (await error_of(response))[:2] == (400, "invalid")
