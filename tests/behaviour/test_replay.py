"""Ten and more kinds of turns, recorded by the whole daemon and replayed: the same, and where one event is changed, found (F7)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from daemon.app.daemon import Overrides
from daemon.cli.review.replay import load_record
from daemon.core.events import (
    Alarm,
    ApprovalAsked,
    BudgetRaised,
    ChildReturned,
    ChildSpawned,
    Classified,
    Coached,
    Event,
    HistoryCompressed,
    IterationRefunded,
    ModelFailed,
    ModelRetried,
    RecordedEvent,
    Steered,
    Suspended,
    ToolFinished,
    TurnEnded,
    TurnResumed,
    Verified,
)
from daemon.core.trust import Effect, Stop
from daemon.ops.replay.replay import TurnRecord, replay
from daemon.tools.signature import bind, tool
from tests.fakes.house import SESSION, Living, living
from tests.fakes.openai import FakeOpenAI, Step, by, calls, fails, gate, hangs, says, tokens

Config = Mapping[str, object]
Play = Callable[[Living, FakeOpenAI], Awaitable[str]]
AGENTS = {
    "a": "[identity]\nname = 'a'\n",
    "b": "[identity]\nname = 'b'\n",
    "team": "[identity]\nname = 'team'\n[composite]\nstrategy = 'parallel'\n"
    "agents = [{ agent = 'a' }, { agent = 'b' }]\n",
    "worker": "[identity]\nname = 'worker'\n[iteration]\nmax_cycles = 4\n"
    "[[iteration.termination_conditions]]\nkind = 'text-includes'\ntext = 'FINISHED'\n",
}


@tool(effect=Effect.READ)
async def look(at: str) -> str:
    """Look."""
    return f"a page about {at}"


@tool(effect=Effect.DESTRUCTIVE)
async def smash(what: str) -> str:
    """Break something."""
    return f"{what} is broken"


@tool(effect=Effect.WRITE)
async def endless() -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


@tool(effect=Effect.READ)
async def read(at: int) -> str:
    """Read a page."""
    return f"page {at}: " + f"{at} is a part of a long text, as long as those beside it. " * 16


PARTS = Overrides(tools=bind((look, smash, endless, read), {}))


@dataclass(frozen=True)
class Kind:
    """How one kind of turn is made, and the events that it must hold to be of that kind."""

    play: Play
    holds: Sequence[type[Event]]
    config: Config = field(default_factory=dict)
    stop: Stop = Stop.DONE


def asks(*steps: Step) -> Play:
    async def play(it: Living, model: FakeOpenAI) -> str:
        model.script(*steps)
        return (await it.ask("look at it")).turn

    return play


async def steer(it: Living, model: FakeOpenAI) -> str:
    goes_on = asyncio.Event()
    model.script(gate(goes_on, calls(("look", {"at": "home"}))), says("I looked away."))
    turn = await it.say("look at home")
    await model.asked(1)
    assert await it.say("no, look away") == turn
    goes_on.set()
    return (await it.settled(turn)).turn


async def steer_an_answer(it: Living, model: FakeOpenAI) -> str:
    goes_on = asyncio.Event()
    model.script(gate(goes_on, says("It is white.")), says("It is black."))
    turn = await it.say("what colour?")
    await model.asked(1)
    assert await it.say("of the cat") == turn
    goes_on.set()
    return (await it.settled(turn)).turn


def approve(answer: str, *steps: Step) -> Play:
    async def play(it: Living, model: FakeOpenAI) -> str:
        model.script(*steps)
        turn = await it.say("do it")
        await it.until(turn, "run.suspended")
        await it.command(answer)
        return (await it.settled(turn)).turn

    return play


async def stop(it: Living, model: FakeOpenAI) -> str:
    model.script(calls(("endless", {}), ("look", {"at": "home"})))
    turn = await it.say("look for ever")
    await it.until(turn, "tool.started")
    await it.house.client.stop_session(SESSION)
    return (await it.settled(turn)).turn


async def stop_call(it: Living, model: FakeOpenAI) -> str:
    model.script(calls(("look", {"at": "home"})), hangs())
    turn = await it.say("look")
    await model.hanging.wait()
    await it.house.client.stop_session(SESSION)
    return (await it.settled(turn)).turn


async def spawn(it: Living, model: FakeOpenAI) -> str:
    model.script(
        calls(("spawn_agent", {"task": "count the pages"})), says("There are 3."), says("3 pages.")
    )
    return (await it.ask("how many pages are there?")).turn


async def spawn_and_stop(it: Living, model: FakeOpenAI) -> str:
    model.script(
        calls(("spawn_agent", {"task": "count"})), calls(("look", {"at": "one"})), hangs()
    )
    turn = await it.say("how many?")
    await model.hanging.wait()
    await it.house.client.stop_session(SESSION)
    return (await it.settled(turn)).turn


async def compress(it: Living, model: FakeOpenAI) -> str:
    model.script(*(calls(("read", {"at": number})) for number in range(16)), says("It was long."))
    return (await it.ask("read all pages")).turn


async def team(it: Living, model: FakeOpenAI) -> str:
    await it.ask("remember this talk")
    await it.command("/agent team")
    model.otherwise(by(lambda body: says("I agree with all of it.")))
    return (await it.ask("is it good?")).turn


async def work(it: Living, model: FakeOpenAI) -> str:
    await it.command("/agent worker")
    model.script(calls(("look", {"at": "one"})), says("I think."), says("FINISHED"))
    return (await it.ask("work")).turn


PAGE = ("look", {"at": "home"})
CHECKS = {"agent": {"verify": [{"kind": "regex", "value": r"^total: \d+$"}]}}
JUDGE = {"agent": {"verify": [{"kind": "judge", "value": "is it polite?"}]}}
SMALL = {"agent": {"max_input_tokens": 10_000}}
MUCH = calls(PAGE, usage=tokens(12_000, 0))
TODO = calls(("todo", {"items": [{"text": "look", "state": "doing"}]}))
KINDS: dict[str, Kind] = {
    "plain": Kind(asks(says("hello")), (TurnEnded,)),
    "tools": Kind(asks(calls(PAGE, ("look", {"at": "far"})), says("Seen.")), (ToolFinished,)),
    "refund": Kind(
        asks(TODO, calls(PAGE), says("It is a page?")), (IterationRefunded,)
    ),
    "circles": Kind(
        asks(*(calls(PAGE) for _ in range(5)), says("I stop.")), (Coached,), stop=Stop.STALLED
    ),
    "iterations": Kind(
        asks(calls(PAGE), calls(("look", {"at": "far"})), says("That is all I saw.")),
        (Coached,),
        {"agent": {"max_iterations": 2}},
        Stop.MAX_ITERATIONS,
    ),
    "low confidence": Kind(
        asks(calls(PAGE), says("I am stuck.")), (TurnEnded,), stop=Stop.LOW_CONFIDENCE
    ),
    "false claim": Kind(
        asks(says("I have sent the mail."), says("I sent no mail.")), (Verified, Coached)
    ),
    "steered": Kind(steer, (Steered,)),
    "steered after its answer": Kind(steer_an_answer, (Steered,)),
    "approved": Kind(
        approve("/approve", calls(("smash", {"what": "pots"})), says("Broken.")),
        (ApprovalAsked, Suspended, TurnResumed),
    ),
    "denied": Kind(
        approve("/deny too dear", calls(("smash", {"what": "pots"})), says("I left it.")),
        (ApprovalAsked, Suspended, TurnResumed),
    ),
    "checked": Kind(asks(says("twelve"), says("total: 12")), (Verified, Coached), CHECKS),
    "never right": Kind(
        asks(*(says(f"it is {n}") for n in range(4))), (Verified, Coached), CHECKS, Stop.REJECTED
    ),
    "judged": Kind(
        asks(says("What?"), says("FAIL: it is rude."), says("Yes, please?"), says("PASS")),
        (Verified, Coached),
        JUDGE,
    ),
    "stopped in a tool": Kind(stop, (ToolFinished,), stop=Stop.CANCELLED),
    "stopped in a call": Kind(stop_call, (ToolFinished,), stop=Stop.CANCELLED),
    "late": Kind(
        asks(calls(PAGE), hangs()),
        (ToolFinished,),
        {"agent": {"max_seconds": 1.0, "on_budget": "stop"}},
        Stop.DEADLINE,
    ),
    "more money": Kind(
        approve("/approve", MUCH, says("Seen.")), (ApprovalAsked, BudgetRaised), SMALL
    ),
    "no more money": Kind(
        approve("/deny", MUCH), (ApprovalAsked, TurnResumed), SMALL, Stop.OVER_BUDGET
    ),
    "over budget": Kind(
        asks(MUCH),
        (TurnEnded,),
        {"agent": {"max_input_tokens": 10_000, "on_budget": "stop"}},
        Stop.OVER_BUDGET,
    ),
    "failed": Kind(asks(fails(401)), (ModelFailed,), stop=Stop.FAILED),
    "retried": Kind(asks(fails(500), says("hello")), (ModelRetried,)),
    "sorted": Kind(
        asks(says("MULTI_STEP"), TODO, says("Shall I go on?")),
        (Classified, Coached),
        {"provider": {"models": {"primary": "big", "fast": "small"}}},
    ),
    "sub-agent": Kind(spawn, (ChildSpawned, ToolFinished)),
    "stopped sub-agent": Kind(spawn_and_stop, (ChildSpawned,), stop=Stop.CANCELLED),
    "compressed": Kind(
        compress,
        (HistoryCompressed,),
        {"agent": {"context_window": 4000, "max_iterations": 40, "max_iterations_cap": 40}},
    ),
    "composite": Kind(team, (ChildSpawned, ChildReturned)),
    "declared end": Kind(work, (Coached,), stop=Stop.CONDITION),
}
COMPUTED = (Coached, IterationRefunded, Verified, Suspended, BudgetRaised, TurnEnded)


async def make(kind: Kind, folder: Path, model: FakeOpenAI) -> TurnRecord:
    """Let the daemon do it, and read the record."""
    (folder / "agents").mkdir(parents=True)
    for name, text in AGENTS.items():
        (folder / "agents" / f"{name}.toml").write_text(text)
    async with living(folder, model, kind.config, PARTS) as it:
        turn = await asyncio.wait_for(kind.play(it, model), 30)
        record = await load_record(it.house.client, turn)
    kinds = [type(one.event) for one in record.events]
    assert set(kind.holds) <= {*kinds}, kinds
    end = record.events[-1].event
    assert isinstance(end, TurnEnded) and end.reason is kind.stop, end
    return record


def change(recorded: RecordedEvent) -> RecordedEvent:
    """The event, as another version of the loop would have recorded it."""
    match recorded.event:
        case Coached() as event:
            other: Event = replace(event, text=f"{event.text} Once more.")
        case IterationRefunded() as event:
            other = replace(event, call_ids=("9.9",))
        case Verified() as event:
            other = replace(event, check=f"{event.check}!")
        case Suspended() as event:
            other = replace(event, waiting_for=("9.9",))
        case BudgetRaised() as event:
            limits = replace(event.limits, max_seconds=event.limits.max_seconds + 1)
            other = replace(event, limits=limits)
        case TurnEnded() as event:
            other = replace(event, reply=f"{event.reply} Bye.")
        case event:
            raise AssertionError(event)
    return replace(recorded, event=other)


@pytest.mark.parametrize("name", KINDS)
async def test_f7_a_turn_replays_identical_and_each_changed_event_is_found_where_it_stands(
    tmp_path: Path, model: FakeOpenAI, name: str
) -> None:
    record = await make(KINDS[name], tmp_path, model)
    result = await replay(record)
    assert (result.difference, result.events, result.ended) == (None, len(record.events), True)
    for at, recorded in enumerate(record.events):
        if not isinstance(recorded.event, COMPUTED):
            continue
        events = [*record.events[:at], change(recorded), *record.events[at + 1 :]]
        changed = await replay(replace(record, events=events))
        assert changed.difference, recorded.event
        found = changed.difference.seq, changed.difference.kind
        assert found == (recorded.seq, type(recorded.event).__name__)


@pytest.mark.parametrize("name", KINDS)
async def test_f7_a_turn_that_is_recorded_in_part_replays_so_far(
    tmp_path: Path, model: FakeOpenAI, name: str
) -> None:
    record = await make(KINDS[name], tmp_path, model)
    for length in range(1, len(record.events)):
        result = await replay(replace(record, events=record.events[:length]))
        assert (result.difference, result.events, result.ended) == (None, length, False)


@pytest.mark.parametrize("name", ["plain", "tools", "circles", "approved", "checked", "declared end"])
async def test_f7_an_event_that_the_loop_would_not_leave_out_now_is_named(
    tmp_path: Path, model: FakeOpenAI, name: str
) -> None:
    """An older loop that coached less, or recorded something after the end."""
    record = await make(KINDS[name], tmp_path, model)
    for at, recorded in enumerate(record.events[:-1]):
        if isinstance(recorded.event, Coached):
            events = [*record.events[:at], *record.events[at + 1 :]]
            events = [replace(one, seq=number) for number, one in enumerate(events, 1)]
            result = await replay(replace(record, events=events))
            assert result.difference and result.difference.seq == recorded.seq
            assert type(recorded.event).__name__ in result.difference.fields[0].now
    more = replace(record.events[-1], seq=len(record.events) + 1, event=Alarm("odd", "more"))
    result = await replay(replace(record, events=[*record.events, more]))
    assert result.difference and result.difference.seq == len(record.events) + 1


async def test_f7_a_check_and_an_answer_that_nobody_waits_for_any_more_are_named(
    tmp_path: Path, model: FakeOpenAI
) -> None:
    """Replay never waits for what is not in the record."""
    record = await make(KINDS["steered after its answer"], tmp_path / "one", model)
    at = next(n for n, one in enumerate(record.events) if isinstance(one.event, Steered))
    check = replace(record.events[at], event=Verified("gone", True))
    events = [*record.events[:at], check, *record.events[at:]]
    events = [replace(one, seq=number) for number, one in enumerate(events, 1)]
    result = await asyncio.wait_for(replay(replace(record, events=events)), 10)
    assert result.difference and result.difference.seq == at + 1
    record = await make(KINDS["composite"], tmp_path / "two", model)
    at = next(n for n, one in enumerate(record.events) if isinstance(one.event, ChildReturned))
    returned = record.events[at].event
    assert isinstance(returned, ChildReturned)
    other = replace(record.events[at], event=replace(returned, key="round.9.agent.9"))
    events = [*record.events[:at], other, *record.events[at + 1 :]]
    result = await asyncio.wait_for(replay(replace(record, events=events)), 10)
    assert result.difference and result.difference.seq == at + 1
